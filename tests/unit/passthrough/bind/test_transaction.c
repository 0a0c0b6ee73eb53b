/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about transactions on a host without faults: plans, binding, unbinding, and refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "machine.h"

static void test_a_plan_lists_each_step(void **state)
{
    static const struct {
        uint32_t kind;
        const char *path, *value, *before;
    } expected[] = {
        {FACET_PASSTHROUGH_STEP_OVERRIDE, "/sys/bus/pci/devices/" GPU "/driver_override", "vfio-pci", ""},
        {FACET_PASSTHROUGH_STEP_UNBIND, "/sys/bus/pci/drivers/nvidia/unbind", GPU, "nvidia"},
        {FACET_PASSTHROUGH_STEP_PROBE, "/sys/bus/pci/drivers_probe", GPU, ""},
        {FACET_PASSTHROUGH_STEP_OVERRIDE, "/sys/bus/pci/devices/" SOUND "/driver_override", "vfio-pci", ""},
        {FACET_PASSTHROUGH_STEP_UNBIND, "/sys/bus/pci/drivers/snd_hda_intel/unbind", SOUND, "snd_hda_intel"},
        {FACET_PASSTHROUGH_STEP_PROBE, "/sys/bus/pci/drivers_probe", SOUND, ""},
        {FACET_PASSTHROUGH_STEP_POWER, "/sys/bus/pci/devices/" GPU "/power/control", "on", "auto"},
        {FACET_PASSTHROUGH_STEP_POWER, "/sys/bus/pci/devices/" SOUND "/power/control", "on", "auto"},
        {FACET_PASSTHROUGH_STEP_RESET, "/sys/bus/pci/devices/" GPU "/reset", "1", ""},
        {FACET_PASSTHROUGH_STEP_RESET, "/sys/bus/pci/devices/" SOUND "/reset", "1", ""},
    };
    struct model model;
    struct facet_passthrough_plan *plan = NULL;

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_plan(manager, GPU, FACET_PASSTHROUGH_RESET, &plan, NULL), FACET_OK);
    assert_int_equal(plan->verdict->answer, FACET_PASSTHROUGH_YES);
    assert_int_equal(plan->function_count, 2);
    assert_int_equal(plan->step_count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < plan->step_count; i++) {
        assert_int_equal(plan->steps[i].kind, expected[i].kind);
        assert_string_equal(plan->steps[i].path, expected[i].path);
        assert_string_equal(plan->steps[i].value, expected[i].value);
        assert_string_equal(plan->steps[i].before, expected[i].before);
    }
    assert_int_equal(model.writes, 0);
    assert_int_equal(machine_journals(&model), 0);
    facet_passthrough_plan_destroy(plan);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

static void test_bind_and_unbind_restore_the_machine(void **state)
{
    struct model model;
    REPORT(report);
    char text[32];

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_bind(manager, SOUND, &report, NULL), FACET_OK);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_DONE);
    assert_int_equal(report.note_count, 0);
    assert_true(machine_is(&model, BOUND_TO_VFIO));
    assert_int_equal(machine_journals(&model), 1);
    model_get(model.root, model_device(GPU, "reset"), text, sizeof text);
    assert_string_equal(text, "1");

    /* A second bind writes nothing. */
    model.writes = 0;
    assert_int_equal(machine_bind(manager, GPU, &report, NULL), FACET_OK);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_UNTOUCHED);
    assert_int_equal(model.writes, 0);

    assert_int_equal(machine_unbind(manager, SOUND, &report, NULL), FACET_OK);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_DONE);
    assert_true(machine_is(&model, BOUND_TO_HOST));
    assert_int_equal(machine_journals(&model), 0);
    assert_int_equal(machine_unbind(manager, SOUND, &report, NULL), FACET_NOT_FOUND);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

