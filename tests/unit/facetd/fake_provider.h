/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake of a provider behind the registry: partitions and limits that outlive a process, as in a driver.
 *
 * Owns: a device of four slices with the templates "half" and "quarter"; limits of workers in steps of an eighth; a
 * switch that makes the provider lost; counting each call as a step.
 * Never: starts a process.
 */
#ifndef FACETD_TEST_FAKE_PROVIDER_H
#define FACETD_TEST_FAKE_PROVIDER_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "fake_scheduler.h"
#include "sessions.h"

#include <jansson.h>

enum { SLICES = 4, WORKERS = 4 }; /* a slice has a quarter of the device: 1 << 28 bytes, 250 milli, 2 units */

static const struct {
    const char *id;
    uint32_t length;
} fake_templates[] = {{"half", 2}, {"quarter", 1}};

/* The driver's state, in memory that forked children share. */
struct fake_device_state {
    uint32_t made_count; /* partitions made so far; the uuid of each holds its number */
    bool lost;
    bool unreadable;                            /* the list of partitions cannot be read */
    struct facet_partition_info parts[SLICES];  /* by first slice; length 0: none */
    struct facet_worker_limit workers[WORKERS]; /* empty name: none */
};

static struct fake_device_state *fake_device;

static void provider_reset(void)
{
    if (!fake_device)
        fake_device = mmap(NULL, sizeof *fake_device, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(fake_device, 0, sizeof *fake_device);
}

/* Describes the present partitions without uuids, which differ when a partition is made again. */
static void provider_describe(char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < SLICES; i++)
        if (fake_device->parts[i].length)
            used += (size_t)snprintf(text + used, size - used, " %s@%u", fake_device->parts[i].template_id, i);
    for (uint32_t i = 0; i < WORKERS; i++)
        if (fake_device->workers[i].worker[0])
            used += (size_t)snprintf(text + used, size - used, " limit %s %llu %u", fake_device->workers[i].worker,
                                     (unsigned long long)fake_device->workers[i].memory_bytes,
                                     fake_device->workers[i].compute_milli);
}

static enum facet_status fake_device_step(struct facet_error *error)
{
    if (fake_device->lost)
        return facet_error_set(error, FACET_DEVICE_LOST, "the provider is lost");
    return step_fails(error) ? FACET_IO : FACET_OK;
}

/* Gives items by the two-call rule of the provider ABI. */
static enum facet_status give_items(const void *source, uint32_t source_size, uint32_t count, void *items,
                                    uint32_t capacity, uint32_t *ret_count)
{
    *ret_count = count;
    if (capacity < count)
        return FACET_TOO_SMALL;
    if (count)
        memcpy(items, source, (size_t)source_size * count);
    return FACET_OK;
}

static bool is_free(uint32_t start, uint32_t length)
{
    for (uint32_t i = 0; i < SLICES; i++)
        if (fake_device->parts[i].length && i < start + length && start < i + fake_device->parts[i].length)
            return false;
    return start + length <= SLICES;
}

static enum facet_status list_templates(struct facet_provider_instance *instance, uint32_t device, void *items,
                                        uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                        struct facet_error *error)
{
    struct facet_partition_template list[2] = {0};

    for (uint32_t i = 0; i < 2; i++) {
        list[i] = (struct facet_partition_template){.size = sizeof list[i],
                                                    .valid = FACET_PARTITION_HAS_MEMORY,
                                                    .memory_bytes = (UINT64_C(1) << 28) * fake_templates[i].length,
                                                    .compute_milli = 250 * fake_templates[i].length,
                                                    .length = fake_templates[i].length};
        snprintf(list[i].id, sizeof list[i].id, "%s", fake_templates[i].id);
    }
    return give_items(list, sizeof list[0], 2, items, capacity, ret_count);
}

static enum facet_status list_placements(struct facet_provider_instance *instance, uint32_t device, const char *id,
                                         void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                         struct facet_error *error)
{
    struct facet_partition_placement list[SLICES];
    uint32_t length = strcmp(id, "half") == 0 ? 2 : 1, count = 0;

    for (uint32_t start = 0; start < SLICES; start += length)
        list[count++] = (struct facet_partition_placement){sizeof list[0], start, length, is_free(start, length)};
    return give_items(list, sizeof list[0], count, items, capacity, ret_count);
}

