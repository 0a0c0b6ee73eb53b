/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the ascend provider's descriptions of whole, broken, old and misreported nodes. Never: uses a device. */
#include <sys/stat.h>
#include <unistd.h>

#include "ascend_node.h"

#define ALL_OF_A_NEW_NODE                                                                                              \
    (FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE | FACET_CAN_DEVICE_METRICS | FACET_CAN_PROCESS_METRICS |         \
     FACET_CAN_TOPOLOGY | FACET_CAN_EVENTS | FACET_CAN_CONTAINER | FACET_CAN_MEMORY)
#define ALL_FIELDS                                                                                                     \
    (FACET_DEVICE_HAS_MEMORY | FACET_DEVICE_HAS_COMPUTE_UNITS | FACET_DEVICE_HAS_CLOCK | FACET_DEVICE_HAS_PCI)
#define ALL_METRICS                                                                                                    \
    (FACET_METRIC_POWER | FACET_METRIC_TEMPERATURE | FACET_METRIC_CLOCK | FACET_METRIC_MEMORY_USED |                   \
     FACET_METRIC_COMPUTE_ACTIVE | FACET_METRIC_TENSOR_ACTIVE | FACET_METRIC_MEMORY_ACTIVE |                           \
     FACET_METRIC_ECC_CORRECTED | FACET_METRIC_ECC_UNCORRECTED)

static struct facet_device_info infos[MAX_DEVICES];
static uint32_t count;

static void a_whole_node_is_described(void **state)
{
    node_libraries("dcmi", "acl");
    struct facet_provider_instance *instance = node_start("", infos, &count);

    assert_int_equal(count, 8);
    for (uint32_t i = 0; i < count; i++) {
        const struct facet_device_info *info = &infos[i];
        char address[32], pci[16];

        snprintf(address, sizeof address, "acl:%u", i);
        snprintf(pci, sizeof pci, "0000:%02x:00.0", 0x81 + i);
        assert_int_equal(info->index, i);
        assert_int_equal(info->kind, FACET_DEVICE_NPU);
        assert_string_equal(info->name, "Ascend 910B3");
        assert_string_equal(info->vendor, "Huawei");
        assert_string_equal(info->driver_version, "24.1.rc3");
        assert_string_equal(info->address, address);
        assert_string_equal(info->pci_address, pci);
        assert_true(info->valid == ALL_FIELDS);
        assert_true(info->memory_bytes == UINT64_C(64) << 30);
        assert_int_equal(info->compute_units, 20);
        assert_int_equal(info->clock_mhz, 1800);
        assert_true(info->capabilities == ALL_OF_A_NEW_NODE);
        assert_int_equal(info->modes, FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT) |
                                          FACET_DEVICE_MODE(FACET_MODE_HARD));
        assert_int_equal(info->mode_group[FACET_MODE_HARD], 0);
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(info->uuid, infos[j].uuid);
    }
    node_close(instance);
}

static void uuids_do_not_depend_on_the_slot(void **state)
{
    struct facet_device_info moved[MAX_DEVICES];
    uint32_t moved_count;

    node_libraries("dcmi", "acl");
    node_close(node_start("cards=3", infos, &count));
    /* The same dies are in other slots: their bus addresses change, and their uuids do not. */
    node_close(node_start("cards=3,bus:0=1,bus:1=2,bus:2=3", moved, &moved_count));
    assert_int_equal(moved_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_not_equal(infos[i].pci_address, moved[i].pci_address);
        assert_string_equal(infos[i].uuid, moved[i].uuid);
    }
}

static void without_dcmi_there_are_no_devices(void **state)
{
    uint32_t number = 7;

    node_libraries(NULL, "acl");
    struct facet_provider_instance *instance = node_start("", infos, &count);
    assert_int_equal(count, 0);
    assert_int_equal(node_provider()->device->events(instance, 0, NULL, sizeof(struct facet_event), 0, &number, NULL),
                     FACET_OK);
    assert_int_equal(number, 0);
    node_close(instance);
}

