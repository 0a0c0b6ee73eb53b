/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the order of the provider's calls, and undoing them. Never: leaves half of a pair of limits set. */
#include "grant.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "device/listing.h"
#include "template.h"

static enum facet_status read_listing(const struct provider_use *use, enum facet_listing_kind kind, const char *text,
                                      void **ret_items, uint32_t *ret_count, struct facet_error *error)
{
    const struct facet_listing_query query = {
        .provider = use->provider, .instance = use->instance, .kind = kind, .device = use->device, .text = text};

    return facet_listing_read(&query, ret_items, ret_count, error);
}

/* --- choosing a template ---------------------------------------------------------------------------------------- */

static void offers_free(struct template_offer *offers, uint32_t count)
{
    for (uint32_t i = 0; offers && i < count; i++)
        free(offers[i].placements);
    free(offers);
}

static enum facet_status read_placements(const struct provider_use *use, struct template_offer *offer,
                                         struct facet_error *error)
{
    void *items = NULL;

    enum facet_status status =
        read_listing(use, FACET_LISTING_PLACEMENTS, offer->template.id, &items, &offer->placement_count, error);
    if (status == FACET_OK)
        offer->placements = items;
    return status;
}

static enum facet_status read_offers(const struct provider_use *use, struct template_offer **ret_offers,
                                     uint32_t *ret_count, struct facet_error *error)
{
    FACET_CLEANUP_FREE void *items = NULL;
    uint32_t count = 0;

    enum facet_status status = read_listing(use, FACET_LISTING_TEMPLATES, NULL, &items, &count, error);
    if (status != FACET_OK)
        return status;
    struct template_offer *offers = calloc(count ? count : 1, sizeof *offers);
    if (!offers)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " templates", count);
    for (uint32_t i = 0; status == FACET_OK && i < count; i++) {
        offers[i].template = ((struct facet_partition_template *)items)[i];
        status = read_placements(use, &offers[i], error);
    }
    if (status != FACET_OK) {
        offers_free(offers, count);
        return status;
    }
    *ret_offers = offers;
    *ret_count = count;
    return FACET_OK;
}

enum facet_status grant_choose(struct sessions *sessions, const struct facet_device_record *device,
                               const struct request *request, struct vgpu_row *row, struct facet_error *error)
{
    const struct template_wish wish = {.id = request->present & REQUEST_TEMPLATE ? request->template_id : NULL,
                                       .memory_bytes = row->limits.memory_bytes,
                                       .compute_milli = row->limits.compute_request_milli};
    CLEANUP_USE struct provider_use use = {0};
    const struct template_offer *offer = NULL;
    struct template_offer *offers = NULL;
    uint32_t count = 0;

    if (row->limits.mode != FACET_MODE_PARTITIONED)
        return FACET_OK;
    enum facet_status status = sessions_use(sessions, device, &use, error);
    if (status == FACET_OK)
        status = read_offers(&use, &offers, &count, error);
    if (status == FACET_OK)
        status = template_choose(offers, count, &wish, &offer, &row->slice.start, error);
    if (status == FACET_OK)
        snprintf(row->slice.template_id, sizeof row->slice.template_id, "%s", offer->template.id);
    offers_free(offers, count);
    return status;
}

/* --- partitions ------------------------------------------------------------------------------------------------- */

/* The limits that the interposer enforces: the partition's memory, or less when less was requested. */
static void accept_partition(const struct facet_device_record *device, const struct facet_partition_info *info,
                             struct vgpu_row *row)
{
    struct vgpu_slice *slice = &row->slice;
    bool has_own_memory = info->valid & FACET_PARTITION_HAS_MEMORY;
    uint64_t memory_bytes_most = has_own_memory ? info->memory_bytes : device->info.memory_bytes;

    slice->start = info->start;
    snprintf(slice->partition_uuid, sizeof slice->partition_uuid, "%s", info->uuid);
    snprintf(slice->address, sizeof slice->address, "%s", info->address);
    slice->memory_bytes = has_own_memory ? info->memory_bytes : 0;
    slice->compute_milli = info->compute_milli;
    slice->compute_units = info->compute_units;
    if (!row->limits.memory_bytes || row->limits.memory_bytes > memory_bytes_most)
        row->limits.memory_bytes = memory_bytes_most;
    row->limits.compute_request_milli = info->compute_milli;
}

