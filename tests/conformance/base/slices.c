/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: partitions and limits of the base device. Never: allows partitions and limits at the same time. */
#include "base.h"

static const struct facet_partition_template templates[] = {
    {.id = "1s",
     .valid = FACET_PARTITION_HAS_MEMORY,
     .memory_bytes = BASE_MEMORY / 8,
     .compute_units = 1,
     .compute_milli = 125,
     .length = 1,
     .max_count = 8},
    {.id = "2s",
     .valid = FACET_PARTITION_HAS_MEMORY,
     .memory_bytes = BASE_MEMORY / 4,
     .compute_units = 2,
     .compute_milli = 250,
     .length = 2,
     .max_count = 4},
    {.id = "4s",
     .valid = FACET_PARTITION_HAS_MEMORY,
     .memory_bytes = BASE_MEMORY / 2,
     .compute_units = 4,
     .compute_milli = 500,
     .length = 4,
     .max_count = 2},
};

enum { TEMPLATES = 3 };

static enum facet_status find_template(uint32_t device, const char *id,
                                       const struct facet_partition_template **ret_template, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status != FACET_OK)
        return status;
    if (!id)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "template_id: expected an id, not NULL");
    for (int i = 0; i < TEMPLATES; i++)
        if (strcmp(templates[i].id, id) == 0) {
            *ret_template = &templates[i];
            return FACET_OK;
        }
    return facet_kit_fail(error, FACET_NOT_FOUND, "template '%.31s': expected 1s, 2s or 4s", id);
}

/* The partition that holds a slice; NULL when it is free. `partitions` is indexed by a partition's first slice. */
static struct facet_partition_info *slice_owner(struct facet_provider_instance *instance, uint32_t slice)
{
    for (uint32_t i = 0; i <= slice; i++) {
        struct facet_partition_info *one = &instance->partitions[i];
        if (one->uuid[0] && slice < one->start + one->length)
            return one;
    }
    return NULL;
}

static bool is_free(struct facet_provider_instance *instance, uint32_t start, uint32_t length)
{
    for (uint32_t slice = start; slice < start + length; slice++)
        if (slice_owner(instance, slice))
            return false;
    return true;
}

bool base_is_partitioned(const struct facet_provider_instance *instance)
{
    for (int i = 0; i < BASE_SLICES; i++)
        if (instance->partitions[i].uuid[0])
            return true;
    return false;
}

static enum facet_status base_templates(struct facet_provider_instance *instance, uint32_t device, void *items,
                                        uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                        struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status != FACET_OK)
        return status;
    return facet_kit_list_items(templates, sizeof templates[0], TEMPLATES, items, item_size, capacity, ret_count,
                                error);
}

static enum facet_status base_placements(struct facet_provider_instance *instance, uint32_t device,
                                         const char *template_id, void *items, uint32_t item_size, uint32_t capacity,
                                         uint32_t *ret_count, struct facet_error *error)
{
    struct facet_partition_placement all[BASE_SLICES];
    const struct facet_partition_template *wanted = NULL;
    enum facet_status status = find_template(device, template_id, &wanted, error);
    uint32_t count = 0;

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    for (uint32_t start = 0; start < BASE_SLICES; start += wanted->length)
        all[count++] = (struct facet_partition_placement){
            .start = start, .length = wanted->length, .free = is_free(instance, start, wanted->length)};
    return facet_kit_list_items(all, sizeof all[0], count, items, item_size, capacity, ret_count, error);
}

static bool has_whole_device_users(const struct facet_provider_instance *instance)
{
    for (int i = 0; i < BASE_CONTEXTS; i++)
        if (instance->contexts[i].number && !instance->contexts[i].partition[0])
            return true;
    for (int i = 0; i < BASE_WORKERS; i++)
        if (instance->workers[i].name[0])
            return true;
    return false;
}

static enum facet_status choose_start(struct facet_provider_instance *instance,
                                      const struct facet_partition_template *wanted, uint32_t *start,
                                      struct facet_error *error)
{
    bool any = *start == FACET_PLACEMENT_ANY;

    if (!any && (*start >= BASE_SLICES || *start % wanted->length != 0))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "start %" PRIu32 ": expected a multiple of %" PRIu32 " below %d", *start, wanted->length,
                              BASE_SLICES);
    if (any)
        *start = 0;
    while (any && *start < BASE_SLICES && !is_free(instance, *start, wanted->length))
        *start += wanted->length;
    if (*start >= BASE_SLICES || !is_free(instance, *start, wanted->length))
        return facet_kit_fail(error, FACET_NO_SPACE, "no room for %s", wanted->id);
    return FACET_OK;
}

