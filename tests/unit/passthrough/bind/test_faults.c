/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a transaction in which the Nth call fails, hangs or is the last, for every N, ends in the old or
 * the new state, and reports which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "machine.h"

#include "../same_process.h"

enum { CALLS_MOST = 200 };

/* ---- one run ---- */

struct trial {
    struct model model;
    struct facet_passthrough *manager;
    bool binds;
    enum model_fault fault;
    unsigned fault_at;
};

static void trial_begin(struct trial *trial)
{
    machine_make(&trial->model);
    trial->manager = machine_open(&trial->model);
    if (!trial->binds)
        assert_int_equal(machine_bind(trial->manager, GPU, NULL, NULL), FACET_OK);
}

static void trial_end(struct trial *trial)
{
    facet_passthrough_close(trial->manager);
    machine_drop(&trial->model);
}

static enum facet_status trial_run(struct trial *trial, struct facet_passthrough_report *report,
                                   struct facet_error *error)
{
    return trial->binds ? machine_bind(trial->manager, GPU, report, error)
                        : machine_unbind(trial->manager, GPU, report, error);
}

static void fail_trial(const struct trial *trial, const char *what, const struct facet_passthrough_report *report)
{
    char text[256];

    machine_text(&trial->model, text, sizeof text);
    for (uint32_t i = 0; i < report->note_count; i++)
        print_message("note %s: %s\n", facet_passthrough_note_name(report->notes[i].kind), report->notes[i].text);
    fail_msg("%s, fault %d at %u%s: %s; %s", trial->binds ? "bind" : "unbind", trial->fault, trial->fault_at,
             trial->model.keeps_failing ? " and on" : "", what, text);
}

/* True if the group is bound and has a journal, or belongs to the host and has no journal. */
static bool is_settled(const struct trial *trial)
{
    return (machine_is(&trial->model, BOUND_TO_VFIO) && machine_journals(&trial->model) == 1) ||
           (machine_is(&trial->model, BOUND_TO_HOST) && machine_journals(&trial->model) == 0);
}

static void check_outcome(const struct trial *trial, enum facet_status status,
                          const struct facet_passthrough_report *report)
{
    bool is_before = machine_is(&trial->model, trial->binds ? BOUND_TO_HOST : BOUND_TO_VFIO);

    if (status == FACET_OK &&
        (!machine_is(&trial->model, trial->binds ? BOUND_TO_VFIO : BOUND_TO_HOST) || !is_settled(trial)))
        fail_trial(trial, "reported as done, but it is not", report);
    if (status == FACET_OK)
        return;
    if (report->outcome == FACET_PASSTHROUGH_DONE)
        fail_trial(trial, "failed, and reported as done", report);
    if (report->outcome != FACET_PASSTHROUGH_BROKEN && !(is_before && is_settled(trial)))
        fail_trial(trial, "reported as unchanged, but it is not", report);
    if (report->outcome == FACET_PASSTHROUGH_BROKEN && !machine_has_note(report, FACET_PASSTHROUGH_NOTE_UNDO_FAILED) &&
        !machine_has_note(report, FACET_PASSTHROUGH_NOTE_STUCK))
        fail_trial(trial, "half bound without a note", report);
    if (!is_settled(trial) && machine_journals(&trial->model) == 0)
        fail_trial(trial, "left without a journal", report);
}

/* Checks recovery after the fault is over. */
static void check_recovery(struct trial *trial, const struct facet_passthrough_report *report)
{
    REPORT(after);

    machine_arm(&trial->model, MODEL_NO_FAULT, 0);
    model_return(&trial->model);
    assert_int_equal(facet_passthrough_recover(trial->manager, &after, NULL), FACET_OK);
    if (!is_settled(trial) || after.outcome == FACET_PASSTHROUGH_BROKEN)
        fail_trial(trial, "not recovered", &after);
    if (report->outcome == FACET_PASSTHROUGH_BROKEN && after.note_count == 0 && machine_journals(&trial->model) == 0 &&
        !machine_is(&trial->model, BOUND_TO_HOST))
        fail_trial(trial, "recovered without a note", &after);
}

