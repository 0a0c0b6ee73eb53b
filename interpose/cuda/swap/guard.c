/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the assignment of stubs to functions. Never: lets a function through unguarded. */
#include "guard.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "guard_count.h"
#include "vendor/cuda/driver.h"

extern char facet_cuda_guard_stubs[]; /* guard.S */

extern void *facet_cuda_guard_targets[FACET_CUDA_GUARDS];
void *facet_cuda_guard_targets[FACET_CUDA_GUARDS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t used_count;

/* Copies, fills, launches, their forms as graph nodes, and functions that check or describe a pointer. */
static const char *const beginnings[] = {
    "cuMemcpy",
    "cuMemset",
    "cuMemPrefetch",
    "cuMemDiscard",
    "cuMemBatchDecompress",
    "cuMemAdvise",
    "cuMemRangeGet",
    "cuPointer",
    "cuLaunchKernel",
    "cuLaunchCooperative",
    "cuLaunchGrid",
    "cuGraphAdd",
    "cuGraphExecMemcpy",
    "cuGraphExecMemset",
    "cuGraphExecNode",
    "cuGraphExecBatch",
    "cuGraphExecUpdate",
    "cuGraphExecKernel",
    "cuGraphInstantiate",
    "cuGraphMemcpyNodeSet",
    "cuGraphMemsetNodeSet",
    "cuGraphNodeSetParams",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuStreamBatchMemOp",
    "cuStreamWaitValue",
    "cuStreamWriteValue",
    "cuStreamBeginCapture",
    "cuTexObjectCreate",
    "cuTexRefSetAddress",
};

bool facet_cuda_guard_is_for(const char *name)
{
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return strcmp(name, "cuLaunch") == 0;
}

static CUresult no_stub(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

void *facet_cuda_guard(void *target)
{
    uint32_t index = 0;

    pthread_mutex_lock(&lock);
    while (index < used_count && facet_cuda_guard_targets[index] != target)
        index++;
    bool found = index < FACET_CUDA_GUARDS;
    if (found && index == used_count)
        facet_cuda_guard_targets[used_count++] = target;
    pthread_mutex_unlock(&lock);
    return found ? facet_cuda_guard_stubs + (size_t)index * FACET_CUDA_GUARD_BYTES : (void *)no_stub;
}
