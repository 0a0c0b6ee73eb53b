/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: finding slots and places by name, and the sets of slots that exclude each other. Never: changes a map. */
#include <string.h>

#include "placement/maps/maps.h"

uint32_t maps_find_slot(const struct facet_maps *maps, const char *name)
{
    uint32_t low = 0, high = maps->slot_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(name, maps->slots[middle].name);

        if (order == 0)
            return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return MAPS_NONE;
}

uint32_t maps_find_cell(const struct facet_maps *maps, uint32_t slot, const char *id)
{
    uint32_t low = maps->slots[slot].first, high = low + maps->slots[slot].count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(id, maps->cells[maps->by_id[middle]].id);

        if (order == 0)
            return maps->by_id[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return MAPS_NONE;
}

/* `*` stands for any text, `?` for any byte. Backtracks to the last star only, so any pattern costs at most the
 * product of both lengths. */
static bool pattern_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *again = NULL;

    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            again = text;
        } else if (*pattern && (*pattern == '?' || *pattern == *text)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++again;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool is_exclusive(const struct maps_map *map, const char *slot)
{
    for (uint32_t i = 0; i < map->exclusive_count; i++)
        if (strcmp(map->exclusive[i], slot) == 0 || pattern_matches(map->exclusive[i], slot))
            return true;
    return false;
}

bool maps_exclude(const struct maps_map *map, const char *left, const char *right)
{
    return map->exclusive_count > 0 && is_exclusive(map, left) && is_exclusive(map, right);
}
