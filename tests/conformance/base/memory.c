/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: contexts, pages, maps and copies of the base device. Never: gives out an address twice. */
#include <stdlib.h>

#include "base.h"

struct base_context *base_find_context(struct facet_provider_instance *instance, uint64_t number)
{
    for (int i = 0; number && i < BASE_CONTEXTS; i++)
        if (instance->contexts[i].number == number)
            return &instance->contexts[i];
    return NULL;
}

enum facet_status base_require_context(struct facet_provider_instance *instance, uint64_t number,
                                       struct base_context **ret_context, struct facet_error *error)
{
    struct base_context *context = base_find_context(instance, number);

    if (!context)
        return facet_kit_fail(error, FACET_NOT_FOUND, "context %" PRIu64 ": expected a context that exists", number);
    if (context->is_saved)
        return facet_kit_fail(error, FACET_BAD_STATE, "context %" PRIu64 " is off the device", number);
    *ret_context = context;
    return FACET_OK;
}

static bool is_known_partition(const struct facet_provider_instance *instance, const char *uuid)
{
    for (int i = 0; i < BASE_SLICES; i++)
        if (instance->partitions[i].uuid[0] && strcmp(instance->partitions[i].uuid, uuid) == 0)
            return true;
    return false;
}

static enum facet_status base_create_context(struct facet_provider_instance *instance, uint32_t device,
                                             const char *partition_uuid, const char *worker, uint64_t *ret_context,
                                             struct facet_error *error)
{
    const char *partition = partition_uuid ? partition_uuid : "";
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    if (!ret_context)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_context: expected a place, not NULL");
    BASE_LOCK(instance);
    if (partition[0] && !is_known_partition(instance, partition))
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.63s': expected a partition that exists", partition);
    if (!partition[0] && base_is_partitioned(instance))
        return facet_kit_fail(error, FACET_BUSY, "the device is partitioned: expected a partition");
    for (int i = 0; i < BASE_CONTEXTS; i++) {
        struct base_context *one = &instance->contexts[i];
        if (one->number)
            continue;
        one->number = ++instance->last_number;
        FACET_KIT_TEXT(one->worker, worker);
        FACET_KIT_TEXT(one->partition, partition);
        *ret_context = one->number;
        return FACET_OK;
    }
    return facet_kit_fail(error, FACET_BUSY, "all %d contexts are in use", BASE_CONTEXTS);
}

static void drop_pages(struct base_pages *pages)
{
    free(pages->data);
    *pages = (struct base_pages){0};
}

void base_drop_map(struct base_pages *pages)
{
    if (--pages->maps == 0 && pages->is_destroyed)
        drop_pages(pages);
}

static void unmap_one(struct base_map *map)
{
    struct base_pages *pages = map->pages;

    *map = (struct base_map){0};
    base_drop_map(pages);
}

/* Takes the number of the pages away; they are freed with their last mapping. */
static void destroy_pages_later(struct base_pages *pages)
{
    pages->context = 0;
    pages->is_destroyed = true;
    if (pages->maps == 0)
        drop_pages(pages);
}

void base_free_context_resources(struct facet_provider_instance *instance, uint64_t context)
{
    for (int i = 0; i < BASE_MAPS; i++)
        if (instance->maps[i].bytes && instance->maps[i].context == context)
            unmap_one(&instance->maps[i]);
    for (int i = 0; i < BASE_PAGES; i++)
        if (instance->pages[i].context == context)
            destroy_pages_later(&instance->pages[i]);
    for (int i = 0; i < BASE_RESERVATIONS; i++)
        if (instance->reservations[i].context == context)
            instance->reservations[i] = (struct base_reservation){0};
    for (int i = 0; i < BASE_STREAMS; i++)
        if (instance->streams[i].context == context)
            instance->streams[i] = (struct base_stream){0};
}

static enum facet_status base_destroy_context(struct facet_provider_instance *instance, uint64_t context,
                                              struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    base_free_context_resources(instance, context);
    *one = (struct base_context){0};
    return FACET_OK;
}

