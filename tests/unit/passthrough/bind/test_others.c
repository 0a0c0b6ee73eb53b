/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of transactions beside other programs: overrides that they wrote, drivers that they unloaded, VMs that
 * they started, locks that they hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "base/clock.h"
#include "machine.h"

struct stage {
    struct model model;
    struct facet_passthrough *manager;
    struct facet_passthrough_report report;
    struct facet_error error;
};

static void stage_begin(struct stage *stage)
{
    *stage = (struct stage){.report = {.size = sizeof stage->report}};
    machine_make(&stage->model);
    stage->manager = machine_open(&stage->model);
}

static void stage_end(struct stage *stage)
{
    facet_passthrough_close(stage->manager);
    machine_drop(&stage->model);
}

static void drop_driver(const struct model *model, const char *name)
{
    char path[160];

    snprintf(path, sizeof path, "%s/sys/bus/pci/drivers/%s", model->path, name);
    nftw(path, model_drop, 4, FTW_DEPTH | FTW_PHYS);
}

/* qemu has the node of group 17 open. */
static void start_machine(const struct model *model)
{
    model_folder(model->root, "proc/4711/fd");
    model_text(model->root, "proc/4711/comm", "qemu\n");
    if (symlinkat("/dev/vfio/17", model->root, "proc/4711/fd/3") < 0)
        abort();
}

/* ---- overrides and drivers ---- */

/* Another program wrote an override for the next probe. The function still returns to its present driver. */
static void test_a_foreign_override_does_not_change_the_driver_that_returns(void **state)
{
    struct stage stage;

    stage_begin(&stage);
    model_text(stage.model.root, model_device(GPU, "driver_override"), "vfio-pci\n");
    assert_int_equal(machine_bind(stage.manager, GPU, &stage.report, NULL), FACET_OK);
    assert_true(machine_is(&stage.model, BOUND_TO_VFIO));
    assert_int_equal(machine_unbind(stage.manager, GPU, &stage.report, NULL), FACET_OK);
    assert_true(machine_is(&stage.model, "nvidia/vfio-pci/auto snd_hda_intel//auto amdgpu//auto"));
    assert_int_equal(machine_journals(&stage.model), 0);
    stage_end(&stage);
}

/* An unused driver was unloaded: it is loaded again, and a failure to do so is reported. */
static void test_unloaded_driver_is_loaded_again(void **state)
{
    struct stage stage;

    stage_begin(&stage);
    assert_int_equal(machine_bind(stage.manager, GPU, &stage.report, NULL), FACET_OK);
    drop_driver(&stage.model, "nvidia");
    assert_int_equal(machine_unbind(stage.manager, GPU, &stage.report, &stage.error), FACET_NOT_FOUND);
    assert_non_null(strstr(stage.error.message, "loading the module nvidia"));
    assert_int_equal(stage.report.outcome, FACET_PASSTHROUGH_UNDONE);
    assert_true(machine_is(&stage.model, BOUND_TO_VFIO));
    model_folder(stage.model.root, "model/modules/nvidia");
    assert_int_equal(machine_unbind(stage.manager, GPU, &stage.report, &stage.error), FACET_OK);
    assert_true(machine_is(&stage.model, BOUND_TO_HOST));
    stage_end(&stage);
}

static bool kills_before(struct stage *stage, const char *what);

/* Recovery loads an unloaded driver, too. */
static void test_recovery_loads_an_unloaded_driver_again(void **state)
{
    struct stage stage;

    stage_begin(&stage);
    assert_true(kills_before(&stage, "power/control"));
    drop_driver(&stage.model, "nvidia");
    model_folder(stage.model.root, "model/modules/nvidia");
    assert_int_equal(facet_passthrough_recover(stage.manager, &stage.report, NULL), FACET_OK);
    assert_true(machine_is(&stage.model, BOUND_TO_HOST));
    stage_end(&stage);
}

