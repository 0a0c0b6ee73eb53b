/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that an address of a device in another process is never taken for a pointer of this process, nor a
 * pointer for such an address, when the caller does not say which of the two an address is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "memory/addresses.h"

#define MIB   (UINT64_C(1) << 20)
#define PAGE  UINT64_C(4096)
#define TRIES 12u

enum access { NO_ACCESS, WRITE, READ, COPY };

/* A device in another process, whose addresses are only numbers here. The first `blocked_reservations` addresses that
 * it offers are addresses of pages of this process. */
static struct {
    uint32_t blocked_reservations, reserved, reservations;
    void *blocking_pages[TRIES];
    enum access last_access;
} remote;

static void *pointer_to(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static void far_close(void *data)
{
    (void)data;
}

static enum facet_status far_create(void *data, uint64_t bytes, uint64_t *ret_pages, struct facet_error *error)
{
    (void)data;
    (void)bytes;
    (void)error;
    *ret_pages = 1;
    return FACET_OK;
}

static void far_destroy(void *data, uint64_t pages, uint64_t bytes)
{
    (void)data;
    (void)pages;
    (void)bytes;
}

static void *page_at(uint64_t address)
{
    void *page = mmap(pointer_to(address), PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    return page == MAP_FAILED ? NULL : page;
}

static enum facet_status far_reserve(void *data, uint64_t context, uint64_t bytes, uint64_t align,
                                     uint64_t *ret_address, struct facet_error *error)
{
    (void)data;
    (void)context;
    (void)error;
    void *start = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return FACET_NO_MEMORY;
    munmap(start, bytes + align);
    *ret_address = ((uintptr_t)start + align - 1) & ~(align - 1);
    if (remote.reservations < remote.blocked_reservations)
        remote.blocking_pages[remote.reservations] = page_at(*ret_address);
    remote.reservations++;
    remote.reserved++;
    return FACET_OK;
}

static bool far_release(void *data, uint64_t context, uint64_t address, uint64_t bytes)
{
    (void)data;
    (void)context;
    (void)address;
    (void)bytes;
    remote.reserved--;
    return true;
}

static enum facet_status far_map(void *data, uint64_t context, uint64_t address, const struct facet_page_place *place,
                                 uint64_t bytes, struct facet_error *error)
{
    (void)data;
    (void)context;
    (void)address;
    (void)place;
    (void)bytes;
    (void)error;
    return FACET_OK;
}

static enum facet_status far_unmap(void *data, uint64_t context, uint64_t address, uint64_t bytes)
{
    (void)data;
    (void)context;
    (void)address;
    (void)bytes;
    return FACET_OK;
}

static enum facet_status far_write(void *data, uint64_t context, uint64_t address, const void *from, uint64_t bytes,
                                   struct facet_error *error)
{
    (void)data;
    (void)context;
    (void)address;
    (void)from;
    (void)bytes;
    (void)error;
    remote.last_access = WRITE;
    return FACET_OK;
}

static enum facet_status far_read(void *data, uint64_t context, uint64_t address, void *ret_data, uint64_t bytes,
                                  struct facet_error *error)
{
    (void)data;
    (void)context;
    (void)address;
    (void)ret_data;
    (void)bytes;
    (void)error;
    remote.last_access = READ;
    return FACET_OK;
}

static enum facet_status far_copy(void *data, uint64_t context, uint64_t to, uint64_t from, uint64_t bytes,
                                  struct facet_error *error)
{
    (void)data;
    (void)context;
    (void)to;
    (void)from;
    (void)bytes;
    (void)error;
    remote.last_access = COPY;
    return FACET_OK;
}

static enum facet_status far_fill(void *data, uint64_t context, uint64_t address, uint8_t value, uint64_t bytes,
                                  struct facet_error *error)
{
    (void)data;
    (void)context;
    (void)address;
    (void)value;
    (void)bytes;
    (void)error;
    return FACET_OK;
}

static struct {
    struct facet_memory *memory;
    struct facet_space *space;
    struct rlimit addresses;
    struct facet_error error;
} provided;

static int set_up(void **state)
{
    static const struct facet_page_ops ops = {
        .close = far_close,
        .create = far_create,
        .destroy = far_destroy,
        .reserve = far_reserve,
        .release = far_release,
        .map = far_map,
        .unmap = far_unmap,
        .write = far_write,
        .read = far_read,
        .copy = far_copy,
        .fill = far_fill,
    };
    const struct facet_page_backend backend = {.ops = &ops, .page_bytes = PAGE, .foreign_addresses = true};
    const struct facet_memory_config config = {.size = sizeof config, .memory_bytes = 16 * MIB, .page_bytes = PAGE};

    (void)state;
    memset(&remote, 0, sizeof remote);
    getrlimit(RLIMIT_AS, &provided.addresses);
    return facet_memory_open(&backend, &config, &provided.memory, &provided.error) == FACET_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    facet_memory_close(provided.memory);
    setrlimit(RLIMIT_AS, &provided.addresses);
    for (uint32_t i = 0; i < TRIES; i++)
        if (remote.blocking_pages[i])
            munmap(remote.blocking_pages[i], PAGE);
    return remote.reserved == 0 ? 0 : -1;
}

static void make_space(void)
{
    const struct facet_space_config config = {.size = sizeof config, .id = 1, .limit_bytes = 8 * MIB};

    assert_int_equal(facet_space_create(provided.memory, &config, &provided.space, &provided.error), FACET_OK);
    assert_int_equal(remote.reserved, 1); /* the reservations of failed tries were released */
}

static uint64_t allocate_mib(void)
{
    uint64_t address = 0;

    assert_int_equal(facet_space_allocate(provided.space, MIB, NULL, &address, &provided.error), FACET_OK);
    return address;
}

static enum facet_status copy_word(uint64_t to, uint64_t from, enum facet_copy kind)
{
    remote.last_access = NO_ACCESS;
    return facet_space_copy(provided.space, to, from, 8, kind, &provided.error);
}

static void addresses_of_a_space_are_reserved_in_this_process(void **state)
{
    uint64_t word = 0;

    (void)state;
    make_space();
    uint64_t base = provided.space->base, span = provided.space->address_bytes;
    assert_null(page_at(base));
    assert_null(page_at(base + span - PAGE));
    uint64_t address = allocate_mib();
    assert_int_equal(copy_word(address, (uintptr_t)&word, FACET_COPY_DETECT), FACET_OK);
    assert_int_equal(remote.last_access, WRITE);
    assert_int_equal(copy_word((uintptr_t)&word, address, FACET_COPY_DETECT), FACET_OK);
    assert_int_equal(remote.last_access, READ);
    assert_int_equal(copy_word(address, address + 8, FACET_COPY_DETECT), FACET_OK);
    assert_int_equal(remote.last_access, COPY);
    assert_int_equal(facet_space_destroy(provided.space, &provided.error), FACET_OK);
    void *page = page_at(base);
    assert_non_null(page);
    munmap(page, PAGE);
}

static void a_space_avoids_addresses_in_use(void **state)
{
    (void)state;
    remote.blocked_reservations = 6; /* each is twice as far as the previous one: sanitizers leave few free addresses */
    make_space();
    assert_int_equal(remote.reservations, 7);
    for (uint32_t i = 0; i < remote.blocked_reservations; i++)
        assert_ptr_not_equal(pointer_to(provided.space->base), remote.blocking_pages[i]);
    assert_null(page_at(provided.space->base));
}

/* `page` is a page of this process at an address of the space. */
static void expect_ambiguous_refused(uint64_t page)
{
    uint64_t word = 0;

    assert_int_equal(copy_word(page, (uintptr_t)&word, FACET_COPY_DETECT), FACET_INVALID_ARGUMENT);
    assert_string_equal(provided.error.argument, "kind");
    assert_int_equal(copy_word((uintptr_t)&word, page, FACET_COPY_DETECT), FACET_INVALID_ARGUMENT);
    assert_int_equal(remote.last_access, NO_ACCESS);
    assert_int_equal(copy_word(page, (uintptr_t)&word, FACET_COPY_TO_DEVICE), FACET_OK);
    assert_int_equal(remote.last_access, WRITE);
    assert_int_equal(copy_word(page + PAGE, page, FACET_COPY_TO_DEVICE), FACET_OK);
    assert_int_equal(remote.last_access, WRITE);
}

static void an_address_of_host_and_device_alike_is_refused(void **state)
{
    uint64_t word = 0;

    (void)state;
    remote.blocked_reservations = TRIES;
    make_space();
    assert_ptr_equal(pointer_to(provided.space->base), remote.blocking_pages[0]);
    uint64_t first = provided.space->base;
    while (allocate_mib() != first)
        assert_true(provided.space->pages < provided.space->limit_pages);
    expect_ambiguous_refused(first);
    munmap(remote.blocking_pages[0], PAGE);
    remote.blocking_pages[0] = NULL;
    assert_int_equal(copy_word(first, (uintptr_t)&word, FACET_COPY_DETECT), FACET_OK);
    assert_int_equal(remote.last_access, WRITE);
}

/* If the address space is limited, the program needs all of it. */
static void no_addresses_are_reserved_where_they_are_limited(void **state)
{
    const struct rlimit limited = {.rlim_cur = RLIM_INFINITY - 1, .rlim_max = provided.addresses.rlim_max};

    (void)state;
    assert_int_equal(setrlimit(RLIMIT_AS, &limited), 0);
    make_space();
    uint64_t address = allocate_mib();
    void *page = page_at(address);
    assert_non_null(page);
    expect_ambiguous_refused(address);
    munmap(page, PAGE);
}

#define WITH_SETUP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SETUP(addresses_of_a_space_are_reserved_in_this_process),
        WITH_SETUP(a_space_avoids_addresses_in_use),
        WITH_SETUP(an_address_of_host_and_device_alike_is_refused),
        WITH_SETUP(no_addresses_are_reserved_where_they_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