/* Whether the memory of `owner` counts against the limit of `viewer`. */
static bool shares_limit(struct facet_provider_instance *instance, const struct base_context *viewer,
                         const struct base_context *owner)
{
    if (!viewer)
        return true;
    const struct base_worker *limited = base_find_worker(instance, viewer->worker);
    if (limited && limited->memory)
        return strcmp(viewer->worker, owner->worker) == 0;
    return !viewer->partition[0] || strcmp(viewer->partition, owner->partition) == 0;
}

uint64_t base_memory_used(const struct facet_provider_instance *instance, const struct base_context *context)
{
    struct facet_provider_instance *self = (struct facet_provider_instance *)(uintptr_t)instance;
    uint64_t used = 0;

    for (int i = 0; i < BASE_PAGES; i++) {
        const struct base_pages *pages = &instance->pages[i];
        if (pages->number && shares_limit(self, context, &pages->owner))
            used += pages->bytes;
    }
    return used;
}

static uint64_t total_of(struct facet_provider_instance *instance, const struct base_context *context, bool *ret_quota)
{
    const struct base_worker *limited = base_find_worker(instance, context->worker);

    *ret_quota = limited && limited->memory;
    if (*ret_quota)
        return limited->memory;
    for (int i = 0; context->partition[0] && i < BASE_SLICES; i++)
        if (strcmp(instance->partitions[i].uuid, context->partition) == 0)
            return instance->partitions[i].memory_bytes;
    return BASE_MEMORY;
}

static enum facet_status base_info(struct facet_provider_instance *instance, uint64_t context,
                                   struct facet_memory_info *ret_info, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);
    bool quota;

    if (status != FACET_OK)
        return status;
    const struct facet_memory_info info = {.page_bytes = BASE_PAGE,
                                           .total_bytes = total_of(instance, one, &quota),
                                           .used_bytes = base_memory_used(instance, one)};
    return facet_kit_struct(&info, sizeof info, ret_info, error);
}

static enum facet_status check_room(struct facet_provider_instance *instance, const struct base_context *context,
                                    uint64_t bytes, struct facet_error *error)
{
    bool quota;
    uint64_t total = total_of(instance, context, &quota), used = base_memory_used(instance, context);

    if (bytes == 0)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "bytes 0: expected at least 1");
    if (used > total || bytes > total - used)
        return facet_kit_fail(error, quota ? FACET_QUOTA : FACET_NO_SPACE, "%" PRIu64 " bytes: %" PRIu64 " are left",
                              bytes, used > total ? 0 : total - used);
    if (bytes > BASE_MEMORY - base_memory_used(instance, NULL))
        return facet_kit_fail(error, FACET_NO_SPACE, "%" PRIu64 " bytes: the device is full", bytes);
    return FACET_OK;
}

static struct base_pages *make_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes)
{
    for (int i = 0; i < BASE_PAGES; i++) {
        struct base_pages *pages = &instance->pages[i];
        if (pages->number)
            continue;
        pages->data = calloc(1, bytes);
        if (!pages->data)
            return NULL;
        pages->number = ++instance->last_number;
        pages->context = context;
        pages->owner = *base_find_context(instance, context);
        pages->bytes = bytes;
        return pages;
    }
    return NULL;
}

static struct base_map *make_map(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                 struct base_pages *pages, uint64_t offset, uint64_t bytes)
{
    for (int i = 0; i < BASE_MAPS; i++) {
        if (instance->maps[i].bytes)
            continue;
        instance->maps[i] = (struct base_map){context, address, bytes, offset, pages};
        pages->maps++;
        return &instance->maps[i];
    }
    return NULL;
}

/* Addresses that were never given before, with a gap behind them. */
static uint64_t new_address(struct facet_provider_instance *instance, uint64_t bytes, uint64_t align)
{
    uint64_t address = (instance->last_address + align - 1) / align * align;

    instance->last_address = address + (bytes + 2 * BASE_PAGE) / BASE_PAGE * BASE_PAGE;
    return address;
}

