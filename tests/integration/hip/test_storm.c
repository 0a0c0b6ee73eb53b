/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs over random calls of several processes, some of which are killed at any moment: what is charged is what
 * the runtime was asked for, whenever nobody is at it, and never more than the quota. Never: depends on how fast the
 * machine is: a process's calls are counted, and a quiet point is waited for.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "machine.h"

#define WORKERS  4u
#define CALLS    50000u /* of each worker, in all its lives */
#define HELD     96u
#define LIMIT    (768 * MIB)
#define PLACES   16u
#define PAGE     (2 * MIB)
#define QUIET_NS 20000000 /* between two quiet points */

/* Shared by the test and its workers. */
struct worker {
    _Atomic uint32_t calls;   /* so far, over all lives */
    _Atomic uint32_t at_rest; /* the number of the quiet point that it waits at */
    _Atomic uint64_t begun;   /* what its device's beginning was charged */
    _Atomic bool done;
};

struct storm {
    _Atomic uint32_t rest; /* number of the quiet point that is wanted; 0: none */
    struct worker workers[WORKERS];
};
static struct storm *storm;

/* What one worker holds, of each kind. */
struct bag {
    void *pointers[HELD];
    hipArray_t arrays[HELD];
    hipMipmappedArray_t levels[HELD];
    hipMemGenericAllocationHandle_t handles[PLACES];
    hipMemPool_t pools[2];
    char *places; /* addresses of PLACES pages */
    bool mapped[PLACES];
    uint64_t seed;
};

static uint64_t draw(struct bag *bag, uint64_t below)
{
    bag->seed ^= bag->seed << 13;
    bag->seed ^= bag->seed >> 7;
    bag->seed ^= bag->seed << 17;
    return bag->seed % below;
}

/* Small ones most often, as in programs; what is refused for want of memory is no failure. */
static uint64_t draw_size(struct bag *bag)
{
    return draw(bag, 10) ? 1 + draw(bag, 64 * KIB) : 1 + draw(bag, 24 * MIB);
}

static bool given(hipError_t result)
{
    if (result != hipErrorOutOfMemory)
        CHECK_EQUAL(result, hipSuccess);
    return result == hipSuccess;
}

static hipError_t take_pointer(struct bag *bag, void **pointer)
{
    hipPitchedPtr block;
    hipError_t result;
    size_t pitch;

    switch (draw(bag, 8)) {
    case 0:
        return hip.hipMallocPitch(pointer, &pitch, 1 + draw(bag, 4000), 1 + draw(bag, 500));
    case 1:
        return hip.hipMallocManaged(pointer, draw_size(bag), hipMemAttachGlobal);
    case 2:
        return hip.hipMallocAsync(pointer, draw_size(bag), NULL);
    case 3:
        return hip.hipMallocFromPoolAsync(pointer, draw_size(bag), bag->pools[draw(bag, 2)], NULL);
    case 4:
        return hip.hipExtMallocWithFlags(pointer, draw_size(bag), hipDeviceMallocFinegrained);
    case 5:
        result = hip.hipMalloc3D(&block, (hipExtent){1 + draw(bag, 900), 1 + draw(bag, 90), 1 + draw(bag, 9)});
        *pointer = result == hipSuccess ? block.ptr : NULL;
        return result;
    default:
        return hip.hipMalloc(pointer, draw_size(bag));
    }
}

static void do_pointer(struct bag *bag)
{
    void **pointer = &bag->pointers[draw(bag, HELD)];

    if (*pointer) {
        CHECK_EQUAL(draw(bag, 2) ? hip.hipFree(*pointer) : hip.hipFreeAsync(*pointer, NULL), hipSuccess);
        *pointer = NULL;
    } else if (!given(take_pointer(bag, pointer))) {
        *pointer = NULL;
    }
}

static void do_array(struct bag *bag)
{
    hipChannelFormatDesc channels = {.x = 32, .y = 32, .f = hipChannelFormatKindFloat};
    uint64_t index = draw(bag, HELD);

    if (bag->arrays[index])
        CHECK_EQUAL(draw(bag, 2) ? hip.hipFreeArray(bag->arrays[index]) : hip.hipArrayDestroy(bag->arrays[index]),
                    hipSuccess);
    else if (given(hip.hipMallocArray(&bag->arrays[index], &channels, 1 + draw(bag, 600), draw(bag, 600), 0)))
        return;
    bag->arrays[index] = NULL;
}

