/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: attaching, fork, and the mapping from devices to vGPUs. Never: holds its lock during a call to the runtime. */
#include "process.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "hooks.h"
#include "initialize.h"
#include "interpose/kit/execution/track.h"
#include "interpose/kit/tenants.h"
#include "visible.h"

#define ROCR_DEVICES "ROCR_VISIBLE_DEVICES"
#define HIP_DEVICES  "HIP_VISIBLE_DEVICES"
#define CUDA_DEVICES "CUDA_VISIBLE_DEVICES"
#define LIST_SIZE    ((size_t)FACET_HIP_TENANTS * sizeof(((struct facet_segment_device *)0)->address))

enum {
    STATE_NEW = 0,
    STATE_ATTACHED = FACET_HIP_ATTACHED,
    STATE_FAILED = 2,
};

struct facet_hip_process facet_hip_process;

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t environment_once = PTHREAD_ONCE_INIT, fork_once = PTHREAD_ONCE_INIT;
static char folders[FACET_TENANTS_FOLDERS];
static bool is_tenant, fork_handled;

static void read_environment(void)
{
    is_tenant = facet_tenants_read_folders(folders);
}

bool facet_hip_is_tenant(void)
{
    pthread_once(&environment_once, read_environment);
    return is_tenant;
}

static void before_fork(void)
{
    facet_hip_memory_before_fork();
    pthread_mutex_lock(&attach_lock);
    facet_flight_before_fork();
    if (facet_hip_process.ledger)
        facet_ledger_before_fork(facet_hip_process.ledger);
    facet_hip_driver_before_fork();
}

static void after_fork(void)
{
    facet_hip_driver_after_fork();
    if (facet_hip_process.ledger)
        facet_ledger_after_fork(facet_hip_process.ledger);
    facet_flight_after_fork();
    pthread_mutex_unlock(&attach_lock);
    facet_hip_memory_after_fork();
}

/*
 * The process's slots in the usage files, and the charges in them, belong to the parent. The child is charged for its
 * own allocations, from its first call on.
 */
static void after_fork_in_child(void)
{
    for (uint32_t i = 0; i < facet_hip_process.count; i++)
        facet_tenant_forked(&facet_hip_process.tenants[i]);
    facet_hip_process.count = 0;
    atomic_store(&facet_hip_process.state, STATE_NEW);
    facet_hip_driver_after_fork();
    if (facet_hip_process.ledger)
        facet_ledger_forked(facet_hip_process.ledger);
    facet_flight_forked();
    pthread_mutex_unlock(&attach_lock);
    facet_hip_memory_forked();
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
    facet_hip_process.ledger = facet_ledger_create();
    fork_handled = facet_hip_process.ledger;
    pthread_mutex_unlock(&attach_lock);
}

void facet_hip_process_prepare(void)
{
    pthread_once(&fork_once, handle_fork);
}

static bool is_hip_address(const char *address)
{
    return strncmp(address, VENDOR_HIP_ADDRESS, strlen(VENDOR_HIP_ADDRESS)) == 0;
}

/*
 * The vGPUs that the program wants to see, as indices; returns how many. HIP's variable takes precedence over CUDA's.
 */
static uint32_t choose_devices(const char *const *addresses, uint32_t count, uint32_t *chosen)
{
    const char *hip = getenv(HIP_DEVICES);

    for (uint32_t i = 0; i < count; i++)
        chosen[i] = i;
    count = facet_hip_visible_choose(getenv(ROCR_DEVICES), addresses, chosen, count);
    return facet_hip_visible_choose(hip ? hip : getenv(CUDA_DEVICES), addresses, chosen, count);
}

/* Writes only if the value changes, because other threads may be reading the variable. */
static bool set_variable(const char *name, const char *value)
{
    const char *current = getenv(name);

    return (current && strcmp(current, value) == 0) || setenv(name, value, 1) == 0;
}