static void a_file_that_is_no_library_is_refused(void **state)
{
    char path[] = "/tmp/facet-ascend-XXXXXX";
    struct facet_provider_instance *instance = NULL;
    struct facet_error error = {0};
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "not an ELF file", 15), 15);
    close(fd);
    node_libraries("dcmi", "acl");
    setenv("FACET_ASCEND_DCMI", path, 1);
    assert_int_equal(node_provider()->device->open(&instance, &error), FACET_IO);
    assert_non_null(strstr(error.message, path));
    assert_null(instance);
    unlink(path);
}

static void without_cann_devices_are_seen_but_not_limited(void **state)
{
    node_libraries("dcmi", NULL);
    struct facet_provider_instance *instance = node_start("", infos, &count);

    assert_int_equal(count, 8);
    assert_int_equal(infos[0].modes, FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT));
    assert_true(infos[0].capabilities ==
                (ALL_OF_A_NEW_NODE & ~(FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE | FACET_CAN_MEMORY)));
    assert_int_equal(node_provider()->limit->set_compute(instance, 0, "w", 500, NULL), FACET_UNSUPPORTED);
    assert_int_equal(node_provider()->memory->create_context(instance, 0, NULL, "w", &(uint64_t){0}, NULL),
                     FACET_UNSUPPORTED);
    node_close(instance);
}

static void an_older_cann_cannot_limit(void **state)
{
    node_libraries("dcmi", "acl_old");
    node_close(node_start("", infos, &count));
    assert_true(infos[0].capabilities == (ALL_OF_A_NEW_NODE & ~(FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE)));
    assert_false(infos[0].modes & FACET_DEVICE_MODE(FACET_MODE_HARD));
}

static void a_cann_that_does_not_load_is_reported(void **state)
{
    char path[] = "/tmp/facet-ascend-XXXXXX", text[4096];
    int fd = mkstemp(path);
    uint32_t size;

    assert_true(fd >= 0);
    close(fd);
    node_libraries("dcmi", "acl");
    setenv("FACET_ASCEND_ACL", path, 1);
    struct facet_provider_instance *instance = node_start("", infos, &count);
    assert_int_equal(count, 8);
    assert_false(infos[0].capabilities & FACET_CAN_MEMORY);
    assert_int_equal(node_provider()->device->properties(instance, 0, text, sizeof text, &size, NULL), FACET_OK);
    assert_non_null(strstr(text, "acl_error="));
    assert_non_null(strstr(text, path));
    node_close(instance);
    unlink(path);
}

static void an_older_driver_leaves_bits_clear(void **state)
{
    uint32_t number;

    node_libraries("dcmi_old", "acl");
    struct facet_provider_instance *instance = node_start("", infos, &count);

    assert_int_equal(count, 8);
    assert_true(infos[3].valid == ALL_FIELDS); /* this driver has the first form of the PCI call */
    assert_string_equal(infos[3].pci_address, "0000:84:00.0");
    assert_true(infos[3].capabilities == (ALL_OF_A_NEW_NODE & ~(FACET_CAN_PROCESS_METRICS | FACET_CAN_TOPOLOGY)));
    assert_int_equal(
        node_provider()->metrics->processes(instance, 0, NULL, sizeof(struct facet_process_metrics), 0, &number, NULL),
        FACET_UNSUPPORTED);
    assert_int_equal(
        node_provider()->device->links(instance, NULL, sizeof(struct facet_topology_link), 0, &number, NULL),
        FACET_UNSUPPORTED);
    for (uint32_t i = 1; i < count; i++)
        assert_string_not_equal(infos[i].uuid, infos[0].uuid);
    node_close(instance);
}

