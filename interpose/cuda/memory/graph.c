/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what graph.h says but for what a graph needs. Never: holds its lock while a graph is launched. */
#include "graph.h"

#include <pthread.h>
#include <stdlib.h>

#include "charge.h"
#include "pool.h"

#define STEP (UINT64_C(2) << 20)

_Atomic uint32_t facet_cuda_graph_count;
_Atomic bool facet_cuda_graphs_used;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t charged[FACET_CUDA_TENANTS];

static uint64_t number_of(uint32_t device, CUgraphMem_attribute attribute)
{
    uint64_t value = 0;

    return facet_cuda_plain.cuDeviceGetGraphMemAttribute((CUdevice)device, attribute, &value) == CUDA_SUCCESS ? value
                                                                                                              : 0;
}

/* As pools are (pool.c): false when the quota does not reach; then what it does reach for stays charged. */
static bool settle(uint32_t device, uint64_t hold)
{
    struct facet_tenant *tenant = facet_cuda_tenant(device);
    uint64_t paid = charged[device] + hold, holds = number_of(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);

    if (!tenant)
        return false;
    if (holds > paid && !facet_tenant_reserve(tenant, holds - paid)) {
        charged[device] = paid;
        return false;
    }
    if (holds < paid)
        facet_tenant_release(tenant, paid - holds);
    charged[device] = holds;
    return true;
}

void facet_cuda_graphs_settle(uint32_t device)
{
    pthread_mutex_lock(&lock);
    settle(device, 0);
    pthread_mutex_unlock(&lock);
}

void facet_cuda_graphs_settle_if_free(uint32_t device)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return;
    settle(device, 0);
    pthread_mutex_unlock(&lock);
}

void facet_cuda_graphs_let_go(uint32_t device)
{
    pthread_mutex_lock(&lock);
    facet_cuda_driver.cuDeviceGraphMemTrim((CUdevice)device);
    settle(device, 0);
    pthread_mutex_unlock(&lock);
}