static void do_levels(struct bag *bag)
{
    HIP_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1 + draw(bag, 300), .Height = 1 + draw(bag, 300), .Format = HIP_AD_FORMAT_HALF, .NumChannels = 2};
    uint64_t index = draw(bag, HELD);

    if (bag->levels[index])
        CHECK_EQUAL(hip.hipFreeMipmappedArray(bag->levels[index]), hipSuccess);
    else if (given(hip.hipMipmappedArrayCreate(&bag->levels[index], &shape, 1 + (unsigned)draw(bag, 12))))
        return;
    bag->levels[index] = NULL;
}

/* Handles of one page, mapped at places and let go in any order. */
static void do_virtual(struct bag *bag)
{
    hipMemAllocationProp shape = {.type = hipMemAllocationTypePinned, .location = {.type = hipMemLocationTypeDevice}};
    uint64_t index = draw(bag, PLACES), place = draw(bag, PLACES);
    void *address = bag->places + place * PAGE;

    if (draw(bag, 2) && bag->mapped[place]) {
        CHECK_EQUAL(hip.hipMemUnmap(address, PAGE), hipSuccess);
        bag->mapped[place] = false;
    } else if (!bag->handles[index]) {
        if (!given(hip.hipMemCreate(&bag->handles[index], PAGE, &shape, 0)))
            bag->handles[index] = NULL;
    } else if (draw(bag, 2) && !bag->mapped[place]) {
        bag->mapped[place] = given(hip.hipMemMap(address, PAGE, 0, bag->handles[index], 0));
    } else {
        CHECK_EQUAL(hip.hipMemRelease(bag->handles[index]), hipSuccess);
        bag->handles[index] = NULL;
    }
}

static void do_pool(struct bag *bag)
{
    uint64_t keep = draw(bag, 2) * 16 * MIB;
    hipMemPool_t pool = bag->pools[draw(bag, 2)];

    if (draw(bag, 2))
        CHECK_EQUAL(hip.hipMemPoolTrimTo(pool, keep), hipSuccess);
    else
        CHECK_EQUAL(hip.hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep), hipSuccess);
}

static void do_wrong(struct bag *bag)
{
    size_t is_free, total;

    CHECK_EQUAL(hip.hipFree(bag), hipErrorInvalidValue);
    CHECK(hip.hipMemRelease((hipMemGenericAllocationHandle_t)12345678) != hipSuccess);
    CHECK_EQUAL(hip.hipMemGetInfo(&is_free, &total), hipSuccess);
    CHECK(is_free <= total && total == LIMIT);
}