/* For each function of DCMI, the values that are missing when it fails on every card. All other values must stay. */
static const struct {
    const char *function;
    uint64_t fields, capabilities, metrics;
} failures[] = {
    {"dcmi_get_device_type", 0, 0, 0},
    {"dcmi_get_device_logic_id", 0,
     FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE | FACET_CAN_MEMORY | FACET_CAN_CONTAINER, 0},
    {"dcmi_get_device_phyid_from_logicid", 0, FACET_CAN_CONTAINER, 0},
    {"dcmi_get_device_chip_info", FACET_DEVICE_HAS_COMPUTE_UNITS, FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE, 0},
    {"dcmi_get_device_die_v2", 0, 0, 0},
    {"dcmi_get_device_pcie_info", 0, 0, 0},
    {"dcmi_get_device_pcie_info_v2", 0, 0, 0},
    {"dcmi_get_device_health", 0, FACET_CAN_EVENTS, 0},
    {"dcmi_get_device_hbm_info", FACET_DEVICE_HAS_MEMORY,
     FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE | FACET_CAN_MEMORY, FACET_METRIC_MEMORY_USED},
    {"dcmi_get_device_ecc_info", 0, 0, FACET_METRIC_ECC_CORRECTED | FACET_METRIC_ECC_UNCORRECTED},
    {"dcmi_get_device_frequency", FACET_DEVICE_HAS_CLOCK, 0, FACET_METRIC_CLOCK},
    {"dcmi_get_device_utilization_rate", 0, 0,
     FACET_METRIC_COMPUTE_ACTIVE | FACET_METRIC_TENSOR_ACTIVE | FACET_METRIC_MEMORY_ACTIVE},
    {"dcmi_get_device_temperature", 0, 0, FACET_METRIC_TEMPERATURE},
    {"dcmi_get_device_power_info", 0, 0, FACET_METRIC_POWER},
    {"dcmi_get_device_resource_info", 0, FACET_CAN_PROCESS_METRICS, 0},
    {"dcmi_get_topo_info_by_device_id", 0, 0, 0},
    {"dcmi_get_driver_version", 0, 0, 0},
};

static void a_failing_call_loses_only_its_own_values(void **state)
{
    node_libraries("dcmi", "acl");
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct facet_device_metrics metrics = {.size = sizeof metrics};
        char scenario[128];

        snprintf(scenario, sizeof scenario, "fail:%s=-8005", failures[i].function); /* internal error of the driver */
        print_message("# %s\n", scenario);
        struct facet_provider_instance *instance = node_start(scenario, infos, &count);
        assert_int_equal(count, 8);
        assert_true(infos[5].valid == (ALL_FIELDS & ~failures[i].fields));
        assert_true(infos[5].capabilities == (ALL_OF_A_NEW_NODE & ~failures[i].capabilities));
        assert_int_equal(node_provider()->metrics->device(instance, 5, &metrics, NULL), FACET_OK);
        assert_true(metrics.valid == (ALL_METRICS & ~failures[i].metrics));
        node_close(instance);
    }
}

static void without_the_pci_call_there_is_no_address(void **state)
{
    node_libraries("dcmi", "acl");
    node_close(
        node_start("fail:dcmi_get_device_pcie_info=-8005,fail:dcmi_get_device_pcie_info_v2=-8005", infos, &count));
    assert_true(infos[0].valid == (ALL_FIELDS & ~FACET_DEVICE_HAS_PCI));
    assert_string_equal(infos[0].pci_address, "");
}

