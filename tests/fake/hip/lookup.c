/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: hipGetProcAddress and hipGetDriverEntryPoint, which look functions up by their exported names. They return the
 * form for the per-thread default stream if it is asked for and exists.
 * Never: answers with a function that this runtime's version lacks.
 */
#include <stdio.h>
#include <string.h>

#include "entry_points.h"
#include "fake.h"

/* The newest version node of a runtime: 702 (hip_7.2) for version 70200000, which is 7.2.0. */
static int node_of(int version)
{
    return version / 10000000 * 100 + version / 100000 % 100;
}

static void *find_function(const char *symbol, int version, int *status)
{
    *status = HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < fake_entry_point_count; i++) {
        const struct fake_entry_point *entry = &fake_entry_points[i];

        if (strcmp(entry->symbol, symbol) != 0 || entry->node > node_of((int)fake_state()->driver_version))
            continue;
        *status =
            entry->node > node_of(version) ? HIP_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : HIP_GET_PROC_ADDRESS_SUCCESS;
        return *status == HIP_GET_PROC_ADDRESS_SUCCESS ? entry->address : NULL;
    }
    return NULL;
}

static hipError_t look_up(const char *symbol, void **function, int version, bool per_thread, int *ret_status)
{
    char name[128];
    int status = HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;

    if (!symbol || !function)
        return hipErrorInvalidValue;
    *function = NULL;
    snprintf(name, sizeof name, "%s_spt", symbol);
    if (per_thread)
        *function = find_function(name, version, &status);
    if (!*function)
        *function = find_function(symbol, version, &status);
    if (ret_status)
        *ret_status = status;
    return *function ? hipSuccess : hipErrorInvalidValue;
}

FAKE_HIP_QUERY(hipGetProcAddress,
               (const char *symbol, void **function, int version, uint64_t flags,
                hipDriverProcAddressQueryResult *status),
               look_up(symbol, function, version, flags == HIP_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, status))
FAKE_HIP_QUERY(hipGetDriverEntryPoint,
               (const char *symbol, void **function, unsigned long long flags, hipDriverProcAddressQueryResult *status),
               look_up(symbol, function, INT32_MAX, flags == HIP_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, status))
FAKE_HIP_QUERY(hipGetDriverEntryPoint_spt,
               (const char *symbol, void **function, unsigned long long flags, hipDriverProcAddressQueryResult *status),
               look_up(symbol, function, INT32_MAX, flags != HIP_GET_PROC_ADDRESS_LEGACY_STREAM, status))