/* Each function returns to the driver that the journal names, by an override where needed, or to none. */
static void test_functions_return_to_the_drivers_of_the_journal(void **state)
{
    struct model model;
    REPORT(report);
    char before[256], text[256];

    machine_make(&model);
    model_folder(model.root, "sys/bus/pci/drivers/nouveau");
    model_unbind(&model, "nvidia", GPU);
    model_text(model.root, model_device(GPU, "driver_override"), "nouveau\n");
    model_probe(&model, GPU);
    model_unbind(&model, "snd_hda_intel", SOUND);
    model_text(model.root, model_device(SOUND, "power/control"), "on\n");
    machine_text(&model, before, sizeof before);
    assert_string_equal(before, "nouveau/nouveau/auto //on amdgpu//auto");

    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_bind(manager, GPU, &report, NULL), FACET_OK);
    assert_true(machine_is(&model, BOUND_TO_VFIO));
    assert_int_equal(machine_unbind(manager, GPU, &report, NULL), FACET_OK);
    machine_text(&model, text, sizeof text);
    assert_string_equal(text, before);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

/* A model for which the kernel has a variant driver gets the variant; every other model gets vfio-pci. */
static void test_variant_driver_is_chosen_for_its_model(void **state)
{
    struct model model;
    struct facet_passthrough_plan *plan = NULL;
    REPORT(report);
    struct facet_error error;

    machine_make(&model);
    model_text(model.root, "proc/sys/kernel/osrelease", "6.12.1-test\n");
    model_folder(model.root, "lib/modules/6.12.1-test");
    model_text(model.root, "lib/modules/6.12.1-test/modules.alias",
               "# Aliases\nalias pci:v000010DEd00002204sv*sd*bc*sc*i* nvidia\n"
               "alias vfio_pci:v*d*sv*sd*bc*sc*i* vfio_pci\n"
               "alias vfio_pci:v000010DEd00002204sv*sd*bc*sc*i* nvgrace_gpu_vfio_pci\n");
    model_text(model.root, model_device(GPU, "modalias"), "pci:v000010DEd00002204sv00001043sd00008888bc03sc00i00\n");
    model_text(model.root, model_device(SOUND, "modalias"), "pci:v000010DEd00001AEFsv00001043sd00008888bc04sc03i00\n");
    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_plan(manager, GPU, 0, &plan, NULL), FACET_OK);
    assert_int_equal(plan->steps[0].kind, FACET_PASSTHROUGH_STEP_LOAD);
    assert_string_equal(plan->steps[0].value, "nvgrace-gpu-vfio-pci");
    assert_int_equal(plan->steps[1].kind, FACET_PASSTHROUGH_STEP_OVERRIDE);
    /* Where the module cannot be loaded, nothing is changed. */
    assert_int_equal(facet_passthrough_bind(manager, plan, &report, &error), FACET_NOT_FOUND);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_UNDONE);
    assert_true(machine_is(&model, BOUND_TO_HOST));
    assert_int_equal(machine_journals(&model), 0);
    model_folder(model.root, "model/modules/nvgrace-gpu-vfio-pci");
    assert_int_equal(facet_passthrough_bind(manager, plan, &report, &error), FACET_OK);
    assert_true(machine_is(&model, "nvgrace-gpu-vfio-pci/nvgrace-gpu-vfio-pci/on vfio-pci/vfio-pci/on amdgpu//auto"));
    facet_passthrough_plan_destroy(plan);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

static void test_owner_of_the_config_gets_the_vfio_node(void **state)
{
    struct model model;
    struct facet_passthrough *manager = NULL;
    REPORT(report);
    struct stat status;

    if (geteuid() != 0)
        skip();
    machine_make(&model);
    struct facet_passthrough_config config = {
        .size = sizeof config, .has_owner = 1, .uid = 1234, .gid = 77, .root = model.root, .state = model.state};
    assert_int_equal(bind_open(&config, &model_ops, &model, &manager, NULL), FACET_OK);
    assert_int_equal(machine_bind(manager, GPU, &report, NULL), FACET_OK);
    assert_int_equal(fstatat(model.root, "dev/vfio/17", &status, 0), 0);
    assert_int_equal(status.st_uid, 1234);
    assert_int_equal(status.st_gid, 77);
    model.writes = 0;
    assert_int_equal(machine_bind(manager, GPU, &report, NULL), FACET_OK);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_UNTOUCHED);
    assert_int_equal(machine_unbind(manager, GPU, &report, NULL), FACET_OK);
    assert_false(model_has(&model, "dev/vfio/17"));
    facet_passthrough_close(manager);
    machine_drop(&model);
}

