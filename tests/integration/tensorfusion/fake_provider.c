/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake provider with the faults that the facade must survive.
 *
 * Owns: the faults that FACET_PLAYED lists, separated by commas: "many": 70 devices instead of two; "long": the value
 * of a variable is longer than TensorFusion's ABI allows; "nodes": a container needs a device node and mounts, but no
 * variable; "crash": the provider crashes when metrics are requested while the file FACET_PLAYED_FUSE exists. A
 * provider that is built with FAKE_CANNOT_SAVE cannot save processes. Never: is installed.
 */
#include <facet/provider.h>

#include <stdlib.h>
#include <unistd.h>

#include "provider_kit.h"

#define MANY 70u

struct facet_provider_instance {
    struct facet_device_info infos[MANY];
    uint32_t count;
    uint32_t partitions; /* how many exist: 0 or 1 */
    bool saved;
};

static bool has_word(const char *word)
{
    const char *words = getenv("FACET_PLAYED");

    return words && strstr(words, word);
}

static enum facet_status fake_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    struct facet_provider_instance *instance = calloc(1, sizeof *instance);

    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory");
    instance->count = has_word("many") ? MANY : 2;
    for (uint32_t i = 0; i < instance->count; i++) {
        struct facet_device_info *info = &instance->infos[i];

        *info = (struct facet_device_info){.size = sizeof *info, .index = i, .kind = FACET_DEVICE_GPU};
        snprintf(info->uuid, sizeof info->uuid, "FAKE-%u", i);
        snprintf(info->name, sizeof info->name, "Fake %u", i);
        info->valid = FACET_DEVICE_HAS_MEMORY | FACET_DEVICE_HAS_COMPUTE_UNITS | FACET_DEVICE_HAS_NUMA;
        info->memory_bytes = 1000;
        info->compute_units = 10;
        info->numa_node = (int32_t)(i % 2);
        info->capabilities = FACET_CAN_PARTITION | FACET_CAN_SNAPSHOT | FACET_CAN_CONTAINER | FACET_CAN_DEVICE_METRICS |
                             FACET_CAN_PROCESS_METRICS;
        info->modes = FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_PARTITIONED);
    }
    *ret_instance = instance;
    return FACET_OK;
}

static void fake_close(struct facet_provider_instance *instance)
{
    free(instance);
}

static enum facet_status fake_list(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                   uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return facet_kit_list(instance->infos, instance->count, items, item_size, capacity, ret_count, error);
}

static enum facet_status fake_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                     struct facet_error *error)
{
    *ret_health = FACET_HEALTH_OK;
    return facet_kit_check_device(device, instance->count, error);
}

static enum facet_status fake_create(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                     uint32_t start, struct facet_partition_info *ret_info, struct facet_error *error)
{
    struct facet_partition_info info = {.size = sizeof info, .device = device};

    if (instance->partitions)
        return facet_kit_fail(error, FACET_NO_SPACE, "there is a partition already");
    FACET_KIT_TEXT(info.uuid, "FAKE-PART");
    FACET_KIT_TEXT(info.template_id, template_id);
    instance->partitions = 1;
    return facet_kit_struct(&info, sizeof info, ret_info, error);
}

static enum facet_status fake_partitions(struct facet_provider_instance *instance, uint32_t device, void *items,
                                         uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                         struct facet_error *error)
{
    struct facet_partition_info info = {.size = sizeof info, .device = device};

    FACET_KIT_TEXT(info.uuid, "FAKE-PART");
    FACET_KIT_TEXT(info.template_id, "half");
    return facet_kit_list_items(&info, sizeof info, instance->partitions, items, item_size, capacity, ret_count, error);
}

static enum facet_status fake_destroy(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                      struct facet_error *error)
{
    if (!instance->partitions)
        return facet_kit_fail(error, FACET_NOT_FOUND, "there is no partition");
    instance->partitions = 0;
    return FACET_OK;
}

static enum facet_status fake_metrics(struct facet_provider_instance *instance, uint32_t device,
                                      struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    struct facet_device_metrics metrics = {.size = sizeof metrics, .device = device, .timestamp_ns = 1};

    if (has_word("crash") && access(getenv("FACET_PLAYED_FUSE"), F_OK) == 0)
        abort();
    metrics.valid = FACET_METRIC_COMPUTE_ACTIVE;
    metrics.compute_active_milli = 505;
    return facet_kit_struct(&metrics, sizeof metrics, ret_metrics, error);
}