static enum facet_status make_part(struct facet_provider_instance *instance, uint32_t device, const char *id,
                                   uint32_t start, struct facet_partition_info *ret_info, struct facet_error *error)
{
    uint32_t length = strcmp(id, "half") == 0 ? 2 : 1;
    struct facet_partition_info *part = &fake_device->parts[start];
    enum facet_status status = fake_device_step(error);

    if (status != FACET_OK)
        return status;
    if (!is_free(start, length))
        return facet_error_set(error, FACET_NO_SPACE, "slice %u is taken", start);
    *part = (struct facet_partition_info){.size = sizeof *part,
                                          .valid = FACET_PARTITION_HAS_MEMORY,
                                          .start = start,
                                          .length = length,
                                          .memory_bytes = (UINT64_C(1) << 28) * length,
                                          .compute_milli = 250 * length,
                                          .compute_units = 2 * length};
    snprintf(part->template_id, sizeof part->template_id, "%s", id);
    snprintf(part->uuid, sizeof part->uuid, "part-%u", ++fake_device->made_count);
    snprintf(part->address, sizeof part->address, "slice=%u", start);
    *ret_info = *part;
    return FACET_OK;
}

static enum facet_status list_parts(struct facet_provider_instance *instance, uint32_t device, void *items,
                                    uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                    struct facet_error *error)
{
    struct facet_partition_info list[SLICES];
    uint32_t count = 0;

    if (fake_device->lost)
        return facet_error_set(error, FACET_DEVICE_LOST, "the provider is lost");
    for (uint32_t i = 0; i < SLICES; i++)
        if (fake_device->parts[i].length)
            list[count++] = fake_device->parts[i];
    return give_items(list, sizeof list[0], count, items, capacity, ret_count);
}

static enum facet_status remove_part(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                     struct facet_error *error)
{
    enum facet_status status = fake_device_step(error);

    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < SLICES; i++)
        if (fake_device->parts[i].length && strcmp(fake_device->parts[i].uuid, uuid) == 0) {
            if (fake_device->parts[i].in_use)
                return facet_error_set(error, FACET_BUSY, "partition %s is in use", uuid);
            fake_device->parts[i] = (struct facet_partition_info){0};
            return FACET_OK;
        }
    return facet_error_set(error, FACET_NOT_FOUND, "no partition %s", uuid);
}

static struct facet_worker_limit *worker_of(const char *name)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (strcmp(fake_device->workers[i].worker, name) == 0)
            return &fake_device->workers[i];
    return NULL;
}

/* The worker's own entry, or the first free entry. */
static struct facet_worker_limit *worker_entry(const char *name)
{
    struct facet_worker_limit *limit = worker_of(name);

    if (!limit && (limit = worker_of("")) != NULL) {
        *limit = (struct facet_worker_limit){.size = sizeof *limit};
        snprintf(limit->worker, sizeof limit->worker, "%s", name);
        snprintf(limit->address, sizeof limit->address, "worker=%.60s", name);
    }
    return limit;
}

static enum facet_status set_memory(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                    uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = fake_device_step(error);

    if (status != FACET_OK)
        return status;
    struct facet_worker_limit *limit = worker_entry(worker);
    if (!limit || (limit->valid & FACET_WORKER_HAS_MEMORY))
        return facet_error_set(error, FACET_BAD_STATE, "worker %s: set already", worker);
    limit->memory_bytes = bytes;
    limit->valid |= FACET_WORKER_HAS_MEMORY;
    return FACET_OK;
}

static enum facet_status set_compute(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     uint32_t milli, struct facet_error *error)
{
    enum facet_status status = fake_device_step(error);

    if (status != FACET_OK)
        return status;
    struct facet_worker_limit *limit = worker_entry(worker);
    if (!limit || (limit->valid & FACET_WORKER_HAS_COMPUTE))
        return facet_error_set(error, FACET_BAD_STATE, "worker %s: set already", worker);
    limit->compute_units = (milli + 124) / 125; /* a unit is an eighth of the device, 125 milli; rounded up */
    limit->compute_milli = limit->compute_units * 125;
    limit->valid |= FACET_WORKER_HAS_COMPUTE;
    return FACET_OK;
}

