/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing the OpenCL address: platform and device name are separated by the first newline. */
#include <facet/opencl_address.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char address[FACET_OPENCL_ADDRESS_SIZE], stem[FACET_OPENCL_ADDRESS_SIZE];
    char *platform = fuzz_text(data, size);
    char *device = strchr(platform, '\n');
    unsigned separators = 0;

    if (device)
        *device++ = '\0';
    facet_opencl_address_stem(platform, device ? device : "", stem);
    facet_opencl_address(platform, device ? device : "", UINT32_MAX, address);
    PROMISE(strncmp(address, stem, strlen(stem)) == 0);
    PROMISE(strcmp(address + strlen(stem), "4294967295") == 0);
    for (const char *c = address; *c; c++) {
        PROMISE(*c >= 0x20 && *c <= 0x7e);
        separators += *c == ';';
    }
    PROMISE(separators == 2);
    free(platform);
    return 0;
}