static void a_node_that_cannot_be_counted_is_refused(void **state)
{
    static const struct {
        const char *scenario, *text;
        enum facet_status status;
    } refusals[] = {
        {"fail:dcmi_init=-8005", "dcmi_init: -8005, internal error of the driver", FACET_IO},
        {"fail:dcmi_init=-8002", "dcmi_init: -8002, operation not permitted", FACET_PERMISSION},
        {"fail:dcmi_init=-8012", "dcmi_init: -8012, not ready", FACET_BUSY},
        {"fail:dcmi_init=-9999", "dcmi_init: -9999, a code not in the reference", FACET_IO},
        {"fail:dcmi_get_card_list=-8006", "dcmi_get_card_list: -8006, timed out", FACET_TIMEOUT},
        {"fail:dcmi_get_device_num_in_card:3=-8010", "dcmi_get_device_num_in_card: -8010", FACET_IO},
        {"card_count=100000", "dcmi_get_card_list: 100000 cards, expected 0 to 64", FACET_CORRUPT},
        {"card_count=-1", "dcmi_get_card_list: -1 cards", FACET_CORRUPT},
        {"chips:2=2000000000", "dcmi_get_device_num_in_card: 2000000000 chips, expected 0 to 16", FACET_CORRUPT},
        {"chips=-5", "-5 chips", FACET_CORRUPT},
        {"card:4=1", "expected different uuids", FACET_CORRUPT},
        {"die=7", "expected different uuids", FACET_CORRUPT},
    };

    node_libraries("dcmi", "acl");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct facet_provider_instance *instance = NULL;
        struct facet_error error = {0};

        node_scenario(refusals[i].scenario);
        assert_int_equal(node_provider()->device->open(&instance, &error), refusals[i].status);
        if (!strstr(error.message, refusals[i].text))
            fail_msg("%s: '%s' lacks '%s'", refusals[i].scenario, error.message, refusals[i].text);
        assert_null(instance);
        assert_int_equal(node_provider()->device->open(&instance, NULL), refusals[i].status);
    }
}

static void a_card_that_fell_off_does_not_hide_the_others(void **state)
{
    node_libraries("dcmi", "acl");
    node_close(node_start("fail:dcmi_get_device_num_in_card:3=-8008", infos, &count));
    assert_int_equal(count, 7);
    assert_string_equal(infos[3].address, "acl:4");
    node_close(node_start("fail:dcmi_get_card_list=-8008", infos, &count));
    assert_int_equal(count, 0);
}

static void impossible_values_are_left_out(void **state)
{
    static const struct {
        const char *scenario;
        uint64_t fields, metrics;
    } odd[] = {
        {"power=-1", 0, FACET_METRIC_POWER},
        {"power=2000000000", 0, FACET_METRIC_POWER},
        {"temperature=32767", 0, FACET_METRIC_TEMPERATURE},
        {"temperature=-2147483648", 0, FACET_METRIC_TEMPERATURE},
        {"clock=4294967295", 0, FACET_METRIC_CLOCK},
        {"clock_rated=0", FACET_DEVICE_HAS_CLOCK, 0},
        {"used=65537", 0, FACET_METRIC_MEMORY_USED},
        {"memory=0", FACET_DEVICE_HAS_MEMORY, FACET_METRIC_MEMORY_USED},
        {"memory=9223372036854775807", FACET_DEVICE_HAS_MEMORY, FACET_METRIC_MEMORY_USED},
        {"percent=101", 0, FACET_METRIC_COMPUTE_ACTIVE | FACET_METRIC_TENSOR_ACTIVE | FACET_METRIC_MEMORY_ACTIVE},
        {"has_cube=0", 0, FACET_METRIC_TENSOR_ACTIVE},
        {"ecc_enabled=0", 0, FACET_METRIC_ECC_CORRECTED | FACET_METRIC_ECC_UNCORRECTED},
        {"cores=0", FACET_DEVICE_HAS_COMPUTE_UNITS, 0},
        {"cores=4294967295", FACET_DEVICE_HAS_COMPUTE_UNITS, 0},
        {"bus=256", FACET_DEVICE_HAS_PCI, 0},
        {"domain=-1", FACET_DEVICE_HAS_PCI, 0},
        {"domain=65536", FACET_DEVICE_HAS_PCI, 0},
    };

    node_libraries("dcmi", "acl");
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct facet_device_metrics metrics = {.size = sizeof metrics};

        print_message("# %s\n", odd[i].scenario);
        struct facet_provider_instance *instance = node_start(odd[i].scenario, infos, &count);
        assert_int_equal(count, 8);
        assert_true(infos[0].valid == (ALL_FIELDS & ~odd[i].fields));
        assert_int_equal(node_provider()->metrics->device(instance, 0, &metrics, NULL), FACET_OK);
        assert_true(metrics.valid == (ALL_METRICS & ~odd[i].metrics));
        node_close(instance);
    }
}

