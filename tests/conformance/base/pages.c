/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: pages of the base device that are shared, and that move. Never: runs queued launches: pages move while they
 * wait. */
#include "base.h"

enum facet_status base_share_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
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
    pages->shared = true;
    return FACET_OK;
}

static bool is_used(const struct facet_provider_instance *instance, const struct base_pages *pages, uint64_t offset,
                    uint64_t bytes)
{
    for (int i = 0; i < BASE_MAPS; i++) {
        const struct base_map *map = &instance->maps[i];
        if (map->bytes && map->pages == pages && map->offset < offset + bytes && offset < map->offset + map->bytes)
            return true;
    }
    return false;
}

static enum facet_status check_move(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                    const struct base_pages *pages, uint64_t offset, uint64_t bytes,
                                    struct facet_error *error)
{
    if (bytes == 0 || (bytes | offset | address) % BASE_PAGE || bytes > pages->bytes || offset > pages->bytes - bytes)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "expected whole pages, inside the %" PRIu64 " bytes there are",
                              pages->bytes);
    for (uint64_t at = address; at < address + bytes; at += BASE_PAGE) {
        const struct base_map *map = base_map_at(instance, context, at);
        if (!map || map->pages->from_alloc)
            return facet_kit_fail(error, FACET_OUT_OF_RANGE, "address 0x%" PRIx64 ": nothing is mapped there", at);
    }
    if (is_used(instance, pages, offset, bytes))
        return facet_kit_fail(error, FACET_BUSY, "expected pages of which none is mapped");
    return FACET_OK;
}

/* Changes the mapping of each page. Queued launches look their memory up when they run. */
enum facet_status base_move_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
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
    status = check_move(instance, context, address, pages, offset, bytes, error);
    for (uint64_t at = 0; status == FACET_OK && at < bytes; at += BASE_PAGE) {
        struct base_map *map = base_map_at(instance, context, address + at);
        struct base_pages *old = map->pages;

        memcpy(pages->data + offset + at, old->data + map->offset, BASE_PAGE);
        map->pages = pages;
        map->offset = offset + at;
        pages->maps++;
        base_drop_map(old);
    }
    return status;
}
