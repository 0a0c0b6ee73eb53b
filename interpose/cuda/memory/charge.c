/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: taking, keeping and releasing charges. Never: holds a lock while the driver is called. */
#include "charge.h"

#include "context.h"
#include "graph.h"
#include "green.h"
#include "interpose/kit/memory/managed.h"
#include "interpose/kit/memory/pool.h"
#include "interpose/kit/memory/region.h"

static void trim_if_lacking(struct facet_tenant *tenant, uint32_t device, uint64_t bytes)
{
    if (facet_pools_any() && facet_tenant_lacks(tenant, bytes))
        facet_pools_trim(device);
    if (facet_graphs_ever_used() && facet_tenant_lacks(tenant, bytes))
        facet_graphs_trim(device);
}

static CUresult reserve_with_trim(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge)
{
    struct facet_tenant *tenant = facet_cuda_tenant(device);

    if (!tenant)
        return CUDA_ERROR_NOT_INITIALIZED;
    trim_if_lacking(tenant, device, bytes);
    if (!facet_tenant_try_reserve(tenant, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_charge = (struct facet_cuda_charge){.tenant = tenant, .bytes = bytes, .device = device};
    return CUDA_SUCCESS;
}

CUresult facet_cuda_charge_take(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge)
{
    CUresult result = reserve_with_trim(device, bytes, ret_charge);

    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        facet_tenant_deny(facet_cuda_tenant(device));
    return result;
}

/* Waits for frozen memory before it adds pending bytes. */
CUresult facet_cuda_charge_begin(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge)
{
    struct facet_tenant *tenant = facet_cuda_tenant(device);

    if (!tenant)
        return CUDA_ERROR_NOT_INITIALIZED;
    facet_tenant_thaw(tenant);
    facet_pending_enter(device, bytes);
    CUresult result = reserve_with_trim(device, bytes, ret_charge);
    if (__builtin_expect(result != CUDA_SUCCESS, 0)) {
        facet_pending_leave();
        return result;
    }
    facet_cuda_charge_set_owner(ret_charge);
    return CUDA_SUCCESS;
}

void facet_cuda_charge_set_owner(struct facet_cuda_charge *charge)
{
    charge->owner = facet_cuda_owner();
    charge->contexts_ended = facet_cuda_contexts_ended();
}

void facet_cuda_charge_end(const struct facet_cuda_charge *charge)
{
    facet_pending_leave();
    if (__builtin_expect(charge->contexts_ended != facet_cuda_contexts_ended(), 0))
        facet_cuda_context_release_ended(charge->owner, charge->contexts_ended);
}

static bool reserve_charge(const struct facet_cuda_charge *charge, uint64_t bytes)
{
    if (charge->by_region && bytes == FACET_REGION_BYTES && facet_tenant_take_spare(charge->tenant))
        return true;
    trim_if_lacking(charge->tenant, charge->device, bytes);
    return charge->by_region ? facet_tenant_try_regions(charge->tenant, (uint32_t)(bytes >> FACET_REGION_BITS))
                             : facet_tenant_try_reserve(charge->tenant, bytes);
}

static void release_charge(const struct facet_cuda_charge *charge, uint64_t bytes)
{
    if (charge->by_region)
        facet_tenant_release_regions(charge->tenant, (uint32_t)(bytes >> FACET_REGION_BITS));
    else
        facet_tenant_release(charge->tenant, bytes);
}

void facet_cuda_charge_drop(const struct facet_cuda_charge *charge)
{
    release_charge(charge, charge->bytes);
}

CUresult facet_cuda_charge_resize(struct facet_cuda_charge *charge, uint64_t bytes)
{
    CUresult result = facet_cuda_charge_try_resize(charge, bytes);

    if (result != CUDA_SUCCESS)
        facet_tenant_deny(charge->tenant);
    return result;
}

CUresult facet_cuda_charge_try_resize(struct facet_cuda_charge *charge, uint64_t bytes)
{
    if (bytes > charge->bytes && !reserve_charge(charge, bytes - charge->bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes < charge->bytes)
        release_charge(charge, charge->bytes - bytes);
    charge->bytes = bytes;
    return CUDA_SUCCESS;
}

bool facet_cuda_charge_keep(const struct facet_cuda_charge *charge, enum facet_cuda_kind kind, uint64_t handle)
{
    struct facet_ledger_entry entry = {
        .bytes = charge->bytes, .owner = charge->owner, .device = charge->device, .kind = (uint32_t)kind};

    return facet_ledger_add(facet_cuda_process.ledger, facet_cuda_key(kind, handle), entry);
}

void facet_cuda_charge_release_entry(uint64_t key, const struct facet_ledger_entry *entry)
{
    bool is_small = entry->kind == FACET_CUDA_SMALL;
    uint64_t bytes = is_small ? facet_regions_leave(entry->device, key, entry->bytes) : entry->bytes;
    struct facet_tenant *tenant = facet_cuda_tenant(entry->device);

    if (entry->kind == FACET_MEMORY_POOLED)
        facet_pool_freed(entry);
    else if (entry->kind == FACET_CUDA_MANAGED)
        facet_managed_release(bytes);
    else if (tenant && bytes)
        release_charge(&(struct facet_cuda_charge){.tenant = tenant, .by_region = is_small}, bytes);
}

/* Freeing the last block of a region frees the region. */
static uint64_t pending_bytes_of(const struct facet_ledger_entry *entry)
{
    return entry->kind == FACET_CUDA_SMALL ? FACET_REGION_BYTES : entry->bytes;
}

static uint32_t pending_device(const struct facet_ledger_entry *entry)
{
    return entry->kind == FACET_CUDA_MANAGED ? FACET_PENDING_ANY_DEVICE : entry->device;
}

/*
 * Most small blocks are in the notes of their regions (linear.c), all others are in the ledger. A note has no size: 1
 * byte stands for any block that lies in one region.
 */
static bool take_entry(uint64_t key, struct facet_ledger_entry *ret_entry)
{
    struct facet_ledger_entry small_entry = {.bytes = 1, .kind = FACET_CUDA_SMALL};

    if (!facet_cuda_process.ledger)
        return false;
    if (!facet_regions_take_note(key, &small_entry.device, &small_entry.owner))
        return facet_ledger_take(facet_cuda_process.ledger, key, ret_entry);
    *ret_entry = small_entry;
    return true;
}

static bool put_entry_back(uint64_t key, const struct facet_ledger_entry *entry)
{
    return (entry->kind == FACET_CUDA_SMALL && facet_regions_note(entry->device, key, entry->bytes, entry->owner)) ||
           facet_ledger_add(facet_cuda_process.ledger, key, *entry);
}

CUresult facet_cuda_charge_free(enum facet_cuda_kind kind, uint64_t handle, CUresult (*free_it)(uint64_t, CUstream),
                                CUstream stream)
{
    uint64_t key = facet_cuda_key(kind, handle);
    struct facet_ledger_entry entry;

    facet_pending_enter(FACET_PENDING_ANY_DEVICE, 0);
    bool is_charged = handle && take_entry(key, &entry);
    uint64_t contexts_ended = facet_cuda_contexts_ended();
    if (is_charged && entry.kind != FACET_MEMORY_POOLED)
        facet_pending_set(pending_device(&entry), pending_bytes_of(&entry));
    else
        facet_pending_leave();
    CUresult result = free_it(handle, stream);
    if (is_charged && result == CUDA_SUCCESS)
        facet_cuda_charge_release_entry(key, &entry);
    else if (is_charged && !put_entry_back(key, &entry))
        entry.bytes = 0; /* stays charged for good: the memory lives, but its ledger entry is lost */
    facet_pending_leave();
    if (is_charged && result != CUDA_SUCCESS && contexts_ended != facet_cuda_contexts_ended())
        facet_cuda_context_release_ended(entry.owner, contexts_ended);
    return result;
}

uint64_t facet_cuda_owner(void)
{
    CUcontext context = NULL;

    if (facet_cuda_unhooked.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return 0;
    return (uintptr_t)facet_cuda_green_primary(context);
}