static bool run_trial(struct trial *trial, bool keeps_failing, bool only_writes)
{
    REPORT(report);
    struct facet_error error = {.status = FACET_OK};

    trial_begin(trial);
    machine_arm(&trial->model, trial->fault, trial->fault_at);
    trial->model.keeps_failing = keeps_failing;
    trial->model.only_writes = only_writes;
    enum facet_status status = trial_run(trial, &report, &error);
    bool was_reached = trial->model.calls >= trial->fault_at;
    if (status && !error.message[0])
        fail_trial(trial, "refused without a message", &report);
    check_outcome(trial, status, &report);
    check_recovery(trial, &report);
    trial_end(trial);
    return was_reached;
}

static void run_all_trials(enum model_fault fault, bool keeps_failing, bool only_writes)
{
    for (int direction = 0; direction < 2; direction++) {
        struct trial trial = {.binds = direction == 0, .fault = fault};

        do {
            trial.fault_at++;
            assert_true(trial.fault_at < CALLS_MOST); /* otherwise a transaction makes calls without end */
        } while (run_trial(&trial, keeps_failing, only_writes));
        assert_true(trial.fault_at > 6); /* fewer would mean that most calls were not tried */
    }
}

static void test_each_failing_call_is_undone(void **state)
{
    run_all_trials(MODEL_FAIL, false, false);
    run_all_trials(MODEL_FAIL_DONE, false, false);
}

/* All calls from the Nth on fail, as on a full disk, or with a kernel that refuses every further write. */
static void test_failure_that_persists_is_reported_and_recovered(void **state)
{
    run_all_trials(MODEL_FAIL, true, false);
    run_all_trials(MODEL_FAIL_DONE, true, false);
    run_all_trials(MODEL_FAIL, true, true);
}

static void test_each_hanging_write_is_reported(void **state)
{
    run_all_trials(MODEL_HANG, false, true);
    run_all_trials(MODEL_HANG_DONE, false, true);
    run_all_trials(MODEL_HANG, true, true);
    run_all_trials(MODEL_HANG_DONE, true, true);
}

static void test_write_after_its_deadline_is_reported_and_recovered(void **state)
{
    run_all_trials(MODEL_LATE, false, true);
    run_all_trials(MODEL_LATE, true, true);
}

/* ---- a write that hangs is reported, and left alone until it returns ---- */

static void test_stuck_write_is_reported(void **state)
{
    struct trial trial = {.binds = true};
    REPORT(report);
    struct facet_error error;
    struct facet_passthrough_list *list = NULL;

    trial_begin(&trial);
    machine_arm(&trial.model, MODEL_HANG, 2); /* nvidia does not release the device */
    trial.model.only_writes = true;
    assert_int_equal(trial_run(&trial, &report, &error), FACET_TIMEOUT);
    assert_non_null(strstr(error.message, "nvidia/unbind"));
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_BROKEN);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_STUCK));

    assert_int_equal(facet_passthrough_look(trial.manager, &list, &report, NULL), FACET_OK);
    bool found = false;
    for (size_t i = 0; i < list->count; i++)
        found = found || (list->entries[i].state == FACET_PASSTHROUGH_STATE_STUCK &&
                          strcmp(list->entries[i].driver, "nvidia") == 0);
    assert_true(found);
    facet_passthrough_list_destroy(list);

    /* Recovery does not write to the function, and binding is refused. */
    trial.model.writes = 0;
    assert_int_equal(facet_passthrough_recover(trial.manager, &report, NULL), FACET_OK);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_BROKEN);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_STUCK));
    assert_int_equal(trial_run(&trial, &report, &error), FACET_BAD_STATE);
    assert_int_equal(trial.model.writes, 0);

    model_return(&trial.model);
    model_kernel(&trial.model, "/sys/bus/pci/drivers/nvidia/unbind", GPU); /* the write that hung has its effect */
    assert_int_equal(facet_passthrough_recover(trial.manager, &report, NULL), FACET_OK);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_ROLLED_BACK));
    assert_true(machine_is(&trial.model, BOUND_TO_HOST));
    assert_int_equal(machine_journals(&trial.model), 0);
    trial_end(&trial);
}