static enum facet_status base_create(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                     uint32_t start, struct facet_partition_info *ret_info, struct facet_error *error)
{
    const struct facet_partition_template *wanted = NULL;
    enum facet_status status = find_template(device, template_id, &wanted, error);

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    if (has_whole_device_users(instance))
        return facet_kit_fail(error, FACET_BUSY, "workers use the whole device");
    status = choose_start(instance, wanted, &start, error);
    if (status != FACET_OK)
        return status;
    struct facet_partition_info made = {.size = sizeof made,
                                        .valid = wanted->valid,
                                        .start = start,
                                        .length = wanted->length,
                                        .memory_bytes = wanted->memory_bytes,
                                        .compute_units = wanted->compute_units,
                                        .compute_milli = wanted->compute_milli};
    FACET_KIT_TEXT(made.template_id, wanted->id);
    snprintf(made.uuid, sizeof made.uuid, "base-0-%" PRIu64, instance->last_number + 1);
    status = facet_kit_struct(&made, sizeof made, ret_info, error);
    if (status != FACET_OK)
        return status;
    instance->last_number++;
    instance->partitions[start] = made;
    base_add_event(instance, FACET_EVENT_PARTITION, 1, made.uuid);
    return FACET_OK;
}

bool base_partition_in_use(const struct facet_provider_instance *instance, const char *uuid)
{
    for (int i = 0; i < BASE_CONTEXTS; i++)
        if (instance->contexts[i].number && strcmp(instance->contexts[i].partition, uuid) == 0)
            return true;
    return false;
}

static enum facet_status base_list(struct facet_provider_instance *instance, uint32_t device, void *items,
                                   uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                   struct facet_error *error)
{
    struct facet_partition_info all[BASE_SLICES];
    enum facet_status status = facet_kit_check_device(device, 1, error);
    uint32_t count = 0;

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    for (int i = 0; i < BASE_SLICES; i++) {
        if (!instance->partitions[i].uuid[0])
            continue;
        all[count] = instance->partitions[i];
        all[count].in_use = base_partition_in_use(instance, all[count].uuid);
        count++;
    }
    return facet_kit_list_items(all, sizeof all[0], count, items, item_size, capacity, ret_count, error);
}

static enum facet_status base_destroy(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                      struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status != FACET_OK)
        return status;
    if (!uuid)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "uuid: expected that of a partition, not NULL");
    BASE_LOCK(instance);
    for (int i = 0; i < BASE_SLICES; i++) {
        struct facet_partition_info *one = &instance->partitions[i];
        if (!one->uuid[0] || strcmp(one->uuid, uuid) != 0)
            continue;
        if (base_partition_in_use(instance, uuid))
            return facet_kit_fail(error, FACET_BUSY, "partition '%s' has a context", uuid);
        base_add_event(instance, FACET_EVENT_PARTITION, 0, uuid);
        *one = (struct facet_partition_info){0};
        return FACET_OK;
    }
    return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.63s': expected a partition that exists", uuid);
}

const struct facet_partition_ops base_partition = {
    .size = sizeof base_partition,
    .templates = base_templates,
    .placements = base_placements,
    .create = base_create,
    .list = base_list,
    .destroy = base_destroy,
};

struct base_worker *base_find_worker(struct facet_provider_instance *instance, const char *name)
{
    for (int i = 0; i < BASE_WORKERS; i++)
        if (instance->workers[i].name[0] && strcmp(instance->workers[i].name, name) == 0)
            return &instance->workers[i];
    return NULL;
}

/* Finds a worker, or adds it; NULL when the table is full. */
static struct base_worker *need_worker(struct facet_provider_instance *instance, const char *name)
{
    struct base_worker *worker = base_find_worker(instance, name);

    for (int i = 0; !worker && i < BASE_WORKERS; i++) {
        if (instance->workers[i].name[0])
            continue;
        worker = &instance->workers[i];
        snprintf(worker->name, sizeof worker->name, "%s", name);
    }
    return worker;
}

static enum facet_status check_limit(uint32_t device, const char *worker, uint64_t value, uint64_t most,
                                     struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status == FACET_OK && (value == 0 || value > most))
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "%" PRIu64 ": expected 1 to %" PRIu64, value, most);
    return status;
}

