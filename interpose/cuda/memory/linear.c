/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what linear.h says. Never: holds a lock. */
#include "linear.h"

#include "interpose/kit/memory/region.h"

_Static_assert(FACET_CUDA_TENANTS <= FACET_REGION_DEVICES, "each vGPU's device has regions");

static bool is_small(uint64_t bytes)
{
    return bytes < UINT64_C(1) << 20;
}

/* Of those that are charged already any may have room. */
static CUresult begin_small(uint32_t device, struct facet_cuda_charge *ret_charge)
{
    struct facet_tenant *tenant = facet_cuda_tenant(device);

    if (!facet_regions_any(device) || !tenant)
        return facet_cuda_charge_begin(device, FACET_REGION_BYTES, ret_charge);
    facet_tenant_thaw(tenant);
    facet_transit_enter(device, FACET_REGION_BYTES);
    *ret_charge = (struct facet_cuda_charge){.tenant = tenant, .device = device};
    return CUDA_SUCCESS;
}

CUresult facet_cuda_linear_begin(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge)
{
    return is_small(bytes) ? begin_small(device, ret_charge)
                           : facet_cuda_charge_begin(device, facet_cuda_granted(bytes), ret_charge);
}

static CUresult resize(struct facet_cuda_charge *charge, uint64_t bytes)
{
    return charge->bytes == bytes ? CUDA_SUCCESS : facet_cuda_charge_resize(charge, bytes);
}

/* What the charge has left behind it is the regions'. */
static CUresult pay_regions(struct facet_cuda_charge *charge, uint64_t bytes, CUdeviceptr pointer)
{
    uint64_t left = 0;

    if (facet_regions_join(charge->device, pointer, bytes))
        return resize(charge, 0);
    CUresult result = resize(charge, facet_regions_touched(pointer, bytes));
    if (result == CUDA_SUCCESS && !facet_regions_add(charge->device, pointer, bytes, &left))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    return result == CUDA_SUCCESS && left ? resize(charge, charge->bytes - left) : result;
}

static CUresult keep_small(struct facet_cuda_charge *charge, uint64_t bytes, CUdeviceptr pointer)
{
    struct facet_cuda_charge block = {.tenant = charge->tenant, .bytes = bytes, .device = charge->device};

    if (pay_regions(charge, bytes, pointer) != CUDA_SUCCESS) {
        facet_cuda_charge_drop(charge);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (facet_cuda_charge_keep(&block, FACET_CUDA_SMALL, pointer, facet_cuda_owner()))
        return CUDA_SUCCESS;
    facet_tenant_release(charge->tenant, facet_regions_leave(charge->device, pointer, bytes));
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult facet_cuda_linear_keep(struct facet_cuda_charge *charge, uint64_t bytes, CUdeviceptr pointer)
{
    if (is_small(bytes))
        return keep_small(charge, bytes, pointer);
    if (resize(charge, facet_cuda_granted(bytes)) == CUDA_SUCCESS &&
        facet_cuda_charge_keep(charge, FACET_CUDA_PLAIN, pointer, facet_cuda_owner()))
        return CUDA_SUCCESS;
    facet_cuda_charge_drop(charge);
    return CUDA_ERROR_OUT_OF_MEMORY;
}