static enum facet_status get_limit(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                   struct facet_worker_limit *ret_limit, struct facet_error *error)
{
    enum facet_status status = fake_device_step(error);

    if (status != FACET_OK)
        return status;
    if (!worker_of(worker))
        return facet_error_set(error, FACET_NOT_FOUND, "no worker %s", worker);
    *ret_limit = *worker_of(worker);
    return FACET_OK;
}

static enum facet_status clear_limit(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     struct facet_error *error)
{
    enum facet_status status = fake_device_step(error);

    if (status != FACET_OK)
        return status;
    if (!worker_of(worker))
        return facet_error_set(error, FACET_NOT_FOUND, "no worker %s", worker);
    *worker_of(worker) = (struct facet_worker_limit){0};
    return FACET_OK;
}

static enum facet_status list_items(struct facet_provider_instance *instance, uint32_t device, const char *partition,
                                    void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                    struct facet_error *error)
{
    static struct facet_container_item list[2]; /* too large for a stack; the tests have one thread */

    list[0] = (struct facet_container_item){.size = sizeof list[0], .kind = FACET_CONTAINER_DEVICE_NODE};
    snprintf(list[0].host, sizeof list[0].host, "/dev/test");
    list[1] = (struct facet_container_item){.size = sizeof list[1], .kind = FACET_CONTAINER_ENVIRONMENT};
    snprintf(list[1].guest, sizeof list[1].guest, "TEST_VISIBLE");
    snprintf(list[1].host, sizeof list[1].host, "%s", partition && partition[0] ? partition : "all");
    return capacity < 2 && step_fails(error) ? FACET_IO
                                             : give_items(list, sizeof list[0], 2, items, capacity, ret_count);
}

static const struct facet_partition_ops fake_partition_ops = {.size = sizeof fake_partition_ops,
                                                              .templates = list_templates,
                                                              .placements = list_placements,
                                                              .create = make_part,
                                                              .list = list_parts,
                                                              .destroy = remove_part};
static const struct facet_limit_ops fake_limit_ops = {.size = sizeof fake_limit_ops,
                                                      .set_memory = set_memory,
                                                      .set_compute = set_compute,
                                                      .get = get_limit,
                                                      .clear = clear_limit};
static const struct facet_container_ops fake_container_ops = {.size = sizeof fake_container_ops, .items = list_items};
static const struct facet_provider fake_provider_ops = {.size = sizeof fake_provider_ops,
                                                        .name = "test",
                                                        .partition = &fake_partition_ops,
                                                        .limit = &fake_limit_ops,
                                                        .container = &fake_container_ops};

/* The members that the node document reads. */
json_t *__wrap_facet_device_describe(const struct facet_device_record *device, const struct facet_provider *provider,
                                     struct facet_provider_instance *instance, uint32_t index);
json_t *__wrap_facet_device_describe(const struct facet_device_record *device, const struct facet_provider *provider,
                                     struct facet_provider_instance *instance, uint32_t index)
{
    if (fake_device->unreadable)
        return json_pack("{s:s}", "trouble", "cannot be read");
    json_t *partitions = json_array();

    for (uint32_t i = 0; i < SLICES; i++)
        if (fake_device->parts[i].length)
            json_array_append_new(partitions, json_pack("{s:s, s:s}", "uuid", fake_device->parts[i].uuid, "template",
                                                        fake_device->parts[i].template_id));
    return json_pack("{s:o}", "partitions", partitions);
}

enum facet_status sessions_use(struct sessions *sessions, const struct facet_device_record *device,
                               struct provider_use *ret_use, struct facet_error *error)
{
    if (fake_device->lost)
        return facet_error_set(error, FACET_DEVICE_LOST, "the provider is lost");
    *ret_use = (struct provider_use){.provider = &fake_provider_ops};
    return FACET_OK;
}

void sessions_release(struct provider_use *use)
{
}

uint32_t sessions_health(struct sessions *sessions, const struct facet_device_record *device, char *ret_reason,
                         size_t size)
{
    snprintf(ret_reason, size, "%s", fake_device->lost ? "the provider is lost" : "");
    return fake_device->lost ? FACET_HEALTH_FAILED : FACET_HEALTH_OK;
}

#endif
