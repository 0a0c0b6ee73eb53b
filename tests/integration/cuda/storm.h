/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls of several processes, which are killed at random moments. Whenever all processes pause, the charge
 * equals the memory that was requested from the vendor's library. The charge is never more than the quota.
 * Owns: the processes; their quiet points, at which all processes wait; the choice of the process to kill; the
 * comparison at a quiet point. The test does not depend on the machine's speed: a process's calls are counted, and the
 * test waits for quiet points. Never: calls a vendor's library; the test implements the calls. Each test includes this
 * file once, after its machine.h.
 */
#ifndef FACET_TEST_STORM_H
#define FACET_TEST_STORM_H

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "../../effort.h"

#define STORM_WORKERS      4u
#define STORM_LIMIT        (768 * MIB) /* the quota */
#define STORM_GREEDY_LIMIT (64 * MIB)  /* the quota of the test of greedy processes */
#define QUIET_INTERVAL_NS  20000000    /* between two quiet points */

/* Shared by the test and its workers. */
struct storm_worker {
    _Atomic uint32_t calls;         /* so far, including those before the worker was killed and restarted */
    _Atomic uint32_t reached_point; /* the number of the quiet point at which the worker waits */
    _Atomic uint64_t device_charge; /* the charge for beginning a device; set by tests that need it */
    _Atomic bool done;
};

/* Each function ends its role by CHECK() if the library fails. */
struct storm_vendor {
    uint32_t calls, greedy_calls;                                /* of each worker, restarts included */
    struct storm_bag *(*prepare_bag)(struct storm_worker *self); /* makes a worker's objects */
    void (*call_any)(struct storm_bag *bag);                     /* makes any one call */
    void (*settle_charges)(void);                     /* a query that brings the accounts of pools up to date */
    uint64_t (*expected_charge)(void);                /* the expected charge now, by the fake's own account */
    void (*enter_role)(void);                         /* for workers that only allocate */
    bool (*allocate)(void **pointer, uint64_t bytes); /* false: there was no memory, which is no failure */
    void (*release)(void *pointer);
};
static const struct storm_vendor storm_vendor;

static struct storm {
    _Atomic uint32_t quiet_point; /* number of the quiet point that is wanted; 0: none */
    struct storm_worker workers[STORM_WORKERS];
} * storm;

static uint64_t storm_seed;

/* A random number below `below`: xorshift. */
static uint64_t storm_draw(uint64_t below)
{
    storm_seed ^= storm_seed << 13;
    storm_seed ^= storm_seed >> 7;
    storm_seed ^= storm_seed << 17;
    return storm_seed % below;
}

static void storm_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* Most sizes are small, like in real programs. */
static uint64_t storm_draw_size(void)
{
    return storm_draw(10) ? 1 + storm_draw(64 * KIB) : 1 + storm_draw(24 * MIB);
}

/* ---- a worker ---- */

/* Waits until the test has compared the accounts. */
static void storm_wait_at_point(struct storm_worker *self, uint32_t point)
{
    storm_vendor.settle_charges();
    atomic_store(&self->reached_point, point);
    while (atomic_load(&storm->quiet_point) == point)
        storm_nap();
}

static void storm_role(void *argument)
{
    struct storm_worker *self = argument;

    storm_seed = ((uint64_t)getpid() << 20) + 1;
    struct storm_bag *bag = storm_vendor.prepare_bag(self);
    while (atomic_load(&self->calls) < effort(storm_vendor.calls, 10000)) {
        uint32_t point = atomic_load(&storm->quiet_point);

        if (point && atomic_load(&self->reached_point) != point)
            storm_wait_at_point(self, point);
        storm_vendor.call_any(bag);
        atomic_fetch_add(&self->calls, 1);
    }
    atomic_store(&self->done, true);
    while (true) {
        uint32_t point = atomic_load(&storm->quiet_point);
        if (point)
            storm_wait_at_point(self, point);
        storm_nap();
    }
}

/* ---- the test ---- */

static void storm_check(void)
{
    facet_owner_reap(machine.segments[0].owner);
    uint64_t expected = storm_vendor.expected_charge();
    assert_int_equal(machine_charged(0), expected);
    assert_true(expected <= STORM_LIMIT);
}

static void storm_wait_for_all(uint32_t point)
{
    for (uint32_t i = 0; i < STORM_WORKERS; i++)
        while (atomic_load(&storm->workers[i].reached_point) != point) {
            assert_true(machine_charged(0) <= STORM_LIMIT);
            storm_nap();
        }
}

