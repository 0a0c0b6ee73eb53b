/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a rule binds the card that it was made for, and no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <facet/passthrough_rules.h>

#include "machine.h"

struct world {
    struct model model;
    struct facet_passthrough *manager;
    int directory;
};

static int setup(void **state)
{
    struct world *world = calloc(1, sizeof *world);

    assert_non_null(world);
    machine_make(&world->model);
    model_folder(world->model.root, "rules");
    world->directory = openat(world->model.root, "rules", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    world->manager = machine_open(&world->model);
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;

    facet_passthrough_close(world->manager);
    close(world->directory);
    machine_drop(&world->model);
    free(world);
    return 0;
}

static enum facet_status write_rule(const struct world *world, const char *address, struct facet_error *error)
{
    struct facet_passthrough_rule settings = {.size = sizeof settings, .wish_flags = FACET_PASSTHROUGH_WHOLE_GROUP};
    struct facet_passthrough_plan *plan = NULL;

    assert_int_equal(machine_plan(world->manager, address, 0, &plan, NULL), FACET_OK);
    enum facet_status status = facet_passthrough_rule_write(world->directory, plan, &settings, error);
    facet_passthrough_plan_destroy(plan);
    return status;
}

static struct facet_passthrough_rule_finding apply_first(const struct world *world)
{
    struct facet_passthrough_rules *rules = NULL;
    struct facet_passthrough_rule_finding check = {.state = 99};
    REPORT(report);

    assert_int_equal(facet_passthrough_rules_read(world->directory, &rules, NULL), FACET_OK);
    assert_int_equal(rules->count, 1);
    assert_int_equal(facet_passthrough_rule_apply(world->manager, &rules->rules[0], &report, &check, NULL), FACET_OK);
    facet_passthrough_rules_destroy(rules);
    return check;
}

static void test_a_rule_is_applied_once(void **state)
{
    struct world *world = *state;
    struct facet_passthrough_rules *rules = NULL;

    assert_int_equal(write_rule(world, SOUND, NULL), FACET_OK);
    assert_int_equal(facet_passthrough_rules_read(world->directory, &rules, NULL), FACET_OK);
    assert_int_equal(rules->count, 1);
    assert_string_equal(rules->rules[0].name, GPU ".json");
    assert_int_equal(rules->rules[0].function_count, 2);
    facet_passthrough_rules_destroy(rules);
    assert_true(machine_is(&world->model, BOUND_TO_HOST));

    assert_int_equal(apply_first(world).state, FACET_PASSTHROUGH_RULE_MET);
    assert_true(machine_is(&world->model, BOUND_TO_VFIO));
    world->model.writes = 0;
    assert_int_equal(apply_first(world).state, FACET_PASSTHROUGH_RULE_MET);
    assert_int_equal(world->model.writes, 0);
}

/* ---- drift ---- */

static void change_model(struct world *world)
{
    model_text(world->model.root, model_device(SOUND, "device"), "0x1aee\n");
}

static void change_subsystem(struct world *world)
{
    model_text(world->model.root, model_device(GPU, "subsystem_device"), "0x8889\n");
}

static void remove_function(struct world *world)
{
    machine_remove(&world->model, GPU);
}

static void add_function_to_group(struct world *world)
{
    const struct function late = {"0000:01:00.2", "0x10de\n", "0x1ad6\n", "0x0c0330\n", "xhci_hcd", 17};

    machine_add(&world->model, &late);
}

static void test_changed_device_is_not_bound(void **state)
{
    void (*const changes[])(struct world * world) = {change_model, change_subsystem, remove_function,
                                                     add_function_to_group};

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        void *inside = NULL;
        setup(&inside);
        struct world *world = inside;

        assert_int_equal(write_rule(world, GPU, NULL), FACET_OK);
        changes[i](world);
        world->model.writes = 0;
        struct facet_passthrough_rule_finding check = apply_first(world);
        assert_int_equal(check.state, FACET_PASSTHROUGH_RULE_DRIFT);
        assert_true(check.text[0]);
        assert_int_equal(world->model.writes, 0);
        assert_int_equal(machine_journals(&world->model), 0);
        teardown(&inside);
    }
}

static void plant_rule(const struct world *world, const char *name, const char *more)
{
    char text[400];

    snprintf(text, sizeof text,
             "{\"version\":1,\"functions\":[{\"address\":\"" SECOND "\",\"model\":\"1002:74a1:1043:8888\"%s}]}", more);
    model_text(world->directory, name, text);
}