static enum facet_status base_set_memory(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                         uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = check_limit(device, worker, bytes, BASE_MEMORY, error);
    uint64_t sum = bytes;

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    if (base_is_partitioned(instance))
        return facet_kit_fail(error, FACET_BUSY, "the device is partitioned");
    const struct base_worker *known = base_find_worker(instance, worker);
    if (known && known->memory)
        return facet_kit_fail(error, FACET_BAD_STATE, "worker '%s' has a memory limit", worker);
    for (int i = 0; i < BASE_WORKERS; i++)
        sum += instance->workers[i].memory;
    if (sum > BASE_MEMORY)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "the limits would sum to %" PRIu64 " bytes, more than the device has", sum);
    struct base_worker *one = need_worker(instance, worker);
    if (!one)
        return facet_kit_fail(error, FACET_BUSY, "all %d workers have limits", BASE_WORKERS);
    one->memory = bytes;
    return FACET_OK;
}

static enum facet_status base_set_compute(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                          uint32_t milli, struct facet_error *error)
{
    enum facet_status status = check_limit(device, worker, milli, FACET_MILLI_WHOLE, error);
    uint32_t granted = (milli + 124) / 125 * 125, sum = granted; /* rounded up to slices */

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    if (base_is_partitioned(instance))
        return facet_kit_fail(error, FACET_BUSY, "the device is partitioned");
    const struct base_worker *known = base_find_worker(instance, worker);
    if (known && known->milli)
        return facet_kit_fail(error, FACET_BAD_STATE, "worker '%s' has a compute limit", worker);
    for (int i = 0; i < BASE_WORKERS; i++)
        sum += instance->workers[i].milli;
    if (sum > FACET_MILLI_WHOLE)
        return facet_kit_fail(error, FACET_NO_SPACE, "the limits would sum to %" PRIu32 " milli, more than the device",
                              sum);
    struct base_worker *one = need_worker(instance, worker);
    if (!one)
        return facet_kit_fail(error, FACET_BUSY, "all %d workers have limits", BASE_WORKERS);
    one->milli = granted;
    return FACET_OK;
}

static struct facet_worker_limit limit_of(const struct base_worker *worker)
{
    struct facet_worker_limit limit = {.size = sizeof limit,
                                       .valid = (worker->memory ? FACET_WORKER_HAS_MEMORY : 0) |
                                                (worker->milli ? FACET_WORKER_HAS_COMPUTE : 0),
                                       .compute_units = worker->milli / 125,
                                       .compute_milli = worker->milli,
                                       .memory_bytes = worker->memory};

    FACET_KIT_TEXT(limit.worker, worker->name);
    return limit;
}

static enum facet_status base_get(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                  struct facet_worker_limit *ret_limit, struct facet_error *error)
{
    enum facet_status status = check_limit(device, worker, 1, 1, error);

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    const struct base_worker *one = base_find_worker(instance, worker);
    if (!one)
        return facet_kit_fail(error, FACET_NOT_FOUND, "worker '%s' has no limit", worker);
    const struct facet_worker_limit limit = limit_of(one);
    return facet_kit_struct(&limit, sizeof limit, ret_limit, error);
}

static enum facet_status base_list_limits(struct facet_provider_instance *instance, uint32_t device, void *items,
                                          uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                          struct facet_error *error)
{
    struct facet_worker_limit all[BASE_WORKERS];
    enum facet_status status = facet_kit_check_device(device, 1, error);
    uint32_t count = 0;

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    for (int i = 0; i < BASE_WORKERS; i++)
        if (instance->workers[i].name[0])
            all[count++] = limit_of(&instance->workers[i]);
    return facet_kit_list_items(all, sizeof all[0], count, items, item_size, capacity, ret_count, error);
}

static enum facet_status base_clear(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                    struct facet_error *error)
{
    enum facet_status status = check_limit(device, worker, 1, 1, error);

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    struct base_worker *one = base_find_worker(instance, worker);
    if (!one)
        return facet_kit_fail(error, FACET_NOT_FOUND, "worker '%s' has no limit", worker);
    for (int i = 0; i < BASE_CONTEXTS; i++)
        if (instance->contexts[i].number && strcmp(instance->contexts[i].worker, worker) == 0)
            return facet_kit_fail(error, FACET_BUSY, "worker '%s' has a context", worker);
    *one = (struct base_worker){0};
    return FACET_OK;
}

const struct facet_limit_ops base_limit = {
    .size = sizeof base_limit,
    .set_memory = base_set_memory,
    .set_compute = base_set_compute,
    .get = base_get,
    .list = base_list_limits,
    .clear = base_clear,
};
