/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table `partition`: sub-devices by counts.
 *
 * Owns: templates and the identity of partitions. A slice is a compute unit; memory is not sliced.
 * Never: keeps a sub-device. It lives in the tenant's process, where the layer makes it from the partition's address.
 */
#include "opencl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include <facet/opencl_address.h>

/* Numbers up to FACET_OPENCL_UNITS_MAX have at most 32 divisors, and 10 powers of two are smaller. */
#define TEMPLATES_MAX 64

#define SMALL_DEVICE 16

/* A small device can be partitioned at any length; a larger one into equal parts and powers of two. */
static bool is_template(const struct facet_device_info *info, uint32_t length)
{
    uint32_t units = info->compute_units;

    return units <= SMALL_DEVICE || units % length == 0 || (length & (length - 1)) == 0;
}

static struct facet_partition_template make_template(const struct facet_device_info *info, uint32_t length)
{
    struct facet_partition_template template = {
        .size = sizeof template,
        .compute_units = length,
        .compute_milli = facet_opencl_milli(info, length),
        .length = length,
        .max_count = info->compute_units / length,
    };

    snprintf(template.id, sizeof template.id, "%" PRIu32 "cu", length);
    return template;
}

static enum facet_status opencl_templates(struct facet_provider_instance *instance, uint32_t device, void *items,
                                          uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                          struct facet_error *error)
{
    struct facet_partition_template templates[TEMPLATES_MAX];
    uint32_t count = 0;
    enum facet_status status = facet_opencl_check(instance, device, FACET_CAN_PARTITION, error);

    if (status != FACET_OK)
        return status;
    const struct facet_device_info *info = &instance->infos[device];
    for (uint32_t length = 1; length < info->compute_units && count < TEMPLATES_MAX; length++)
        if (is_template(info, length))
            templates[count++] = make_template(info, length);
    return facet_kit_list_items(templates, sizeof *templates, count, items, item_size, capacity, ret_count, error);
}

static enum facet_status find_template(const struct facet_device_info *info, const char *id,
                                       struct facet_partition_template *ret_template, struct facet_error *error)
{
    if (!id)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "template_id: expected the id of a template, not NULL");
    for (uint32_t length = 1; length < info->compute_units; length++) {
        if (!is_template(info, length))
            continue;
        struct facet_partition_template template = make_template(info, length);
        if (strcmp(template.id, id) == 0) {
            *ret_template = template;
            return FACET_OK;
        }
    }
    return facet_kit_fail(error, FACET_NOT_FOUND, "template '%.32s': expected one that the device lists, like \"1cu\"",
                          id);
}

/* Lists every start at which the template fits. */
static enum facet_status opencl_placements(struct facet_provider_instance *instance, uint32_t device,
                                           const char *template_id, void *items, uint32_t item_size, uint32_t capacity,
                                           uint32_t *ret_count, struct facet_error *error)
{
    struct facet_partition_template template;
    enum facet_status status = facet_opencl_check(instance, device, FACET_CAN_PARTITION, error);

    if (status == FACET_OK)
        status = find_template(&instance->infos[device], template_id, &template, error);
    if (status != FACET_OK)
        return status;
    uint32_t count = instance->infos[device].compute_units - template.length + 1;
    struct facet_partition_placement *placements = calloc(count, sizeof *placements);
    if (!placements)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " placements", count);
    pthread_mutex_lock(&instance->lock);
    for (uint32_t start = 0; start < count; start++)
        placements[start] = (struct facet_partition_placement){
            .size = sizeof *placements,
            .start = start,
            .length = template.length,
            .free = !facet_opencl_holder_of_units(&instance->devices[device], start, template.length),
        };
    pthread_mutex_unlock(&instance->lock);
    status = facet_kit_list_items(placements, sizeof *placements, count, items, item_size, capacity, ret_count, error);
    free(placements);
    return status;
}