/* An override makes a driver of the host take any function. */
static void test_request_for_a_driver_of_the_host_is_refused(void **state)
{
    struct facet_pci_address address;
    struct facet_passthrough_wish wish = {.size = sizeof wish, .functions = &address, .count = 1};
    struct facet_passthrough_request request = {.size = sizeof request, .wish = &wish, .driver = "amdgpu"};
    struct facet_passthrough_plan *plan = NULL;
    struct stage stage;

    stage_begin(&stage);
    facet_pci_address_parse(GPU, &address, NULL);
    assert_int_equal(facet_passthrough_plan_bind(stage.manager, &request, &plan, &stage.error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(stage.error.message, "no driver of vfio"));
    assert_null(plan);
    stage_end(&stage);
}

/* The struct of a newer program has further members, which are 0. The plan keeps a copy and judges it again later. */
static void test_a_longer_wish_of_a_newer_program_is_kept(void **state)
{
    struct facet_pci_address address;
    struct {
        struct facet_passthrough_wish known;
        unsigned char tail[300];
    } newer = {.known = {.size = sizeof newer, .functions = &address, .count = 1}};
    struct facet_passthrough_request request = {.size = sizeof request, .wish = &newer.known};
    struct facet_passthrough_plan *plan = NULL;
    struct stage stage;

    newer.known.flags = FACET_PASSTHROUGH_WHOLE_GROUP;
    stage_begin(&stage);
    facet_pci_address_parse(GPU, &address, NULL);
    assert_int_equal(facet_passthrough_plan_bind(stage.manager, &request, &plan, &stage.error), FACET_OK);
    facet_passthrough_plan_destroy(plan);
    stage_end(&stage);
}

/* ---- cards ---- */

/* A card was pulled and put back, and is in another group now. The journal's entry is settled first. */
static void test_function_in_another_group_is_settled_first(void **state)
{
    struct stage stage;

    stage_begin(&stage);
    assert_int_equal(machine_bind(stage.manager, SECOND, &stage.report, NULL), FACET_OK);
    machine_remove(&stage.model, SECOND);
    machine_add(&stage.model, &(struct function){SECOND, "0x1002\n", "0x74a1\n", "0x120000\n", "amdgpu", 21});
    assert_int_equal(machine_bind(stage.manager, SECOND, &stage.report, &stage.error), FACET_BAD_STATE);
    assert_non_null(strstr(stage.error.message, "give it back first"));
    assert_int_equal(machine_journals(&stage.model), 1);
    assert_int_equal(machine_unbind(stage.manager, SECOND, &stage.report, &stage.error), FACET_OK);
    assert_int_equal(machine_bind(stage.manager, SECOND, &stage.report, &stage.error), FACET_OK);
    stage_end(&stage);
}

/* The configuration space of a virtual function has all ones for its model; the kernel's files have the model. */
static void test_virtual_function_with_ones_for_its_ids_is_bound(void **state)
{
    int fd;
    struct stage stage;

    stage_begin(&stage);
    fd = openat(stage.model.root, model_device(SECOND, "config"), O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "\377\377\377\377", 4), 4);
    close(fd);
    assert_int_equal(machine_bind(stage.manager, SECOND, &stage.report, &stage.error), FACET_OK);
    stage_end(&stage);
}

/* Another card, which is bound already, stands at the address for which the plan was made. */
static void test_another_card_than_the_planned_one_is_not_bound(void **state)
{
    struct facet_passthrough_plan *plan = NULL;
    struct stage stage;

    stage_begin(&stage);
    assert_int_equal(machine_plan(stage.manager, SECOND, 0, &plan, NULL), FACET_OK);
    model_text(stage.model.root, model_device(SECOND, "device"), "0x7408\n");
    model_unbind(&stage.model, "amdgpu", SECOND);
    model_text(stage.model.root, model_device(SECOND, "driver_override"), "vfio-pci\n");
    model_probe(&stage.model, SECOND);
    model_text(stage.model.root, model_device(SECOND, "power/control"), "on\n");
    assert_int_equal(facet_passthrough_bind(stage.manager, plan, &stage.report, &stage.error), FACET_BAD_STATE);
    assert_non_null(strstr(stage.error.message, "plan anew"));
    facet_passthrough_plan_destroy(plan);
    stage_end(&stage);
}

/* ---- crashes ---- */

static const char *fatal_call;

static void die_at_fatal_call(struct model *model, const char *what)
{
    if (strstr(what, fatal_call))
        raise(SIGKILL);
}

