/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: taking and releasing all locks of memory around a fork, in the order that every thread keeps: devices, virtual,
 * graphs, pools.
 * Never: does anything else.
 */
#include "interpose/hip/initialize.h"
#include "interpose/hip/process.h"
#include "interpose/kit/memory/graph.h"
#include "interpose/kit/memory/managed.h"
#include "interpose/kit/memory/pool.h"
#include "interpose/kit/memory/virtual.h"

void facet_hip_memory_before_fork(void)
{
    facet_hip_devices_before_fork();
    facet_virtual_before_fork();
    facet_graphs_before_fork();
    facet_pools_before_fork();
}

void facet_hip_memory_after_fork(void)
{
    facet_pools_after_fork();
    facet_graphs_after_fork();
    facet_virtual_after_fork();
    facet_hip_devices_after_fork();
}

void facet_hip_memory_forked(void)
{
    facet_managed_forked();
    facet_pools_forked();
    facet_graphs_forked();
    facet_virtual_forked();
    facet_hip_devices_forked();
}
