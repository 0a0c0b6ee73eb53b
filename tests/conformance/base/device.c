/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the entry point, the device, its topology, events, metrics and container items. Never: breaks a rule. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base.h"

void base_describe(struct facet_device_info *ret_info)
{
    *ret_info = (struct facet_device_info){
        .size = sizeof *ret_info,
        .valid = FACET_DEVICE_HAS_MEMORY | FACET_DEVICE_HAS_COMPUTE_UNITS | FACET_DEVICE_HAS_CLOCK |
                 FACET_DEVICE_HAS_PCI | FACET_DEVICE_HAS_MAX_PARTITIONS,
        .uuid = "base-0",
        .name = "Base device",
        .vendor = "Nobody",
        .pci_address = "0000:01:00.0",
        .kind = FACET_DEVICE_GPU,
        .modes = 0xf,
        .memory_bytes = BASE_MEMORY,
        .compute_units = BASE_SLICES,
        .clock_mhz = BASE_CLOCK_MHZ,
        .max_partitions = BASE_SLICES,
        .capabilities = ((FACET_CAN_EXECUTE << 1) - 1) | FACET_CAN_ENQUEUE | FACET_CAN_SHARE | FACET_CAN_RECORD |
                        FACET_CAN_SHARE_PAGES | FACET_CAN_MOVE_PAGES | FACET_CAN_CONTROL | FACET_CAN_SCHEDULE |
                        FACET_CAN_MATH,
        .mode_group = {1, 1, 2, 3},
    };
}

static enum facet_status base_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    struct facet_provider_instance *instance = calloc(1, sizeof *instance);

    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an instance");
    instance->events = calloc(BASE_EVENTS, sizeof *instance->events);
    if (!instance->events) {
        free(instance);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for events");
    }
    pthread_mutex_init(&instance->lock, NULL);
    instance->last_address = UINT64_C(1) << 32;
    instance->turn_index = -1;
    *ret_instance = instance;
    return FACET_OK;
}

static void base_close(struct facet_provider_instance *instance)
{
    if (!instance)
        return;
    for (int i = 0; i < BASE_PAGES; i++)
        free(instance->pages[i].data);
    for (int i = 0; i < BASE_WORKERS; i++)
        free(instance->saved[i].bytes);
    free(instance->events);
    pthread_mutex_destroy(&instance->lock);
    free(instance);
}

static enum facet_status base_list(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                   uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_device_info info;

    base_describe(&info);
    return facet_kit_list(&info, 1, items, item_size, capacity, ret_count, error);
}

static enum facet_status base_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                     struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status != FACET_OK)
        return status;
    if (!ret_health)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_health: expected a place, not NULL");
    *ret_health = FACET_HEALTH_OK;
    return FACET_OK;
}

static enum facet_status base_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                         uint32_t capacity, uint32_t *ret_size, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status != FACET_OK)
        return status;
    return facet_kit_text_out("chip=base\nconformance_kernel=" BASE_KERNEL "\nconformance_image=" BASE_IMAGE "\n", text,
                              capacity, ret_size, error);
}

static enum facet_status base_nodes(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    static const struct facet_topology_node nodes[] = {
        {.index = 0, .kind = FACET_NODE_DEVICE, .valid = FACET_NODE_HAS_DEVICE, .uuid = "base-0", .name = "Base"},
        {.index = 1, .kind = FACET_NODE_NIC, .name = "nic0"},
        {.index = 2, .kind = FACET_NODE_SOCKET, .name = "socket 0"},
    };

    return facet_kit_list_items(nodes, sizeof nodes[0], 3, items, item_size, capacity, ret_count, error);
}

static enum facet_status base_links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    static const struct facet_topology_link links[] = {
        {.a = 0, .b = 1, .type = FACET_LINK_PCIE, .level = FACET_LEVEL_HOST_BRIDGE, .lanes = 16},
        {.a = 0,
         .b = 2,
         .type = FACET_LINK_PCIE,
         .level = FACET_LEVEL_NUMA_NODE,
         .lanes = 16,
         .valid = FACET_LINK_HAS_BANDWIDTH,
         .bandwidth_mbps = 31500},
        {.a = 1, .b = 2, .type = FACET_LINK_PCIE, .level = FACET_LEVEL_NUMA_NODE, .lanes = 8},
    };

    return facet_kit_list_items(links, sizeof links[0], 3, items, item_size, capacity, ret_count, error);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* When the table is full, the oldest half of the events is dropped, which leaves a gap in the sequence. */
void base_add_event(struct facet_provider_instance *instance, uint32_t kind, uint64_t value, const char *uuid)
{
    const uint32_t half = BASE_EVENTS / 2;
    uint64_t last = instance->event_count ? instance->events[instance->event_count - 1].sequence : 0;

    if (instance->event_count == BASE_EVENTS) {
        memmove(instance->events, instance->events + half, half * sizeof *instance->events);
        instance->event_count = half;
    }
    struct facet_event *event = &instance->events[instance->event_count++];
    *event = (struct facet_event){
        .size = sizeof *event, .kind = kind, .sequence = last + 1, .timestamp_ns = now_ns(), .value = value};
    FACET_KIT_TEXT(event->uuid, uuid);
}

static enum facet_status base_events(struct facet_provider_instance *instance, uint64_t after, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error)
{
    BASE_LOCK(instance);
    uint32_t first = 0;

    while (first < instance->event_count && instance->events[first].sequence <= after)
        first++;
    return facet_kit_list_items(instance->events + first, sizeof *instance->events, instance->event_count - first,
                                items, item_size, capacity, ret_count, error);
}

