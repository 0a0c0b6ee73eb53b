/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the share of a worker's context, by partitions and limits.
 * Never: admits a context on the whole device beside partitions, or one without a limit beside limits.
 */
#include <string.h>

#include "core.h"
#include "provider_kit.h"
#include "share.h"

/* Marks the exclusive units of workers other than `worker`. */
static void mark_promised(const struct sim_record *record, uint32_t device, const char *worker, uint32_t units,
                          bool *unit_is_promised)
{
    for (uint32_t i = 0; i < record->worker_count; i++) {
        const struct sim_worker *other = &record->workers[i];

        if (other->device == device && strcmp(other->name, worker) != 0)
            for (uint32_t unit = 0; unit < other->compute_units; unit++)
                if (other->first_unit + unit < units)
                    unit_is_promised[other->first_unit + unit] = true;
    }
}

struct sim_run sim_free_run(const struct sim_record *record, const struct facet_device_info *info, const char *worker,
                            uint32_t wanted)
{
    bool unit_is_promised[SIM_MAX_UNITS] = {false};
    struct sim_run best = {0, 0};
    uint32_t begin = 0;

    mark_promised(record, info->index, worker, info->compute_units, unit_is_promised);
    for (uint32_t unit = 0; unit <= info->compute_units; unit++) {
        if (unit < info->compute_units && !unit_is_promised[unit])
            continue;
        if (unit - begin > best.count)
            best = (struct sim_run){begin, unit - begin};
        if (best.count >= wanted)
            break;
        begin = unit + 1;
    }
    return best;
}

static enum facet_status share_of_partition(const struct facet_provider_instance *instance,
                                            const struct sim_record *record, uint32_t device, const char *uuid,
                                            struct sim_share *share, struct facet_error *error)
{
    const struct sim_partitioning *partitioning = &instance->machine->devices[device].product->partitioning;
    const struct sim_partition *partition = sim_record_partition(record, device, uuid);

    if (!partition)
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition_uuid %.64s: expected a partition of device %" PRIu32,
                              uuid, device);
    share->memory_bytes = partitioning->templates[partition->template].info.memory_bytes;
    share->first_unit = partitioning->first_units[partition->start];
    share->compute_units = partitioning->templates[partition->template].info.compute_units;
    share->exclusive = true;
    memcpy(share->partition_uuid, partition->uuid, sizeof share->partition_uuid);
    return FACET_OK;
}

uint64_t sim_memory_promised(const struct sim_record *record, uint32_t device, const char *worker)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < record->worker_count; i++)
        if (record->workers[i].device == device && strcmp(record->workers[i].name, worker) != 0)
            bytes += record->workers[i].memory_bytes;
    return bytes;
}

/* A worker with only a memory limit shares the unreserved units; with only a compute limit, the unreserved memory. */
static enum facet_status share_of_worker(const struct sim_record *record, const struct facet_device_info *info,
                                         const struct sim_worker *worker, struct sim_share *share,
                                         struct facet_error *error)
{
    share->memory_limited = worker->valid & FACET_WORKER_HAS_MEMORY;
    share->memory_bytes = share->memory_limited
                              ? worker->memory_bytes
                              : info->memory_bytes - sim_memory_promised(record, info->index, worker->name);
    if (worker->valid & FACET_WORKER_HAS_COMPUTE) {
        share->exclusive = true;
        share->first_unit = worker->first_unit;
        share->compute_units = worker->compute_units;
        return FACET_OK;
    }
    struct sim_run run = sim_free_run(record, info, worker->name, info->compute_units);

    if (run.count == 0)
        return facet_kit_fail(error, FACET_BUSY,
                              "other workers have all compute units of device %" PRIu32 "; expected a compute limit "
                              "for worker %s as well",
                              info->index, worker->name);
    share->first_unit = run.first;
    share->compute_units = run.count;
    return FACET_OK;
}

static enum facet_status share_of_device(const struct facet_provider_instance *instance,
                                         const struct sim_record *record, uint32_t device, const char *worker,
                                         struct sim_share *share, struct facet_error *error)
{
    const struct facet_device_info *info = sim_device_info(instance, device);
    const struct sim_partition *partition = sim_record_first_partition(record, device);
    const struct sim_worker *limited = sim_record_worker(record, device, worker);

    if (partition)
        return facet_kit_fail(error, FACET_BUSY,
                              "device %" PRIu32 " is partitioned (partition %s); expected a partition to be named",
                              device, partition->uuid);
    if (limited)
        return share_of_worker(record, info, limited, share, error);
    limited = sim_record_first_worker(record, device);
    if (limited)
        return facet_kit_fail(error, FACET_BUSY,
                              "device %" PRIu32 " is in hard mode (worker %s has limits); expected limits for this "
                              "worker too",
                              device, limited->name);
    share->memory_bytes = info->memory_bytes;
    share->compute_units = info->compute_units;
    return FACET_OK;
}

enum facet_status sim_share_in(struct facet_provider_instance *instance, const struct sim_record *record,
                               uint32_t device, const char *partition_uuid, const char *worker,
                               struct sim_share *ret_share, struct facet_error *error)
{
    struct sim_share share = {0};
    enum facet_status status;

    if (instance->machine->devices[device].partial &&
        !sim_visible_lists_uuid(instance->machine, partition_uuid ? partition_uuid : ""))
        status = facet_kit_fail(error, FACET_NOT_FOUND,
                                "partition_uuid \"%.64s\": expected one of FACET_SIM_VISIBLE_DEVICES, which does not "
                                "name device %" PRIu32 " as a whole",
                                partition_uuid ? partition_uuid : "", device);
    else if (partition_uuid && *partition_uuid)
        status = share_of_partition(instance, record, device, partition_uuid, &share, error);
    else
        status = share_of_device(instance, record, device, worker ? worker : "", &share, error);
    if (status == FACET_OK)
        *ret_share = share;
    return status;
}

enum facet_status sim_share_of(struct facet_provider_instance *instance, uint32_t device, const char *partition_uuid,
                               const char *worker, struct sim_share *ret_share, struct facet_error *error)
{
    struct sim_share share;
    struct sim_record *record;
    enum facet_status status = sim_check_device(instance, device, error);

    if (status == FACET_OK)
        status = sim_state_begin(instance, &record, error);
    if (status != FACET_OK)
        return status;
    status = sim_share_in(instance, record, device, partition_uuid, worker, &share, error);
    status = sim_state_end(instance, status, error);
    if (status == FACET_OK)
        *ret_share = share;
    return status;
}