static enum facet_status base_alloc(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                                    uint64_t *ret_address, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status == FACET_OK && !ret_address)
        status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_address: expected a place, not NULL");
    if (status == FACET_OK)
        status = check_room(instance, one, bytes, error);
    if (status != FACET_OK)
        return status;
    struct base_pages *pages = make_pages(instance, context, bytes);
    if (!pages)
        return facet_kit_fail(error, FACET_NO_SPACE, "no place for another allocation");
    uint64_t address = new_address(instance, bytes, BASE_PAGE);
    if (!make_map(instance, context, address, pages, 0, bytes)) {
        drop_pages(pages);
        return facet_kit_fail(error, FACET_NO_SPACE, "no place for another mapping");
    }
    pages->from_alloc = pages->is_destroyed = true;
    *ret_address = address;
    return FACET_OK;
}

struct base_map *base_map_at(struct facet_provider_instance *instance, uint64_t context, uint64_t address)
{
    for (int i = 0; i < BASE_MAPS; i++) {
        struct base_map *map = &instance->maps[i];
        if (map->bytes && map->context == context && address >= map->address && address - map->address < map->bytes)
            return map;
    }
    return NULL;
}

static enum facet_status base_free(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                   struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    struct base_map *map = base_map_at(instance, context, address);
    if (!map || !map->pages->from_alloc || map->address != address)
        return facet_kit_fail(error, FACET_NOT_FOUND, "address 0x%" PRIx64 ": nothing was allocated there", address);
    unmap_one(map);
    return FACET_OK;
}

static enum facet_status check_pages_size(uint64_t bytes, uint64_t align, const void *ret, struct facet_error *error)
{
    if (!ret)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "expected a place for the answer, not NULL");
    if (bytes == 0 || bytes % BASE_PAGE || align % BASE_PAGE || bytes > UINT64_C(1) << 40)
        return facet_kit_fail(error, bytes > UINT64_C(1) << 40 ? FACET_NO_SPACE : FACET_OUT_OF_RANGE,
                              "%" PRIu64 " bytes: expected whole pages of %d", bytes, BASE_PAGE);
    return FACET_OK;
}

static enum facet_status base_reserve(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                                      uint64_t align, uint64_t *ret_address, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status == FACET_OK)
        status = check_pages_size(bytes, align, ret_address, error);
    for (int i = 0; status == FACET_OK && i < BASE_RESERVATIONS; i++) {
        struct base_reservation *free_one = &instance->reservations[i];
        if (free_one->bytes)
            continue;
        *free_one = (struct base_reservation){context, new_address(instance, bytes, align ? align : BASE_PAGE), bytes};
        *ret_address = free_one->address;
        return FACET_OK;
    }
    return status == FACET_OK ? facet_kit_fail(error, FACET_NO_SPACE, "no place for another reservation") : status;
}

static bool is_mapped(struct facet_provider_instance *instance, uint64_t context, uint64_t address, uint64_t bytes)
{
    for (uint64_t at = address; at < address + bytes; at += BASE_PAGE)
        if (base_map_at(instance, context, at))
            return true;
    return false;
}

static struct base_reservation *reservation_of(struct facet_provider_instance *instance, uint64_t context,
                                               uint64_t address, uint64_t bytes)
{
    for (int i = 0; i < BASE_RESERVATIONS; i++) {
        struct base_reservation *one = &instance->reservations[i];
        if (one->bytes >= bytes && one->context == context && address >= one->address &&
            address - one->address <= one->bytes - bytes && one->bytes)
            return one;
    }
    return NULL;
}

static enum facet_status base_release(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                      struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    struct base_reservation *reservation = reservation_of(instance, context, address, 1);
    if (!reservation || reservation->address != address)
        return facet_kit_fail(error, FACET_NOT_FOUND, "address 0x%" PRIx64 ": no reservation begins there", address);
    if (is_mapped(instance, context, address, reservation->bytes))
        return facet_kit_fail(error, FACET_BUSY, "address 0x%" PRIx64 ": expected nothing to be mapped in it", address);
    *reservation = (struct base_reservation){0};
    return FACET_OK;
}