static enum facet_status fake_processes(struct facet_provider_instance *instance, uint32_t device, void *items,
                                        uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                        struct facet_error *error)
{
    const struct facet_process_metrics processes[2] = {
        {.size = sizeof *processes,
         .device = device,
         .pid = 11,
         .valid = FACET_PROCESS_HAS_MEMORY,
         .timestamp_ns = 1,
         .memory_used_bytes = 250},
        {.size = sizeof *processes,
         .device = device,
         .pid = 12,
         .timestamp_ns = 1,
         .valid = FACET_PROCESS_HAS_COMPUTE | FACET_PROCESS_HAS_UNITS,
         .compute_milli = 425,
         .units_active = 4},
    };

    return facet_kit_list_items(processes, sizeof *processes, 2, items, item_size, capacity, ret_count, error);
}

static void fill_item(struct facet_container_item *item, uint32_t kind, const char *host, const char *guest)
{
    *item = (struct facet_container_item){.size = sizeof *item, .kind = kind};
    FACET_KIT_TEXT(item->host, host);
    FACET_KIT_TEXT(item->guest, guest);
}

static enum facet_status fake_items(struct facet_provider_instance *instance, uint32_t device, const char *partition,
                                    void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                    struct facet_error *error)
{
    struct facet_container_item found[4];
    char value[300] = "1", file[32];

    if (has_word("long"))
        memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    snprintf(file, sizeof file, "/opt/fake%u", device);
    fill_item(&found[0], FACET_CONTAINER_DEVICE_NODE, "/dev/fake0", "/dev/fake");
    fill_item(&found[1], FACET_CONTAINER_MOUNT, "/opt/fake", "/opt/fake");
    fill_item(&found[2], FACET_CONTAINER_MOUNT, file, "/opt/own");
    fill_item(&found[3], FACET_CONTAINER_ENVIRONMENT, value, "FAKE");
    return facet_kit_list_items(found, sizeof *found, has_word("nodes") ? 3 : 4, items, item_size, capacity, ret_count,
                                error);
}

/* Notes that processes are saved, whichever they are; does nothing to them. */
static enum facet_status fake_save(struct facet_provider_instance *instance, const int32_t *pids, uint32_t count,
                                   struct facet_error *error)
{
#ifdef FAKE_CANNOT_SAVE
    return facet_kit_fail(error, FACET_IO, "the driver refused");
#endif
    if (instance->saved)
        return facet_kit_fail(error, FACET_BAD_STATE, "processes are saved already");
    instance->saved = true;
    return FACET_OK;
}

static enum facet_status fake_restore(struct facet_provider_instance *instance, const int32_t *pids, uint32_t count,
                                      struct facet_error *error)
{
    if (!instance->saved)
        return facet_kit_fail(error, FACET_NOT_FOUND, "nothing is saved");
    instance->saved = false;
    return FACET_OK;
}

static enum facet_status fake_snapshot(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                       int fd, struct facet_error *error)
{
    return worker || fd != -1 ? FACET_INVALID_ARGUMENT : fake_save(instance, NULL, 0, error);
}

static enum facet_status fake_resume(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     int fd, struct facet_error *error)
{
    return worker || fd != -1 ? FACET_INVALID_ARGUMENT : fake_restore(instance, NULL, 0, error);
}

static const struct facet_device_ops device_ops = {
    .size = sizeof device_ops, .open = fake_open, .close = fake_close, .list = fake_list, .health = fake_health};
static const struct facet_partition_ops partition_ops = {
    .size = sizeof partition_ops, .create = fake_create, .list = fake_partitions, .destroy = fake_destroy};
static const struct facet_metrics_ops metrics_ops = {
    .size = sizeof metrics_ops, .device = fake_metrics, .processes = fake_processes};
static const struct facet_container_ops container_ops = {.size = sizeof container_ops, .items = fake_items};
static const struct facet_snapshot_ops snapshot_ops = {.size = sizeof snapshot_ops,
                                                       .snapshot = fake_snapshot,
                                                       .resume = fake_resume,
                                                       .snapshot_processes = fake_save,
                                                       .resume_processes = fake_restore};

static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "fake",
    .version = "1",
    .description = "A fake provider",
    .device = &device_ops,
    .partition = &partition_ops,
    .metrics = &metrics_ops,
    .container = &container_ops,
    .snapshot = &snapshot_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    return facet_kit_enter(host, &provider, ret_provider);
}
