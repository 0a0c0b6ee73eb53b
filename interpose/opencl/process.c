/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: attaching, fork and charges. Never: lets a program run unlimited because attaching failed. */
#include "process.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/kit/entry.h"
#include "layer.h"
#include "track.h"

#define CHARGE_BITS 48
#define CHARGE_MAX  ((UINT64_C(1) << CHARGE_BITS) - 1)

enum {
    STATE_NEW = 0,
    STATE_ATTACHED = FACET_CL_ATTACHED,
    STATE_FAILED = 2,
};

struct facet_cl_process facet_cl_process;

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t facet_cl_push_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t facet_cl_account_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t facet_cl_map_lock = PTHREAD_MUTEX_INITIALIZER;

static char vgpu_dir[1024];
static bool fork_handled; /* inherited by a child of fork(), as the handlers are */
static _Atomic uint16_t generation;

bool facet_cl_process_init(void)
{
    const char *dir = getenv(FACET_ENV_VGPU_DIR);

    if (!dir)
        return false;
    /* A path that is too long is cut and then fails to attach, as any wrong folder does. */
    strncpy(vgpu_dir, dir, sizeof vgpu_dir - 1);
    return true;
}

static void before_fork(void)
{
    pthread_mutex_lock(&attach_lock);
    pthread_mutex_lock(&facet_cl_push_lock);
    pthread_mutex_lock(&facet_cl_account_lock);
    pthread_mutex_lock(&facet_cl_map_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&facet_cl_map_lock);
    pthread_mutex_unlock(&facet_cl_account_lock);
    pthread_mutex_unlock(&facet_cl_push_lock);
    pthread_mutex_unlock(&attach_lock);
}

/* The slot and its charges are the parent's. The child is charged for its own objects, from its first call on. */
static void after_fork_in_child(void)
{
    if (atomic_load(&facet_cl_process.state) == STATE_ATTACHED)
        facet_tenant_forked(&facet_cl_process.tenant);
    atomic_store(&facet_cl_process.state, STATE_NEW);
    atomic_fetch_add(&generation, 1);
    facet_cl_track_forked();
    after_fork();
}

/* Keeps the library that has `address` mapped for good: the program may unload libOpenCL while our thread runs its
 * code. */
static bool pin_library(const void *address)
{
    Dl_info info;

    return dladdr(address, &info) && info.dli_fname && dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static bool prepare_process(void)
{
    if (fork_handled)
        return true;
    /* this layer, by an address in it; and the ICD loader, which it calls */
    if (!pin_library(vgpu_dir) || !pin_library((const void *)(uintptr_t)facet_cl_target.clGetPlatformIDs))
        return false;
    fork_handled = pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;
    return fork_handled;
}

void facet_cl_process_refuse(const struct facet_error *error)
{
    static _Atomic int32_t told; /* the process that told it: a child of fork() is another */
    int32_t self = (int32_t)getpid();

    if (atomic_exchange(&told, self) != self)
        facet_entry_refused(vgpu_dir, error);
}

static bool attach_tenant(void)
{
    struct facet_error error;

    if (!prepare_process())
        facet_error_set(&error, FACET_NO_MEMORY,
                        "the process cannot be prepared for its vGPU: no memory, or its libraries cannot be "
                        "opened again");
    else if (facet_given_check(vgpu_dir, &error) == FACET_OK &&
             facet_tenant_attach(vgpu_dir, &facet_cl_process.tenant, &error) == FACET_OK)
        return true;
    facet_entry_refused(vgpu_dir, &error);
    return false;
}

struct facet_tenant *facet_cl_tenant_attach(void)
{
    int saved = errno;

    pthread_mutex_lock(&attach_lock);
    if (atomic_load(&facet_cl_process.state) == STATE_NEW) {
        bool attached = attach_tenant();
        atomic_store_explicit(&facet_cl_process.state, attached ? STATE_ATTACHED : STATE_FAILED, memory_order_release);
    }
    bool attached = atomic_load(&facet_cl_process.state) == STATE_ATTACHED;
    pthread_mutex_unlock(&attach_lock);
    errno = saved;
    return attached ? &facet_cl_process.tenant : NULL;
}

static facet_cl_charge pack_charge(uint64_t bytes)
{
    return (uint64_t)atomic_load_explicit(&generation, memory_order_relaxed) << CHARGE_BITS | bytes;
}

static bool is_ours(facet_cl_charge charge)
{
    return charge >> CHARGE_BITS == atomic_load_explicit(&generation, memory_order_relaxed) &&
           atomic_load_explicit(&facet_cl_process.state, memory_order_acquire) == STATE_ATTACHED;
}

uint64_t facet_cl_charge_bytes(facet_cl_charge charge)
{
    return charge & CHARGE_MAX;
}

enum facet_cl_admission facet_cl_charge_try(uint64_t bytes, facet_cl_charge *ret_charge)
{
    struct facet_tenant *tenant = facet_cl_tenant();

    if (!tenant)
        return FACET_CL_NO_VGPU;
    if (bytes > CHARGE_MAX || !facet_tenant_try_reserve(tenant, bytes))
        return FACET_CL_OVER_QUOTA;
    *ret_charge = pack_charge(bytes);
    return FACET_CL_CHARGED;
}

cl_int facet_cl_charge_refuse(cl_int driver_result, cl_int refusal)
{
    struct facet_tenant *tenant = facet_cl_tenant();

    if (driver_result != CL_SUCCESS)
        return driver_result;
    if (tenant)
        facet_tenant_deny(tenant);
    return refusal;
}

cl_int facet_cl_charge_take(uint64_t bytes, cl_int refusal, facet_cl_charge *ret_charge)
{
    switch (facet_cl_charge_try(bytes, ret_charge)) {
    case FACET_CL_CHARGED:
        return CL_SUCCESS;
    case FACET_CL_OVER_QUOTA:
        return facet_cl_charge_refuse(CL_SUCCESS, refusal);
    default:
        return CL_OUT_OF_RESOURCES;
    }
}

void facet_cl_charge_drop(facet_cl_charge charge)
{
    if (facet_cl_charge_bytes(charge) && is_ours(charge))
        facet_tenant_release(&facet_cl_process.tenant, facet_cl_charge_bytes(charge));
}

cl_int facet_cl_charge_resize(facet_cl_charge *charge, uint64_t bytes, cl_int refusal)
{
    uint64_t held = facet_cl_charge_bytes(*charge);
    facet_cl_charge more;

    if (!is_ours(*charge) || bytes == held)
        return CL_SUCCESS;
    if (bytes > held) {
        cl_int result = facet_cl_charge_take(bytes - held, refusal, &more);
        if (result != CL_SUCCESS)
            return result;
    } else {
        facet_tenant_release(&facet_cl_process.tenant, held - bytes);
    }
    *charge = pack_charge(bytes);
    return CL_SUCCESS;
}