bool grant_is_part(const struct vgpu_row *row, const struct facet_partition_info *info)
{
    const struct vgpu_slice *slice = &row->slice;

    return slice->partition_uuid[0] && strcmp(info->uuid, slice->partition_uuid) == 0 && info->start == slice->start &&
           strcmp(info->template_id, slice->template_id) == 0;
}

/* Makes the row's partition. A provider that forgot its partitions may return another vGPU's; that one is refused. */
static enum facet_status make_partition(const struct provider_use *use, const struct facet_device_record *device,
                                        struct vgpu_row *row, const struct grant_others *others,
                                        struct facet_error *error)
{
    struct facet_partition_info info = {.size = sizeof info};

    enum facet_status status = use->provider->partition->create(use->instance, use->device, row->slice.template_id,
                                                                row->slice.start, &info, error);
    if (status != FACET_OK)
        return status;
    if (others->have(others->context, &info))
        return facet_error_set(error, FACET_CORRUPT, "provider %s gave partition %s, which another vGPU has",
                               use->provider->name, info.uuid);
    accept_partition(device, &info, row);
    return FACET_OK;
}

/* Finds the row's partition. FACET_NOT_FOUND: it does not exist, or is another vGPU's. */
static enum facet_status find_partition(const struct provider_use *use, const struct vgpu_row *row,
                                        const struct grant_others *others, struct facet_partition_info *ret_info,
                                        struct facet_error *error)
{
    FACET_CLEANUP_FREE void *items = NULL;
    uint32_t count = 0;

    enum facet_status status = read_listing(use, FACET_LISTING_PARTITIONS, NULL, &items, &count, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        const struct facet_partition_info *info = &((struct facet_partition_info *)items)[i];
        if (!grant_is_part(row, info) || others->have(others->context, info))
            continue;
        *ret_info = *info;
        return FACET_OK;
    }
    return facet_error_set(error, FACET_NOT_FOUND, "its partition %s (%s) was not on the device any more",
                           row->slice.partition_uuid, row->slice.template_id);
}

static enum facet_status keep_partition(const struct provider_use *use, const struct facet_device_record *device,
                                        struct vgpu_row *row, const struct grant_others *others,
                                        struct facet_error *error)
{
    struct facet_partition_info info;
    char lost_uuid[sizeof row->slice.partition_uuid];

    enum facet_status status = find_partition(use, row, others, &info, error);
    if (status == FACET_OK)
        accept_partition(device, &info, row);
    if (status != FACET_NOT_FOUND)
        return status;
    memcpy(lost_uuid, row->slice.partition_uuid, sizeof lost_uuid);
    status = make_partition(use, device, row, others, error);
    if (status == FACET_OK)
        facet_log(FACET_LOG_WARNING, "vGPU %s: its partition %s was gone; made again as %s", row->name, lost_uuid,
                  row->slice.partition_uuid);
    return status;
}

static enum facet_status release_partition(const struct provider_use *use, const struct vgpu_row *row,
                                           const struct grant_others *others, struct facet_error *error)
{
    struct facet_partition_info info;

    enum facet_status status = find_partition(use, row, others, &info, error);
    return status == FACET_OK ? use->provider->partition->destroy(use->instance, use->device, info.uuid, error)
                              : status;
}

/* Whether the partition may be the row's. A row without a uuid, whose creation was cut short, is matched by place. */
static bool may_be_part(const struct vgpu_row *row, const struct facet_partition_info *info)
{
    if (row->slice.partition_uuid[0])
        return grant_is_part(row, info);
    return info->start == row->slice.start && strcmp(info->template_id, row->slice.template_id) == 0;
}

