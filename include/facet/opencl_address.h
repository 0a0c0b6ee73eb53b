/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an OpenCL device is named between the provider that lists it and the layer that recognises it in a tenant.
 *
 * Owns: the text of facet_device_info.address for OpenCL devices:
 *       "platform=<CL_PLATFORM_NAME>;name=<CL_DEVICE_NAME>;ordinal=<n>"
 * Never: calls OpenCL.
 *
 * Both names are cut to 96 bytes; ';' and whatever is not printable ASCII become '_'. The part up to "ordinal=" is the
 * stem. `n` counts, from 0, the devices of the same stem that come before this one: platforms in the order of
 * clGetPlatformIDs, devices in the order of clGetDeviceIDs(CL_DEVICE_TYPE_ALL). So a program that sees the same devices
 * works out the same addresses, whatever order of calls it makes.
 */
#ifndef FACET_OPENCL_ADDRESS_H
#define FACET_OPENCL_ADDRESS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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

#ifdef __cplusplus
}
#endif
#endif