/* The kernel reports success, but vfio-pci does not have the function. */
static void test_function_that_vfio_does_not_take_is_reported(void **state)
{
    struct trial trial = {.binds = true};
    REPORT(report);
    struct facet_error error;

    trial_begin(&trial);
    model_text(trial.model.root, "model/refuses-vfio-pci", "");
    assert_int_equal(trial_run(&trial, &report, &error), FACET_IO);
    assert_non_null(strstr(error.message, "vfio-pci did not take it"));
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_UNDONE);
    assert_true(machine_is(&trial.model, BOUND_TO_HOST));
    assert_int_equal(machine_journals(&trial.model), 0);
    trial_end(&trial);
}

/* Where a driver refuses its device, the function is bound to vfio again, so that the group is not split. */
static void test_refused_return_binds_again(void **state)
{
    struct trial trial = {.binds = false};
    REPORT(report);
    struct facet_error error;

    trial_begin(&trial);
    model_text(trial.model.root, "model/refuses-nvidia", "");
    assert_int_equal(trial_run(&trial, &report, &error), FACET_IO);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_UNDONE);
    assert_true(machine_is(&trial.model, BOUND_TO_VFIO));
    assert_int_equal(machine_journals(&trial.model), 1);
    unlinkat(trial.model.root, "model/refuses-nvidia", 0);
    assert_int_equal(trial_run(&trial, &report, &error), FACET_OK);
    assert_true(machine_is(&trial.model, BOUND_TO_HOST));
    trial_end(&trial);
}

/* ---- kill -9 ---- */

/* Returns true if the transaction was killed. */
static bool run_killed(struct trial *trial)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        trial_run(trial, NULL, NULL);
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static bool run_kill_trial(struct trial *trial)
{
    REPORT(report);

    trial_begin(trial);
    machine_arm(&trial->model, trial->fault, trial->fault_at);
    bool was_killed = run_killed(trial);
    bool was_settled = is_settled(trial);
    machine_arm(&trial->model, MODEL_NO_FAULT, 0);
    assert_int_equal(facet_passthrough_recover(trial->manager, &report, NULL), FACET_OK);
    if (!is_settled(trial))
        fail_trial(trial, "neither old nor new after recovery", &report);
    if (!was_settled && report.note_count == 0)
        fail_trial(trial, "recovered without a note", &report);
    trial_end(trial);
    return was_killed;
}

static void test_kill_at_each_call_is_recovered(void **state)
{
    for (int direction = 0; direction < 2; direction++)
        for (enum model_fault fault = MODEL_KILL; fault <= MODEL_KILL_DONE; fault++) {
            struct trial trial = {.binds = direction == 0, .fault = fault};

            do {
                trial.fault_at++;
                assert_true(trial.fault_at < CALLS_MOST);
            } while (run_kill_trial(&trial));
            assert_true(trial.fault_at > 15);
        }
}

