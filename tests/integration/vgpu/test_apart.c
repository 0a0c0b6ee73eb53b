/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that vGPUs of one driver are kept apart: no copy of one vGPU reaches another vGPU's memory, and no
 *       child of fork() reaches its parent's device.
 */
#include "world.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define SECRET UINT64_C(0x5ec4e75ec4e75ec4)

/* vGPU 1's memory is at `own`; vGPU 2's memory, which holds the secret, is at `theirs`. */
static struct {
    uint64_t own, theirs;
} addresses;

static void make_two_vgpus(void)
{
    const uint64_t secret = SECRET;

    vgpu_make(1);
    vgpu_make(2);
    addresses.own = vgpu_memory(1, MIB);
    addresses.theirs = vgpu_memory(2, MIB);
    OK(facet_vgpu_copy(world.driver, 2, addresses.theirs, (uintptr_t)&secret, sizeof secret, FACET_COPY_TO_DEVICE,
                       ERROR));
}

static void check_nothing_was_copied(void)
{
    vgpu_finish(1);
    assert_int_equal(vgpu_word(1, addresses.own), 0);
    assert_int_equal(vgpu_word(2, addresses.theirs), SECRET);
}

static bool in_process(void)
{
    const char *place = getenv("FACET_TEST_PLACE");

    return place && atoi(place) == FACET_SESSION_IN_PROCESS;
}

static void copy_is_refused(uint64_t to, uint64_t from, enum facet_copy kind)
{
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_copy(world.driver, 1, to, from, 8, kind, ERROR));
    assert_non_null(strstr(world.error.message, "0x"));
}

static void an_address_of_another_vgpu_is_never_detected_as_the_hosts(void **state)
{
    make_two_vgpus();
    copy_is_refused(addresses.own, addresses.theirs, FACET_COPY_DETECT);
    copy_is_refused(addresses.theirs, addresses.own, FACET_COPY_DETECT);
    copy_is_refused(addresses.own, addresses.theirs, FACET_COPY_ON_DEVICE);
    copy_is_refused(addresses.theirs, addresses.own, FACET_COPY_ON_DEVICE);
    check_nothing_was_copied();
}

static void *page_at(uint64_t address)
{
    void *wanted = (void *)(uintptr_t)address;
    void *page = mmap(wanted, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    return page == MAP_FAILED ? NULL : page;
}

/* Otherwise a copy without a direction could take a device's address for a pointer. */
static void no_pointer_of_this_process_equals_an_address(void **state)
{
    make_two_vgpus();
    assert_null(page_at(addresses.own));
    assert_null(page_at(addresses.theirs + MIB - 4096));
    if (in_process())
        return;
    OK(facet_vgpu_destroy(world.driver, 2, ERROR));
    void *page = page_at(addresses.theirs);
    assert_non_null(page);
    munmap(page, 4096);
}

/*
 * With a limit on address space, a vGPU's addresses are not reserved in the program, so a pointer may equal one. A copy
 * without a direction is then refused.
 */
static void an_address_that_may_be_either_is_refused(void **state)
{
    struct rlimit before, limited;

    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limited = (struct rlimit){.rlim_cur = RLIM_INFINITY - 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &limited), 0);
    make_two_vgpus();
    setrlimit(RLIMIT_AS, &before);
    if (in_process())
        return;
    uint64_t other = vgpu_memory(1, MIB);
    unsigned char *here = page_at(addresses.own);
    assert_non_null(here);
    memset(here, 7, 4096);
    REFUSED(FACET_INVALID_ARGUMENT,
            facet_vgpu_copy(world.driver, 1, other, addresses.own, 8, FACET_COPY_DETECT, ERROR));
    assert_string_equal(world.error.argument, "kind");
    REFUSED(FACET_INVALID_ARGUMENT,
            facet_vgpu_copy(world.driver, 1, addresses.own, other, 8, FACET_COPY_DETECT, ERROR));
    OK(facet_vgpu_copy(world.driver, 1, other, addresses.own, 8, FACET_COPY_ON_DEVICE, ERROR));
    assert_int_equal(vgpu_word(1, other), 0);
    OK(facet_vgpu_copy(world.driver, 1, other, addresses.own, 8, FACET_COPY_TO_DEVICE, ERROR));
    assert_int_equal(vgpu_word(1, other), UINT64_C(0x0707070707070707));
    munmap(here, 4096);
    OK(facet_vgpu_copy(world.driver, 1, other, addresses.own, 8, FACET_COPY_DETECT,
                       ERROR)); /* no pointer of the program equals the address any more */
    assert_int_equal(vgpu_word(1, other), 0);
}

/* Where device and host share addresses, a copy could name another vGPU's address as host memory. */
static void an_address_of_another_vgpu_is_no_host_memory(void **state)
{
    make_two_vgpus();
    if (!in_process()) /* another process's address is just an invalid pointer, and is followed as by memcpy() */
        skip();
    copy_is_refused(addresses.own, addresses.theirs, FACET_COPY_TO_DEVICE);
    copy_is_refused(addresses.theirs, addresses.own, FACET_COPY_TO_HOST);
    copy_is_refused(addresses.theirs, addresses.own, FACET_COPY_HOST_TO_HOST);
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_enqueue_copy(world.driver, 1, 0, addresses.own, addresses.theirs, 8,
                                                        FACET_COPY_TO_DEVICE, NULL, ERROR));
    check_nothing_was_copied();
}

/* The exit status of a child of fork(): 0, or the number of the first check that failed. */
static int call_driver_in_child(void)
{
    struct facet_vgpu_info info = {.size = sizeof info};
    struct facet_driver_device device = {.size = sizeof device};
    uint64_t address = 0;
    uint32_t count = 0;

    alarm(30);
    if (facet_vgpu_allocate(world.driver, 1, 4096, NULL, &address, ERROR) != FACET_BAD_STATE)
        return 1;
    if (facet_vgpu_fill(world.driver, 1, addresses.own, 1, 4096, ERROR) != FACET_BAD_STATE)
        return 2;
    if (facet_vgpu_create(world.driver, NULL, NULL, ERROR) != FACET_BAD_STATE)
        return 3;
    if (facet_vgpu_list(world.driver, &info, 1, &count, ERROR) != FACET_BAD_STATE)
        return 4;
    if (facet_driver_get_device(world.driver, 0, &device))
        return 5;
    facet_driver_close(world.driver);
    return 0;
}

static void a_child_of_fork_has_no_driver(void **state)
{
    int status = 0;

    make_two_vgpus();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(call_driver_in_child());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_nothing_was_copied(); /* also shows that the device is still there */
    assert_int_not_equal(vgpu_memory(2, MIB), 0);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(an_address_of_another_vgpu_is_never_detected_as_the_hosts),
        WITH_WORLD(an_address_of_another_vgpu_is_no_host_memory),
        WITH_WORLD(no_pointer_of_this_process_equals_an_address),
        WITH_WORLD(an_address_that_may_be_either_is_refused),
        WITH_WORLD(a_child_of_fork_has_no_driver),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
