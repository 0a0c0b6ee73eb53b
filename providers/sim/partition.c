/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the rules of partitioning a device, and the operations on partitions.
 * Never: reports a placement as `free` by another rule than create uses: both call find_obstacle().
 *
 * The rules. A partition begins at one of its template's starts. Partitions do not share a memory slice, take no more
 * compute slices together than the device has, and have one mode. There are at most max_count partitions of a template.
 * A partitioned device has no user as a whole, and no limits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core.h"
#include "provider_kit.h"
#include "state.h"
#include "usage.h"

static const struct sim_partitioning *partitioning_of(const struct facet_provider_instance *instance, uint32_t device)
{
    return &instance->machine->devices[device].product->partitioning;
}

static const struct sim_template *template_of(const struct facet_provider_instance *instance,
                                              const struct sim_partition *partition)
{
    return &partitioning_of(instance, partition->device)->templates[partition->template];
}

/* Refuses if a limit or a context on the whole device excludes partitions. */
static enum facet_status check_users(const struct facet_provider_instance *instance, const struct sim_record *record,
                                     uint32_t device, struct facet_error *error)
{
    const struct sim_worker *worker = sim_record_first_worker(record, device);

    if (worker)
        return facet_kit_fail(error, FACET_BUSY,
                              "worker %s has limits on device %" PRIu32 "; expected none while it is partitioned",
                              worker->name, device);
    if (!sim_record_first_partition(record, device) && sim_uses_device(instance, device))
        return facet_kit_fail(error, FACET_BUSY, "device %" PRIu32 " is in use as a whole; expected no context on it",
                              device);
    return FACET_OK;
}

static bool overlaps_partition(const struct sim_partition *a, uint32_t a_length, uint32_t start, uint32_t length)
{
    return a->start < start + length && start < a->start + a_length;
}

/* Refuses, naming the obstacle, if a partition of `template` cannot begin at `start`; FACET_OK: it can. */
static enum facet_status find_obstacle(const struct facet_provider_instance *instance, const struct sim_record *record,
                                       uint32_t device, uint32_t template, uint32_t start, struct facet_error *error)
{
    const struct sim_partitioning *partitioning = partitioning_of(instance, device);
    const struct sim_template *wanted = &partitioning->templates[template];
    uint32_t compute_slices = wanted->compute_slices, same_template_count = 1;

    for (uint32_t i = 0; i < record->partition_count; i++) {
        const struct sim_partition *other = &record->partitions[i];

        if (other->device != device)
            continue;
        const struct sim_template *other_template = template_of(instance, other);
        compute_slices += other_template->compute_slices;
        same_template_count += other->template == template;
        if (strcmp(other_template->mode, wanted->mode) != 0)
            return facet_kit_fail(error, FACET_BAD_STATE,
                                  "device %" PRIu32 " is in mode %s (partition %s); expected %s", device,
                                  other_template->mode, other->uuid, wanted->mode);
        if (overlaps_partition(other, other_template->info.length, start, wanted->info.length))
            return facet_kit_fail(error, FACET_NO_SPACE, "partition %s (%s) is in slices %" PRIu32 " to %" PRIu32,
                                  other->uuid, other_template->info.id, other->start,
                                  other->start + other_template->info.length - 1);
    }
    if (same_template_count > wanted->info.max_count)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "device %" PRIu32 " has %" PRIu32 " partitions of %s; expected fewer", device,
                              same_template_count - 1, wanted->info.id);
    if (compute_slices > partitioning->compute_slices)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "all partitions together would take %" PRIu32
                              " compute slices; expected at most %" PRIu32,
                              compute_slices, partitioning->compute_slices);
    return check_users(instance, record, device, error);
}