const struct facet_device_ops base_device = {
    .size = sizeof base_device,
    .open = base_open,
    .close = base_close,
    .list = base_list,
    .health = base_health,
    .properties = base_properties,
    .nodes = base_nodes,
    .links = base_links,
    .events = base_events,
};

static enum facet_status base_readings(struct facet_provider_instance *instance, uint32_t device,
                                       struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    BASE_LOCK(instance);
    const struct facet_device_metrics metrics = {
        .valid = FACET_METRIC_ENERGY | FACET_METRIC_COMPUTE_ACTIVE | FACET_METRIC_MEMORY_USED | FACET_METRIC_CLOCK |
                 FACET_METRIC_BUSY,
        .timestamp_ns = now_ns(),
        .energy_mj = ++instance->energy,
        .clock_mhz = BASE_CLOCK_MHZ,
        .busy_ns = instance->busy_ns,
        .compute_active_milli = 7,
        .memory_used_bytes = base_memory_used(instance, NULL),
    };
    enum facet_status status = facet_kit_check_device(device, 1, error);

    return status == FACET_OK ? facet_kit_struct(&metrics, sizeof metrics, ret_metrics, error) : status;
}

static enum facet_status base_processes(struct facet_provider_instance *instance, uint32_t device, void *items,
                                        uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                        struct facet_error *error)
{
    BASE_LOCK(instance);
    const struct facet_process_metrics process = {.pid = getpid(),
                                                  .valid = FACET_PROCESS_HAS_MEMORY,
                                                  .timestamp_ns = now_ns(),
                                                  .memory_used_bytes = base_memory_used(instance, NULL)};
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status != FACET_OK)
        return status;
    return facet_kit_list_items(&process, sizeof process, 1, items, item_size, capacity, ret_count, error);
}

static enum facet_status base_link_metrics(struct facet_provider_instance *instance, uint32_t device, void *items,
                                           uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                           struct facet_error *error)
{
    const struct facet_link_metrics links[] = {
        {.link = 0, .type = FACET_LINK_PCIE, .timestamp_ns = now_ns()},
        {.link = 1, .type = FACET_LINK_PCIE, .valid = FACET_LINK_METRIC_RX, .timestamp_ns = now_ns(), .rx_bytes = 1},
    };
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status != FACET_OK)
        return status;
    return facet_kit_list_items(links, sizeof links[0], 2, items, item_size, capacity, ret_count, error);
}

const struct facet_metrics_ops base_metrics = {
    .size = sizeof base_metrics, .device = base_readings, .processes = base_processes, .links = base_link_metrics};

static const struct facet_partition_info *find_partition(const struct facet_provider_instance *instance,
                                                         const char *uuid)
{
    for (int i = 0; i < BASE_SLICES; i++)
        if (instance->partitions[i].uuid[0] && strcmp(instance->partitions[i].uuid, uuid) == 0)
            return &instance->partitions[i];
    return NULL;
}

/* The whole device's node, or that of a partition's first slice. */
static enum facet_status base_items(struct facet_provider_instance *instance, uint32_t device,
                                    const char *partition_uuid, void *items, uint32_t item_size, uint32_t capacity,
                                    uint32_t *ret_count, struct facet_error *error)
{
    struct facet_container_item all[] = {
        {.kind = FACET_CONTAINER_DEVICE_NODE, .host = "/dev/base0", .guest = "/dev/base0"},
        {.kind = FACET_CONTAINER_MOUNT, .flags = FACET_CONTAINER_READ_ONLY, .host = "/usr/lib/base", .guest = "/base"},
        {.kind = FACET_CONTAINER_ENVIRONMENT, .host = "0", .guest = "BASE_VISIBLE_DEVICES"},
    };
    enum facet_status status = facet_kit_check_device(device, 1, error);
    BASE_LOCK(instance);

    if (status == FACET_OK && partition_uuid && partition_uuid[0]) {
        const struct facet_partition_info *partition = find_partition(instance, partition_uuid);

        if (!partition)
            return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.63s': expected a partition that exists",
                                  partition_uuid);
        snprintf(all[0].host, sizeof all[0].host, "/dev/base0-slice%" PRIu32, partition->start);
    }
    if (status != FACET_OK)
        return status;
    return facet_kit_list_items(all, sizeof all[0], 3, items, item_size, capacity, ret_count, error);
}

const struct facet_container_ops base_container = {.size = sizeof base_container, .items = base_items};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    static struct base_tables tables;

    if (tables.provider.size == 0) {
        tables = (struct base_tables){.provider = {.size = sizeof tables.provider,
                                                   .abi_major = FACET_PROVIDER_ABI_MAJOR,
                                                   .abi_minor = FACET_PROVIDER_ABI_MINOR,
                                                   .name = "base",
                                                   .version = "1",
                                                   .description = "A made-up device that can do everything",
                                                   .traits = FACET_PROVIDER_SIMULATED,
                                                   .device = &tables.device,
                                                   .partition = &tables.partition,
                                                   .limit = &tables.limit,
                                                   .metrics = &tables.metrics,
                                                   .container = &tables.container,
                                                   .snapshot = &tables.snapshot,
                                                   .memory = &tables.memory,
                                                   .execution = &tables.execution,
                                                   .math = &tables.math},
                                      .device = base_device,
                                      .partition = base_partition,
                                      .limit = base_limit,
                                      .metrics = base_metrics,
                                      .container = base_container,
                                      .snapshot = base_snapshot,
                                      .memory = base_memory,
                                      .execution = base_execution,
                                      .math = base_math};
        base_install_fault(&tables);
    }
    return facet_kit_enter(host, &tables.provider, ret_provider);
}