static void describe_partition(const struct facet_device_info *info, const struct facet_opencl_holder *holder,
                               void *ret_item)
{
    struct facet_partition_info *partition = ret_item;
    struct facet_partition_template template = make_template(info, holder->length);

    *partition = (struct facet_partition_info){
        .size = sizeof *partition,
        .device = info->index,
        .start = holder->start,
        .length = holder->length,
        .compute_units = template.compute_units,
        .compute_milli = template.compute_milli,
    };
    FACET_KIT_TEXT(partition->uuid, holder->name);
    FACET_KIT_TEXT(partition->template_id, template.id);
    facet_opencl_holder_address(info, holder, partition->address);
}

/* Each partition gets a new uuid, even if it has the units of an earlier partition. */
static enum facet_status make_uuid(const struct facet_device_info *info, char *ret_uuid, struct facet_error *error)
{
    char text[128];
    uint64_t nonce;

    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
        return facet_kit_fail(error, FACET_IO, "getrandom: error %d", errno);
    snprintf(text, sizeof text, "%s %016" PRIx64, info->uuid, nonce);
    facet_kit_uuid_of(text, ret_uuid);
    return FACET_OK;
}

/* Under the lock. On failure no partition is left. */
static enum facet_status create_partition(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                          uint32_t start, uint32_t length, struct facet_partition_info *ret_info,
                                          struct facet_error *error)
{
    struct facet_opencl_device *target = &instance->devices[device];
    struct facet_opencl_holder *holder = facet_opencl_holder_add(target, FACET_OPENCL_PARTITION, uuid);

    if (!holder)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a partition");
    enum facet_status status = facet_opencl_holder_place(instance, device, holder, start, length, error);
    if (status == FACET_OK)
        describe_partition(&instance->infos[device], holder, ret_info);
    else
        facet_opencl_holder_remove(target, holder);
    return status;
}

static enum facet_status opencl_create(struct facet_provider_instance *instance, uint32_t device,
                                       const char *template_id, uint32_t start, struct facet_partition_info *ret_info,
                                       struct facet_error *error)
{
    char uuid[FACET_WORKER_SIZE];
    struct facet_partition_template template;
    struct facet_partition_info info = {.size = sizeof info};
    enum facet_status status = facet_opencl_check(instance, device, FACET_CAN_PARTITION, error);

    if (status == FACET_OK)
        status = find_template(&instance->infos[device], template_id, &template, error);
    if (status == FACET_OK)
        status = facet_opencl_check_struct(ret_info, error);
    if (status == FACET_OK)
        status = make_uuid(&instance->infos[device], uuid, error);
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    status = create_partition(instance, device, uuid, start, template.length, &info, error);
    pthread_mutex_unlock(&instance->lock);
    return status == FACET_OK ? facet_kit_struct(&info, sizeof info, ret_info, error) : status;
}

static enum facet_status opencl_list(struct facet_provider_instance *instance, uint32_t device, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error)
{
    static const struct facet_opencl_listing partitions = {FACET_OPENCL_PARTITION, sizeof(struct facet_partition_info),
                                                           describe_partition};
    enum facet_status status = facet_opencl_check(instance, device, FACET_CAN_PARTITION, error);

    if (status != FACET_OK)
        return status;
    return facet_opencl_holder_list(instance, device, &partitions, items, item_size, capacity, ret_count, error);
}

/* OpenCL does not report the users of a partition, only the daemon knows them: FACET_BUSY is never returned. */
static enum facet_status opencl_destroy(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                        struct facet_error *error)
{
    enum facet_status status = facet_opencl_check(instance, device, FACET_CAN_PARTITION, error);

    if (status == FACET_OK && !uuid)
        status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "uuid: expected a partition's, not NULL");
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    struct facet_opencl_device *target = &instance->devices[device];
    struct facet_opencl_holder *holder = facet_opencl_holder_find(target, FACET_OPENCL_PARTITION, uuid);
    if (holder)
        facet_opencl_holder_remove(target, holder);
    else
        status = facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.63s': expected one that exists", uuid);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

const struct facet_partition_ops facet_opencl_partition_ops = {
    .size = sizeof facet_opencl_partition_ops,
    .templates = opencl_templates,
    .placements = opencl_placements,
    .create = opencl_create,
    .list = opencl_list,
    .destroy = opencl_destroy,
};
