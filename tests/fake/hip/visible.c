/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of visible devices. ROCR_VISIBLE_DEVICES selects devices of the machine by index or UUID.
 * HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES if HIP_VISIBLE_DEVICES is not set, selects among the devices that
 * remain. Never: reads a list beyond an item that names no device.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* The position in `from` of the first device whose UUID begins with the digits after "GPU-"; `count` if none does. */
static uint32_t find_uuid(const char *item, const uint32_t *from, uint32_t count)
{
    const char *digits = item + strlen(VENDOR_HIP_UUID);

    for (uint32_t i = 0; i < count; i++)
        if (digits[0] && strlen(digits) <= sizeof(hipUUID) &&
            strncmp(fake_state()->devices[from[i]].uuid, digits, strlen(digits)) == 0)
            return i;
    return count;
}

static uint32_t find_item(const char *item, const uint32_t *from, uint32_t count)
{
    char *end;

    if (strncmp(item, VENDOR_HIP_UUID, strlen(VENDOR_HIP_UUID)) == 0)
        return find_uuid(item, from, count);
    unsigned long index = strtoul(item, &end, 10);
    return end != item && !*end && index < count ? (uint32_t)index : count;
}

static uint32_t choose_devices(const char *list, uint32_t visible[FAKE_DEVICES], uint32_t count)
{
    uint32_t chosen[FAKE_DEVICES], found = 0;
    char copy[1024], *rest = copy, *item;

    strncpy(copy, list, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    while ((item = strsep(&rest, ",")) && found < FAKE_DEVICES) {
        uint32_t position = find_item(item, visible, count);
        if (position == count)
            break;
        for (uint32_t i = 0; i < found; i++)
            if (chosen[i] == visible[position])
                return 0;
        chosen[found++] = visible[position];
    }
    memcpy(visible, chosen, found * sizeof *visible);
    return found;
}

uint32_t fake_hip_visible(uint32_t visible[FAKE_DEVICES])
{
    const char *rocr = getenv("ROCR_VISIBLE_DEVICES"), *hip = getenv("HIP_VISIBLE_DEVICES");
    uint32_t count = fake_state()->device_count;

    hip = hip ? hip : getenv("CUDA_VISIBLE_DEVICES");
    for (uint32_t i = 0; i < count; i++)
        visible[i] = i;
    if (rocr)
        count = choose_devices(rocr, visible, count);
    return hip ? choose_devices(hip, visible, count) : count;
}