static enum facet_status base_create_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                                           uint64_t *ret_pages, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status == FACET_OK)
        status = check_pages_size(bytes, 0, ret_pages, error);
    if (status == FACET_OK)
        status = check_room(instance, one, bytes, error);
    if (status != FACET_OK)
        return status;
    struct base_pages *pages = make_pages(instance, context, bytes);
    if (!pages)
        return facet_kit_fail(error, FACET_NO_SPACE, "no place for more pages");
    *ret_pages = pages->number;
    return FACET_OK;
}

struct base_pages *base_find_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t number)
{
    for (int i = 0; number && i < BASE_PAGES; i++) {
        struct base_pages *pages = &instance->pages[i];
        if (pages->number == number && (pages->context == context || pages->shared) && !pages->from_alloc &&
            !pages->is_destroyed)
            return pages;
    }
    return NULL;
}

static enum facet_status base_destroy_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                                            struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    struct base_pages *pages = base_find_pages(instance, context, number);
    if (!pages || pages->context != context)
        return facet_kit_fail(error, FACET_NOT_FOUND, "pages %" PRIu64 ": expected pages that exist", number);
    destroy_pages_later(pages);
    return FACET_OK;
}

static enum facet_status base_map(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                  uint64_t number, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    struct base_pages *pages = base_find_pages(instance, context, number);
    if (!pages)
        return facet_kit_fail(error, FACET_NOT_FOUND, "pages %" PRIu64 ": expected pages that exist", number);
    if (bytes == 0 || (bytes | offset | address) % BASE_PAGE || bytes > pages->bytes || offset > pages->bytes - bytes)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "expected whole pages, inside the %" PRIu64 " bytes there are",
                              pages->bytes);
    if (!reservation_of(instance, context, address, bytes))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "address 0x%" PRIx64 ": not inside one reservation", address);
    if (is_mapped(instance, context, address, bytes))
        return facet_kit_fail(error, FACET_BUSY, "expected addresses at which nothing is mapped");
    /* A mapping for each page, so that any part can be unmapped. */
    for (uint64_t at = 0; at < bytes; at += BASE_PAGE)
        if (!make_map(instance, context, address + at, pages, offset + at, BASE_PAGE))
            return facet_kit_fail(error, FACET_NO_SPACE, "no place for another mapping");
    return FACET_OK;
}

static enum facet_status base_unmap(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                    uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    if (bytes == 0 || bytes > BASE_MEMORY || (bytes | address) % BASE_PAGE)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "expected whole pages");
    for (uint64_t at = address; at < address + bytes; at += BASE_PAGE) {
        const struct base_map *map = base_map_at(instance, context, at);
        if (!map || map->pages->from_alloc)
            return facet_kit_fail(error, FACET_OUT_OF_RANGE, "address 0x%" PRIx64 ": nothing is mapped there", at);
    }
    for (uint64_t at = address; at < address + bytes; at += BASE_PAGE)
        unmap_one(base_map_at(instance, context, at));
    return FACET_OK;
}

/* The byte at `address`. *ret_left: the number of contiguous bytes from there on. */
static unsigned char *byte_at(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              uint64_t *ret_left)
{
    const struct base_map *map = base_map_at(instance, context, address);

    if (!map)
        return NULL;
    *ret_left = map->bytes - (address - map->address);
    return map->pages->data + map->offset + (address - map->address);
}

static bool is_memory(struct facet_provider_instance *instance, uint64_t context, uint64_t address, uint64_t bytes)
{
    uint64_t left = 0;

    if (bytes > BASE_MEMORY || address > UINT64_MAX - bytes)
        return false;
    for (uint64_t at = 0; at < bytes; at += left)
        if (!byte_at(instance, context, address + at, &left))
            return false;
    return true;
}

enum facet_status base_check_memory(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                    uint64_t bytes, struct facet_error *error)
{
    if (is_memory(instance, context, address, bytes))
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE, "0x%" PRIx64 " and %" PRIu64 " bytes: not wholly memory", address,
                          bytes);
}