/* A value that the rule has and the host does not report is no match. */
static void test_serial_and_slot_must_match(void **state)
{
    struct world *world = *state;

    plant_rule(world, "a.json", ",\"serial\":\"00-00-00-00-00-00-00-01\"");
    struct facet_passthrough_rule_finding check = apply_first(world);
    assert_int_equal(check.state, FACET_PASSTHROUGH_RULE_DRIFT);
    assert_non_null(strstr(check.text, "cannot be read"));
    plant_rule(world, "a.json", ",\"slot\":\"4\"");
    assert_int_equal(apply_first(world).state, FACET_PASSTHROUGH_RULE_DRIFT);
    model_folder(world->model.root, "sys/bus/pci/slots/5");
    model_text(world->model.root, "sys/bus/pci/slots/5/address", "0000:02:00\n");
    check = apply_first(world);
    assert_int_equal(check.state, FACET_PASSTHROUGH_RULE_DRIFT);
    assert_non_null(strstr(check.text, "another card"));
    plant_rule(world, "a.json", ",\"slot\":\"5\"");
    assert_int_equal(apply_first(world).state, FACET_PASSTHROUGH_RULE_MET);
}

static void test_refused_rule_is_reported(void **state)
{
    struct world *world = *state;

    assert_int_equal(write_rule(world, GPU, NULL), FACET_OK);
    model_folder(world->model.root, "proc/4711/fd");
    model_text(world->model.root, "proc/4711/comm", "Xorg\n");
    model_folder(world->model.root, model_device(GPU, "drm/card0"));
    model_text(world->model.root, model_device(GPU, "drm/card0/dev"), "226:0\n");
    model_text(world->model.root, model_device(GPU, "drm/card0/uevent"), "DEVNAME=dri/card0\n");
    assert_int_equal(symlinkat("/dev/dri/card0", world->model.root, "proc/4711/fd/3"), 0);
    world->model.writes = 0;
    struct facet_passthrough_rule_finding check = apply_first(world);
    assert_int_equal(check.state, FACET_PASSTHROUGH_RULE_REFUSED);
    assert_non_null(strstr(check.text, "Xorg"));
    assert_int_equal(world->model.writes, 0);
}

/* ---- files ---- */

static void test_rule_files_are_written_and_removed(void **state)
{
    struct world *world = *state;
    struct facet_passthrough_rules *rules = NULL;
    struct facet_pci_address address;
    struct facet_error error;

    assert_int_equal(write_rule(world, GPU, NULL), FACET_OK);
    assert_int_equal(write_rule(world, GPU, NULL), FACET_OK); /* written again */
    plant_rule(world, "b.json", "");
    assert_int_equal(write_rule(world, SECOND, &error), FACET_ALREADY_EXISTS);
    assert_non_null(strstr(error.message, "b.json"));
    model_text(world->directory, "c.json", "{ damaged");
    model_text(world->directory, "notes.txt", "");
    assert_int_equal(facet_passthrough_rules_read(world->directory, &rules, NULL), FACET_OK);
    assert_int_equal(rules->count, 3);
    assert_int_equal(rules->rules[2].function_count, 0);
    assert_int_equal(rules->rules[2].failure.status, FACET_CORRUPT);
    struct facet_passthrough_rule_finding check;
    assert_int_equal(facet_passthrough_rule_check(world->manager, &rules->rules[2], &check, NULL, NULL), FACET_OK);
    assert_int_equal(check.state, FACET_PASSTHROUGH_RULE_DAMAGED);
    facet_passthrough_rules_destroy(rules);

    facet_pci_address_parse(SOUND, &address, NULL);
    assert_int_equal(facet_passthrough_rule_remove(world->directory, &address, NULL), FACET_OK);
    assert_int_equal(facet_passthrough_rule_remove(world->directory, &address, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_passthrough_rules_read(-1, &rules, NULL), FACET_OK);
    assert_int_equal(rules->count, 0);
    facet_passthrough_rules_destroy(rules);
    facet_passthrough_rules_destroy(NULL);
    assert_string_equal(facet_passthrough_rule_state_name(FACET_PASSTHROUGH_RULE_DRIFT), "drift");
    assert_null(facet_passthrough_rule_state_name(FACET_PASSTHROUGH_RULE_STATES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_rule_is_applied_once, setup, teardown),
        cmocka_unit_test(test_changed_device_is_not_bound),
        cmocka_unit_test_setup_teardown(test_serial_and_slot_must_match, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_rule_is_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rule_files_are_written_and_removed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
