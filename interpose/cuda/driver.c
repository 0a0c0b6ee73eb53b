/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening the driver, and the targets of our exported names. Never: initialises it. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "hooks.h"
#include "interpose/kit/forward.h"
#include "interpose/kit/real.h"
#include "lookup.h"
#include "process.h"
#include "swap/swap.h"

struct facet_cuda_driver facet_cuda_driver;
struct facet_cuda_unhooked facet_cuda_unhooked;

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool searched;
static void *handle; /* written before `searched` */

/* Searched in addition to the system's folders: those of containers, Debian, WSL, NixOS. */
static const char *const folders[] = {
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
    NULL,
};
static const struct facet_real real = {.soname = "libcuda.so.1", .variable = "FACET_REAL_CUDA", .folders = folders};

static void fill_table(void *library)
{
#define FILL(symbol, ...) facet_cuda_driver.symbol = (__typeof__(facet_cuda_driver.symbol))dlsym(library, #symbol);
    FACET_CUDA_HOOKS(FILL)
#undef FILL
#define FILL(symbol) facet_cuda_unhooked.symbol = (__typeof__(facet_cuda_unhooked.symbol))dlsym(library, #symbol);
    FACET_CUDA_UNHOOKED(FILL)
#undef FILL
}

bool facet_cuda_driver_open(void)
{
    if (!atomic_load_explicit(&searched, memory_order_acquire)) {
        facet_cuda_process_prepare();
        pthread_mutex_lock(&open_lock);
        if (!atomic_load(&searched) && (handle = facet_real_open(&real))) {
            fill_table(handle);
            facet_cuda_lookup_learn();
        }
        atomic_store_explicit(&searched, true, memory_order_release);
        pthread_mutex_unlock(&open_lock);
    }
    return handle;
}

void *facet_cuda_driver_symbol(const char *name)
{
    return dlsym(handle, name);
}

void facet_cuda_driver_before_fork(void)
{
    pthread_mutex_lock(&open_lock);
}

void facet_cuda_driver_after_fork(void)
{
    pthread_mutex_unlock(&open_lock);
}

static CUresult fail_no_driver(void)
{
    return CUDA_ERROR_NO_DEVICE;
}

static CUresult fail_no_function(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

void *facet_forward_target(const char *name)
{
    if (!facet_cuda_driver_open())
        return (void *)fail_no_driver;
    void *function = facet_cuda_driver_symbol(name);
    void *hook = facet_cuda_is_tenant() ? facet_cuda_hook(name) : NULL;
    if (!function)
        return (void *)fail_no_function;
    return facet_cuda_swap_target(name, hook ? hook : function);
}
