/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text by which the interposer in a tenant recognises an OpenCL device that the provider has listed.
 *
 * Owns: the text of facet_device_info.address for OpenCL devices:
 *       "platform=<CL_PLATFORM_NAME>;name=<CL_DEVICE_NAME>;ordinal=<n>"
 * which ends with ";units=<start>+<count>" for a part of a device.
 * Never: calls OpenCL.
 *
 * Both names are cut to 96 bytes; ';' and all but printable ASCII become '_'. The part up to "ordinal=" is the stem.
 * `n` counts, from 0, the devices of the same stem that come before this one: platforms in the order of
 * clGetPlatformIDs, devices in the order of clGetDeviceIDs(CL_DEVICE_TYPE_ALL). So a program that sees the same devices
 * works out the same addresses, in any order of calls.
 *
 * Units are compute units, numbered from 0. The part is the sub-device of `count` units that is made by partitioning
 * the device by counts (CL_DEVICE_PARTITION_BY_COUNTS): {count} when `start` is 0, else the second of {start, count}.
 */
#ifndef FACET_OPENCL_ADDRESS_H
#define FACET_OPENCL_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FACET_OPENCL_NAME_MAX     96
#define FACET_OPENCL_ADDRESS_SIZE 256 /* enough for every address, terminator included */

/* Copies one name in the form that an address holds. `ret_text` has room for FACET_OPENCL_NAME_MAX + 1 bytes. */
static inline void facet_opencl_address_name(const char *name, char *ret_text)
{
    size_t i;

    for (i = 0; name[i] != '\0' && i < FACET_OPENCL_NAME_MAX; i++)
        ret_text[i] = name[i] == ';' || name[i] < 0x20 || name[i] > 0x7e ? '_' : name[i];
    ret_text[i] = '\0';
}

/* Writes the stem, "platform=...;name=...;ordinal=". `ret_stem` has room for FACET_OPENCL_ADDRESS_SIZE bytes. */
static inline void facet_opencl_address_stem(const char *platform, const char *device, char *ret_stem)
{
    char platform_text[FACET_OPENCL_NAME_MAX + 1], device_text[FACET_OPENCL_NAME_MAX + 1];

    facet_opencl_address_name(platform, platform_text);
    facet_opencl_address_name(device, device_text);
    snprintf(ret_stem, FACET_OPENCL_ADDRESS_SIZE, "platform=%s;name=%s;ordinal=", platform_text, device_text);
}

/* Writes the address: the stem, then the ordinal. `ret_address` has room for FACET_OPENCL_ADDRESS_SIZE bytes. */
static inline void facet_opencl_address(const char *platform, const char *device, uint32_t ordinal, char *ret_address)
{
    char stem[FACET_OPENCL_ADDRESS_SIZE];

    facet_opencl_address_stem(platform, device, stem);
    snprintf(ret_address, FACET_OPENCL_ADDRESS_SIZE, "%.240s%lu", stem, (unsigned long)ordinal);
}

/* A parsed address: a device, or a part of one. */
struct facet_opencl_place {
    char device[FACET_OPENCL_ADDRESS_SIZE]; /* the address of the whole device */
    uint32_t start, count;                  /* compute units of the part; count 0: the whole device */
};

/* Writes the address of a part of the device at `device` to `ret_address`, which is not `device` and has room for
 * FACET_OPENCL_ADDRESS_SIZE bytes. The longest device address is 226 bytes, so the longest units still fit. */
static inline void facet_opencl_address_part(const char *device, uint32_t start, uint32_t count, char *ret_address)
{
    snprintf(ret_address, FACET_OPENCL_ADDRESS_SIZE, "%.226s;units=%lu+%lu", device, (unsigned long)start,
             (unsigned long)count);
}

/* Reads a decimal number as the functions above write it: no sign, no blank, no leading zero. Moves *text past it. */
static inline bool facet_opencl_address_number(const char **text, uint32_t *ret_number)
{
    const char *digit = *text;
    uint64_t number = 0;

    for (; *digit >= '0' && *digit <= '9' && number <= UINT32_MAX; digit++)
        number = number * 10 + (uint64_t)(*digit - '0');
    if (digit == *text || number > UINT32_MAX || (**text == '0' && digit - *text > 1))
        return false;
    *text = digit;
    *ret_number = (uint32_t)number;
    return true;
}

/*
 * Parses an address. Returns false and writes nothing when the address is too long, or its units are 0 or not in the
 * form that facet_opencl_address_part writes. The device is not checked: the caller compares it.
 */
static inline bool facet_opencl_address_parse(const char *address, struct facet_opencl_place *ret_place)
{
    static const char key[] = ";units=";
    const char *units = strrchr(address, ';'); /* names have no ';' */
    size_t length = strlen(address);
    uint32_t start = 0, count = 0;

    if (units && strncmp(units, key, sizeof key - 1) == 0) {
        const char *at = units + sizeof key - 1;

        length = (size_t)(units - address);
        if (!facet_opencl_address_number(&at, &start) || *at++ != '+' || !facet_opencl_address_number(&at, &count) ||
            *at || count == 0 || start > UINT32_MAX - count)
            return false;
    }
    if (length >= sizeof ret_place->device)
        return false;
    memcpy(ret_place->device, address, length);
    ret_place->device[length] = '\0';
    ret_place->start = start;
    ret_place->count = count;
    return true;
}

#ifdef __cplusplus
}
#endif
#endif
