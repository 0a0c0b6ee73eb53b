/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: attaching, fork, and the mapping from devices to vGPUs. Never: holds its lock during a call to the driver. */
#include "process.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "hooks.h"
#include "interpose/kit/execution/track.h"
#include "interpose/kit/tenants.h"
#include "swap/swap.h"
#include "visible.h"

#define VISIBLE_DEVICES "CUDA_VISIBLE_DEVICES"
#define LIST_SIZE       ((size_t)FACET_CUDA_TENANTS * sizeof(((struct facet_segment_device *)0)->address))

enum {
    STATE_NEW = 0,
    STATE_ATTACHED = FACET_CUDA_ATTACHED,
    STATE_FAILED = 2,
};

struct facet_cuda_process facet_cuda_process;

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t environment_once = PTHREAD_ONCE_INIT, fork_once = PTHREAD_ONCE_INIT;
static char folders[FACET_TENANTS_FOLDERS];
static bool is_tenant, fork_handled;

static void read_environment(void)
{
    is_tenant = facet_tenants_read_folders(folders);
}

bool facet_cuda_is_tenant(void)
{
    pthread_once(&environment_once, read_environment);
    return is_tenant;
}

static void before_fork(void)
{
    facet_cuda_memory_before_fork();
    pthread_mutex_lock(&attach_lock);
    facet_flight_before_fork();
    if (facet_cuda_process.ledger)
        facet_ledger_before_fork(facet_cuda_process.ledger);
    facet_cuda_driver_before_fork();
}

static void after_fork(void)
{
    facet_cuda_driver_after_fork();
    if (facet_cuda_process.ledger)
        facet_ledger_after_fork(facet_cuda_process.ledger);
    facet_flight_after_fork();
    pthread_mutex_unlock(&attach_lock);
    facet_cuda_memory_after_fork();
}

/*
 * The slots and their charges belong to the parent. The child is charged for its own allocations, from its first call
 * on.
 */
static void after_fork_in_child(void)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        facet_tenant_forked(&facet_cuda_process.tenants[i]);
    facet_cuda_process.count = 0;
    atomic_store(&facet_cuda_process.state, STATE_NEW);
    facet_cuda_driver_after_fork();
    if (facet_cuda_process.ledger)
        facet_ledger_forked(facet_cuda_process.ledger);
    facet_flight_forked();
    pthread_mutex_unlock(&attach_lock);
    facet_cuda_memory_forked();
}

/*
 * A process without the ledger or without fork handlers never attaches. The handlers come first, so that every later
 * fork waits for the threads that hold a lock.
 */
static void handle_fork(void)
{
    if (pthread_atfork(before_fork, after_fork, after_fork_in_child) != 0)
        return;
    pthread_mutex_lock(&attach_lock);
    facet_cuda_process.ledger = facet_ledger_create();
    fork_handled = facet_cuda_process.ledger;
    pthread_mutex_unlock(&attach_lock);
}

void facet_cuda_process_prepare(void)
{
    pthread_once(&fork_once, handle_fork);
}

static bool is_cuda_address(const char *address)
{
    return strncmp(address, "GPU-", 4) == 0 || strncmp(address, "MIG-", 4) == 0;
}

/*
 * The driver reads the variable in its own cuInit. It is written only if it changes: other threads may be reading it.
 */
static bool set_visible_devices(void)
{
    const char *addresses[FACET_CUDA_TENANTS], *current = getenv(VISIBLE_DEVICES);
    char list[LIST_SIZE];

    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        addresses[i] = facet_tenant_address(&facet_cuda_process.tenants[i]);
    return facet_cuda_visible_write(addresses, facet_cuda_process.count, list, sizeof list) &&
           ((current && strcmp(current, list) == 0) || setenv(VISIBLE_DEVICES, list, 1) == 0);
}

/* Keeps only the vGPUs that the program wants to see, in its order. */
static bool attach_tenants(void)
{
    struct facet_tenant attached[FACET_CUDA_TENANTS];
    const char *addresses[FACET_CUDA_TENANTS];
    uint32_t chosen[FACET_CUDA_TENANTS];
    uint32_t count = fork_handled ? facet_tenants_attach(folders, is_cuda_address, FACET_CUDA_TENANTS, attached) : 0;

    if (!count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        addresses[i] = facet_tenant_address(&attached[i]);
    facet_cuda_process.count = facet_cuda_visible_choose(getenv(VISIBLE_DEVICES), addresses, count, chosen);
    facet_tenants_keep(attached, count, chosen, facet_cuda_process.count, facet_cuda_process.tenants);
    facet_cuda_swap_attached();
    if (set_visible_devices())
        return true;
    facet_tenants_detach(facet_cuda_process.tenants, facet_cuda_process.count);
    facet_cuda_process.count = 0;
    return false;
}

/*
 * `refreshes_devices`: writes CUDA_VISIBLE_DEVICES again, because the driver may be about to read it and the program
 * may have changed it since the attach.
 */
static CUresult enter_vgpu(bool refreshes_devices)
{
    int saved = errno;

    facet_cuda_process_prepare();
    pthread_mutex_lock(&attach_lock);
    if (atomic_load(&facet_cuda_process.state) == STATE_NEW)
        atomic_store_explicit(&facet_cuda_process.state, attach_tenants() ? STATE_ATTACHED : STATE_FAILED,
                              memory_order_release);
    bool entered =
        atomic_load(&facet_cuda_process.state) == STATE_ATTACHED && (!refreshes_devices || set_visible_devices());
    pthread_mutex_unlock(&attach_lock);
    errno = saved;
    return entered ? CUDA_SUCCESS : CUDA_ERROR_SYSTEM_NOT_READY;
}

CUresult facet_cuda_attach(void)
{
    return enter_vgpu(false);
}

CUresult facet_cuda_attach_to_init(void)
{
    return enter_vgpu(true);
}

struct facet_tenant *facet_cuda_tenant_slow(uint32_t device)
{
    if (facet_cuda_attach() != CUDA_SUCCESS || device >= facet_cuda_process.count)
        return NULL;
    return &facet_cuda_process.tenants[device];
}

uint32_t facet_cuda_current_device(void)
{
    CUdevice device;

    if (facet_cuda_process.count <= 1 || facet_cuda_unhooked.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return 0;
    return (uint32_t)device;
}

/* Drivers before 13.0 tell the device of the current context only. */
static CUresult context_device(CUcontext context, CUdevice *ret_device)
{
    CUcontext popped;

    if (facet_cuda_unhooked.cuCtxGetDevice_v2)
        return facet_cuda_unhooked.cuCtxGetDevice_v2(ret_device, context);
    CUresult result = facet_cuda_unhooked.cuCtxPushCurrent_v2(context);
    if (result != CUDA_SUCCESS)
        return result;
    result = facet_cuda_unhooked.cuCtxGetDevice(ret_device);
    facet_cuda_unhooked.cuCtxPopCurrent_v2(&popped);
    return result;
}

uint32_t facet_cuda_stream_device(CUstream stream)
{
    CUdevice device;
    CUcontext context;

    if (facet_cuda_process.count <= 1)
        return 0;
    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return facet_cuda_current_device();
    if (facet_cuda_unhooked.cuStreamGetDevice && facet_cuda_unhooked.cuStreamGetDevice(stream, &device) == CUDA_SUCCESS)
        return (uint32_t)device;
    if (facet_cuda_unhooked.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS &&
        context_device(context, &device) == CUDA_SUCCESS)
        return (uint32_t)device;
    return facet_cuda_current_device();
}