static bool kills_before(struct stage *stage, const char *what)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        fatal_call = what;
        stage->model.before = die_at_fatal_call;
        machine_bind(stage->manager, GPU, NULL, NULL);
        _exit(0);
    }
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
}

/* All functions were bound when the process died. A VM uses the device by now, and keeps it. */
static void test_recovery_leaves_a_group_that_a_vm_uses(void **state)
{
    struct stage stage;

    stage_begin(&stage);
    assert_true(kills_before(&stage, "/reset"));
    start_machine(&stage.model);
    stage.model.writes = 0;
    assert_int_equal(facet_passthrough_recover(stage.manager, &stage.report, NULL), FACET_OK);
    assert_int_equal(stage.report.outcome, FACET_PASSTHROUGH_BROKEN);
    assert_true(machine_has_note(&stage.report, FACET_PASSTHROUGH_NOTE_BUSY));
    assert_non_null(strstr(stage.report.notes[0].text, "4711 (qemu)"));
    assert_int_equal(stage.model.writes, 0);
    assert_int_equal(machine_journals(&stage.model), 1);

    unlinkat(stage.model.root, "proc/4711/fd/3", 0);
    assert_int_equal(facet_passthrough_recover(stage.manager, &stage.report, NULL), FACET_OK);
    assert_true(machine_is(&stage.model, BOUND_TO_HOST));
    stage_end(&stage);
}

static void lock_group_for_a_moment(const struct model *model)
{
    struct bind_host host = {.ops = &bind_host_real, .root = model->root, .state = model->state};
    int ends[2], fd = -1;
    char byte;

    if (pipe(ends) < 0)
        abort();
    if (fork() == 0) {
        if (bind_host_real.lock(&host, "group-17.lock", 0, &fd) != 0 || write(ends[1], "x", 1) != 1)
            _exit(1);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* 0.1 s */
        _exit(0);
    }
    if (read(ends[0], &byte, 1) != 1)
        abort();
    close(ends[0]);
    close(ends[1]);
}

/* A writer that outlived its parent holds the lock, and is about to return. */
static void test_recovery_waits_for_a_writer(void **state)
{
    struct stage stage;

    stage_begin(&stage);
    assert_true(kills_before(&stage, "/reset"));
    lock_group_for_a_moment(&stage.model);
    stage.manager->config.lock_deadline_ns = 60 * FACET_NS_PER_S;
    assert_int_equal(facet_passthrough_recover(stage.manager, &stage.report, NULL), FACET_OK);
    assert_false(machine_has_note(&stage.report, FACET_PASSTHROUGH_NOTE_BUSY));
    assert_true(machine_is(&stage.model, BOUND_TO_HOST));
    assert_true(wait(NULL) > 0);
    stage_end(&stage);
}

/* Recovery does not wait forever for a function that another process holds, and does not report it as recovered. */
static void test_recovery_of_a_locked_group_is_bounded_and_reported(void **state)
{
    struct bind_host host;
    int fd = -1;
    struct stage stage;

    stage_begin(&stage);
    assert_true(kills_before(&stage, "/reset"));
    host = (struct bind_host){.ops = &bind_host_real, .root = stage.model.root, .state = stage.model.state};
    assert_int_equal(bind_host_real.lock(&host, "group-17.lock", 0, &fd), 0);
    assert_int_equal(facet_passthrough_recover(stage.manager, &stage.report, NULL), FACET_OK);
    assert_int_equal(stage.report.outcome, FACET_PASSTHROUGH_BROKEN);
    assert_true(machine_has_note(&stage.report, FACET_PASSTHROUGH_NOTE_BUSY));
    close(fd);
    assert_int_equal(facet_passthrough_recover(stage.manager, &stage.report, NULL), FACET_OK);
    assert_int_equal(stage.report.outcome, FACET_PASSTHROUGH_DONE);
    stage_end(&stage);
}

/* ---- limits ---- */

static void note_deadline(struct model *model, const char *what)
{
    uint64_t expected = 0;

    if (strstr(what, "driver_override") || strstr(what, "power/control"))
        expected = 10 * FACET_NS_PER_S;
    else if (strstr(what, "/unbind") || strstr(what, "drivers_probe") || strstr(what, "/bind") ||
             strstr(what, "/reset"))
        expected = 60 * FACET_NS_PER_S;
    if (expected && model->deadline_ns != expected)
        fail_msg("%s has a deadline of %llu ns", what, (unsigned long long)model->deadline_ns);
}