static void do_any(struct bag *bag)
{
    uint64_t kind = draw(bag, 1000);

    if (kind < 500)
        do_pointer(bag);
    else if (kind < 640)
        do_array(bag);
    else if (kind < 740)
        do_levels(bag);
    else if (kind < 940)
        do_virtual(bag);
    else if (kind < 970)
        do_pool(bag);
    else
        do_wrong(bag);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* The pools' accounts are brought up to date, then nothing happens until the test has looked. */
static void rest(struct worker *self, uint32_t number)
{
    size_t is_free, total;

    CHECK_EQUAL(hip.hipMemGetInfo(&is_free, &total), hipSuccess);
    atomic_store(&self->at_rest, number);
    while (atomic_load(&storm->rest) == number)
        nap();
}

static void prepare(struct bag *bag, struct worker *self)
{
    hipMemPoolProps shape = {.allocType = hipMemAllocationTypePinned, .location = {.type = hipMemLocationTypeDevice}};
    hipStream_t stream;
    void *places;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
    atomic_store(&self->begun, machine_own(0));
    CHECK_EQUAL(hip.hipMemPoolCreate(&bag->pools[0], &shape), hipSuccess);
    CHECK_EQUAL(hip.hipDeviceGetDefaultMemPool(&bag->pools[1], 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemAddressReserve(&places, PLACES * PAGE, 0, NULL, 0), hipSuccess);
    bag->places = places;
}

static void role_worker(void *argument)
{
    struct worker *self = argument;
    struct bag bag = {.seed = ((uint64_t)getpid() << 20) + 1};

    prepare(&bag, self);
    while (atomic_load(&self->calls) < CALLS) {
        uint32_t number = atomic_load(&storm->rest);

        if (number && atomic_load(&self->at_rest) != number)
            rest(self, number);
        do_any(&bag);
        atomic_fetch_add(&self->calls, 1);
    }
    atomic_store(&self->done, true);
    while (true) {
        uint32_t number = atomic_load(&storm->rest);
        if (number)
            rest(self, number);
        nap();
    }
}

/* What is charged for beginnings is no part of what was asked. */
static void check_accounts(void)
{
    uint64_t begun = 0, truth;

    facet_owner_reap(machine.segments[0].owner);
    for (uint32_t i = 0; i < WORKERS; i++)
        begun += atomic_load(&storm->workers[i].begun);
    truth = fake_asked(0);
    assert_int_equal(machine_charged(0), truth + begun);
    assert_true(truth <= LIMIT);
}

static void wait_for_rest(uint32_t number)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        while (atomic_load(&storm->workers[i].at_rest) != number) {
            assert_true(machine_charged(0) <= LIMIT);
            nap();
        }
}

static void end_worker(pid_t pids[WORKERS], uint32_t index)
{
    int status;

    kill(pids[index], SIGKILL);
    assert_int_equal(waitpid(pids[index], &status, 0), pids[index]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* it had not failed before */
    atomic_store(&storm->workers[index].begun, 0);
}

/* The new one begins its device while all others are at rest, and is waited for. */
static void start(pid_t pids[WORKERS], uint32_t index, uint32_t number)
{
    atomic_store(&storm->workers[index].at_rest, 0);
    pids[index] = machine_start(role_worker, &storm->workers[index], true);
    while (atomic_load(&storm->workers[index].at_rest) != number) {
        assert_int_equal(waitpid(pids[index], NULL, WNOHANG), 0);
        nap();
    }
}

static bool all_done(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (!atomic_load(&storm->workers[i].done))
            return false;
    return true;
}

static void test_accounts_are_true_whoever_is_killed(void **state)
{
    pid_t pids[WORKERS];
    uint64_t seed = 99;
    uint32_t number = 1;

    storm = mmap(NULL, sizeof *storm, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(storm != MAP_FAILED);
    machine_make(1, &(uint64_t){LIMIT}, "1K");
    atomic_store(&storm->rest, number);
    for (uint32_t i = 0; i < WORKERS; i++)
        start(pids, i, number);
    do {
        check_accounts();
        atomic_store(&storm->rest, 0);
        nanosleep(&(struct timespec){.tv_nsec = QUIET_NS}, NULL);
        uint32_t victim = (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % WORKERS;
        end_worker(pids, victim); /* in the middle of anything */
        atomic_store(&storm->workers[victim].at_rest, ++number);
        atomic_store(&storm->rest, number);
        wait_for_rest(number);
        check_accounts();
        start(pids, victim, number);
    } while (!all_done());
    check_accounts();
    for (uint32_t i = 0; i < WORKERS; i++)
        end_worker(pids, i);
    check_accounts();
    assert_int_equal(machine_charged(0), 0);
    machine_remove();
    munmap(storm, sizeof *storm);
}

/* ---- the quota, to the byte ---- */

/* The argument counts whose device has begun: the next one is started then, so that each is measured alone. */
static void role_greedy(void *argument)
{
    void *held[64] = {NULL};
    uint64_t seed = (uint64_t)getpid() * 77777 + 1;
    _Atomic uint32_t *ready = argument;
    hipStream_t stream;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
    atomic_fetch_add(ready, 1);
    while (atomic_load(ready) < WORKERS)
        nap();
    for (uint32_t i = 0; i < 20000; i++) {
        void **pointer = &held[(seed = seed * 6364136223846793005u + 1442695040888963407u) >> 58];
        uint64_t bytes = 1 + (seed >> 20) % (3 * MIB);

        if (*pointer) {
            CHECK_EQUAL(hip.hipFree(*pointer), hipSuccess);
            *pointer = NULL;
        } else if (!given(hip.hipMalloc(pointer, bytes))) {
            *pointer = NULL;
        }
    }
}

/* The segment's own record of the highest sum ever granted, and what was refused: both happened. */
static void test_four_processes_never_get_a_byte_too_much(void **state)
{
    pid_t pids[WORKERS];

    _Atomic uint32_t *ready = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ready != MAP_FAILED);
    machine_make(1, &(uint64_t){64 * MIB}, "1K");
    for (uint32_t i = 0; i < WORKERS; i++) {
        pids[i] = machine_start(role_greedy, ready, true);
        while (atomic_load(ready) <= i)
            nap();
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        machine_wait(pids[i]);
    facet_owner_reap(machine.segments[0].owner);
    struct facet_usage_totals totals = test_segment_totals(&machine.segments[0]);
    assert_true(totals.memory_peak_bytes <= 64 * MIB);
    assert_true(totals.memory_peak_bytes > 60 * MIB);
    assert_true(totals.denied > 0);
    assert_int_equal(totals.memory_bytes, 0);
    machine_remove();
    munmap(ready, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_processes_never_get_a_byte_too_much),
        cmocka_unit_test(test_accounts_are_true_whoever_is_killed),
    };

    return cmocka_run_group_tests_name("hip/storm", tests, NULL, NULL);
}