static void texts_become_printable(void **state)
{
    node_libraries("dcmi", "acl");
    node_close(node_start("garbage_text=1", infos, &count));
    assert_string_equal(infos[0].name, "________________________________ ________________________________");
}

static void controllers_are_not_listed(void **state)
{
    node_libraries("dcmi", "acl");
    node_close(node_start("cards=2,chips=3,controller=2", infos, &count));
    assert_int_equal(count, 4); /* the third chip of each card is its controller */
    assert_string_equal(infos[2].address, "acl:3");
}

static void metrics_are_in_the_units_of_the_abi(void **state)
{
    struct facet_device_metrics metrics = {.size = sizeof metrics};
    struct facet_device_metrics shorter = {.size = offsetof(struct facet_device_metrics, clock_mhz)};

    node_libraries("dcmi", "acl");
    struct facet_provider_instance *instance = node_start("", infos, &count);
    assert_int_equal(node_provider()->metrics->device(instance, 7, &metrics, NULL), FACET_OK);
    assert_int_equal(metrics.device, 7);
    assert_true(metrics.power_mw == 93700);
    assert_int_equal(metrics.temperature_mc, 46000);
    assert_int_equal(metrics.clock_mhz, 800);
    assert_true(metrics.memory_used_bytes == UINT64_C(3456) << 20);
    assert_int_equal(metrics.compute_active_milli, 370);
    assert_int_equal(metrics.memory_active_milli, 120);
    assert_true(metrics.ecc_corrected == 3 && metrics.ecc_uncorrected == 0);
    assert_true(metrics.timestamp_ns > UINT64_C(1600000000) * 1000000000); /* 2020 */
    assert_int_equal(node_provider()->metrics->device(instance, 7, &shorter, NULL), FACET_OK);
    assert_int_equal(shorter.size, offsetof(struct facet_device_metrics, clock_mhz));
    assert_int_equal(shorter.clock_mhz, 0);
    assert_int_equal(node_provider()->metrics->device(instance, 8, &metrics, NULL), FACET_NOT_FOUND);
    assert_int_equal(node_provider()->metrics->device(instance, 0, NULL, NULL), FACET_INVALID_ARGUMENT);
    node_close(instance);
}

static void a_device_that_is_gone_is_lost(void **state)
{
    struct facet_device_metrics metrics = {.size = sizeof metrics};
    uint32_t health = 99;

    node_libraries("dcmi", "acl");
    struct facet_provider_instance *instance = node_start("", infos, &count);
    node_scenario("cards=4"); /* cards 4 to 7 are gone */
    assert_int_equal(node_provider()->device->health(instance, 3, &health, NULL), FACET_OK);
    assert_int_equal(health, FACET_HEALTH_OK);
    health = 99;
    assert_int_equal(node_provider()->device->health(instance, 4, &health, NULL), FACET_DEVICE_LOST);
    assert_int_equal(health, 99);
    assert_int_equal(node_provider()->metrics->device(instance, 4, &metrics, NULL), FACET_DEVICE_LOST);
    node_scenario("health:2=0xffffffff");
    assert_int_equal(node_provider()->device->health(instance, 2, &health, NULL), FACET_DEVICE_LOST);
    node_scenario("fail:dcmi_get_device_health=-8006");
    assert_int_equal(node_provider()->device->health(instance, 2, &health, NULL), FACET_TIMEOUT);
    node_scenario("health:2=77");
    assert_int_equal(node_provider()->device->health(instance, 2, &health, NULL), FACET_OK);
    assert_int_equal(health, FACET_HEALTH_UNKNOWN);
    node_close(instance);
}

