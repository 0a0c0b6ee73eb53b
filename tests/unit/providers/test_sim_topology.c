/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the nodes and links of the shipped machines. */
#include "sim_core_fixture.h"

#define LINKS_MAX 512

static struct facet_topology_node nodes[256];
static struct facet_topology_link links[LINKS_MAX];
static uint32_t node_count, link_count;

static struct facet_provider_instance *read_topology(const char *profile)
{
    struct facet_provider_instance *instance = open_machine(profile, NULL, NULL);

    assert_int_equal(sim_device_ops.nodes(instance, nodes, sizeof *nodes, 256, &node_count, NULL), FACET_OK);
    assert_int_equal(sim_device_ops.links(instance, links, sizeof *links, LINKS_MAX, &link_count, NULL), FACET_OK);
    return instance;
}

static const struct facet_topology_link *link_between(const char *one, const char *other)
{
    for (uint32_t i = 0; i < link_count; i++) {
        const char *a = nodes[links[i].a].name, *b = nodes[links[i].b].name;

        if ((strcmp(a, one) == 0 && strcmp(b, other) == 0) || (strcmp(a, other) == 0 && strcmp(b, one) == 0))
            return &links[i];
    }
    return NULL;
}

static void every_machine_has_valid_links(void **state)
{
    static const char *const profiles[] = {"a100-40gb", "ascend910b", "dual-socket", "h100",
                                           "h200",      "h200x8",     "mi300x"};

    for (unsigned p = 0; p < sizeof profiles / sizeof profiles[0]; p++) {
        struct facet_provider_instance *instance = read_topology(profiles[p]);
        bool joined[256][256] = {{false}};
        uint32_t devices = 0;

        for (uint32_t i = 0; i < node_count; i++) {
            assert_int_equal(nodes[i].index, i);
            if (nodes[i].kind != FACET_NODE_DEVICE)
                continue;
            assert_int_equal(nodes[i].device, devices++);
            assert_string_equal(nodes[i].uuid, sim_device_info(instance, nodes[i].device)->uuid);
        }
        for (uint32_t i = 0; i < link_count; i++) {
            assert_true(links[i].a < links[i].b && links[i].b < node_count);
            assert_false(joined[links[i].a][links[i].b]); /* each pair has one link */
            joined[links[i].a][links[i].b] = true;
            assert_true(links[i].lanes >= 1 && links[i].up == 1);
            assert_int_not_equal(links[i].type, FACET_LINK_UNKNOWN);
            assert_int_not_equal(links[i].level, FACET_LEVEL_UNKNOWN);
            if (links[i].level == FACET_LEVEL_SYSTEM)
                assert_int_not_equal(nodes[links[i].a].numa_node, nodes[links[i].b].numa_node);
        }
        sim_device_ops.close(instance);
    }
}

static void nvlink_joins_all_eight_devices(void **state)
{
    struct facet_provider_instance *instance = read_topology("h200x8");

    for (uint32_t a = 0; a < 8; a++) {
        for (uint32_t b = a + 1; b < 8; b++) {
            const struct facet_topology_link *link = link_between(nodes[a].name, nodes[b].name);

            assert_non_null(link);
            assert_int_equal(link->type, FACET_LINK_NVLINK);
            assert_int_equal(link->lanes, 18);
            assert_int_equal(link->bandwidth_mbps, 18 * 25000);
        }
    }
    /* The links to the four switches together have the bandwidth between two devices. */
    uint64_t bandwidth = 0;
    for (unsigned i = 0; i < 4; i++) {
        char name[16];

        snprintf(name, sizeof name, "NVSwitch %u", i);
        bandwidth += link_between("device5", name)->bandwidth_mbps;
    }
    assert_int_equal(bandwidth, 450000);
    /* Every NIC has a device nearest to it, and the other socket is farthest. */
    assert_int_equal(link_between("device4", "mlx5_6")->level, FACET_LEVEL_MULTI_SWITCH);
    assert_int_equal(link_between("device4", "mlx5_9")->level, FACET_LEVEL_NUMA_NODE);
    assert_int_equal(link_between("device4", "mlx5_0")->level, FACET_LEVEL_SYSTEM);
    assert_int_equal(link_between("socket 0", "socket 1")->type, FACET_LINK_SOCKET);
    /* Every device, NIC and socket has a link to every other, and devices have links to the switches. */
    assert_int_equal(link_count, 18 * 17 / 2 + 8 * 4);
    sim_device_ops.close(instance);
}

static void devices_are_near_one_of_two_sockets(void **state)
{
    struct facet_provider_instance *instance = read_topology("dual-socket");

    assert_int_equal(link_between("device0", "device1")->level, FACET_LEVEL_SINGLE_SWITCH);
    assert_int_equal(link_between("device0", "mlx5_1")->level, FACET_LEVEL_SINGLE_SWITCH);
    assert_int_equal(link_between("device0", "device2")->level, FACET_LEVEL_SYSTEM);
    assert_int_equal(link_between("device0", "device2")->type, FACET_LINK_SOCKET);
    assert_true(link_between("device0", "device2")->latency_ns > link_between("device0", "device1")->latency_ns);
    assert_int_equal(link_between("device3", "socket 1")->level, FACET_LEVEL_HOST_BRIDGE);
    sim_device_ops.close(instance);
}

static void hccs_is_a_full_mesh(void **state)
{
    struct facet_provider_instance *instance = read_topology("ascend910b");
    unsigned meshed = 0;

    for (uint32_t i = 0; i < link_count; i++)
        meshed += links[i].type == FACET_LINK_HCCS;
    assert_int_equal(meshed, 8 * 7 / 2);
    assert_int_equal(sim_device_info(instance, 0)->kind, FACET_DEVICE_NPU);
    sim_device_ops.close(instance);
}

static void lists_are_never_cut(void **state)
{
    struct facet_provider_instance *instance = read_topology("h200x8");
    uint32_t count = 0;

    assert_int_equal(sim_device_ops.links(instance, links, sizeof *links, link_count - 1, &count, NULL),
                     FACET_TOO_SMALL);
    assert_int_equal(count, link_count);
    assert_int_equal(sim_device_ops.nodes(instance, NULL, sizeof *nodes, 0, &count, NULL), FACET_TOO_SMALL);
    assert_int_equal(count, 8 + 8 + 4 + 2); /* devices, NICs, switches and sockets */
    assert_refused(sim_device_ops.nodes(instance, nodes, 2, 256, &count, &error), FACET_INVALID_ARGUMENT, "item_size");
    assert_refused(sim_device_ops.links(instance, links, sizeof *links, LINKS_MAX, NULL, &error),
                   FACET_INVALID_ARGUMENT, "ret_count");
    sim_device_ops.close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_machine_has_valid_links),
        cmocka_unit_test(nvlink_joins_all_eight_devices),
        cmocka_unit_test(devices_are_near_one_of_two_sockets),
        cmocka_unit_test(hccs_is_a_full_mesh),
        cmocka_unit_test(lists_are_never_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
