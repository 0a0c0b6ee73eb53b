/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: cuGetProcAddress, by the driver's rules. It returns the newest form of a name that is not newer than the
 * requested version, and the form for the per-thread default stream if that is requested and exists.
 * Never: answers with a function that this driver's version lacks.
 */
#include <stdlib.h>
#include <string.h>

#include "entry_points.h"
#include "fake.h"

#define FAR_VERSION 90000

/* Whether `entry` fits better than `best`: it is per-thread and `best` is not, or it is newer. */
static bool is_better(const struct fake_entry_point *entry, const struct fake_entry_point *best)
{
    if (!best)
        return true;
    if (entry->per_thread != best->per_thread)
        return entry->per_thread;
    return entry->version > best->version;
}

static void *find_function(const char *name, int version, bool per_thread, CUdriverProcAddressQueryResult *status)
{
    int newest = (int)fake_state()->driver_version;
    const struct fake_entry_point *best = NULL;

    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < fake_entry_point_count; i++) {
        const struct fake_entry_point *entry = &fake_entry_points[i];
        if (strcmp(entry->name, name) != 0 || entry->version > newest)
            continue;
        if (!best)
            *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        if (entry->version <= version && entry->per_thread <= per_thread && is_better(entry, best))
            best = entry;
    }
    if (best)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return best ? best->address : NULL;
}

/* Stands for a function that the driver does not export. */
static CUresult hidden_init(unsigned flags)
{
    return cuInit(flags);
}

/* Like drivers that return a function for cuInit that they do not export, or that have newer forms than our list. */
static void *special_answer(const char *name, int version)
{
    bool newer = getenv("FAKE_CUDA_NEWER") && version >= FAR_VERSION;

    return strcmp(name, "cuInit") == 0 && (newer || getenv("FAKE_CUDA_HIDDEN")) ? (void *)hidden_init : NULL;
}

static bool is_request(const char *symbol, void *const *function, int version, uint64_t flags)
{
    return symbol && function && flags <= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM &&
           version <= (int)fake_state()->driver_version;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    CUdriverProcAddressQueryResult found;

    if (!is_request(symbol, function, version, flags))
        return CUDA_ERROR_INVALID_VALUE;
    *function = find_function(symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &found);
    if (special_answer(symbol, version))
        *function = special_answer(symbol, version);
    if (status)
        *status = found;
    return CUDA_SUCCESS;
}

/* The older form has no `status`, so the result is an error if there is no such function. */
CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    CUdriverProcAddressQueryResult found;
    CUresult result = cuGetProcAddress_v2(symbol, function, version, flags, &found);

    return result == CUDA_SUCCESS && !*function ? CUDA_ERROR_NOT_FOUND : result;
}