/* ---- refusals ---- */

static void test_a_bind_against_the_verdict_is_refused(void **state)
{
    struct model model;
    REPORT(report);
    struct facet_error error;

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    model_folder(model.root, "proc/4711/fd");
    model_text(model.root, "proc/4711/comm", "Xorg\n");
    model_folder(model.root, model_device(GPU, "drm/card0"));
    model_text(model.root, model_device(GPU, "drm/card0/dev"), "226:0\n");
    model_text(model.root, model_device(GPU, "drm/card0/uevent"), "DEVNAME=dri/card0\n");
    assert_int_equal(symlinkat("/dev/dri/card0", model.root, "proc/4711/fd/3"), 0);
    assert_int_equal(machine_bind(manager, GPU, &report, &error), FACET_BAD_STATE);
    assert_non_null(strstr(error.message, "4711 (Xorg)"));
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_UNTOUCHED);
    assert_int_equal(model.writes, 0);
    assert_int_equal(machine_journals(&model), 0);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

static void test_refuses_to_unbind_a_function_that_a_machine_has_open(void **state)
{
    struct model model;
    REPORT(report);
    struct facet_error error;

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_bind(manager, GPU, &report, NULL), FACET_OK);
    model_folder(model.root, "proc/4711/fd");
    model_text(model.root, "proc/4711/comm", "qemu\n");
    assert_int_equal(symlinkat("/dev/vfio/17", model.root, "proc/4711/fd/3"), 0);
    model.writes = 0;
    assert_int_equal(machine_unbind(manager, GPU, &report, &error), FACET_BUSY);
    assert_non_null(strstr(error.message, "4711 (qemu)"));
    /* Binding the function again succeeds. */
    assert_int_equal(machine_bind(manager, GPU, &report, &error), FACET_OK);
    assert_int_equal(model.writes, 0);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

/* Each of these changes the machine after the caller's snapshot. */
static void change_card(struct model *model)
{
    model_text(model->root, model_device(GPU, "device"), "0x2206\n");
}

static void change_driver(struct model *model)
{
    model_unbind(model, "nvidia", GPU);
}

static void add_function_to_group(struct model *model)
{
    const struct function late = {"0000:01:00.2", "0x10de\n", "0x1ad6\n", "0x0c0330\n", "xhci_hcd", 17};

    machine_add(model, &late);
}

static void change_group_number(struct model *model)
{
    unlinkat(model->root, model_device(SOUND, "iommu_group"), 0);
    if (symlinkat("../../../../kernel/iommu_groups/19", model->root, model_device(SOUND, "iommu_group")) < 0)
        abort();
}

static void remove_function(struct model *model)
{
    machine_remove(model, SOUND);
}

static void test_refuses_a_plan_whose_function_changed(void **state)
{
    void (*const changes[])(struct model * model) = {change_card, change_driver, add_function_to_group,
                                                     change_group_number, remove_function};

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct model model;
        struct facet_passthrough_plan *plan = NULL;
        REPORT(report);
        struct facet_error error;

        machine_make(&model);
        struct facet_passthrough *manager = machine_open(&model);
        assert_int_equal(machine_plan(manager, GPU, 0, &plan, NULL), FACET_OK);
        changes[i](&model);
        model.writes = 0;
        assert_int_equal(facet_passthrough_bind(manager, plan, &report, &error), FACET_BAD_STATE);
        assert_non_null(strstr(error.message, "plan anew"));
        assert_int_equal(model.writes, 0);
        assert_int_equal(machine_journals(&model), 0);
        facet_passthrough_plan_destroy(plan);
        facet_passthrough_close(manager);
        machine_drop(&model);
    }
}

