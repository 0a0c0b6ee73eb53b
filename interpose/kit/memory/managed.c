/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the charge on each GPU. Never: leaves one vGPU charged when another refused. */
#include "managed.h"

#include <stdatomic.h>

static _Atomic uint64_t charged_bytes;

static void release_devices(uint32_t count, uint64_t bytes)
{
    for (uint32_t i = 0; i < count; i++)
        facet_tenant_release(facet_memory_driver.tenant(i), bytes);
}

/* The number of GPUs. The call of tenant() attaches the process if it is a child of fork(). */
static uint32_t count_devices(void)
{
    return facet_memory_driver.tenant(0) ? facet_memory_driver.devices() : 0;
}

enum facet_memory_refusal facet_managed_try(uint64_t bytes, struct facet_memory_charge *ret_charge)
{
    enum facet_memory_refusal refusal = FACET_MEMORY_NO_VGPU;

    for (uint32_t i = 0, count = count_devices(); i < count; i++) {
        refusal = facet_charge_try(i, bytes, ret_charge);
        if (refusal != FACET_MEMORY_CHARGED) {
            release_devices(i, bytes);
            return refusal;
        }
    }
    if (refusal == FACET_MEMORY_CHARGED)
        atomic_fetch_add(&charged_bytes, bytes);
    return refusal;
}

bool facet_managed_reserve(uint64_t bytes)
{
    uint32_t count = count_devices();

    for (uint32_t i = 0; i < count; i++) {
        if (!facet_tenant_try_reserve(facet_memory_driver.tenant(i), bytes)) {
            release_devices(i, bytes);
            return false;
        }
    }
    if (count)
        atomic_fetch_add(&charged_bytes, bytes);
    return count;
}

void facet_managed_release(uint64_t bytes)
{
    atomic_fetch_sub(&charged_bytes, bytes);
    release_devices(count_devices(), bytes);
}

uint64_t facet_managed_charged(void)
{
    return atomic_load(&charged_bytes);
}

void facet_managed_forked(void)
{
    atomic_store(&charged_bytes, 0);
}

uint64_t facet_managed_free(void)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0, count = count_devices(); i < count; i++) {
        uint64_t left = facet_tenant_memory_free(facet_memory_driver.tenant(i));

        least = left < least ? left : least;
    }
    return least;
}