static void processes_are_listed(void **state)
{
    struct facet_process_metrics processes[4] = {0};
    uint32_t number = 9;

    node_libraries("dcmi", "acl");
    struct facet_provider_instance *instance = node_start("", infos, &count);
    const struct facet_metrics_ops *metrics = node_provider()->metrics;
    assert_int_equal(metrics->processes(instance, 1, NULL, sizeof *processes, 0, &number, NULL), FACET_TOO_SMALL);
    assert_int_equal(number, 2);
    assert_int_equal(metrics->processes(instance, 1, processes, sizeof *processes, 4, &number, NULL), FACET_OK);
    assert_int_equal(processes[0].pid, getpid());
    assert_int_equal(processes[0].device, 1);
    assert_int_equal(processes[0].valid, FACET_PROCESS_HAS_MEMORY);
    assert_true(processes[0].memory_used_bytes == UINT64_C(1) << 30);
    node_scenario("pid=-3");
    assert_int_equal(metrics->processes(instance, 1, processes, sizeof *processes, 4, &number, NULL), FACET_OK);
    assert_int_equal(number, 1);
    node_scenario("processes=257");
    assert_int_equal(metrics->processes(instance, 1, processes, sizeof *processes, 4, &number, NULL), FACET_CORRUPT);
    node_scenario("processes=-1");
    assert_int_equal(metrics->processes(instance, 1, processes, sizeof *processes, 4, &number, NULL), FACET_CORRUPT);
    node_close(instance);
}

static void topology_codes_become_links(void **state)
{
    static const struct {
        int code;
        uint32_t type, level;
    } codes[] = {
        {1, FACET_LINK_SOCKET, FACET_LEVEL_SYSTEM},      {2, FACET_LINK_PCIE, FACET_LEVEL_HOST_BRIDGE},
        {3, FACET_LINK_HCCS, FACET_LEVEL_SINGLE_SWITCH}, {4, FACET_LINK_PCIE, FACET_LEVEL_MULTI_SWITCH},
        {5, FACET_LINK_PCIE, FACET_LEVEL_SINGLE_SWITCH}, {7, FACET_LINK_HCCS, FACET_LEVEL_SINGLE_SWITCH},
    };
    struct facet_topology_link links[64] = {0};
    uint32_t number;

    node_libraries("dcmi", "acl");
    struct facet_provider_instance *instance = node_start("", infos, &count);
    const struct facet_device_ops *device = node_provider()->device;
    assert_int_equal(device->links(instance, links, sizeof *links, 64, &number, NULL), FACET_OK);
    assert_int_equal(number, 28);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char scenario[64];

        snprintf(scenario, sizeof scenario, "link=%d", codes[i].code);
        node_scenario(scenario);
        assert_int_equal(device->links(instance, links, sizeof *links, 64, &number, NULL), FACET_OK);
        assert_int_equal(number, 28);
        for (uint32_t j = 0; j < number; j++) {
            assert_true(links[j].a < links[j].b && links[j].b < 8);
            assert_int_equal(links[j].type, codes[i].type);
            assert_int_equal(links[j].level, codes[i].level);
            assert_int_equal(links[j].lanes, 1);
            assert_int_equal(links[j].valid, 0);
        }
    }
    /* Links of unknown types (99, and the older driver's "unknown") and pairs whose query fails are left out. */
    node_scenario("link=6,link:0-1=3,link:2-5=99,fail:dcmi_get_topo_info_by_device_id:4=-8005");
    assert_int_equal(device->links(instance, links, sizeof *links, 64, &number, NULL), FACET_OK);
    assert_int_equal(number, 1);
    assert_int_equal(links[0].b, 1);
    node_close(instance);
}

static void two_dies_of_a_card_are_in_one_package(void **state)
{
    struct facet_topology_link links[8] = {0};
    struct facet_topology_node nodes[8] = {0};
    uint32_t number;

    node_libraries("dcmi", "acl");
    struct facet_provider_instance *instance = node_start("cards=2,chips=2", infos, &count);
    assert_int_equal(node_provider()->device->links(instance, links, sizeof *links, 8, &number, NULL), FACET_OK);
    assert_int_equal(number, 6);
    assert_int_equal(links[0].type, FACET_LINK_INTERNAL); /* 0-1 */
    assert_int_equal(links[1].type, FACET_LINK_HCCS);     /* 0-2 */
    assert_int_equal(node_provider()->device->nodes(instance, nodes, sizeof *nodes, 8, &number, NULL), FACET_OK);
    assert_int_equal(number, 4);
    assert_string_equal(nodes[3].uuid, infos[3].uuid);
    assert_int_equal(nodes[3].device, 3);
    node_close(instance);
}

