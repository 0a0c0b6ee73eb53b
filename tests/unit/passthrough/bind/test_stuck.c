/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of transactions while another tool's unbind of a function hangs. Nothing is written, the error gives the
 * reason, and transactions work again once the unbind has returned. Never: hangs itself (test_faults.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/file.h>

#include "machine.h"

#define REPORT(name) struct facet_passthrough_report name = {.size = sizeof name}

/* QEMU has the node of group 17 open, and the GPU was taken from vfio-pci. A reader of Facet hangs already. */
static int hang_function(const struct model *model)
{
    model_folder(model->root, "proc/4711/fd");
    model_text(model->root, "proc/4711/comm", "qemu\n");
    if (symlinkat("/dev/vfio/17", model->root, "proc/4711/fd/3") < 0)
        abort();
    model_unbind(model, "vfio-pci", GPU);
    int fd = openat(model->root, model_device(GPU, "driver_override"), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        abort();
    return fd;
}

static void end_hang(const struct model *model, int fd)
{
    close(fd);
    unlinkat(model->root, "proc/4711/fd/3", 0);
}

#define WHY "is stuck: the kernel unbinds its driver, and waits for process 4711 (qemu), which has /dev/vfio/17 open"

static const struct facet_passthrough_entry *find_entry(const struct facet_passthrough_list *list, const char *address)
{
    struct facet_pci_address parsed;

    facet_pci_address_parse(address, &parsed, NULL);
    for (size_t i = 0; i < list->count; i++)
        if (facet_pci_address_compare(&list->entries[i].identity.address, &parsed) == 0)
            return &list->entries[i];
    fail_msg("no %s", address);
    return NULL;
}

static void a_stuck_function_is_not_given_back_before_it_recovers(void **state)
{
    struct model model;
    REPORT(report);
    struct facet_error error;
    struct facet_passthrough_list *list = NULL;

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_bind(manager, GPU, NULL, NULL), FACET_OK);
    int fd = hang_function(&model);
    model.writes = 0;
    assert_int_equal(machine_unbind(manager, GPU, &report, &error), FACET_BUSY);
    assert_string_equal(error.message, GPU " " WHY);
    assert_int_equal(facet_passthrough_recover(manager, &report, NULL), FACET_OK);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_STUCK));
    assert_false(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_DRIFT));

    assert_int_equal(facet_passthrough_look(manager, &list, &report, NULL), FACET_OK);
    assert_int_equal(find_entry(list, GPU)->state, FACET_PASSTHROUGH_STATE_STUCK);
    assert_true(find_entry(list, GPU)->is_ours);
    assert_int_equal(find_entry(list, SOUND)->state, FACET_PASSTHROUGH_STATE_IN_VM);
    assert_int_equal(report.note_count, 1);
    assert_string_equal(report.notes[0].text, WHY);
    facet_passthrough_list_destroy(list);
    assert_int_equal(model.writes, 0);

    end_hang(&model, fd);
    assert_int_equal(machine_unbind(manager, GPU, &report, &error), FACET_OK);
    assert_true(machine_is(&model, BOUND_TO_HOST));
    facet_passthrough_close(manager);
    machine_drop(&model);
}

static void a_stuck_function_is_not_bound(void **state)
{
    struct model model;
    REPORT(report);
    struct facet_error error;
    struct facet_passthrough_plan *plan = NULL;

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_plan(manager, GPU, 0, &plan, &error), FACET_OK); /* the function is not stuck yet */
    int fd = hang_function(&model);
    model.writes = 0;
    assert_int_equal(facet_passthrough_bind(manager, plan, &report, &error), FACET_BAD_STATE);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_UNTOUCHED);
    assert_int_equal(machine_bind(manager, GPU, &report, &error), FACET_BAD_STATE);
    assert_non_null(strstr(error.message, GPU " is stuck: its driver, or a reset, has not returned"));
    assert_int_equal(model.writes, 0);
    assert_int_equal(machine_journals(&model), 0);
    facet_passthrough_plan_destroy(plan);
    end_hang(&model, fd);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

static void an_interrupted_bind_is_not_undone_before_the_function_recovers(void **state)
{
    struct model model;
    REPORT(report);
    struct facet_error error;

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_bind(manager, GPU, NULL, NULL), FACET_OK);
    struct bind_host host = {.ops = &bind_host_real, .root = model.root, .state = model.state};
    struct journal journal = {.count = 0};
    assert_int_equal(journal_load(&host, "group-17.journal", &journal, &error), FACET_OK);
    journal.phase = JOURNAL_PREPARING;
    assert_int_equal(journal_store(&host, &journal, &error), FACET_OK);
    journal_clear(&journal);

    int fd = hang_function(&model);
    unlinkat(model.root, "proc/4711/fd/3", 0); /* ends the hang, as a reset may */
    model.writes = 0;
    assert_int_equal(facet_passthrough_recover(manager, &report, NULL), FACET_OK);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_BROKEN);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_BUSY));
    assert_non_null(strstr(report.notes[0].text, "is stuck: its driver, or a reset"));
    assert_int_equal(model.writes, 0);
    end_hang(&model, fd);
    assert_int_equal(facet_passthrough_recover(manager, &report, NULL), FACET_OK);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_ROLLED_BACK));
    assert_true(machine_is(&model, BOUND_TO_HOST));
    facet_passthrough_close(manager);
    machine_drop(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stuck_function_is_not_given_back_before_it_recovers),
        cmocka_unit_test(a_stuck_function_is_not_bound),
        cmocka_unit_test(an_interrupted_bind_is_not_undone_before_the_function_recovers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
