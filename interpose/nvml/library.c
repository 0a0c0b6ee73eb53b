/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening NVIDIA's library, and the target of each exported name. Never: changes an answer. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "hooks.h"
#include "interpose/kit/forward.h"
#include "interpose/kit/real.h"
#include "vgpu.h"

struct facet_nvml_library facet_nvml_library;

static void *handle;
static pthread_once_t open_once = PTHREAD_ONCE_INIT;

static const char *const folders[] = {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib",
                                      "/usr/lib64/nvidia", NULL};

static const struct facet_real real = {
    .soname = "libnvidia-ml.so.1",
    .variable = "FACET_REAL_NVML",
    .folders = folders,
};

static const struct {
    const char *name;
    void *hook;
} hooks[] = {
#define HOOK(symbol) {#symbol, (void *)facet_##symbol},
    FACET_NVML_HOOKS(HOOK)
#undef HOOK
};

static void open_library(void)
{
    handle = facet_real_open(&real);
    if (!handle)
        return;
#define FILL(symbol) facet_nvml_library.symbol = (__typeof__(facet_nvml_library.symbol))dlsym(handle, #symbol);
    FACET_NVML_HOOKS(FILL)
    FACET_NVML_UNHOOKED(FILL)
#undef FILL
}

static nvmlReturn_t fail_no_library(void)
{
    return NVML_ERROR_LIBRARY_NOT_FOUND;
}

static nvmlReturn_t fail_no_function(void)
{
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

/* The only function whose result is not a status. */
static const char *error_string(nvmlReturn_t result)
{
    return result == NVML_ERROR_LIBRARY_NOT_FOUND ? "NVML Shared Library Not Found" : "Unknown Error";
}

static bool is_process_list(const char *name)
{
    static const char *const lists[] = {
#define LIST(symbol) #symbol,
        FACET_NVML_PROCESS_LISTS(LIST)
#undef LIST
    };

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (strcmp(name, lists[i]) == 0)
            return true;
    return false;
}

static void *hook_of(const char *name)
{
    for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++)
        if (strcmp(name, hooks[i].name) == 0)
            return hooks[i].hook;
    return NULL;
}

void *facet_forward_target(const char *name)
{
    pthread_once(&open_once, open_library);
    if (!handle)
        return strcmp(name, "nvmlErrorString") == 0 ? (void *)error_string : (void *)fail_no_library;

    void *function = dlsym(handle, name), *hook = facet_nvml_is_tenant() ? hook_of(name) : NULL;
    if (hook && (function || is_process_list(name)))
        return hook;
    return function ? function : (void *)fail_no_function;
}
