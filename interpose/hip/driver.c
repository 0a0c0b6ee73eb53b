/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: finding and opening the runtime, and the targets of our exported names. Never: initialises it. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "hooks.h"
#include "interpose/kit/forward.h"
#include "interpose/kit/loaded.h"
#include "interpose/kit/real.h"
#include "lookup.h"
#include "process.h"

#define VARIABLE "FACET_REAL_HIP"
#define NAME     "libamdhip64.so"

struct facet_hip_driver facet_hip_driver;
struct facet_hip_unhooked facet_hip_unhooked;

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool searched;
static bool attach_succeeded;
static void *handle; /* this and attach_succeeded are written before `searched` */

static const char *const folders[] = {"/opt/rocm/lib", "/opt/rocm/lib64", "/opt/rocm/hip/lib", NULL};

/* If the program has not loaded a runtime, the first of these that exists is opened. */
static const char *const sonames[] = {NAME ".7", NAME ".6", NAME ".5", NAME};

static bool open_path(const char *path, void *context)
{
    void **ret_handle = context;

    *ret_handle = facet_real_open_path(path);
    return *ret_handle;
}

static void *search_library(void)
{
    const char *path = getenv(VARIABLE);
    void *found = NULL;

    if (path && *path)
        return facet_real_open_path(path);
    facet_loaded_each(NAME, open_path, &found);
    for (size_t i = 0; !found && i < sizeof sonames / sizeof *sonames; i++)
        found = facet_real_open(&(struct facet_real){.soname = sonames[i], .variable = VARIABLE, .folders = folders});
    return found;
}

static void fill_table(void *library)
{
#define FILL(symbol) facet_hip_driver.symbol = (__typeof__(facet_hip_driver.symbol))dlsym(library, #symbol);
    FACET_HIP_HOOKS(FILL)
#undef FILL
#define FILL(symbol) facet_hip_unhooked.symbol = (__typeof__(facet_hip_unhooked.symbol))dlsym(library, #symbol);
    FACET_HIP_UNHOOKED(FILL)
#undef FILL
}

/* The runtime reads the list of visible devices at its first call; attaching sets that list (process.h). */
bool facet_hip_driver_open(void)
{
    if (!atomic_load_explicit(&searched, memory_order_acquire)) {
        facet_hip_process_prepare();
        bool has_attached = !facet_hip_is_tenant() || facet_hip_attach();
        pthread_mutex_lock(&open_lock);
        if (!atomic_load(&searched)) {
            attach_succeeded = has_attached;
            handle = search_library();
            if (handle)
                fill_table(handle);
            atomic_store_explicit(&searched, true, memory_order_release);
        }
        pthread_mutex_unlock(&open_lock);
    }
    return handle;
}

void facet_hip_driver_before_fork(void)
{
    pthread_mutex_lock(&open_lock);
}

void facet_hip_driver_after_fork(void)
{
    pthread_mutex_unlock(&open_lock);
}

static int fail_no_driver(void)
{
    return hipErrorNoDevice;
}

static int fail_no_function(void)
{
    return hipErrorNotSupported;
}

static int fail_no_vgpu(void)
{
    return hipErrorNotInitialized;
}

static const char *no_driver_text(void)
{
    return "hipErrorNoDevice";
}

static const char *const text_functions[] = {"hipGetErrorName",     "hipGetErrorString", "hipApiName",
                                             "hipGetCmdName",       "hipKernelNameRef",  "hipKernelNameRefByPtr",
                                             "hiprtcGetErrorString"};

static bool answers_text(const char *name)
{
    for (size_t i = 0; i < sizeof text_functions / sizeof *text_functions; i++)
        if (strcmp(name, text_functions[i]) == 0)
            return true;
    return false;
}

/*
 * Functions that reach no device: texts, the compiler, and the calls by which hipcc's output registers its code at
 * program start.
 */
static bool reaches_no_device(const char *name)
{
    return answers_text(name) || strncmp(name, "hip", 3) != 0 || strncmp(name, "hiprtc", 6) == 0 ||
           strcmp(name, "hipCreateChannelDesc") == 0;
}

void *facet_forward_target(const char *name)
{
    if (!facet_hip_driver_open())
        return answers_text(name) ? (void *)no_driver_text : (void *)fail_no_driver;
    void *function = dlsym(handle, name);
    if (!function)
        return (void *)fail_no_function;
    if (!reaches_no_device(name) &&
        !(attach_succeeded && (!facet_hip_is_tenant() || facet_hip_attach_and_refresh_devices())))
        return (void *)fail_no_vgpu;
    void *hook = facet_hip_is_tenant() ? facet_hip_hook(name) : NULL;
    return hook ? hook : function;
}