/* The runtime reads the variables when a device is first used. */
static bool set_visible_devices(void)
{
    const char *addresses[FACET_HIP_TENANTS];
    uint32_t count = facet_hip_process.count, in_order[FACET_HIP_TENANTS];
    char uuids[LIST_SIZE], indices[LIST_SIZE];

    for (uint32_t i = 0; i < count; i++) {
        addresses[i] = facet_tenant_address(&facet_hip_process.tenants[i]);
        in_order[i] = i;
    }
    return facet_hip_visible_uuids(addresses, in_order, count, uuids, sizeof uuids) &&
           facet_hip_visible_indices(count, indices, sizeof indices) && set_variable(ROCR_DEVICES, uuids) &&
           set_variable(HIP_DEVICES, indices) && (!getenv(CUDA_DEVICES) || set_variable(CUDA_DEVICES, indices));
}

static bool attach_tenants(void)
{
    struct facet_tenant attached[FACET_HIP_TENANTS];
    const char *addresses[FACET_HIP_TENANTS];
    uint32_t chosen[FACET_HIP_TENANTS];
    uint32_t count = fork_handled ? facet_tenants_attach(folders, is_hip_address, FACET_HIP_TENANTS, attached) : 0;

    if (!count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        addresses[i] = facet_tenant_address(&attached[i]);
    facet_hip_process.count = choose_devices(addresses, count, chosen);
    facet_tenants_keep(attached, count, chosen, facet_hip_process.count, facet_hip_process.tenants);
    if (set_visible_devices())
        return true;
    facet_tenants_detach(facet_hip_process.tenants, facet_hip_process.count);
    facet_hip_process.count = 0;
    return false;
}

/*
 * `refreshes_devices`: sets the variables again, because the runtime may be about to read them and the program may have
 * changed them since the attach.
 */
static bool enter_vgpu(bool refreshes_devices)
{
    int saved = errno;

    facet_hip_process_prepare();
    pthread_mutex_lock(&attach_lock);
    if (atomic_load(&facet_hip_process.state) == STATE_NEW)
        atomic_store_explicit(&facet_hip_process.state, attach_tenants() ? STATE_ATTACHED : STATE_FAILED,
                              memory_order_release);
    bool entered =
        atomic_load(&facet_hip_process.state) == STATE_ATTACHED && (!refreshes_devices || set_visible_devices());
    pthread_mutex_unlock(&attach_lock);
    errno = saved;
    return entered;
}

bool facet_hip_attach(void)
{
    return enter_vgpu(false);
}

bool facet_hip_attach_and_refresh_devices(void)
{
    return enter_vgpu(true);
}

struct facet_tenant *facet_hip_tenant_slow(uint32_t device)
{
    if (!facet_hip_attach() || device >= facet_hip_process.count)
        return NULL;
    return &facet_hip_process.tenants[device];
}

/*
 * Whether there is more than one device. Another thread may be attaching: its writes are visible once the state says
 * so.
 */
static bool has_several_devices(void)
{
    bool attached = atomic_load_explicit(&facet_hip_process.state, memory_order_acquire) == STATE_ATTACHED;

    return (attached || facet_hip_attach()) && facet_hip_process.count > 1;
}

uint32_t facet_hip_current_device(void)
{
    int device;

    if (!has_several_devices() || facet_hip_unhooked.hipGetDevice(&device) != hipSuccess)
        return 0;
    return (uint32_t)device;
}

uint32_t facet_hip_stream_device(hipStream_t stream)
{
    int device = -1;

    if (!has_several_devices())
        return 0;
    if (!stream || stream == hipStreamLegacy || stream == hipStreamPerThread ||
        facet_hip_initialize_device(facet_hip_current_device()) != hipSuccess)
        return facet_hip_current_device();
    if (facet_hip_unhooked.hipStreamGetDevice && facet_hip_unhooked.hipStreamGetDevice(stream, &device) == hipSuccess)
        return (uint32_t)device;
    if (facet_hip_unhooked.hipGetStreamDeviceId)
        device = facet_hip_unhooked.hipGetStreamDeviceId(stream);
    return device >= 0 ? (uint32_t)device : facet_hip_current_device();
}