/* A driver that starts a large device, and the kernel that resets one, may need most of a minute. */
static void test_writes_have_their_deadlines(void **state)
{
    struct stage stage;

    stage_begin(&stage);
    stage.model.before = note_deadline;
    assert_int_equal(machine_bind(stage.manager, GPU, &stage.report, NULL), FACET_OK);
    assert_int_equal(machine_unbind(stage.manager, GPU, &stage.report, NULL), FACET_OK);
    stage_end(&stage);
}

/* Many notes about functions that are as they should be do not displace the note about one that is not. */
static void test_an_important_note_is_kept_among_many(void **state)
{
    REPORT(report);

    bind_report_begin(&report);
    for (unsigned i = 0; i < FACET_PASSTHROUGH_NOTES + 2; i++)
        bind_note(&report, FACET_PASSTHROUGH_NOTE_ADOPTED, NULL, "as it was left");
    bind_note(&report, FACET_PASSTHROUGH_NOTE_DRIFT, NULL, "another card");
    assert_int_equal(report.note_count, FACET_PASSTHROUGH_NOTES);
    assert_int_equal(report.notes_lost, 3);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_DRIFT));
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_ADOPTED));
}

/* ---- files ---- */

/* A FIFO in the place of a new journal is not waited for, and a link to another file is not written through. */
static void test_files_in_the_place_of_a_journal_are_not_written(void **state)
{
    char text[32];
    struct stage stage;

    stage_begin(&stage);
    assert_int_equal(mkfifoat(stage.model.state, "group-17.journal.new", 0600), 0);
    model_text(stage.model.root, "victim", "untouched\n");
    assert_int_equal(linkat(stage.model.root, "victim", stage.model.state, "group-18.journal.new", 0), 0);
    alarm(60);
    assert_int_equal(machine_bind(stage.manager, GPU, &stage.report, NULL), FACET_OK);
    assert_int_equal(machine_bind(stage.manager, SECOND, &stage.report, NULL), FACET_OK);
    alarm(0);
    model_get(stage.model.root, "victim", text, sizeof text);
    assert_string_equal(text, "untouched");
    stage_end(&stage);
}

/* On a machine without a directory of journals, Facet has bound nothing. */
static void test_no_journals_means_nothing_bound(void **state)
{
    struct facet_pci_address address;
    struct facet_passthrough_plan *plan = NULL;
    struct stage stage;

    stage_begin(&stage);
    stage.manager->config.state = -1;
    facet_pci_address_parse(GPU, &address, NULL);
    assert_int_equal(facet_passthrough_plan_unbind(stage.manager, &address, 1, &plan, &stage.error), FACET_NOT_FOUND);
    assert_non_null(strstr(stage.error.message, "was not bound by Facet"));
    stage_end(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_foreign_override_does_not_change_the_driver_that_returns),
        cmocka_unit_test(test_unloaded_driver_is_loaded_again),
        cmocka_unit_test(test_recovery_loads_an_unloaded_driver_again),
        cmocka_unit_test(test_request_for_a_driver_of_the_host_is_refused),
        cmocka_unit_test(test_a_longer_wish_of_a_newer_program_is_kept),
        cmocka_unit_test(test_function_in_another_group_is_settled_first),
        cmocka_unit_test(test_virtual_function_with_ones_for_its_ids_is_bound),
        cmocka_unit_test(test_another_card_than_the_planned_one_is_not_bound),
        cmocka_unit_test(test_recovery_leaves_a_group_that_a_vm_uses),
        cmocka_unit_test(test_recovery_waits_for_a_writer),
        cmocka_unit_test(test_recovery_of_a_locked_group_is_bounded_and_reported),
        cmocka_unit_test(test_writes_have_their_deadlines),
        cmocka_unit_test(test_an_important_note_is_kept_among_many),
        cmocka_unit_test(test_files_in_the_place_of_a_journal_are_not_written),
        cmocka_unit_test(test_no_journals_means_nothing_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