enum facet_status base_access_memory(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                     void *out, const void *in, uint64_t bytes, struct facet_error *error)
{
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);
    uint64_t left = 0;

    if (status != FACET_OK)
        return status;
    status = base_check_memory(instance, context, address, bytes, error);
    if (status != FACET_OK)
        return status;
    for (uint64_t at = 0; at < bytes; at += left) {
        unsigned char *byte = byte_at(instance, context, address + at, &left);
        uint64_t count = left < bytes - at ? left : bytes - at;

        if (out)
            memcpy((unsigned char *)out + at, byte, count);
        else
            memcpy(byte, (const unsigned char *)in + at, count);
    }
    return FACET_OK;
}

/* Does the context's queued work. FACET_TIMEOUT: some of it is paused. */
static enum facet_status run_queued_work(struct facet_provider_instance *instance, uint64_t context,
                                         struct facet_error *error)
{
    base_run(instance);
    for (int i = 0; i < BASE_STREAMS; i++)
        if (instance->streams[i].context == context && instance->streams[i].queued > 0)
            return facet_kit_fail(error, FACET_TIMEOUT, "context %" PRIu64 ": what is queued there is paused", context);
    return FACET_OK;
}

static enum facet_status base_write(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                    const void *data, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    if (base_find_context(instance, context) && !data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "data: expected bytes, not NULL");
    enum facet_status status = run_queued_work(instance, context, error);

    return status == FACET_OK ? base_access_memory(instance, context, address, NULL, data, bytes, error) : status;
}

static enum facet_status base_read(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                   uint64_t bytes, void *ret_data, struct facet_error *error)
{
    BASE_LOCK(instance);
    if (base_find_context(instance, context) && !ret_data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_data: expected a place, not NULL");
    enum facet_status status = run_queued_work(instance, context, error);

    return status == FACET_OK ? base_access_memory(instance, context, address, ret_data, NULL, bytes, error) : status;
}

/* Copies through a buffer, so that ranges may overlap. The whole range is checked before a byte is written. */
enum facet_status base_copy_or_fill(struct facet_provider_instance *instance, uint64_t context, uint64_t to,
                                    const uint64_t *from, int value, uint64_t bytes, struct facet_error *error)
{
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status == FACET_OK)
        status = base_check_memory(instance, context, to, bytes, error);
    if (status != FACET_OK)
        return status;
    unsigned char *buffer = malloc(bytes ? bytes : 1);
    if (!buffer)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu64 " bytes", bytes);
    memset(buffer, value, bytes);
    if (from)
        status = base_access_memory(instance, context, *from, buffer, NULL, bytes, error);
    if (status == FACET_OK)
        status = base_access_memory(instance, context, to, NULL, buffer, bytes, error);
    free(buffer);
    return status;
}

static enum facet_status base_copy(struct facet_provider_instance *instance, uint64_t context, uint64_t to,
                                   uint64_t from, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    enum facet_status status = run_queued_work(instance, context, error);

    return status == FACET_OK ? base_copy_or_fill(instance, context, to, &from, 0, bytes, error) : status;
}

static enum facet_status base_fill(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                   uint8_t value, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    enum facet_status status = run_queued_work(instance, context, error);

    return status == FACET_OK ? base_copy_or_fill(instance, context, address, NULL, value, bytes, error) : status;
}

const struct facet_memory_ops base_memory = {
    .size = sizeof base_memory,
    .create_context = base_create_context,
    .destroy_context = base_destroy_context,
    .info = base_info,
    .alloc = base_alloc,
    .free = base_free,
    .reserve = base_reserve,
    .release = base_release,
    .create_pages = base_create_pages,
    .destroy_pages = base_destroy_pages,
    .map = base_map,
    .unmap = base_unmap,
    .write = base_write,
    .read = base_read,
    .copy = base_copy,
    .fill = base_fill,
    .share_pages = base_share_pages,
    .move = base_move_pages,
};