static enum facet_status undo_partition(const struct provider_use *use, const struct vgpu_row *row,
                                        const struct grant_others *others, struct facet_error *error)
{
    FACET_CLEANUP_FREE void *items = NULL;
    uint32_t count = 0;

    enum facet_status status = read_listing(use, FACET_LISTING_PARTITIONS, NULL, &items, &count, error);
    for (uint32_t i = 0; status == FACET_OK && i < count; i++) {
        const struct facet_partition_info *info = &((struct facet_partition_info *)items)[i];

        if (!may_be_part(row, info) || others->have(others->context, info))
            continue;
        status = use->provider->partition->destroy(use->instance, use->device, info->uuid, error);
        if (status == FACET_NOT_FOUND)
            status = FACET_OK;
    }
    return status;
}

/* --- hard limits ------------------------------------------------------------------------------------------------ */

static void accept_limit(const struct facet_device_record *device, const struct facet_worker_limit *limit,
                         struct vgpu_row *row)
{
    struct vgpu_slice *slice = &row->slice;

    snprintf(slice->address, sizeof slice->address, "%s", limit->address[0] ? limit->address : device->info.address);
    slice->memory_bytes = limit->valid & FACET_WORKER_HAS_MEMORY ? limit->memory_bytes : 0;
    slice->compute_milli = limit->valid & FACET_WORKER_HAS_COMPUTE ? limit->compute_milli : 0;
    slice->compute_units = limit->valid & FACET_WORKER_HAS_COMPUTE ? limit->compute_units : 0;
    if (slice->memory_bytes)
        row->limits.memory_bytes = slice->memory_bytes;
    if (slice->compute_milli)
        row->limits.compute_request_milli = slice->compute_milli;
}

static enum facet_status read_limit(const struct provider_use *use, const struct facet_device_record *device,
                                    struct vgpu_row *row, struct facet_error *error)
{
    struct facet_worker_limit limit = {.size = sizeof limit};

    enum facet_status status = use->provider->limit->get(use->instance, use->device, row->id, &limit, error);
    if (status == FACET_OK)
        accept_limit(device, &limit, row);
    return status;
}

static enum facet_status clear_limits(const struct provider_use *use, const struct vgpu_row *row,
                                      struct facet_error *error)
{
    enum facet_status status = use->provider->limit->clear(use->instance, use->device, row->id, error);

    return status == FACET_NOT_FOUND ? FACET_OK : status;
}

/* Sets the limits that the device can enforce. The limiter enforces the others, as in mode soft. */
static enum facet_status set_limits(const struct provider_use *use, const struct facet_device_record *device,
                                    struct vgpu_row *row, struct facet_error *error)
{
    uint64_t capabilities = device->info.capabilities;
    enum facet_status status = FACET_OK;

    if (capabilities & FACET_CAN_LIMIT_MEMORY)
        status = use->provider->limit->set_memory(use->instance, use->device, row->id, row->limits.memory_bytes, error);
    if (status != FACET_OK)
        return status;
    if (capabilities & FACET_CAN_LIMIT_COMPUTE)
        status = use->provider->limit->set_compute(use->instance, use->device, row->id,
                                                   row->limits.compute_request_milli, error);
    if (status == FACET_OK)
        status = read_limit(use, device, row, error);
    if (status != FACET_OK && status != FACET_DEVICE_LOST)
        clear_limits(use, row, NULL);
    return status;
}

static enum facet_status keep_limits(const struct provider_use *use, const struct facet_device_record *device,
                                     struct vgpu_row *row, struct facet_error *error)
{
    enum facet_status status = read_limit(use, device, row, error);

    if (status != FACET_NOT_FOUND)
        return status;
    status = set_limits(use, device, row, error);
    if (status == FACET_OK)
        facet_log(FACET_LOG_WARNING, "vGPU %s: its limits were gone from the device; set again", row->name);
    return status;
}

/* --- partitions and hard limits --------------------------------------------------------------------------------- */

enum facet_status grant_take(struct sessions *sessions, const struct facet_device_record *device, struct vgpu_row *row,
                             const struct grant_others *others, struct facet_error *error)
{
    CLEANUP_USE struct provider_use use = {0};

    enum facet_status status = sessions_use(sessions, device, &use, error);
    if (status != FACET_OK)
        return status;
    return row->limits.mode == FACET_MODE_HARD ? set_limits(&use, device, row, error)
                                               : make_partition(&use, device, row, others, error);
}