static uint32_t events_after(struct facet_provider_instance *instance, uint64_t after, struct facet_event events[300])
{
    uint32_t number = 0;

    assert_int_equal(node_provider()->device->events(instance, after, events, sizeof *events, 300, &number, NULL),
                     FACET_OK);
    return number;
}

static void changes_are_events(void **state)
{
    struct facet_event events[300];

    node_libraries("dcmi", "acl");
    struct facet_provider_instance *instance = node_start("health:6=1,ecc:6=5", infos, &count);
    assert_int_equal(events_after(instance, 0, events), 0); /* the first state is no change */
    node_scenario("health:6=1,ecc:6=7,health:1=3");
    assert_int_equal(events_after(instance, 0, events), 2);
    assert_int_equal(events[0].kind, FACET_EVENT_HEALTH);
    assert_int_equal(events[0].device, 1);
    assert_true(events[0].value == FACET_HEALTH_FAILED && events[0].sequence == 1);
    assert_string_equal(events[0].uuid, infos[1].uuid);
    assert_int_equal(events[1].kind, FACET_EVENT_ECC);
    assert_true(events[1].value == 7 && events[1].sequence == 2);
    assert_int_equal(events_after(instance, 2, events), 0);
    assert_int_equal(events_after(instance, 1, events), 1); /* reading removes no event */
    assert_int_equal(events_after(instance, UINT64_MAX, events), 0);
    node_scenario("cards=7,health:6=1,ecc:6=7,health:1=3");
    assert_int_equal(events_after(instance, 2, events), 1);
    assert_int_equal(events[0].kind, FACET_EVENT_HOTPLUG);
    assert_true(events[0].device == 7 && events[0].value == 0);
    node_scenario("health:6=1,ecc:6=7,health:1=3");
    assert_int_equal(events_after(instance, 3, events), 2); /* the device is back, and healthy */
    assert_true(events[0].kind == FACET_EVENT_HOTPLUG && events[0].value == 1);
    assert_true(events[1].kind == FACET_EVENT_HEALTH && events[1].value == FACET_HEALTH_OK);
    node_close(instance);
}

static void old_events_are_dropped_with_a_gap(void **state)
{
    struct facet_event events[300];

    node_libraries("dcmi", "acl");
    struct facet_provider_instance *instance = node_start("cards=1", infos, &count);
    for (int i = 0; i < 300; i++) {
        node_scenario(i % 2 ? "cards=1" : "cards=1,health=2");
        events_after(instance, UINT64_MAX, events);
    }
    assert_int_equal(events_after(instance, 0, events), 256);
    assert_true(events[0].sequence == 45 && events[255].sequence == 300);
    node_close(instance);
}

static bool has_item(const struct facet_container_item *items, uint32_t number, uint32_t kind, const char *host,
                     const char *guest)
{
    for (uint32_t i = 0; i < number; i++) {
        if (items[i].kind == kind && strcmp(items[i].host, host) == 0 && strcmp(items[i].guest, guest) == 0)
            return true;
    }
    return false;
}

