/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of FACET_SIM_VISIBLE_DEVICES: a process sees the devices, and uses the partitions, that the list names.
 */
#include "sim_core_fixture.h"
#include "state.h"

static struct facet_device_info devices[16];

static uint32_t list_devices(struct facet_provider_instance *instance)
{
    uint32_t count = 0;

    assert_int_equal(sim_device_ops.list(instance, devices, sizeof *devices, 16, &count, NULL), FACET_OK);
    return count;
}

/* Opens with the variable set for this call only. */
static enum facet_status open_visible(const char *profile, const char *folder, const char *visible,
                                      struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    enum facet_status status;

    setenv("FACET_SIM_VISIBLE_DEVICES", visible, 1);
    status = try_open(profile, folder, NULL, ret_instance, error);
    unsetenv("FACET_SIM_VISIBLE_DEVICES");
    return status;
}

static struct facet_provider_instance *must_open(const char *profile, const char *folder, const char *visible)
{
    struct facet_provider_instance *instance = NULL;
    struct facet_error error = {0};

    if (open_visible(profile, folder, visible, &instance, &error) != FACET_OK)
        fail_msg("%s: %s", visible, error.message);
    return instance;
}

static void only_named_devices_are_listed(void **state)
{
    struct facet_provider_instance *whole = open_machine("h200x8", NULL, NULL), *restricted;
    char uuids[2][64], visible[160];
    uint32_t health;

    assert_int_equal(list_devices(whole), 8);
    memcpy(uuids[0], devices[2].uuid, sizeof uuids[0]);
    memcpy(uuids[1], devices[5].uuid, sizeof uuids[1]);
    sim_device_ops.close(whole);
    snprintf(visible, sizeof visible, "%s,%s", uuids[1], uuids[0]);
    restricted = must_open("h200x8", NULL, visible);
    assert_int_equal(list_devices(restricted), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(devices[i].uuid, uuids[i]); /* in the order of the machine */
        assert_int_equal(devices[i].index, i);
        assert_int_equal(sim_device_ops.health(restricted, i, &health, NULL), FACET_OK);
    }
    assert_refused(sim_device_ops.health(restricted, 2, &health, &error), FACET_NOT_FOUND, "device 2");
    sim_device_ops.close(restricted);
}

static void the_topology_has_only_visible_devices(void **state)
{
    struct facet_provider_instance *whole = open_machine("h200x8", NULL, NULL), *restricted;
    static struct facet_topology_node nodes[256];
    static struct facet_topology_link links[4096];
    uint32_t all_nodes = 0, node_count = 0, link_count = 0, ends = 0;

    assert_int_equal(list_devices(whole), 8);
    assert_int_equal(sim_device_ops.nodes(whole, nodes, sizeof *nodes, 256, &all_nodes, NULL), FACET_OK);
    sim_device_ops.close(whole);
    restricted = must_open("h200x8", NULL, devices[6].uuid);
    assert_int_equal(sim_device_ops.nodes(restricted, nodes, sizeof *nodes, 256, &node_count, NULL), FACET_OK);
    assert_int_equal(node_count, all_nodes - 7);
    for (uint32_t i = 0; i < node_count; i++) {
        assert_int_equal(nodes[i].index, i);
        assert_int_equal((nodes[i].valid & FACET_NODE_HAS_DEVICE) != 0, i == 0);
    }
    assert_string_equal(nodes[0].uuid, devices[6].uuid);
    assert_int_equal(nodes[0].device, 0);
    assert_int_equal(sim_device_ops.links(restricted, links, sizeof *links, 4096, &link_count, NULL), FACET_OK);
    for (uint32_t i = 0; i < link_count; i++) {
        assert_true(links[i].a < links[i].b && links[i].b < node_count);
        ends += links[i].a == 0;
    }
    assert_true(ends > 0); /* links remain */
    sim_device_ops.close(restricted);
}

/*
 * For one process device 6 of the machine is number 0, for the other it is number 6. Each sees the partitions that the
 * other makes on this device, and keeps the state of devices that it does not see.
 */