/* The number of free placements of all templates, with the partitions in the record. */
static uint32_t count_free_placements(const struct facet_provider_instance *instance, const struct sim_record *record,
                                      uint32_t device)
{
    const struct sim_partitioning *partitioning = partitioning_of(instance, device);
    uint32_t free_placements = 0;

    for (uint32_t i = 0; i < partitioning->template_count; i++)
        for (uint32_t j = 0; j < partitioning->templates[i].start_count; j++)
            free_placements +=
                find_obstacle(instance, record, device, i, partitioning->templates[i].starts[j], NULL) == FACET_OK;
    return free_placements;
}

/* The number of free placements that would remain if `partition` were in the record. */
static enum facet_status count_free_placements_with(const struct facet_provider_instance *instance,
                                                    struct sim_record *record, const struct sim_partition *partition,
                                                    uint32_t *ret_room, struct facet_error *error)
{
    enum facet_status status = sim_record_add_partition(record, partition, error);

    if (status != FACET_OK)
        return status;
    *ret_room = count_free_placements(instance, record, partition->device);
    sim_record_remove_partition(record, sim_record_partition(record, partition->device, partition->uuid));
    return FACET_OK;
}

/* Chooses the start that leaves the most placements; of several such starts the highest, as drivers do. */
static enum facet_status choose_start(const struct facet_provider_instance *instance, struct sim_record *record,
                                      struct sim_partition *partition, struct facet_error *error)
{
    const struct sim_template *template = template_of(instance, partition);
    enum facet_status status = FACET_NO_SPACE;
    uint32_t best = 0, chosen = 0, room = 0;
    bool found = false;

    for (uint32_t i = template->start_count; i-- > 0;) {
        partition->start = template->starts[i];
        status = find_obstacle(instance, record, partition->device, partition->template, partition->start, error);
        if (status == FACET_OK)
            status = count_free_placements_with(instance, record, partition, &room, error);
        if (status == FACET_OK && (!found || room > best)) {
            found = true;
            best = room;
            chosen = partition->start;
        }
    }
    partition->start = chosen;
    return found ? FACET_OK : status;
}

static enum facet_status check_start(const struct sim_template *template, uint32_t start, struct facet_error *error)
{
    for (uint32_t i = 0; i < template->start_count; i++)
        if (template->starts[i] == start)
            return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE, "start %" PRIu32 ": expected one of the placements of %s", start,
                          template->info.id);
}

/*
 * The uuid is random, so that it never recurs, even if the state folder was removed meanwhile. Otherwise a client that
 * remembers a partition could take a later one for it.
 */
static enum facet_status name_partition(struct sim_record *record, struct sim_partition *partition,
                                        struct facet_error *error)
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return facet_kit_fail(error, FACET_IO, "no random number for a partition's uuid: %s", strerror(errno));
    bytes[6] = (unsigned char)(0x40 | (bytes[6] & 0x0f)); /* version 4 */
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f)); /* variant */
    facet_kit_uuid_text(bytes, partition->uuid);
    record->serial++;
    return FACET_OK;
}

static void describe_partition(const struct facet_provider_instance *instance, const struct sim_partition *partition,
                               struct facet_partition_info *info)
{
    const struct facet_partition_template *template = &template_of(instance, partition)->info;

    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->valid = template->valid | FACET_PARTITION_HAS_USE;
    info->device = partition->device;
    info->start = partition->start;
    info->length = template->length;
    info->in_use = sim_uses_partition(instance, partition->uuid);
    memcpy(info->uuid, partition->uuid, sizeof info->uuid);
    memcpy(info->template_id, template->id, sizeof info->template_id);
    memcpy(info->address, partition->uuid, sizeof partition->uuid);
    info->memory_bytes = template->memory_bytes;
    info->overhead_bytes = template->overhead_bytes;
    info->compute_units = template->compute_units;
    info->compute_milli = template->compute_milli;
}

static enum facet_status place_partition(struct facet_provider_instance *instance, struct sim_record *record,
                                         struct sim_partition *partition, struct facet_error *error)
{
    enum facet_status status;

