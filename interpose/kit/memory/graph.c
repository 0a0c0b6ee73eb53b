/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the charge for graphs, and the needs of executables. Never: holds its lock while a graph is launched. */
#include "graph.h"

#include <pthread.h>
#include <stdlib.h>

#include "pool.h"

#define STEP (UINT64_C(2) << 20)

_Atomic uint32_t facet_graph_count;
_Atomic bool facet_graphs_used;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t charged[FACET_GRAPH_DEVICES];

/* Like pools (pool.c): false when the quota has too little left; the part that it covers stays charged. */
static bool settle_needs(uint32_t device, uint64_t hold)
{
    struct facet_tenant *tenant = facet_memory_driver.tenant(device);
    uint64_t paid = charged[device] + hold, holds = facet_memory_driver.graphs_held(device);

    if (!tenant)
        return false;
    if (holds > paid && !facet_tenant_try_reserve(tenant, holds - paid)) {
        charged[device] = paid;
        return false;
    }
    if (holds < paid)
        facet_tenant_release(tenant, paid - holds);
    charged[device] = holds;
    return true;
}

void facet_graphs_settle(uint32_t device)
{
    pthread_mutex_lock(&lock);
    settle_needs(device, 0);
    pthread_mutex_unlock(&lock);
}

void facet_graphs_settle_if_free(uint32_t device)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return;
    settle_needs(device, 0);
    pthread_mutex_unlock(&lock);
}

void facet_graphs_let_go(uint32_t device)
{
    pthread_mutex_lock(&lock);
    facet_memory_driver.graphs_trim(device);
    settle_needs(device, 0);
    pthread_mutex_unlock(&lock);
}

/* ---- executables ---- */

bool facet_graph_made(uint64_t executable, const struct facet_graph_needs *needs)
{
    struct facet_graph_needs *kept = malloc(sizeof *kept);
    struct facet_ledger_entry entry = {.owner = (uintptr_t)kept, .kind = FACET_MEMORY_GRAPH};

    if (!kept)
        return false;
    *kept = *needs;
    if (!facet_ledger_add(facet_memory_driver.ledger(), facet_memory_key(FACET_MEMORY_GRAPH, executable), entry)) {
        free(kept);
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
    bool known = facet_graphs_any() && executable && facet_ledger_take(ledger, key, &entry);
    int result = destroy(executable);

    if (!known || (result != 0 && facet_ledger_add(ledger, key, entry)))
        return result;
    free((void *)(uintptr_t)entry.owner); /* NOLINT(performance-no-int-to-ptr): ours */
    atomic_fetch_sub(&facet_graph_count, 1);
    return result;
}

/* ---- around the library's calls ---- */

static void drop_needs(struct facet_graph_needs *hold)
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
    uint64_t spare = charged[device] > used ? charged[device] - used : 0;

    return bytes > spare ? facet_memory_round(bytes - spare, STEP) : 0;
}

/* Called with the lock held. */
static enum facet_memory_refusal hold_on(uint32_t device, uint64_t bytes, uint64_t *ret_hold)
{
    struct facet_tenant *tenant = facet_memory_driver.tenant(device);

    if (!tenant)
        return FACET_MEMORY_NO_VGPU;
    if (!settle_needs(device, 0))
        return FACET_MEMORY_OUT;
    uint64_t more = missing_bytes(device, bytes);
    if (facet_tenant_lacks(tenant, more) && facet_pools_any())
        facet_pools_let_go(device);
    if (!facet_tenant_try_reserve(tenant, more))
        return FACET_MEMORY_OUT;
    *ret_hold = more;
    return FACET_MEMORY_TAKEN;
}

static enum facet_memory_refusal hold_and_count(uint32_t device, uint64_t bytes, uint64_t *ret_hold)
{
    enum facet_memory_refusal refusal = hold_on(device, bytes, ret_hold);

    if (refusal == FACET_MEMORY_OUT)
        facet_tenant_deny(facet_memory_driver.tenant(device));
    return refusal;
}

enum facet_memory_refusal facet_graph_hold(const struct facet_graph_needs *needs, struct facet_graph_needs *ret_hold)
{
    enum facet_memory_refusal refusal = FACET_MEMORY_TAKEN;

    *ret_hold = (struct facet_graph_needs){.bytes = {0}};
    atomic_store(&facet_graphs_used, true);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < FACET_GRAPH_DEVICES && refusal == FACET_MEMORY_TAKEN; i++)
        if (needs->bytes[i])
            refusal = hold_and_count(i, needs->bytes[i], &ret_hold->bytes[i]);
    if (refusal != FACET_MEMORY_TAKEN)
        drop_needs(ret_hold);
    pthread_mutex_unlock(&lock);
    return refusal;
}

enum facet_memory_refusal facet_graph_hold_launch(uint64_t executable, struct facet_graph_needs *ret_hold)
{
    struct facet_ledger_entry entry;

    *ret_hold = (struct facet_graph_needs){.bytes = {0}};
    if (!executable ||
        !facet_ledger_find(facet_memory_driver.ledger(), facet_memory_key(FACET_MEMORY_GRAPH, executable), &entry))
        return FACET_MEMORY_TAKEN;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): ours */
    return facet_graph_hold((const struct facet_graph_needs *)(uintptr_t)entry.owner, ret_hold);
}

void facet_graph_held(const struct facet_graph_needs *hold)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < FACET_GRAPH_DEVICES; i++)
        if (hold->bytes[i] || charged[i])
            settle_needs(i, hold->bytes[i]);
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