static void processes_with_other_numbers_share_the_state(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *whole = open_machine("h200x8", folder, NULL), *restricted;
    struct facet_partition_info first, second, infos[64];
    struct facet_worker_limit limit = {.size = sizeof limit};
    struct facet_event events[256];
    uint32_t count = 0;

    assert_int_equal(list_devices(whole), 8);
    assert_int_equal(create_partition(whole, 0, "1g.18gb", 0, &first, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.set_memory(whole, 3, "anna", 1 << 20, NULL), FACET_OK);
    restricted = must_open("h200x8", folder, devices[6].uuid);
    assert_int_equal(list_partitions(restricted, 0, infos), 0);
    assert_int_equal(list_events(restricted, 0, events), 0); /* none of the devices that it does not see */
    assert_int_equal(sim_limit_ops.list(restricted, 0, &limit, sizeof limit, 1, &count, NULL), FACET_OK);
    assert_int_equal(count, 0);
    assert_int_equal(create_partition(restricted, 0, "2g.35gb", 2, &second, NULL), FACET_OK);
    assert_int_equal(list_partitions(whole, 6, infos), 1);
    assert_string_equal(infos[0].uuid, second.uuid);
    assert_int_equal(list_partitions(whole, 0, infos), 1);
    assert_string_equal(infos[0].uuid, first.uuid);
    assert_int_equal(sim_limit_ops.get(whole, 3, "anna", &limit, NULL), FACET_OK);
    sim_device_ops.close(restricted);
    sim_device_ops.close(whole);
    remove_folder(folder);
}

static void only_named_partitions_of_a_device_are_used(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *whole = open_machine("h200x8", folder, NULL), *restricted;
    struct facet_partition_info mine, other;
    struct sim_share share;

    assert_int_equal(list_devices(whole), 8);
    assert_int_equal(create_partition(whole, 4, "1g.18gb", 0, &mine, NULL), FACET_OK);
    assert_int_equal(create_partition(whole, 4, "1g.18gb", 1, &other, NULL), FACET_OK);
    restricted = must_open("h200x8", folder, mine.uuid);
    assert_int_equal(list_devices(restricted), 1);
    assert_int_equal(sim_share_of(restricted, 0, mine.uuid, "anna", &share, NULL), FACET_OK);
    assert_string_equal(share.partition_uuid, mine.uuid);
    assert_refused(sim_share_of(restricted, 0, other.uuid, "anna", &share, &error), FACET_NOT_FOUND, other.uuid);
    assert_refused(sim_share_of(restricted, 0, NULL, "anna", &share, &error), FACET_NOT_FOUND, "as a whole");
    /* Using the whole device is refused also when no partition is left on it. */
    assert_int_equal(sim_partition_ops.destroy(whole, 4, mine.uuid, NULL), FACET_OK);
    assert_int_equal(sim_partition_ops.destroy(whole, 4, other.uuid, NULL), FACET_OK);
    assert_refused(sim_share_of(restricted, 0, NULL, "anna", &share, &error), FACET_NOT_FOUND, "as a whole");
    sim_device_ops.close(restricted);
    sim_device_ops.close(whole);
    remove_folder(folder);
}

/* In the wrong lists %s is the uuid of a device, and %.30s its first 30 characters. */
static void unknown_names_are_refused(void **state)
{
    struct facet_provider_instance *whole = open_machine("h200x8", NULL, NULL), *restricted = NULL;
    const char *const wrong[] = {"nobody", ",", "nobody,%s", "%s,", ",%s", "%s,nobody", "%.30s", "%s0"};
    char visible[160];

    assert_int_equal(list_devices(whole), 8);
    sim_device_ops.close(whole);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *mark = strchr(wrong[i], '%');
        int before = mark ? (int)(mark - wrong[i]) : (int)strlen(wrong[i]);
        const char *after = mark ? strchr(mark, 's') + 1 : "";

        snprintf(visible, sizeof visible, "%.*s%.*s%s", before, wrong[i],
                 !mark            ? 0
                 : mark[1] == '.' ? 30
                                  : 63,
                 devices[1].uuid, after);
        assert_refused(open_visible("h200x8", NULL, visible, &restricted, &error), FACET_NOT_FOUND,
                       "FACET_SIM_VISIBLE_DEVICES");
        assert_null(restricted);
    }
}

/* The variables given to a container are those that a provider inside it reads. */
static void containers_are_given_the_variables_that_providers_read(void **state)
{
    struct facet_provider_instance *whole = open_machine("h200x8", NULL, NULL), *inside;
    static struct facet_container_item items[16];
    const char *visible = NULL;
    char uuid[64];
    uint32_t count = 0;

    assert_int_equal(list_devices(whole), 8);
    memcpy(uuid, devices[7].uuid, sizeof uuid);
    assert_int_equal(sim_container_ops.items(whole, 7, NULL, items, sizeof *items, 16, &count, NULL), FACET_OK);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(items[i].guest, "FACET_SIM_VISIBLE_DEVICES") == 0)
            visible = items[i].host;
    assert_non_null(visible);
    inside = must_open("h200x8", NULL, visible);
    assert_int_equal(list_devices(inside), 1);
    assert_string_equal(devices[0].uuid, uuid);
    sim_device_ops.close(inside);
    sim_device_ops.close(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_named_devices_are_listed),
        cmocka_unit_test(the_topology_has_only_visible_devices),
        cmocka_unit_test(processes_with_other_numbers_share_the_state),
        cmocka_unit_test(only_named_partitions_of_a_device_are_used),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(containers_are_given_the_variables_that_providers_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