    if (partition->start == FACET_PLACEMENT_ANY)
        status = choose_start(instance, record, partition, error);
    else
        status = check_start(template_of(instance, partition), partition->start, error);
    if (status == FACET_OK)
        status = find_obstacle(instance, record, partition->device, partition->template, partition->start, error);
    if (status == FACET_OK)
        status = sim_record_add_partition(record, partition, error);
    return status;
}

static enum facet_status check_partitionable(const struct facet_provider_instance *instance, uint32_t device,
                                             struct facet_error *error)
{
    if (partitioning_of(instance, device)->slices > 0)
        return FACET_OK;
    return facet_kit_fail(error, FACET_UNSUPPORTED, "device %" PRIu32 " cannot be partitioned", device);
}

static enum facet_status begin_partition(struct facet_provider_instance *instance, uint32_t device,
                                         const char *operation, struct facet_error *error)
{
    enum facet_status status = sim_begin(instance, device, operation, error);

    return status == FACET_OK ? check_partitionable(instance, device, error) : status;
}

static enum facet_status partition_templates(struct facet_provider_instance *instance, uint32_t device, void *items,
                                             uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                             struct facet_error *error)
{
    struct facet_partition_template templates[SIM_MAX_TEMPLATES];
    const struct sim_partitioning *partitioning;
    enum facet_status status;

    if (!instance || !ret_count)
        return sim_refuse_null(instance ? "ret_count" : "instance", error);
    SIM_LOCK(instance);
    status = begin_partition(instance, device, "partition.templates", error);
    if (status != FACET_OK)
        return status;
    partitioning = partitioning_of(instance, device);
    for (uint32_t i = 0; i < partitioning->template_count; i++)
        templates[i] = partitioning->templates[i].info;
    return facet_kit_list_items(templates, sizeof templates[0], partitioning->template_count, items, item_size,
                                capacity, ret_count, error);
}

static enum facet_status fill_placements(struct facet_provider_instance *instance, uint32_t device, uint32_t template,
                                         struct facet_partition_placement *placements, struct facet_error *error)
{
    const struct sim_template *described = &partitioning_of(instance, device)->templates[template];
    struct sim_record *record;
    enum facet_status status = sim_state_begin(instance, &record, error);

    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < described->start_count; i++) {
        placements[i].size = sizeof placements[i];
        placements[i].start = described->starts[i];
        placements[i].length = described->info.length;
        placements[i].free = find_obstacle(instance, record, device, template, described->starts[i], NULL) == FACET_OK;
    }
    return sim_state_end(instance, FACET_OK, error);
}

static enum facet_status partition_placements(struct facet_provider_instance *instance, uint32_t device,
                                              const char *template_id, void *items, uint32_t item_size,
                                              uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_partition_placement placements[SIM_MAX_SLICES];
    uint32_t template = 0;
    enum facet_status status;

    if (!instance || !template_id || !ret_count)
        return sim_refuse_null(!instance ? "instance" : !template_id ? "template_id" : "ret_count", error);
    SIM_LOCK(instance);
    status = begin_partition(instance, device, "partition.placements", error);
    if (status == FACET_OK)
        status = sim_machine_template(instance->machine, device, template_id, &template, error);
    if (status == FACET_OK)
        status = fill_placements(instance, device, template, placements, error);
    if (status != FACET_OK)
        return status;
    return facet_kit_list_items(placements, sizeof placements[0],
                                partitioning_of(instance, device)->templates[template].start_count, items, item_size,
                                capacity, ret_count, error);
}

static enum facet_status partition_create(struct facet_provider_instance *instance, uint32_t device,
                                          const char *template_id, uint32_t start,
                                          struct facet_partition_info *ret_info, struct facet_error *error)
{
    struct sim_partition partition = {.device = device, .start = start};
    struct facet_partition_info info;
    struct sim_record *record;
    enum facet_status status;

