/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: partitions, assigned by template and removed by identity.
 * Never: leaves a partition behind that the caller does not know, or removes one of several partitions that
 * have the same template.
 *
 * In the ABI's header AccelRemovePartition() takes the template, but TensorFusion's hypervisor passes the partition's
 * uuid, so both are accepted. A template of more than one partition of the device is refused, because it does not say
 * which is meant.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "facade.h"

/* Finds the device that a call names. On failure `ret_result` is the call's result. */
static bool find_device(struct facade_call *call, const char *uuid, struct facade_device *ret_device,
                        AccelResult *ret_result)
{
    struct facet_error error = {0};

    if (facade_device_find(call, uuid, ret_device, &error) == FACET_OK)
        return true;
    *ret_result = facade_refuse(call, &error);
    return false;
}

/* ---- assign ---- */

static bool print_pair(char *target, size_t size, const char *left, const char *right)
{
    int length = snprintf(target, size, "%s=%s", left, right);

    return length >= 0 && (size_t)length < size;
}

/* Returns false when the ABI's result has no room for the item: half a variable would be worse than none. */
static bool add_item(PartitionResult *to, const struct facet_container_item *item, uint32_t *envs, uint32_t *nodes)
{
    switch (item->kind) {
    case FACET_CONTAINER_ENVIRONMENT:
        return *envs < MAX_PARTITION_ENVS &&
               print_pair(to->envVars[(*envs)++], MAX_ENV_VALUE_LENGTH, item->guest, item->host);
    case FACET_CONTAINER_DEVICE_NODE:
        return *nodes < MAX_PARTITION_DEVICE_NODES &&
               print_pair(to->deviceNodes[(*nodes)++], MAX_PARTITION_DEVICE_NODE_LENGTH, item->host, item->guest);
    default: /* mounts are the same for every partition: AccelGetVendorMountLibs() returns them */
        return true;
    }
}

static AccelResult fill_items(struct facade_call *call, const struct facade_device *device, PartitionResult *to)
{
    struct facade_query query = facade_query_of(device);
    FACADE_CLEANUP_FREE void *found = NULL;
    struct facet_error error = {0};
    uint32_t count = 0, envs = 0, nodes = 0;

    query.text = to->deviceUUID;
    if (!(device->info.capabilities & FACET_CAN_CONTAINER)) {
        facade_log(call, "WARN", "%s: its provider does not say what a container needs", to->deviceUUID);
        return ACCEL_SUCCESS;
    }
    if (facade_fetch(facade_ask_container, &query, sizeof(struct facet_container_item), &found, &count, &error) !=
        FACET_OK)
        return facade_refuse(call, &error);
    for (const struct facet_container_item *item = found; count > 0; item++, count--) {
        if (!add_item(to, item, &envs, &nodes))
            return facade_fail(call, ACCEL_ERROR_RESOURCE_EXHAUSTED, "'%.64s' does not fit in a PartitionResult",
                               item->guest);
    }
    to->type = nodes && !envs ? PARTITION_TYPE_DEVICE_NODE : PARTITION_TYPE_ENVIRONMENT_VARIABLE;
    return ACCEL_SUCCESS;
}

static void take_back(struct facade_call *call, const struct facade_query *query, const char *uuid)
{
    struct facet_error error = {0};

    if (query->provider->partition->destroy(query->instance, query->device, uuid, &error) != FACET_OK)
        facade_log(call, "ERROR", "partition %s stays behind: %s", uuid, error.message);
}

static AccelResult assign_partition(struct facade_call *call, const char *template_id, const char *uuid,
                                    PartitionResult *to)
{
    struct facet_partition_info partition = {.size = sizeof partition};
    struct facade_device device;
    struct facet_error error = {0};
    AccelResult result;

    if (!template_id || !uuid || !to || !*template_id || !*uuid)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "expected a template, a device and a place for the result");
    result = facade_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    FACADE_CLEANUP_FREE PartitionResult *new_result = calloc(1, sizeof *new_result);
    if (!new_result)
        return facade_fail(call, ACCEL_ERROR_RESOURCE_EXHAUSTED, "no memory for a result");
    if (!find_device(call, uuid, &device, &result))
        return result;
    const struct facade_query query = facade_query_of(&device);
    if (query.provider->partition->create(query.instance, query.device, template_id, FACET_PLACEMENT_ANY, &partition,
                                          &error) != FACET_OK)
        return facade_refuse(call, &error);
    FACADE_TEXT(new_result->deviceUUID, partition.uuid);
    result = fill_items(call, &device, new_result);
    if (result == ACCEL_SUCCESS)
        *to = *new_result;
    else
        take_back(call, &query, partition.uuid);
    return result;
}

AccelResult AccelAssignPartition(const char *templateId, const char *deviceUUID, PartitionResult *result)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, assign_partition(&call, templateId, deviceUUID, result));
}

/* ---- remove ---- */

/* Finds the partition that has `id` as its uuid or as its template, and returns its uuid. */
static AccelResult choose_partition(struct facade_call *call, const struct facet_partition_info *partitions,
                                    uint32_t count, const char *id, const char **ret_uuid)
{
    const char *chosen = NULL;
    uint32_t match_count = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (strcasecmp(partitions[i].uuid, id) == 0) {
            *ret_uuid = partitions[i].uuid;
            return ACCEL_SUCCESS;
        }
        if (strcmp(partitions[i].template_id, id) == 0) {
            chosen = partitions[i].uuid;
            match_count++;
        }
    }
    if (match_count == 0)
        return facade_fail(call, ACCEL_ERROR_NOT_FOUND, "no partition of the device is '%.64s'", id);
    if (match_count > 1)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "%u partitions of the device are '%.64s': expected a uuid",
                           match_count, id);
    *ret_uuid = chosen;
    return ACCEL_SUCCESS;
}

static AccelResult remove_partition(struct facade_call *call, const char *id, const char *device_uuid)
{
    FACADE_CLEANUP_FREE void *partitions = NULL;
    struct facade_device device;
    struct facet_error error = {0};
    const char *uuid = NULL;
    AccelResult result;
    uint32_t count = 0;

    if (!id || !device_uuid || !*id || !*device_uuid)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "expected a partition or template, and a device");
    result = facade_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    if (!find_device(call, device_uuid, &device, &result))
        return result;
    const struct facade_query query = facade_query_of(&device);
    if (facade_fetch(facade_ask_partitions, &query, sizeof(struct facet_partition_info), &partitions, &count, &error) !=
        FACET_OK)
        return facade_refuse(call, &error);
    result = choose_partition(call, partitions, count, id, &uuid);
    if (result == ACCEL_SUCCESS &&
        query.provider->partition->destroy(query.instance, query.device, uuid, &error) != FACET_OK)
        result = facade_refuse(call, &error);
    return result;
}

AccelResult AccelRemovePartition(const char *templateId, const char *deviceUUID)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, remove_partition(&call, templateId, deviceUUID));
}