static void storm_kill(pid_t pids[STORM_WORKERS], uint32_t index)
{
    int status;

    kill(pids[index], SIGKILL);
    assert_int_equal(waitpid(pids[index], &status, 0), pids[index]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* the worker had not failed before */
    atomic_store(&storm->workers[index].device_charge, 0);
}

/* The new worker begins its device while all others wait at the quiet point, and the test waits for it. */
static void storm_start(pid_t pids[STORM_WORKERS], uint32_t index, uint32_t point)
{
    atomic_store(&storm->workers[index].reached_point, 0);
    pids[index] = machine_start(storm_role, &storm->workers[index], true);
    while (atomic_load(&storm->workers[index].reached_point) != point) {
        assert_int_equal(waitpid(pids[index], NULL, WNOHANG), 0);
        storm_nap();
    }
}

static bool storm_is_over(void)
{
    for (uint32_t i = 0; i < STORM_WORKERS; i++)
        if (!atomic_load(&storm->workers[i].done))
            return false;
    return true;
}

static void test_accounts_are_true_after_any_process_is_killed(void **state)
{
    pid_t pids[STORM_WORKERS];
    uint64_t seed = 99;
    uint32_t point = 1;

    storm = mmap(NULL, sizeof *storm, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(storm != MAP_FAILED);
    machine_make(1, &(uint64_t){STORM_LIMIT}, "1K");
    atomic_store(&storm->quiet_point, point);
    for (uint32_t i = 0; i < STORM_WORKERS; i++)
        storm_start(pids, i, point);
    do {
        storm_check();
        atomic_store(&storm->quiet_point, 0);
        nanosleep(&(struct timespec){.tv_nsec = QUIET_INTERVAL_NS}, NULL);
        uint32_t victim = (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % STORM_WORKERS;
        storm_kill(pids, victim); /* in the middle of anything */
        atomic_store(&storm->workers[victim].reached_point, ++point);
        atomic_store(&storm->quiet_point, point);
        storm_wait_for_all(point);
        storm_check();
        storm_start(pids, victim, point);
    } while (!storm_is_over());
    storm_check();
    for (uint32_t i = 0; i < STORM_WORKERS; i++)
        storm_kill(pids, i);
    storm_check();
    assert_int_equal(machine_charged(0), 0);
    machine_remove();
    munmap(storm, sizeof *storm);
}

/* ---- the quota, to the byte ---- */

/* `argument` counts the processes that have begun their device. The test starts a process only after the one before it
 * has been counted, so that each begins alone. */
static void storm_greedy(void *argument)
{
    void *held[64] = {NULL};
    _Atomic uint32_t *ready = argument;

    storm_seed = (uint64_t)getpid() * 77777 + 1;
    storm_vendor.enter_role();
    atomic_fetch_add(ready, 1);
    while (atomic_load(ready) < STORM_WORKERS)
        storm_nap();
    for (uint32_t i = 0; i < effort(storm_vendor.greedy_calls, 6000); i++) {
        void **pointer = &held[storm_draw(64)];

        if (*pointer)
            storm_vendor.release(*pointer);
        if (*pointer || !storm_vendor.allocate(pointer, 1 + storm_draw(3 * MIB)))
            *pointer = NULL;
    }
}

/* The segment's records show that the peak came near the quota, and that requests were refused. */
static void test_four_processes_never_get_a_byte_too_much(void **state)
{
    pid_t pids[STORM_WORKERS];

    _Atomic uint32_t *ready = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ready != MAP_FAILED);
    machine_make(1, &(uint64_t){STORM_GREEDY_LIMIT}, "1K");
    for (uint32_t i = 0; i < STORM_WORKERS; i++) {
        pids[i] = machine_start(storm_greedy, ready, true);
        while (atomic_load(ready) <= i)
            storm_nap();
    }
    for (uint32_t i = 0; i < STORM_WORKERS; i++)
        machine_wait(pids[i]);
    facet_owner_reap(machine.segments[0].owner);
    struct facet_usage_totals totals = test_segment_totals(&machine.segments[0]);
    assert_true(totals.memory_peak_bytes <= STORM_GREEDY_LIMIT);
    assert_true(totals.memory_peak_bytes > STORM_GREEDY_LIMIT - 4 * MIB); /* requests are up to 3 MiB */
    assert_true(totals.denied > 0);
    assert_int_equal(totals.memory_bytes, 0);
    machine_remove();
    munmap(ready, 4096);
}

#endif
