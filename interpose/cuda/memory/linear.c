/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: charging small and plain linear memory. Never: holds a lock. */
#include "linear.h"

#include "interpose/kit/memory/region.h"

_Static_assert(FACET_CUDA_TENANTS <= FACET_REGION_DEVICES, "each vGPU's device has regions");

static bool is_small(uint64_t bytes)
{
    return bytes < UINT64_C(1) << 20;
}

/* If regions are charged already, the block may lie in one of them, so nothing is reserved. */
static CUresult begin_small(uint32_t device, struct facet_cuda_charge *ret_charge)
{
    struct facet_cuda_charge charge = {.tenant = facet_cuda_tenant(device), .device = device, .by_region = true};
    CUresult result = CUDA_SUCCESS;

    if (!charge.tenant)
        return CUDA_ERROR_NOT_INITIALIZED;
    facet_tenant_thaw(charge.tenant);
    facet_pending_enter(device, FACET_REGION_BYTES);
    facet_cuda_charge_set_owner(&charge);
    if (!facet_tenant_has_regions(charge.tenant))
        result = facet_cuda_charge_try_resize(&charge, FACET_REGION_BYTES);
    if (__builtin_expect(result == CUDA_SUCCESS, 1))
        *ret_charge = charge;
    else
        facet_pending_leave();
    return result;
}

CUresult facet_cuda_linear_begin(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge)
{
    return is_small(bytes) ? begin_small(device, ret_charge)
                           : facet_cuda_charge_begin(device, facet_cuda_granted(bytes), ret_charge);
}

/* Moves the charge to the regions of the block. */
static CUresult charge_regions(struct facet_cuda_charge *charge, uint64_t bytes, CUdeviceptr pointer)
{
    uint64_t surplus = 0;

    if (!charge->bytes && facet_regions_join(charge->device, pointer, bytes))
        return CUDA_SUCCESS;
    CUresult result = facet_cuda_charge_resize(charge, facet_regions_touched(pointer, bytes));
    if (result == CUDA_SUCCESS && !facet_regions_add(charge->device, pointer, bytes, &surplus))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    return result == CUDA_SUCCESS && surplus ? facet_cuda_charge_resize(charge, charge->bytes - surplus) : result;
}

static bool record_small(const struct facet_cuda_charge *charge, uint64_t bytes, CUdeviceptr pointer)
{
    struct facet_cuda_charge block = {.bytes = bytes, .device = charge->device, .owner = charge->owner};

    return facet_regions_note(charge->device, pointer, bytes, charge->owner) ||
           facet_cuda_charge_keep(&block, FACET_CUDA_SMALL, pointer);
}

static CUresult keep_small(struct facet_cuda_charge *charge, uint64_t bytes, CUdeviceptr pointer)
{
    if (charge_regions(charge, bytes, pointer) != CUDA_SUCCESS) {
        facet_cuda_charge_drop(charge);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (record_small(charge, bytes, pointer))
        return CUDA_SUCCESS;
    charge->bytes = facet_regions_leave(charge->device, pointer, bytes);
    facet_cuda_charge_drop(charge);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult facet_cuda_linear_keep(struct facet_cuda_charge *charge, uint64_t bytes, CUdeviceptr pointer)
{
    if (is_small(bytes))
        return keep_small(charge, bytes, pointer);
    if (facet_cuda_charge_resize(charge, facet_cuda_granted(bytes)) == CUDA_SUCCESS &&
        facet_cuda_charge_keep(charge, FACET_CUDA_PLAIN, pointer))
        return CUDA_SUCCESS;
    facet_cuda_charge_drop(charge);
    return CUDA_ERROR_OUT_OF_MEMORY;
}