CUresult facet_cuDeviceGraphMemTrim(CUdevice device)
{
    pthread_mutex_lock(&lock);
    CUresult result = facet_cuda_driver.cuDeviceGraphMemTrim(device);
    if (result == CUDA_SUCCESS && facet_cuda_graphs_were())
        settle((uint32_t)device, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- executables ---- */

static CUresult remember(CUgraphExec executable, CUgraph graph)
{
    struct facet_cuda_graph_needs needs, *kept;

    if (!facet_cuda_graph_needs(graph, &needs))
        return CUDA_SUCCESS;
    struct facet_cuda_charge nothing = {.bytes = 0};
    kept = malloc(sizeof *kept);
    if (!kept)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *kept = needs;
    if (!facet_cuda_charge_keep(&nothing, FACET_CUDA_GRAPH, (uintptr_t)executable, (uintptr_t)kept)) {
        free(kept);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_fetch_add(&facet_cuda_graph_count, 1);
    atomic_store(&facet_cuda_graphs_used, true);
    return CUDA_SUCCESS;
}

static CUresult instantiated(CUresult result, const CUgraphExec *executable, CUgraph graph)
{
    if (result != CUDA_SUCCESS)
        return result;
    result = remember(*executable, graph);
    if (result != CUDA_SUCCESS)
        facet_cuda_driver.cuGraphExecDestroy(*executable);
    return result;
}

#define INSTANTIATE(name, parameters, ...)                                                                             \
    CUresult facet_##name parameters                                                                                   \
    {                                                                                                                  \
        return instantiated(facet_cuda_driver.name(__VA_ARGS__), executable, graph);                                   \
    }

INSTANTIATE(cuGraphInstantiate,
            (CUgraphExec * executable, CUgraph graph, CUgraphNode *error_node, char *log, size_t size), executable,
            graph, error_node, log, size)
INSTANTIATE(cuGraphInstantiate_v2,
            (CUgraphExec * executable, CUgraph graph, CUgraphNode *error_node, char *log, size_t size), executable,
            graph, error_node, log, size)
INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec * executable, CUgraph graph, unsigned long long flags),
            executable, graph, flags)
INSTANTIATE(cuGraphInstantiateWithParams,
            (CUgraphExec * executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters), executable, graph,
            parameters)
INSTANTIATE(cuGraphInstantiateWithParams_ptsz,
            (CUgraphExec * executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters), executable, graph,
            parameters)

/* Taken out before: another thread may get the same handle right after. */
CUresult facet_cuGraphExecDestroy(CUgraphExec executable)
{
    uint64_t key = facet_cuda_key(FACET_CUDA_GRAPH, (uintptr_t)executable);
    struct facet_ledger_entry entry;
    bool known = facet_cuda_graphs_any() && executable && facet_ledger_take(facet_cuda_process.ledger, key, &entry);
    CUresult result = facet_cuda_driver.cuGraphExecDestroy(executable);

    if (!known)
        return result;
    if (result != CUDA_SUCCESS && facet_ledger_add(facet_cuda_process.ledger, key, entry))
        return result;
    free((void *)(uintptr_t)entry.owner);
    atomic_fetch_sub(&facet_cuda_graph_count, 1);
    return result;
}

/* ---- launches ---- */

static void drop(struct facet_cuda_graph_needs *hold)
{
    for (uint32_t i = 0; i < FACET_CUDA_TENANTS; i++) {
        if (hold->bytes[i])
            facet_tenant_release(facet_cuda_tenant(i), hold->bytes[i]);
        hold->bytes[i] = 0;
    }
}

/* What is needed beyond what is held and not used. */
static uint64_t missing(uint32_t device, uint64_t bytes)
{
    uint64_t used = number_of(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
    uint64_t spare = charged[device] > used ? charged[device] - used : 0;

    return bytes > spare ? facet_cuda_round(bytes - spare, STEP) : 0;
}

/* With the lock held. */
static bool hold_on(uint32_t device, uint64_t bytes, uint64_t *ret_hold)
{
    struct facet_tenant *tenant = facet_cuda_tenant(device);
    uint64_t more;

    if (!tenant || !settle(device, 0))
        return false;
    more = missing(device, bytes);
    if (facet_tenant_memory_free(tenant) < more && facet_cuda_pools_any())
        facet_cuda_pools_let_go(device);
    if (!facet_tenant_reserve(tenant, more))
        return false;
    *ret_hold = more;
    return true;
}

static bool find(CUgraphExec executable, struct facet_ledger_entry *ret_entry)
{
    return executable && facet_ledger_find(facet_cuda_process.ledger,
                                           facet_cuda_key(FACET_CUDA_GRAPH, (uintptr_t)executable), ret_entry);
}

/* What is launched into a capture is a part of the graph that comes of it. */
CUresult facet_cuda_graph_hold(CUgraphExec executable, CUstream stream, bool per_thread,
                               struct facet_cuda_graph_needs *ret_hold)
{
    struct facet_ledger_entry entry;
    bool held = true;

    *ret_hold = (struct facet_cuda_graph_needs){.bytes = {0}};
    if (!find(executable, &entry) || facet_cuda_is_capturing(stream, per_thread))
        return CUDA_SUCCESS;
    const struct facet_cuda_graph_needs *needs = (const struct facet_cuda_graph_needs *)(uintptr_t)entry.owner;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < FACET_CUDA_TENANTS && held; i++)
        held = !needs->bytes[i] || hold_on(i, needs->bytes[i], &ret_hold->bytes[i]);
    if (!held)
        drop(ret_hold);
    pthread_mutex_unlock(&lock);
    return held ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult facet_cuda_graph_launched(const struct facet_cuda_graph_needs *hold, CUresult result)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        if (hold->bytes[i] || charged[i])
            settle(i, hold->bytes[i]);
    pthread_mutex_unlock(&lock);
    return result;
}

/* An upload maps what a launch would. */
static CUresult upload(CUgraphExec executable, CUstream stream, bool per_thread,
                       CUresult (*driver)(CUgraphExec, CUstream))
{
    struct facet_cuda_graph_needs hold;

    if (!facet_cuda_graphs_any())
        return driver(executable, stream);
    CUresult result = facet_cuda_graph_hold(executable, stream, per_thread, &hold);
    return result == CUDA_SUCCESS ? facet_cuda_graph_launched(&hold, driver(executable, stream)) : result;
}

CUresult facet_cuGraphUpload(CUgraphExec executable, CUstream stream)
{
    return upload(executable, stream, false, facet_cuda_driver.cuGraphUpload);
}

CUresult facet_cuGraphUpload_ptsz(CUgraphExec executable, CUstream stream)
{
    return upload(executable, stream, true, facet_cuda_driver.cuGraphUpload_ptsz);
}

void facet_cuda_graphs_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void facet_cuda_graphs_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The ledger has forgotten the parent's executables; what it knew of them is the parent's memory, and a little. */
void facet_cuda_graphs_forked(void)
{
    for (uint32_t i = 0; i < FACET_CUDA_TENANTS; i++)
        charged[i] = 0;
    atomic_store(&facet_cuda_graph_count, 0);
    atomic_store(&facet_cuda_graphs_used, false);
    pthread_mutex_unlock(&lock);
}
