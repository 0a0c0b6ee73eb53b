/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the vendor's tables of unnamed functions, which its runtime looks up when it starts.
 * Never: does more than the runtime needs in Facet's tests; any other function is not supported.
 *
 * A table begins with its size in bytes. The entries were observed with the runtime of CUDA 13.0. One of its functions
 * checks that the driver is the vendor's. The fake does not imitate this function, so a program that uses the runtime
 * gets an error that says that its call is not supported.
 */
#include <string.h>

#include "entry_points.h"
#include "fake.h"

#define TABLE_ENTRIES 64
#define EVENTS        1024 /* more than the number of the runtime's functions */

/* Answers that a device's primary context does not exist yet. */
static CUresult primary_of(CUcontext *context, CUdevice device)
{
    uint32_t physical;
    CUresult result = context ? fake_physical(device, &physical) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        *context = NULL;
    return result;
}

/* The runtime's functions of which a profiler wants to be notified: none. */
static void wanted_events(void **table, size_t *count)
{
    static size_t nothing[EVENTS];

    *table = nothing;
    *count = EVENTS;
}

#define UNSUPPORTED (const void *)fake_not_supported
#define TABLE(second, sixth)                                                                                           \
    {                                                                                                                  \
        (const void *)(TABLE_ENTRIES * sizeof(void *)), UNSUPPORTED, (const void *)(second), UNSUPPORTED, UNSUPPORTED, \
            UNSUPPORTED, (const void *)(sixth), [7 ... TABLE_ENTRIES - 1] = UNSUPPORTED                                \
    }
static const void *const context_table[TABLE_ENTRIES] = TABLE(primary_of, fake_not_supported);
static const void *const profiling_table[TABLE_ENTRIES] = TABLE(wanted_events, wanted_events);
static const void *const unknown_table[TABLE_ENTRIES] = TABLE(fake_not_supported, fake_not_supported);

static const struct {
    unsigned char id[16];
    const void *const *table;
} tables[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9}, context_table},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66}, profiling_table},
};

CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *table = unknown_table;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (memcmp(tables[i].id, id->bytes, sizeof tables[i].id) == 0)
            *table = tables[i].table;
    return CUDA_SUCCESS;
}