/* Of two plans for one group, the second one finds that all is done. */
static void test_second_plan_finds_the_work_done(void **state)
{
    struct model model;
    struct facet_passthrough_plan *first = NULL, *second = NULL;
    REPORT(report);

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_plan(manager, GPU, 0, &first, NULL), FACET_OK);
    assert_int_equal(machine_plan(manager, SOUND, 0, &second, NULL), FACET_OK);
    assert_int_equal(facet_passthrough_bind(manager, first, &report, NULL), FACET_OK);
    assert_int_equal(facet_passthrough_bind(manager, second, &report, NULL), FACET_OK);
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_UNTOUCHED);
    facet_passthrough_plan_destroy(first);
    facet_passthrough_plan_destroy(second);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

static void test_second_transaction_is_refused(void **state)
{
    struct model model;
    REPORT(report);
    struct facet_error error;
    int fd = -1;

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    struct bind_host host = {.ops = &bind_host_real, .root = model.root, .state = model.state};
    assert_int_equal(bind_host_real.lock(&host, "group-17.lock", 0, &fd), 0);
    assert_int_equal(machine_bind(manager, GPU, &report, &error), FACET_BUSY);
    assert_int_equal(model.writes, 0);
    assert_int_equal(machine_bind(manager, SECOND, &report, &error), FACET_OK);
    close(fd);
    assert_int_equal(machine_bind(manager, GPU, &report, &error), FACET_OK);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

/* The configuration space of the sound function reads as ones once the power control is written. */
static void stop_answering(struct model *model, const char *what)
{
    if (strstr(what, "power/control"))
        model_text(model->root, model_device(SOUND, "config"), "\377\377\377\377");
}

static void test_unanswering_function_undoes_the_bind(void **state)
{
    struct model model;
    REPORT(report);
    struct facet_error error;

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    model.before = stop_answering;
    assert_int_equal(machine_bind(manager, GPU, &report, &error), FACET_DEVICE_LOST);
    assert_non_null(strstr(error.message, SOUND));
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_UNDONE);
    assert_true(machine_is(&model, BOUND_TO_HOST));
    assert_int_equal(machine_journals(&model), 0);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

/* A function that is pulled out during the bind cannot return; the other function of its group does. */
static void pull_out(struct model *model, const char *what)
{
    if (strstr(what, "snd_hda_intel/unbind"))
        machine_remove(model, SOUND);
}

static void test_pulled_out_function_undoes_the_bind(void **state)
{
    struct model model;
    REPORT(report);
    struct facet_error error;

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    model.before = pull_out;
    assert_int_equal(machine_bind(manager, GPU, &report, &error), FACET_DEVICE_LOST);
    assert_non_null(strstr(error.message, SOUND));
    assert_int_equal(report.outcome, FACET_PASSTHROUGH_UNDONE);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_GONE));
    assert_true(machine_is(&model, "nvidia//auto // amdgpu//auto"));
    assert_int_equal(machine_journals(&model), 0);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

/* Another card at the address of one that was bound must not be written to. */
static void test_exchanged_card_is_not_written_to(void **state)
{
    struct model model;
    REPORT(report);

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_bind(manager, GPU, &report, NULL), FACET_OK);
    model_text(model.root, model_device(SOUND, "device"), "0x9999\n");
    assert_int_equal(facet_passthrough_recover(manager, &report, NULL), FACET_OK);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_DRIFT));
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_ADOPTED));
    assert_int_equal(machine_unbind(manager, GPU, &report, NULL), FACET_OK);
    assert_true(machine_is(&model, "nvidia//auto vfio-pci/vfio-pci/on amdgpu//auto"));
    facet_passthrough_close(manager);
    machine_drop(&model);
}

