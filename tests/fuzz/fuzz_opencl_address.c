/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing the OpenCL address. The input has the names of platform and device, separated by the first newline. An
 * address that was written can be parsed, and an address that was parsed is written with the same text.
 */
#include <facet/opencl_address.h>

#include "fuzz.h"

/* A text is refused, or is an address. An address with units is exactly the text that is written for it. */
static void check_any_text(const char *text)
{
    struct facet_opencl_place place;
    char written[FACET_OPENCL_ADDRESS_SIZE];

    if (!facet_opencl_address_parse(text, &place))
        return;
    FUZZ_ASSERT(strlen(place.device) <= strlen(text));
    if (place.count == 0) {
        FUZZ_ASSERT(place.start == 0 && strcmp(place.device, text) == 0);
        return;
    }
    FUZZ_ASSERT(place.start + place.count > place.start);
    if (strlen(place.device) > 226)
        return; /* no written address is that long */
    facet_opencl_address_part(place.device, place.start, place.count, written);
    FUZZ_ASSERT(strcmp(written, text) == 0);
}

/* Units with the longest numbers can be added to any written address. */
static void check_written_text(const char *address)
{
    struct facet_opencl_place place;
    char part[FACET_OPENCL_ADDRESS_SIZE];

    FUZZ_ASSERT(facet_opencl_address_parse(address, &place) && place.count == 0);
    facet_opencl_address_part(address, 0, UINT32_MAX, part);
    FUZZ_ASSERT(facet_opencl_address_parse(part, &place));
    FUZZ_ASSERT(place.start == 0 && place.count == UINT32_MAX && strcmp(place.device, address) == 0);
    facet_opencl_address_part(address, 4294967294u, 1, part);
    FUZZ_ASSERT(facet_opencl_address_parse(part, &place));
    FUZZ_ASSERT(place.start == 4294967294u && place.count == 1 && strcmp(place.device, address) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char address[FACET_OPENCL_ADDRESS_SIZE], stem[FACET_OPENCL_ADDRESS_SIZE];
    char *platform = fuzz_text(data, size);
    char *device = strchr(platform, '\n');
    unsigned separators = 0;

    check_any_text(platform);
    if (device)
        *device++ = '\0';
    facet_opencl_address_stem(platform, device ? device : "", stem);
    facet_opencl_address(platform, device ? device : "", UINT32_MAX, address);
    FUZZ_ASSERT(strncmp(address, stem, strlen(stem)) == 0);
    FUZZ_ASSERT(strcmp(address + strlen(stem), "4294967295") == 0);
    for (const char *c = address; *c; c++) {
        FUZZ_ASSERT(*c >= 0x20 && *c <= 0x7e);
        separators += *c == ';';
    }
    FUZZ_ASSERT(separators == 2);
    check_written_text(address);
    free(platform);
    return 0;
}
