/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the charge for graphs, and the needs of executables. Never: holds its lock while a graph is launched. */
#include "graph.h"

#include <pthread.h>
#include <stdlib.h>

#include "pool.h"

#define GRAPH_STEP (UINT64_C(2) << 20)

_Atomic uint32_t facet_graph_count;
_Atomic bool facet_graphs_used;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t charged[FACET_GRAPH_DEVICES];

/* Like settle_pool() in pool.c: false when the quota has too little left; then the charge grows by `reserved`. */
static bool settle_charge(uint32_t device, uint64_t reserved)
{
    struct facet_tenant *tenant = facet_memory_driver.tenant(device);
    uint64_t charged_bytes = charged[device] + reserved, held_bytes = facet_memory_driver.graphs_held(device);

    if (!tenant)
        return false;
    if (held_bytes > charged_bytes && !facet_tenant_try_reserve(tenant, held_bytes - charged_bytes)) {
        charged[device] = charged_bytes;
        return false;
    }
    if (held_bytes < charged_bytes)
        facet_tenant_release(tenant, charged_bytes - held_bytes);
    charged[device] = held_bytes;
    return true;
}

void facet_graphs_settle(uint32_t device)
{
    pthread_mutex_lock(&lock);
    settle_charge(device, 0);
    pthread_mutex_unlock(&lock);
}

void facet_graphs_settle_if_free(uint32_t device)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return;
    settle_charge(device, 0);
    pthread_mutex_unlock(&lock);
}

void facet_graphs_trim(uint32_t device)
{
    pthread_mutex_lock(&lock);
    facet_memory_driver.graphs_trim(device);
    settle_charge(device, 0);
    pthread_mutex_unlock(&lock);
}

/* ---- executables ---- */

bool facet_graph_made(uint64_t executable, const struct facet_graph_needs *needs)
{
    struct facet_graph_needs *copy = malloc(sizeof *copy);
    struct facet_ledger_entry entry = {.owner = (uintptr_t)copy, .kind = FACET_MEMORY_GRAPH};

    if (!copy)
        return false;
    *copy = *needs;
    if (!facet_ledger_add(facet_memory_driver.ledger(), facet_memory_key(FACET_MEMORY_GRAPH, executable), entry)) {
        free(copy);
        return false;
    }
    atomic_fetch_add(&facet_graph_count, 1);
    atomic_store(&facet_graphs_used, true);
    return true;
}

int facet_graph_destroy(uint64_t executable, int (*destroy)(uint64_t executable))
{
    struct facet_ledger *ledger = facet_memory_driver.ledger();
    uint64_t key = facet_memory_key(FACET_MEMORY_GRAPH, executable);
    struct facet_ledger_entry entry;
    bool is_listed = facet_graphs_any() && executable && facet_ledger_take(ledger, key, &entry);
    int result = destroy(executable);

    if (!is_listed || (result != 0 && facet_ledger_add(ledger, key, entry)))
        return result;
    free((void *)(uintptr_t)entry.owner); /* NOLINT(performance-no-int-to-ptr): ours */
    atomic_fetch_sub(&facet_graph_count, 1);
    return result;
}

/* ---- around the library's calls ---- */

static void release_hold(struct facet_graph_needs *hold)
{
    for (uint32_t i = 0; i < FACET_GRAPH_DEVICES; i++) {
        if (hold->bytes[i])
            facet_tenant_release(facet_memory_driver.tenant(i), hold->bytes[i]);
        hold->bytes[i] = 0;
    }
}

/* The bytes needed beyond held but unused memory. */
static uint64_t missing_bytes(uint32_t device, uint64_t bytes)
{
    uint64_t used = facet_memory_driver.graphs_used(device);
    uint64_t unused_bytes = charged[device] > used ? charged[device] - used : 0;

    return bytes > unused_bytes ? facet_memory_round(bytes - unused_bytes, GRAPH_STEP) : 0;
}

/* Called with the lock held. */
static enum facet_memory_refusal reserve_missing(uint32_t device, uint64_t bytes, uint64_t *ret_hold)
{
    struct facet_tenant *tenant = facet_memory_driver.tenant(device);

    if (!tenant)
        return FACET_MEMORY_NO_VGPU;
    if (!settle_charge(device, 0))
        return FACET_MEMORY_OVER_QUOTA;
    uint64_t missing = missing_bytes(device, bytes);
    if (facet_tenant_lacks(tenant, missing) && facet_pools_any())
        facet_pools_trim(device);
    if (!facet_tenant_try_reserve(tenant, missing))
        return FACET_MEMORY_OVER_QUOTA;
    *ret_hold = missing;
    return FACET_MEMORY_CHARGED;
}

static enum facet_memory_refusal reserve_or_deny(uint32_t device, uint64_t bytes, uint64_t *ret_hold)
{
    enum facet_memory_refusal refusal = reserve_missing(device, bytes, ret_hold);

    if (refusal == FACET_MEMORY_OVER_QUOTA)
        facet_tenant_deny(facet_memory_driver.tenant(device));
    return refusal;
}

enum facet_memory_refusal facet_graph_hold(const struct facet_graph_needs *needs, struct facet_graph_needs *ret_hold)
{
    enum facet_memory_refusal refusal = FACET_MEMORY_CHARGED;

    *ret_hold = (struct facet_graph_needs){.bytes = {0}};
    atomic_store(&facet_graphs_used, true);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < FACET_GRAPH_DEVICES && refusal == FACET_MEMORY_CHARGED; i++)
        if (needs->bytes[i])
            refusal = reserve_or_deny(i, needs->bytes[i], &ret_hold->bytes[i]);
    if (refusal != FACET_MEMORY_CHARGED)
        release_hold(ret_hold);
    pthread_mutex_unlock(&lock);
    return refusal;
}

enum facet_memory_refusal facet_graph_hold_launch(uint64_t executable, struct facet_graph_needs *ret_hold)
{
    struct facet_ledger_entry entry;

    *ret_hold = (struct facet_graph_needs){.bytes = {0}};
    if (!executable ||
        !facet_ledger_find(facet_memory_driver.ledger(), facet_memory_key(FACET_MEMORY_GRAPH, executable), &entry))
        return FACET_MEMORY_CHARGED;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): ours */
    return facet_graph_hold((const struct facet_graph_needs *)(uintptr_t)entry.owner, ret_hold);
}

void facet_graph_settle_hold(const struct facet_graph_needs *hold)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < FACET_GRAPH_DEVICES; i++)
        if (hold->bytes[i] || charged[i])
            settle_charge(i, hold->bytes[i]);
    pthread_mutex_unlock(&lock);
}

void facet_graphs_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void facet_graphs_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The ledger has dropped the parent's executables; their needs are leaked, which is little. */
void facet_graphs_forked(void)
{
    for (uint32_t i = 0; i < FACET_GRAPH_DEVICES; i++)
        charged[i] = 0;
    atomic_store(&facet_graph_count, 0);
    atomic_store(&facet_graphs_used, false);
    pthread_mutex_unlock(&lock);
}