static void a_container_gets_nodes_files_and_the_number(void **state)
{
    char root[] = "/tmp/facet-ascend-XXXXXX", file[64];
    struct facet_container_item items[16];
    uint32_t number;

    node_libraries("dcmi", "acl");
    assert_non_null(mkdtemp(root));
    setenv("FACET_ASCEND_ROOT", root, 1);
    struct facet_provider_instance *instance = node_start("physical_base=8", infos, &count);
    const struct facet_container_ops *container = node_provider()->container;
    assert_int_equal(container->items(instance, 2, NULL, items, sizeof *items, 16, &number, NULL), FACET_OK);
    assert_int_equal(number, 5);
    assert_true(has_item(items, number, FACET_CONTAINER_DEVICE_NODE, "/dev/davinci10", "/dev/davinci10"));
    assert_true(has_item(items, number, FACET_CONTAINER_DEVICE_NODE, "/dev/devmm_svm", "/dev/devmm_svm"));
    assert_true(has_item(items, number, FACET_CONTAINER_ENVIRONMENT, "10", "ASCEND_VISIBLE_DEVICES"));
    snprintf(file, sizeof file, "%s/etc", root);
    assert_int_equal(mkdir(file, 0700), 0);
    snprintf(file, sizeof file, "%s/etc/ascend_install.info", root);
    FILE *made = fopen(file, "w");
    assert_non_null(made);
    fclose(made);
    assert_int_equal(container->items(instance, 2, "", items, sizeof *items, 16, &number, NULL), FACET_OK);
    assert_int_equal(number, 6);
    assert_true(has_item(items, number, FACET_CONTAINER_MOUNT, "/etc/ascend_install.info", "/etc/ascend_install.info"));
    assert_int_equal(container->items(instance, 2, "no-such-part", items, sizeof *items, 16, &number, NULL),
                     FACET_NOT_FOUND);
    node_close(instance);
    unlink(file);
    *strrchr(file, '/') = '\0';
    rmdir(file);
    rmdir(root);
    unsetenv("FACET_ASCEND_ROOT");
}

static void properties_hold_further_values(void **state)
{
    char text[4096], tight[4096];
    uint32_t size, again;

    node_libraries("dcmi", "acl");
    struct facet_provider_instance *instance = node_start("physical_base=8", infos, &count);
    const struct facet_device_ops *device = node_provider()->device;
    assert_int_equal(device->properties(instance, 1, text, sizeof text, &size, NULL), FACET_OK);
    assert_int_equal(size, strlen(text) + 1);
    assert_non_null(strstr(text, "logical_id=1\n"));
    assert_non_null(strstr(text, "physical_id=9\n"));
    assert_non_null(strstr(text, "clock_memory_mhz=1600\n"));
    assert_non_null(strstr(text, "ecc=true\n"));
    assert_null(strstr(text, "acl_error"));
    memset(tight, 'x', sizeof tight);
    assert_int_equal(device->properties(instance, 1, tight, size - 1, &again, NULL), FACET_TOO_SMALL);
    assert_int_equal(again, size);
    assert_int_equal(tight[0], 'x');
    assert_int_equal(device->properties(instance, 8, text, sizeof text, &size, NULL), FACET_NOT_FOUND);
    node_close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_node_is_described),
        cmocka_unit_test(uuids_do_not_depend_on_the_slot),
        cmocka_unit_test(without_dcmi_there_are_no_devices),
        cmocka_unit_test(a_file_that_is_no_library_is_refused),
        cmocka_unit_test(without_cann_devices_are_seen_but_not_limited),
        cmocka_unit_test(an_older_cann_cannot_limit),
        cmocka_unit_test(a_cann_that_does_not_load_is_reported),
        cmocka_unit_test(an_older_driver_leaves_bits_clear),
        cmocka_unit_test(a_failing_call_loses_only_its_own_values),
        cmocka_unit_test(without_the_pci_call_there_is_no_address),
        cmocka_unit_test(a_node_that_cannot_be_counted_is_refused),
        cmocka_unit_test(a_card_that_fell_off_does_not_hide_the_others),
        cmocka_unit_test(impossible_values_are_left_out),
        cmocka_unit_test(texts_become_printable),
        cmocka_unit_test(controllers_are_not_listed),
        cmocka_unit_test(metrics_are_in_the_units_of_the_abi),
        cmocka_unit_test(a_device_that_is_gone_is_lost),
        cmocka_unit_test(processes_are_listed),
        cmocka_unit_test(topology_codes_become_links),
        cmocka_unit_test(two_dies_of_a_card_are_in_one_package),
        cmocka_unit_test(changes_are_events),
        cmocka_unit_test(old_events_are_dropped_with_a_gap),
        cmocka_unit_test(a_container_gets_nodes_files_and_the_number),
        cmocka_unit_test(properties_hold_further_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
