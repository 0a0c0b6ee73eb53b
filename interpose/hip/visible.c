/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the lists' syntax. Never: allocates. */
#include "visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vendor/hip/runtime.h"

#define DEVICES_MOST 16u

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The position in `chosen` of the only device whose address begins with these digits; else `count`. */
static uint32_t find_uuid(const char *digits, size_t length, const char *const *addresses, const uint32_t *chosen,
                          uint32_t count)
{
    uint32_t found = count;

    for (uint32_t i = 0; length && i < count; i++) {
        if (strncmp(addresses[chosen[i]] + strlen(VENDOR_HIP_ADDRESS), digits, length) != 0)
            continue;
        if (found < count)
            return count;
        found = i;
    }
    return found;
}

static uint32_t find_item(const char *item, size_t length, const char *const *addresses, const uint32_t *chosen,
                          uint32_t count)
{
    const size_t prefix = strlen(VENDOR_HIP_UUID);
    char *end;

    if (length > prefix && has_prefix(item, VENDOR_HIP_UUID))
        return find_uuid(item + prefix, length - prefix, addresses, chosen, count);
    unsigned long index = strtoul(item, &end, 10);
    return length && end == item + length && index < count ? (uint32_t)index : count;
}

uint32_t facet_hip_visible_choose(const char *list, const char *const *addresses, uint32_t *chosen, uint32_t count)
{
    uint32_t result[DEVICES_MOST], found = 0;

    if (!list)
        return count;
    for (const char *at = list; at && found < DEVICES_MOST;) {
        size_t length = strcspn(at, ",");
        uint32_t position = find_item(at, length, addresses, chosen, count);
        if (position == count)
            break;
        for (uint32_t i = 0; i < found; i++)
            if (result[i] == chosen[position])
                return 0;
        result[found++] = chosen[position];
        at = at[length] ? at + length + 1 : NULL;
    }
    memcpy(chosen, result, found * sizeof *chosen);
    return found;
}

bool facet_hip_visible_uuids(const char *const *addresses, const uint32_t *chosen, uint32_t count, char *list,
                             size_t size)
{
    size_t used = 0;

    if (!count)
        return snprintf(list, size, "-1") < (int)size;
    for (uint32_t i = 0; i < count; i++) {
        int written = snprintf(list + used, size - used, "%s" VENDOR_HIP_UUID "%s", i ? "," : "",
                               addresses[chosen[i]] + strlen(VENDOR_HIP_ADDRESS));
        if (written < 0 || (size_t)written >= size - used)
            return false;
        used += (size_t)written;
    }
    return true;
}

bool facet_hip_visible_indices(uint32_t count, char *list, size_t size)
{
    size_t used = 0;

    if (!count)
        return snprintf(list, size, "-1") < (int)size;
    for (uint32_t i = 0; i < count; i++) {
        int written = snprintf(list + used, size - used, "%s%u", i ? "," : "", i);
        if (written < 0 || (size_t)written >= size - used)
            return false;
        used += (size_t)written;
    }
    return true;
}