enum facet_status grant_look(struct sessions *sessions, const struct facet_device_record *device,
                             const struct vgpu_row *row, const struct grant_others *others, bool *ret_present,
                             struct facet_error *error)
{
    CLEANUP_USE struct provider_use use = {0};
    struct facet_worker_limit limit = {.size = sizeof limit};
    struct facet_partition_info info;

    enum facet_status status = sessions_use(sessions, device, &use, error);
    if (status != FACET_OK)
        return status;
    if (row->limits.mode == FACET_MODE_HARD)
        status = use.provider->limit->get(use.instance, use.device, row->id, &limit, error);
    else
        status = find_partition(&use, row, others, &info, error);
    if (status != FACET_OK && status != FACET_NOT_FOUND)
        return status;
    *ret_present = status == FACET_OK;
    return FACET_OK;
}

enum facet_status grant_keep(struct sessions *sessions, const struct facet_device_record *device, struct vgpu_row *row,
                             const struct grant_others *others, struct facet_error *error)
{
    CLEANUP_USE struct provider_use use = {0};

    enum facet_status status = sessions_use(sessions, device, &use, error);
    if (status != FACET_OK)
        return status;
    return row->limits.mode == FACET_MODE_HARD ? keep_limits(&use, device, row, error)
                                               : keep_partition(&use, device, row, others, error);
}

enum facet_status grant_release(struct sessions *sessions, const struct facet_device_record *device,
                                const struct vgpu_row *row, const struct grant_others *others,
                                struct facet_error *error)
{
    CLEANUP_USE struct provider_use use = {0};

    enum facet_status status = sessions_use(sessions, device, &use, error);
    if (status != FACET_OK)
        return status;
    return row->limits.mode == FACET_MODE_HARD ? use.provider->limit->clear(use.instance, use.device, row->id, error)
                                               : release_partition(&use, row, others, error);
}

enum facet_status grant_undo(struct sessions *sessions, const struct facet_device_record *device,
                             const struct vgpu_row *row, const struct grant_others *others, struct facet_error *error)
{
    CLEANUP_USE struct provider_use use = {0};

    enum facet_status status = sessions_use(sessions, device, &use, error);
    if (status != FACET_OK)
        return status;
    return row->limits.mode == FACET_MODE_HARD ? clear_limits(&use, row, error)
                                               : undo_partition(&use, row, others, error);
}

static enum facet_status write_environment(const struct facet_container_item *items, uint32_t count,
                                           struct vgpu_environment *environment, struct facet_error *error)
{
    size_t size = sizeof environment->lines, used = 0;

    environment->lines[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].kind != FACET_CONTAINER_ENVIRONMENT || !items[i].guest[0])
            continue;
        used += (size_t)snprintf(environment->lines + used, size - used, "%s=%s\n", items[i].guest, items[i].host);
        if (used >= size)
            return facet_error_set(error, FACET_CORRUPT, "the provider names variables of more than %zu bytes",
                                   size - 1);
    }
    return FACET_OK;
}

enum facet_status grant_environment(struct sessions *sessions, const struct facet_device_record *device,
                                    const struct vgpu_row *row, struct vgpu_environment *ret_environment,
                                    struct facet_error *error)
{
    CLEANUP_USE struct provider_use use = {0};
    FACET_CLEANUP_FREE void *items = NULL;
    struct vgpu_environment environment = {0};
    uint32_t count = 0;
    enum facet_status status = FACET_OK;

    if (device->info.capabilities & FACET_CAN_CONTAINER) {
        status = sessions_use(sessions, device, &use, error);
        if (status == FACET_OK)
            status = read_listing(&use, FACET_LISTING_CONTAINER, row->slice.partition_uuid, &items, &count, error);
    }
    if (status == FACET_OK)
        status = write_environment(items, count, &environment, error);
    if (status == FACET_OK)
        *ret_environment = environment;
    return status;
}
