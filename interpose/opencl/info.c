/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: device queries whose answer is a size that the quota bounds.
 * Never: changes names, versions or limits that the quota does not touch.
 */
#include <string.h>

#include "layer.h"
#include "process.h"

static uint64_t smaller(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

/* The driver answers first, so that its checks and sizes are exact; then what it wrote is bounded. */
static void bound_bytes(void *value, uint64_t limit)
{
    cl_ulong bytes;

    memcpy(&bytes, value, sizeof bytes);
    bytes = smaller(bytes, limit);
    memcpy(value, &bytes, sizeof bytes);
}

/* Free memory comes in KiB: all of it, then the largest block, as many as there was room for. */
static void bound_free_kib(void *value, size_t size, uint64_t free_bytes)
{
    for (size_t at = 0; at + sizeof(size_t) <= size; at += sizeof(size_t)) {
        size_t kib;

        memcpy(&kib, (char *)value + at, sizeof kib);
        kib = (size_t)smaller(kib, free_bytes / 1024);
        memcpy((char *)value + at, &kib, sizeof kib);
    }
}

cl_int facet_clGetDeviceInfo(cl_device_id device, cl_device_info param_name, size_t param_value_size, void *param_value,
                             size_t *param_value_size_ret)
{
    size_t written = 0;
    cl_int result =
        facet_cl_target.clGetDeviceInfo(device, param_name, param_value_size, param_value, param_value_size_ret);
    struct facet_tenant *tenant;

    switch (param_name) {
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        if (result == CL_SUCCESS && param_value && (tenant = facet_cl_tenant()))
            bound_bytes(param_value, facet_tenant_memory_limit(tenant));
        break;
    case CL_DEVICE_GLOBAL_FREE_MEMORY_AMD:
        if (result == CL_SUCCESS && param_value && (tenant = facet_cl_tenant()) &&
            facet_cl_target.clGetDeviceInfo(device, param_name, 0, NULL, &written) == CL_SUCCESS)
            bound_free_kib(param_value, smaller(written, param_value_size), facet_tenant_memory_free(tenant));
        break;
    default:
        break;
    }
    return result;
}
