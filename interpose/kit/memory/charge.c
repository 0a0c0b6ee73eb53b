/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: taking, keeping and releasing charges. Never: holds a lock while the vendor's library is called. */
#include "charge.h"

#include "graph.h"
#include "managed.h"
#include "pool.h"

#define ROW_STEP   UINT64_C(512)
#define ARRAY_STEP (UINT64_C(64) << 10)

enum facet_memory_refusal facet_charge_try(uint32_t device, uint64_t bytes, struct facet_memory_charge *ret_charge)
{
    struct facet_tenant *tenant = facet_memory_driver.tenant(device);

    if (!tenant)
        return FACET_MEMORY_NO_VGPU;
    if (facet_pools_any() && facet_tenant_lacks(tenant, bytes))
        facet_pools_trim(device);
    if (facet_graphs_ever_used() && facet_tenant_lacks(tenant, bytes))
        facet_graphs_trim(device);
    bool reserved = facet_tenant_try_reserve(tenant, bytes);
    *ret_charge =
        (struct facet_memory_charge){.tenant = tenant, .bytes = bytes, .device = device, .refused = !reserved};
    return reserved ? FACET_MEMORY_CHARGED : FACET_MEMORY_OVER_QUOTA;
}

void facet_charge_refuse(const struct facet_memory_charge *charge)
{
    facet_tenant_deny(charge->tenant);
}

enum facet_memory_refusal facet_charge_take(uint32_t device, uint64_t bytes, struct facet_memory_charge *ret_charge)
{
    struct facet_memory_charge charge;
    enum facet_memory_refusal refusal = facet_charge_try(device, bytes, &charge);

    if (refusal == FACET_MEMORY_CHARGED)
        *ret_charge = charge;
    else if (refusal == FACET_MEMORY_OVER_QUOTA)
        facet_charge_refuse(&charge);
    return refusal;
}

void facet_charge_drop(const struct facet_memory_charge *charge)
{
    if (charge->managed)
        facet_managed_release(charge->bytes);
    else if (charge->tenant)
        facet_tenant_release(charge->tenant, charge->bytes);
}

enum facet_memory_refusal facet_charge_resize(struct facet_memory_charge *charge, uint64_t bytes)
{
    enum facet_memory_refusal refusal = FACET_MEMORY_CHARGED;
    struct facet_memory_charge more;

    if (!charge->tenant)
        return FACET_MEMORY_CHARGED;
    if (bytes > charge->bytes)
        refusal = facet_charge_take(charge->device, bytes - charge->bytes, &more);
    else
        facet_tenant_release(charge->tenant, charge->bytes - bytes);
    if (refusal == FACET_MEMORY_CHARGED)
        charge->bytes = bytes;
    return refusal;
}

bool facet_charge_keep(const struct facet_memory_charge *charge, enum facet_memory_kind kind, uint64_t handle,
                       uint64_t owner)
{
    struct facet_ledger_entry entry = {
        .bytes = charge->bytes, .owner = owner, .device = charge->device, .kind = (uint32_t)kind};

    return !charge->tenant || facet_ledger_add(facet_memory_driver.ledger(), facet_memory_key(kind, handle), entry);
}

static void release_entry(const struct facet_ledger_entry *entry)
{
    struct facet_tenant *tenant = facet_memory_driver.tenant(entry->device);

    if (entry->kind == FACET_MEMORY_POOLED)
        facet_pool_freed(entry);
    else if (entry->kind == FACET_MEMORY_MANAGED)
        facet_managed_release(entry->bytes);
    else if (tenant)
        facet_tenant_release(tenant, entry->bytes);
}

int facet_charge_free(enum facet_memory_kind kind, uint64_t handle, int (*free_it)(uint64_t handle, void *stream),
                      void *stream)
{
    struct facet_ledger *ledger = facet_memory_driver.ledger();
    uint64_t key = facet_memory_key(kind, handle);
    struct facet_ledger_entry entry;
    bool is_charged = ledger && handle && facet_ledger_take(ledger, key, &entry);
    int result = free_it(handle, stream);

    if (is_charged && result == 0)
        release_entry(&entry);
    else if (is_charged && !facet_ledger_add(ledger, key, entry))
        return result; /* stays charged for good: the memory lives, but its ledger entry is lost */
    return result;
}

static bool has_owner(const struct facet_ledger_entry *entry, void *owner)
{
    return entry->owner == (uintptr_t)owner && entry->kind <= FACET_MEMORY_ARRAY;
}

static void release_drained(uint64_t key, const struct facet_ledger_entry *entry, void *owner)
{
    (void)key;
    (void)owner;
    release_entry(entry);
}

void facet_charge_drop_owner(uint64_t owner)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): never dereferenced */
    facet_ledger_drain(facet_memory_driver.ledger(), has_owner, release_drained, (void *)(uintptr_t)owner);
}

static uint64_t times_capped(uint64_t one, uint64_t other)
{
    uint64_t product;

    return __builtin_mul_overflow(one, other, &product) ? UINT64_MAX : product;
}

static uint64_t plus_capped(uint64_t one, uint64_t other)
{
    return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

static uint64_t half_at_level(uint64_t size, unsigned level)
{
    return level < 64 && size >> level ? size >> level : 1;
}

static uint64_t level_bytes(const struct facet_memory_array *array, unsigned level)
{
    uint64_t row = times_capped(half_at_level(array->width, level), array->texel_bytes);
    uint64_t slices = half_at_level(array->depth, array->layered ? 0 : level);

    return times_capped(times_capped(facet_memory_round(row, ROW_STEP), half_at_level(array->height, level)), slices);
}

/* The last level is the one whose largest side is one texel: the library makes none beyond it. */
uint64_t facet_memory_array_bytes(const struct facet_memory_array *array)
{
    uint64_t sum = 0, longest = array->width > array->height ? array->width : array->height;

    for (unsigned level = 0; level < array->levels && level < 64 && (!level || longest >> level); level++)
        sum = plus_capped(sum, level_bytes(array, level));
    return facet_memory_round(sum, ARRAY_STEP);
}
