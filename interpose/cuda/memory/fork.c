/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: taking and releasing all locks of memory around a fork, in the order that every thread keeps: contexts,
 * virtual, graphs, pools, green contexts, swapping.
 * Never: does anything else.
 */
#include "interpose/cuda/process.h"

#include "code.h"
#include "context.h"
#include "graph.h"
#include "green.h"
#include "measure.h"
#include "reference.h"

#include "interpose/cuda/swap/swap.h"
#include "interpose/kit/memory/managed.h"
#include "interpose/kit/memory/pool.h"
#include "interpose/kit/memory/region.h"
#include "interpose/kit/memory/virtual.h"

void facet_cuda_memory_before_fork(void)
{
    facet_cuda_contexts_before_fork();
    facet_virtual_before_fork();
    facet_graphs_before_fork();
    facet_pools_before_fork();
    facet_cuda_greens_before_fork();
    facet_cuda_swap_before_fork();
}

void facet_cuda_memory_after_fork(void)
{
    facet_cuda_swap_after_fork();
    facet_cuda_greens_after_fork();
    facet_pools_after_fork();
    facet_graphs_after_fork();
    facet_virtual_after_fork();
    facet_cuda_contexts_after_fork();
}

void facet_cuda_memory_forked(void)
{
    facet_regions_forked();
    facet_managed_forked();
    facet_cuda_swap_forked();
    facet_cuda_greens_forked();
    facet_pools_forked();
    facet_graphs_forked();
    facet_cuda_references_forked();
    facet_virtual_forked();
    facet_cuda_measures_forked();
    facet_cuda_code_forked();
    facet_cuda_contexts_forked();
}