    if (!instance || !template_id || !ret_info)
        return sim_refuse_null(!instance ? "instance" : !template_id ? "template_id" : "ret_info", error);
    if (ret_info->size < sizeof ret_info->size)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_info->size %" PRIu32 ": expected at least %zu",
                              ret_info->size, sizeof ret_info->size);
    SIM_LOCK(instance);
    status = begin_partition(instance, device, "partition.create", error);
    if (status == FACET_OK)
        status = sim_machine_template(instance->machine, device, template_id, &partition.template, error);
    if (status == FACET_OK)
        status = sim_state_begin(instance, &record, error);
    if (status != FACET_OK)
        return status;
    status = name_partition(record, &partition, error);
    if (status == FACET_OK)
        status = place_partition(instance, record, &partition, error);
    status = sim_state_end(instance, status, error);
    if (status != FACET_OK)
        return status;
    describe_partition(instance, &partition, &info);
    return facet_kit_struct(&info, sizeof info, ret_info, error);
}

/* The partitions of one device. The caller frees them. */
static enum facet_status describe_partitions(struct facet_provider_instance *instance, uint32_t device,
                                             struct facet_partition_info **ret_infos, uint32_t *ret_count,
                                             struct facet_error *error)
{
    struct sim_record *record;
    struct facet_partition_info *infos;
    uint32_t count = 0;
    enum facet_status status = sim_state_begin(instance, &record, error);

    if (status != FACET_OK)
        return status;
    infos = calloc(record->partition_count + 1, sizeof *infos);
    for (uint32_t i = 0; infos && i < record->partition_count; i++)
        if (record->partitions[i].device == device)
            describe_partition(instance, &record->partitions[i], &infos[count++]);
    status = sim_state_end(instance, FACET_OK, error);
    if (!infos)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a list of partitions");
    *ret_infos = infos;
    *ret_count = count;
    return status;
}

static enum facet_status partition_list(struct facet_provider_instance *instance, uint32_t device, void *items,
                                        uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                        struct facet_error *error)
{
    struct facet_partition_info *infos = NULL;
    uint32_t count = 0;
    enum facet_status status;

    if (!instance || !ret_count)
        return sim_refuse_null(instance ? "ret_count" : "instance", error);
    SIM_LOCK(instance);
    status = begin_partition(instance, device, "partition.list", error);
    if (status == FACET_OK)
        status = describe_partitions(instance, device, &infos, &count, error);
    if (status != FACET_OK)
        return status;
    status = facet_kit_list_items(infos, sizeof *infos, count, items, item_size, capacity, ret_count, error);
    free(infos);
    return status;
}

static enum facet_status remove_partition(const struct facet_provider_instance *instance, struct sim_record *record,
                                          uint32_t device, const char *uuid, struct facet_error *error)
{
    const struct sim_partition *partition = sim_record_partition(record, device, uuid);

    if (!partition)
        return facet_kit_fail(error, FACET_NOT_FOUND, "uuid %.64s: expected a partition of device %" PRIu32, uuid,
                              device);
    if (sim_uses_partition(instance, uuid))
        return facet_kit_fail(error, FACET_BUSY, "partition %.64s has a context; expected none", uuid);
    sim_record_remove_partition(record, partition);
    return FACET_OK;
}

static enum facet_status partition_destroy(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                           struct facet_error *error)
{
    struct sim_record *record;
    enum facet_status status;

    if (!instance || !uuid)
        return sim_refuse_null(instance ? "uuid" : "instance", error);
    SIM_LOCK(instance);
    status = begin_partition(instance, device, "partition.destroy", error);
    if (status == FACET_OK)
        status = sim_state_begin(instance, &record, error);
    if (status != FACET_OK)
        return status;
    return sim_state_end(instance, remove_partition(instance, record, device, uuid, error), error);
}

const struct facet_partition_ops sim_partition_ops = {
    .size = sizeof sim_partition_ops,
    .templates = partition_templates,
    .placements = partition_placements,
    .create = partition_create,
    .list = partition_list,
    .destroy = partition_destroy,
};
