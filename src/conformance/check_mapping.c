/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of reserve, pages, map and unmap of the table `memory`. Never: assumes a page size. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/pages.h"

enum { WORD = 64 };

/* Two reservations of four pages each, and pages for two. */
struct map {
    struct facet_check *check;
    const struct facet_memory_ops *ops;
    struct facet_provider_instance *instance;
    struct facet_error *error;
    uint64_t context, page, first_address, second_address, pages;
};

static void check_refusals(struct map *map)
{
    struct facet_check *check = map->check;
    const struct facet_memory_ops *ops = map->ops;
    uint64_t none;

    EXPECT_STATUS(check, "memory.reserve: 0 bytes are out of range", FACET_OUT_OF_RANGE,
                  ops->reserve(map->instance, map->context, 0, 0, &none, map->error));
    EXPECT_REFUSED(check, "memory.reserve: an unknown context is not found", FACET_NOT_FOUND, &none, sizeof none,
                   ops->reserve(map->instance, INT32_MAX, map->page, 0, &none, map->error));
    EXPECT_STATUS(check, "memory.release: an unknown context is not found", FACET_NOT_FOUND,
                  ops->release(map->instance, INT32_MAX, map->page, map->error));
    EXPECT_REFUSED(check, "memory.create_pages: an unknown context is not found", FACET_NOT_FOUND, &none, sizeof none,
                   ops->create_pages(map->instance, INT32_MAX, map->page, &none, map->error));
    EXPECT_STATUS(check, "memory.destroy_pages: an unknown context is not found", FACET_NOT_FOUND,
                  ops->destroy_pages(map->instance, INT32_MAX, 1, map->error));
    EXPECT_STATUS(check, "memory.map: an unknown context is not found", FACET_NOT_FOUND,
                  ops->map(map->instance, INT32_MAX, map->page, 1, 0, map->page, map->error));
    EXPECT_STATUS(check, "memory.unmap: an unknown context is not found", FACET_NOT_FOUND,
                  ops->unmap(map->instance, INT32_MAX, map->page, map->page, map->error));
    EXPECT_STATUS(check, "memory.reserve: no place for the answer is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->reserve(map->instance, map->context, map->page, 0, NULL, map->error));
    EXPECT_REFUSED(check, "memory.reserve: half a page is out of range", FACET_OUT_OF_RANGE, &none, sizeof none,
                   ops->reserve(map->instance, map->context, map->page / 2, 0, &none, map->error));
    EXPECT_REFUSED(check, "memory.reserve: aligned to half a page is out of range", FACET_OUT_OF_RANGE, &none,
                   sizeof none, ops->reserve(map->instance, map->context, map->page, map->page / 2, &none, map->error));
    EXPECT_REFUSED(check, "memory.create_pages: half a page is out of range", FACET_OUT_OF_RANGE, &none, sizeof none,
                   ops->create_pages(map->instance, map->context, map->page / 2, &none, map->error));
    EXPECT_STATUS(check, "memory.release: an unknown address is not found", FACET_NOT_FOUND,
                  ops->release(map->instance, map->context, map->page, map->error));
    EXPECT_REFUSED(check, "memory.create_pages: 0 bytes are out of range", FACET_OUT_OF_RANGE, &none, sizeof none,
                   ops->create_pages(map->instance, map->context, 0, &none, map->error));
    EXPECT_REFUSED(check, "memory.create_pages: more than the device has is no space", FACET_NO_SPACE, &none,
                   sizeof none, ops->create_pages(map->instance, map->context, UINT64_C(1) << 60, &none, map->error));
    EXPECT_STATUS(check, "memory.destroy_pages: unknown pages are not found", FACET_NOT_FOUND,
                  ops->destroy_pages(map->instance, map->context, INT32_MAX, map->error));
}

static bool prepare_map(struct map *map)
{
    struct facet_check *check = map->check;
    const struct facet_memory_ops *ops = map->ops;
    uint64_t page = map->page;

    check_refusals(map);
    if (!EXPECT_OK(check, "memory.reserve: four pages",
                   ops->reserve(map->instance, map->context, 4 * page, 0, &map->first_address, map->error)) ||
        !EXPECT_OK(check, "memory.reserve: four pages, aligned to four",
                   ops->reserve(map->instance, map->context, 4 * page, 4 * page, &map->second_address, map->error)) ||
        !EXPECT_OK(check, "memory.create_pages: two",
                   ops->create_pages(map->instance, map->context, 2 * page, &map->pages, map->error)))
        return false;
    return EXPECT_TRUE(check, "memory.reserve: addresses are aligned, apart and not 0",
                       map->first_address && map->first_address % page == 0 && map->second_address &&
                           map->second_address % (4 * page) == 0 &&
                           (map->first_address >= map->second_address + 4 * page ||
                            map->second_address >= map->first_address + 4 * page),
                       "expected: two ranges that do not overlap, at multiples of 0x%" PRIx64
                       " and of four times that\ngot: 0x%" PRIx64 " and 0x%" PRIx64,
                       page, map->first_address, map->second_address);
}

static enum facet_status map_bytes(struct map *map, uint64_t address, uint64_t offset, uint64_t bytes)
{
    return map->ops->map(map->instance, map->context, address, map->pages, offset, bytes, map->error);
}

static void refuse_wrong_maps(struct map *map)
{
    struct facet_check *check = map->check;
    unsigned char bytes[WORD];

    EXPECT_REFUSED(check, "memory.read: reserved addresses without memory are out of range", FACET_OUT_OF_RANGE, bytes,
                   sizeof bytes,
                   map->ops->read(map->instance, map->context, map->first_address, sizeof bytes, bytes, map->error));
    EXPECT_STATUS(check, "memory.map: beyond the pages is out of range", FACET_OUT_OF_RANGE,
                  map_bytes(map, map->first_address, map->page, 2 * map->page));
    EXPECT_STATUS(check, "memory.map: half a page is out of range", FACET_OUT_OF_RANGE,
                  map_bytes(map, map->first_address, 0, map->page / 2));
    EXPECT_STATUS(check, "memory.map: beyond the reservation is out of range", FACET_OUT_OF_RANGE,
                  map_bytes(map, map->first_address + 3 * map->page, 0, 2 * map->page));
    EXPECT_STATUS(check, "memory.map: unknown pages are not found", FACET_NOT_FOUND,
                  map->ops->map(map->instance, map->context, map->first_address, INT32_MAX, 0, map->page, map->error));
}

static bool expect_word(struct map *map, const char *text, uint64_t address, unsigned char value)
{
    struct facet_check *check = map->check;
    unsigned char bytes[WORD], expected[WORD];

    memset(expected, value, sizeof expected);
    facet_check_begin(check, "%s", text);
    enum facet_status status = map->ops->read(map->instance, map->context, address, sizeof bytes, bytes, map->error);
    if (status != FACET_OK)
        return facet_check_status(check, FACET_OK, status);
    return facet_check_judge(check, memcmp(bytes, expected, sizeof bytes) == 0,
                             "expected: bytes of 0x%02x\ngot: other bytes, the first 0x%02x", value, bytes[0]);
}

/* Maps the same pages at another address; their data must stay. */
static void move_mapping(struct map *map)
{
    struct facet_check *check = map->check;
    uint64_t page = map->page;

    if (!EXPECT_OK(check, "memory.map: two pages", map_bytes(map, map->first_address, 0, 2 * page)))
        return;
    EXPECT_STATUS(check, "memory.map: where something is mapped is busy", FACET_BUSY,
                  map_bytes(map, map->first_address + page, 0, page));
    EXPECT_OK(check, "memory.fill: across two mapped pages",
              map->ops->fill(map->instance, map->context, map->first_address, 0x3d, 2 * page, map->error));
    EXPECT_OK(check, "memory.map: a page at a second address too",
              map_bytes(map, map->second_address + page, page, page));
    expect_word(map, "memory.map: a second address sees the same memory", map->second_address + page, 0x3d);
    EXPECT_OK(check, "memory.fill: through the second address",
              map->ops->fill(map->instance, map->context, map->second_address + page, 0x7e, WORD, map->error));
    expect_word(map, "memory.map: the first address sees what was written at the second", map->first_address + page,
                0x7e);
    EXPECT_STATUS(check, "memory.release: with something mapped is busy", FACET_BUSY,
                  map->ops->release(map->instance, map->context, map->second_address, map->error));
    EXPECT_OK(check, "memory.unmap: both pages from the first address",
              map->ops->unmap(map->instance, map->context, map->first_address, 2 * page, map->error));
    EXPECT_OK(check, "memory.map: the first page elsewhere", map_bytes(map, map->second_address, 0, page));
    expect_word(map, "memory.map: data survive the move of their pages", map->second_address, 0x3d);
    expect_word(map, "memory.unmap: leaves the other address its memory", map->second_address + page, 0x7e);
}

static void check_unmapping(struct map *map)
{
    struct facet_check *check = map->check;
    unsigned char bytes[WORD];
    uint64_t used = facet_check_used(check, map->context);

    EXPECT_STATUS(check, "memory.unmap: where nothing is mapped is out of range", FACET_OUT_OF_RANGE,
                  map->ops->unmap(map->instance, map->context, map->first_address, map->page, map->error));
    EXPECT_REFUSED(check, "memory.read: unmapped addresses are out of range", FACET_OUT_OF_RANGE, bytes, sizeof bytes,
                   map->ops->read(map->instance, map->context, map->first_address, sizeof bytes, bytes, map->error));
    EXPECT_OK(check, "memory.destroy_pages: while they are mapped",
              map->ops->destroy_pages(map->instance, map->context, map->pages, map->error));
    expect_word(map, "memory.destroy_pages: takes effect with the last unmap", map->second_address, 0x3d);
    EXPECT_OK(check, "memory.unmap: one of two pages",
              map->ops->unmap(map->instance, map->context, map->second_address, map->page, map->error));
    EXPECT_OK(check, "memory.unmap: the other",
              map->ops->unmap(map->instance, map->context, map->second_address + map->page, map->page, map->error));
    EXPECT_TRUE(check, "memory.info: pages that are gone are no longer used",
                facet_check_used(check, map->context) < used,
                "expected: less than %" PRIu64 " bytes in use\ngot: %" PRIu64 " bytes", used,
                facet_check_used(check, map->context));
    EXPECT_OK(check, "memory.release: a reservation",
              map->ops->release(map->instance, map->context, map->first_address, map->error));
    EXPECT_STATUS(check, "memory.release: a second time is not found", FACET_NOT_FOUND,
                  map->ops->release(map->instance, map->context, map->first_address, map->error));
    EXPECT_OK(check, "memory.release: the other",
              map->ops->release(map->instance, map->context, map->second_address, map->error));
}

static void check_mapping(struct facet_check *check)
{
    struct map map = {check, &check->memory_ops, check->instance, &check->error, 0, 0, 0, 0, 0};
    struct facet_memory_info info = {.size = sizeof info};

    if (!facet_check_context(check, FACET_CHECK_WORKER, &map.context))
        return;
    EXPECT_OK(check, "memory.info: of a context that maps",
              map.ops->info(check->instance, map.context, &info, &check->error));
    map.page = info.page_bytes;
    if (EXPECT_TRUE(check, "memory.info: a device that maps memory has pages", map.page >= WORD,
                    "expected: page_bytes of at least %zu\ngot: %" PRIu64, (size_t)WORD, map.page) &&
        prepare_map(&map)) {
        refuse_wrong_maps(&map);
        move_mapping(&map);
        check_unmapping(&map);
    }
    facet_check_drop_context(check, map.context);
}

/* Mappings that a context leaves behind end with it. */
static void check_leftovers(struct facet_check *check)
{
    struct map map = {check, &check->memory_ops, check->instance, &check->error, 0, 0, 0, 0, 0};
    struct facet_memory_info info = {.size = sizeof info};
    uint64_t watcher = 0;

    if (!facet_check_context(check, FACET_CHECK_OTHER, &watcher) ||
        !facet_check_context(check, FACET_CHECK_WORKER, &map.context))
        return;
    map.ops->info(check->instance, watcher, &info, NULL);
    map.page = info.page_bytes;
    uint64_t before = facet_check_used(check, watcher);
    if (map.ops->reserve(check->instance, map.context, map.page, 0, &map.first_address, NULL) == FACET_OK &&
        map.ops->create_pages(check->instance, map.context, map.page, &map.pages, NULL) == FACET_OK)
        map_bytes(&map, map.first_address, 0, map.page);
    facet_check_drop_context(check, map.context);
    EXPECT_NUMBER(check, "memory.destroy_context: frees pages and mappings too", before,
                  facet_check_used(check, watcher));
    facet_check_drop_context(check, watcher);
}

static const struct facet_check_case cases[] = {
    {check_mapping, FACET_CAN_MEMORY | FACET_CAN_MAP_MEMORY},
    {check_leftovers, FACET_CAN_MEMORY | FACET_CAN_MAP_MEMORY},
    {facet_check_share_pages, FACET_CAN_MEMORY | FACET_CAN_MAP_MEMORY | FACET_CAN_SHARE_PAGES},
    {facet_check_move_pages, FACET_CAN_MEMORY | FACET_CAN_MAP_MEMORY | FACET_CAN_MOVE_PAGES},
    {facet_check_move_under_launches,
     FACET_CAN_MEMORY | FACET_CAN_MAP_MEMORY | FACET_CAN_MOVE_PAGES | FACET_CAN_EXECUTE},
    {NULL, 0}};

const struct facet_check_group facet_check_mapping = {
    .name = "mapping", .about = "reserved addresses, pages, maps", .cases = cases};
