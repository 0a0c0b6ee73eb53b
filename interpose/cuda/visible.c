/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list's syntax. Never: allocates. */
#include "visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The index of the only address that begins with the `length` bytes of `item`; else `count`. */
static uint32_t find_address(const char *item, size_t length, const char *const *addresses, uint32_t count)
{
    uint32_t found = count;

    for (uint32_t i = 0; i < count; i++) {
        if (strncmp(item, addresses[i], length) != 0)
            continue;
        if (found < count)
            return count;
        found = i;
    }
    return found;
}

static uint32_t find_item(const char *item, size_t length, const char *const *addresses, uint32_t count)
{
    char *end;
    unsigned long index;

    if (strncmp(item, "GPU-", 4) == 0 || strncmp(item, "MIG-", 4) == 0)
        return find_address(item, length, addresses, count);
    index = strtoul(item, &end, 10);
    return length && end == item + length && index < count ? (uint32_t)index : count;
}

uint32_t facet_cuda_visible_choose(const char *list, const char *const *addresses, uint32_t count, uint32_t *chosen)
{
    uint32_t found = 0;

    for (uint32_t i = 0; !list && i < count; i++)
        chosen[found++] = i;
    for (const char *at = list; at;) {
        size_t length = strcspn(at, ",");
        uint32_t position = find_item(at, length, addresses, count);
        if (position == count)
            break;
        for (uint32_t i = 0; i < found; i++)
            if (chosen[i] == position)
                return 0;
        chosen[found++] = position;
        at = at[length] ? at + length + 1 : NULL;
    }
    return found;
}

bool facet_cuda_visible_write(const char *const *addresses, uint32_t count, char *list, size_t size)
{
    size_t used = 0;

    if (!count)
        return snprintf(list, size, "-1") < (int)size;
    for (uint32_t i = 0; i < count; i++) {
        int written = snprintf(list + used, size - used, "%s%s", i ? "," : "", addresses[i]);
        if (written < 0 || (size_t)written >= size - used)
            return false;
        used += (size_t)written;
    }
    return true;
}
