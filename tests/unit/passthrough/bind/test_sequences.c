/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs over random sequences, and over processes that work at once. Each half-bound group is reported, and each
 * function that Facet gave to vfio has a journal, by which the function can return to its driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "machine.h"

#include "../same_process.h"

/* ---- random numbers that are the same in each run ---- */

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static unsigned random_below(uint64_t *seed, unsigned most)
{
    return (unsigned)(next_random(seed) % most);
}

/* ---- possible steps ---- */

struct world {
    struct model model;
    struct facet_passthrough *manager;
    uint64_t seed;
};

static const char *any_address(struct world *world)
{
    static const char *const addresses[] = {GPU, SOUND, SECOND};

    return addresses[random_below(&world->seed, 3)];
}

static void do_bind(struct world *world)
{
    REPORT(report);

    machine_bind(world->manager, any_address(world), &report, NULL);
}

static void do_unbind(struct world *world)
{
    REPORT(report);

    machine_unbind(world->manager, any_address(world), &report, NULL);
}

static void do_recover(struct world *world)
{
    REPORT(report);

    facet_passthrough_recover(world->manager, &report, NULL);
}

/* A bind or unbind in a process that is killed on the way. */
static void do_killed(struct world *world)
{
    bool binds = random_below(&world->seed, 2);
    unsigned at = 1 + random_below(&world->seed, 40);
    const char *address = any_address(world);
    pid_t pid = fork();

    if (pid == 0) {
        machine_arm(&world->model, MODEL_KILL, at);
        if (binds)
            machine_bind(world->manager, address, NULL, NULL);
        else
            machine_unbind(world->manager, address, NULL, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Another program moves a function to a driver of its own choice. */
static void do_move_by_hand(struct world *world)
{
    const char *address = any_address(world);
    char driver[64];

    model_driver_of(&world->model, address, driver, sizeof driver);
    if (driver[0])
        model_unbind(&world->model, driver, address);
    if (random_below(&world->seed, 2))
        return;
    model_text(world->model.root, model_device(address, "driver_override"), "(null)\n");
    model_probe(&world->model, address);
}

static void do_return(struct world *world)
{
    model_return(&world->model);
}

static void (*const actions[])(struct world *world) = {do_bind,   do_bind,         do_unbind, do_unbind,
                                                       do_killed, do_move_by_hand, do_return, do_recover};

/* ---- invariants ---- */

static bool is_reported(const struct facet_passthrough_list *list, const struct facet_passthrough_report *report)
{
    bool under_way = false;

    for (size_t i = 0; i < list->count; i++)
        under_way = under_way || list->entries[i].state == FACET_PASSTHROUGH_STATE_DETACHING ||
                    list->entries[i].state == FACET_PASSTHROUGH_STATE_RETURNING ||
                    list->entries[i].state == FACET_PASSTHROUGH_STATE_STUCK;
    return under_way || machine_has_note(report, FACET_PASSTHROUGH_NOTE_HALF_BOUND);
}

/* Whether only one of the two functions, the GPU and its sound, is bound to vfio. */
static bool is_half_bound(const struct model *model)
{
    char gpu[64], sound[64];

    model_driver_of(model, GPU, gpu, sizeof gpu);
    model_driver_of(model, SOUND, sound, sizeof sound);
    return gpu[0] && sound[0] && model_is_vfio(gpu) != model_is_vfio(sound);
}

/* In these sequences only Facet binds a function to vfio, so each such function must be known as Facet's. */
static void check_ours(const struct facet_passthrough_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->entries[i].driver, "vfio-pci") == 0)
            assert_true(list->entries[i].is_ours);
}

static void check_world(struct world *world, const char *when)
{
    struct facet_passthrough_list *list = NULL;
    REPORT(report);

    assert_int_equal(facet_passthrough_look(world->manager, &list, &report, NULL), FACET_OK);
    if (is_half_bound(&world->model) && !is_reported(list, &report))
        fail_msg("%s: a group is half bound, expected a note about it", when);
    check_ours(list);
    facet_passthrough_list_destroy(list);
}

static void arm_at_random(struct world *world)
{
    machine_arm(&world->model, (enum model_fault)random_below(&world->seed, MODEL_KILL),
                random_below(&world->seed, 60));
    world->model.only_writes = random_below(&world->seed, 2);
    world->model.keeps_failing = random_below(&world->seed, 8) == 0;
}

static void run_sequence(uint64_t seed)
{
    struct world world = {.seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    char when[64];

    machine_make(&world.model);
    world.manager = machine_open(&world.model);
    for (unsigned i = 0; i < 25; i++) {
        unsigned action = random_below(&world.seed, sizeof actions / sizeof actions[0]);

        arm_at_random(&world);
        actions[action](&world);
        machine_arm(&world.model, MODEL_NO_FAULT, 0);
        snprintf(when, sizeof when, "seed %llu, step %u, action %u", (unsigned long long)seed, i, action);
        check_world(&world, when);
    }
    /* After the sequence, everything can return to the host. */
    REPORT(report);
    model_return(&world.model);
    assert_int_equal(facet_passthrough_recover(world.manager, &report, NULL), FACET_OK);
    machine_unbind(world.manager, GPU, &report, NULL);
    machine_unbind(world.manager, SECOND, &report, NULL);
    assert_int_equal(machine_journals(&world.model), 0);
    check_world(&world, "at the end");
    facet_passthrough_close(world.manager);
    machine_drop(&world.model);
}

static void test_random_sequences_leave_no_group_half_bound_without_a_note(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        run_sequence(seed);
}

/* ---- at once ---- */

static bool is_expected(enum facet_status status)
{
    return status == FACET_OK || status == FACET_BUSY || status == FACET_BAD_STATE || status == FACET_NOT_FOUND;
}

/* Returns the child's exit status: 1 for a forbidden result. */
static int work_in_child(struct model *model, bool binds)
{
    struct facet_passthrough *manager = machine_open(model);
    int bad = 0;

    for (unsigned i = 0; i < 25; i++) {
        REPORT(report);
        enum facet_status status =
            binds ? machine_bind(manager, GPU, &report, NULL) : machine_unbind(manager, GPU, &report, NULL);

        bad |= !is_expected(status) || report.outcome == FACET_PASSTHROUGH_BROKEN ||
               report.outcome == FACET_PASSTHROUGH_UNDONE;
    }
    facet_passthrough_close(manager);
    return bad;
}

static void test_three_processes_at_once_end_bound_or_unbound(void **state)
{
    struct model model;
    pid_t pids[3];

    machine_make(&model);
    for (unsigned i = 0; i < 3; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(work_in_child(&model, i < 2));
    }
    for (unsigned i = 0; i < 3; i++) {
        int status = 0;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_true((machine_is(&model, BOUND_TO_VFIO) && machine_journals(&model) == 1) ||
                (machine_is(&model, BOUND_TO_HOST) && machine_journals(&model) == 0));
    machine_drop(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_sequences_leave_no_group_half_bound_without_a_note),
        cmocka_unit_test(test_three_processes_at_once_end_bound_or_unbound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