/* After a killed transaction, recovery is killed, too, at each of its steps. The next recovery completes it. */
static void kill_recovery(struct trial *trial, unsigned at)
{
    pid_t pid = fork();

    if (pid == 0) {
        machine_arm(&trial->model, MODEL_KILL_DONE, at);
        facet_passthrough_recover(trial->manager, NULL, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_killed_recovery_is_recovered(void **state)
{
    for (int direction = 0; direction < 2; direction++)
        for (unsigned first = 6; first < 20; first += 3)
            for (unsigned second = 1; second < 16; second++) {
                struct trial trial = {.binds = direction == 0, .fault = MODEL_KILL, .fault_at = first};
                REPORT(report);

                trial_begin(&trial);
                machine_arm(&trial.model, trial.fault, trial.fault_at);
                run_killed(&trial);
                kill_recovery(&trial, second);
                machine_arm(&trial.model, MODEL_NO_FAULT, 0);
                assert_int_equal(facet_passthrough_recover(trial.manager, &report, NULL), FACET_OK);
                if (!is_settled(&trial))
                    fail_trial(&trial, "neither old nor new after two deaths", &report);
                trial_end(&trial);
            }
}

/* ---- journals of another time, and damaged ones ---- */

static void test_journal_of_an_earlier_boot_is_dropped(void **state)
{
    struct trial trial = {.binds = false};
    REPORT(report);

    trial_begin(&trial);
    model_text(trial.model.root, "proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n");
    trial.model.writes = 0;
    assert_int_equal(trial_run(&trial, &report, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_passthrough_recover(trial.manager, &report, NULL), FACET_OK);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_STALE));
    assert_int_equal(trial.model.writes, 0);
    assert_int_equal(machine_journals(&trial.model), 0);
    trial_end(&trial);
}

static void test_damaged_journal_is_reported(void **state)
{
    struct trial trial = {.binds = false};
    REPORT(report);
    struct facet_error error;
    char text[64];

    trial_begin(&trial);
    model_text(trial.model.state, "group-17.journal", "facet-passthrough-journal 1 0000000000000000\n{}\n");
    trial.model.writes = 0;
    assert_int_equal(trial_run(&trial, &report, &error), FACET_CORRUPT);
    assert_non_null(strstr(error.message, "group-17.journal"));
    assert_int_equal(machine_bind(trial.manager, GPU, &report, &error), FACET_CORRUPT);
    assert_int_equal(facet_passthrough_recover(trial.manager, &report, NULL), FACET_OK);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_BROKEN);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_DAMAGED));
    assert_int_equal(trial.model.writes, 0);
    /* The journal stays unchanged, and other groups can still be bound. */
    model_get(trial.model.state, "group-17.journal", text, sizeof text);
    assert_string_equal(text, "facet-passthrough-journal 1 0000000000000000");
    assert_int_equal(machine_bind(trial.manager, SECOND, &report, &error), FACET_OK);
    trial_end(&trial);
}

/* The journal itself is valid. */
static void test_journal_under_another_groups_name_is_not_recovered(void **state)
{
    struct trial trial = {.binds = false};
    REPORT(report);

    trial_begin(&trial);
    assert_int_equal(renameat(trial.model.state, "group-17.journal", trial.model.state, "group-3.journal"), 0);
    trial.model.writes = 0;
    assert_int_equal(facet_passthrough_recover(trial.manager, &report, NULL), FACET_OK);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_DAMAGED));
    assert_int_equal(trial.model.writes, 0);
    trial_end(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_failing_call_is_undone),
        cmocka_unit_test(test_failure_that_persists_is_reported_and_recovered),
        cmocka_unit_test(test_each_hanging_write_is_reported),
        cmocka_unit_test(test_write_after_its_deadline_is_reported_and_recovered),
        cmocka_unit_test(test_stuck_write_is_reported),
        cmocka_unit_test(test_function_that_vfio_does_not_take_is_reported),
        cmocka_unit_test(test_refused_return_binds_again),
        cmocka_unit_test(test_kill_at_each_call_is_recovered),
        cmocka_unit_test(test_killed_recovery_is_recovered),
        cmocka_unit_test(test_journal_of_an_earlier_boot_is_dropped),
        cmocka_unit_test(test_damaged_journal_is_reported),
        cmocka_unit_test(test_journal_under_another_groups_name_is_not_recovered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