/* ---- looking ---- */

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

static void test_bound_groups_are_listed(void **state)
{
    struct model model;
    struct facet_passthrough_list *list = NULL;
    REPORT(report);

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    assert_int_equal(machine_bind(manager, GPU, NULL, NULL), FACET_OK);
    assert_int_equal(facet_passthrough_look(manager, &list, &report, NULL), FACET_OK);
    assert_int_equal(report.note_count, 0);
    assert_int_equal(list->count, 4);
    assert_int_equal(find_entry(list, GPU)->state, FACET_PASSTHROUGH_STATE_READY);
    assert_string_equal(find_entry(list, GPU)->old_driver, "nvidia");
    assert_string_equal(find_entry(list, GPU)->node, "/dev/vfio/17");
    assert_int_equal(find_entry(list, SECOND)->state, FACET_PASSTHROUGH_STATE_HOST);
    assert_false(find_entry(list, SECOND)->is_ours);
    facet_passthrough_list_destroy(list);

    /* Another program returns the sound to the host, and the card is pulled. */
    model_unbind(&model, "vfio-pci", SOUND);
    model_text(model.root, model_device(SOUND, "driver_override"), "(null)\n");
    model_probe(&model, SOUND);
    assert_int_equal(facet_passthrough_look(manager, &list, &report, NULL), FACET_OK);
    assert_true(machine_has_note(&report, FACET_PASSTHROUGH_NOTE_HALF_BOUND));
    facet_passthrough_list_destroy(list);
    machine_remove(&model, GPU);
    assert_int_equal(facet_passthrough_look(manager, &list, &report, NULL), FACET_OK);
    assert_int_equal(find_entry(list, GPU)->state, FACET_PASSTHROUGH_STATE_ABSENT);
    facet_passthrough_list_destroy(list);
    facet_passthrough_close(manager);
    machine_drop(&model);
}

static void test_wrong_arguments_are_refused(void **state)
{
    struct facet_passthrough_config config = {.size = sizeof config, .root = -1};
    struct facet_passthrough *manager = NULL;
    struct facet_error error;

    assert_int_equal(facet_passthrough_open(NULL, &manager, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_passthrough_open(&config, &manager, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "config->root");
    config.size = 4;
    assert_int_equal(facet_passthrough_open(&config, &manager, &error), FACET_INVALID_ARGUMENT);
    assert_null(manager);
    facet_passthrough_close(NULL);
    facet_passthrough_plan_destroy(NULL);
    facet_passthrough_list_destroy(NULL);
    assert_int_equal(facet_passthrough_bind(NULL, NULL, NULL, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_passthrough_recover(NULL, NULL, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_passthrough_look(NULL, NULL, NULL, &error), FACET_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_lists_each_step),
        cmocka_unit_test(test_bind_and_unbind_restore_the_machine),
        cmocka_unit_test(test_functions_return_to_the_drivers_of_the_journal),
        cmocka_unit_test(test_variant_driver_is_chosen_for_its_model),
        cmocka_unit_test(test_owner_of_the_config_gets_the_vfio_node),
        cmocka_unit_test(test_a_bind_against_the_verdict_is_refused),
        cmocka_unit_test(test_refuses_to_unbind_a_function_that_a_machine_has_open),
        cmocka_unit_test(test_refuses_a_plan_whose_function_changed),
        cmocka_unit_test(test_second_plan_finds_the_work_done),
        cmocka_unit_test(test_second_transaction_is_refused),
        cmocka_unit_test(test_unanswering_function_undoes_the_bind),
        cmocka_unit_test(test_pulled_out_function_undoes_the_bind),
        cmocka_unit_test(test_exchanged_card_is_not_written_to),
        cmocka_unit_test(test_bound_groups_are_listed),
        cmocka_unit_test(test_wrong_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
