/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: cuGetProcAddress in its two forms. Never: finds a function for which the driver found none. */
#include "lookup.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "hooks.h"
#include "interpose/kit/forward.h"
#include "swap/swap.h"

enum { ANY, LEGACY, PER_THREAD };

struct hook {
    const char *symbol, *name;
    int version, stream;
    void *function;
    void *const *driver_function; /* the driver's exported symbol */
    _Atomic(void *) answer;       /* the driver's answer for exactly this form, if it is an unexported function */
};

static struct hook hooks[] = {
#define HOOK(exported, requested_name, since_version, default_stream)                                                  \
    {.symbol = #exported,                                                                                              \
     .name = requested_name,                                                                                           \
     .version = since_version,                                                                                         \
     .stream = default_stream,                                                                                         \
     .function = (void *)facet_##exported,                                                                             \
     .driver_function = (void *const *)&facet_cuda_driver.exported},
    FACET_CUDA_HOOKS(HOOK)
#undef HOOK
};
#define HOOKS (sizeof hooks / sizeof *hooks)

void *facet_cuda_hook(const char *symbol)
{
    for (size_t i = 0; i < HOOKS; i++)
        if (strcmp(hooks[i].symbol, symbol) == 0)
            return hooks[i].function;
    return NULL;
}

/* The exported symbol that begins exactly at this address, according to the loader. */
static const char *exported_at(void *address)
{
    Dl_info info;

    return dladdr(address, &info) && info.dli_saddr == address ? info.dli_sname : NULL;
}

static bool is_known(const char *symbol)
{
    for (uint32_t i = 0; symbol && i < facet_forward_count; i++)
        if (strcmp(facet_forward_names[i], symbol) == 0)
            return true;
    return false;
}

static void *query_driver(const struct hook *hook)
{
    uint64_t flags =
        hook->stream == PER_THREAD ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    CUdriverProcAddressQueryResult status;
    void *answer = NULL;

    if (facet_cuda_driver.cuGetProcAddress_v2)
        facet_cuda_driver.cuGetProcAddress_v2(hook->name, &answer, hook->version, flags, &status);
    else if (facet_cuda_driver.cuGetProcAddress)
        facet_cuda_driver.cuGetProcAddress(hook->name, &answer, hook->version, flags);
    return answer;
}

/* Keeps only answers that the driver does not export. An exported answer is either *driver_function, which is
 * known already, or another form, which this hook must not take. */
void facet_cuda_lookup_learn(void)
{
    int driver_version = 0;

    if (facet_cuda_unhooked.cuDriverGetVersion)
        facet_cuda_unhooked.cuDriverGetVersion(&driver_version);
    for (size_t i = 0; i < HOOKS; i++) {
        if (!*hooks[i].driver_function || hooks[i].version > driver_version)
            continue;
        void *answer = query_driver(&hooks[i]);
        if (answer && answer != *hooks[i].driver_function && !exported_at(answer))
            atomic_store_explicit(&hooks[i].answer, answer, memory_order_relaxed);
    }
}

/*
 * The hook of the function at `address`, or `address` itself. The name is compared too, because a driver may use one
 * address for several functions that do nothing.
 */
static void *hook_or_address(const char *name, void *address)
{
    bool hooked = false;

    for (size_t i = 0; i < HOOKS; i++) {
        if (strcmp(hooks[i].name, name) != 0)
            continue;
        if (address == *hooks[i].driver_function ||
            address == atomic_load_explicit(&hooks[i].answer, memory_order_relaxed))
            return hooks[i].function;
        hooked = true;
    }
    if (hooked && !is_known(exported_at(address)))
        atomic_fetch_add_explicit(&facet_interposer.unknown_forms, 1, memory_order_relaxed);
    return address;
}

CUresult facet_cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                                   CUdriverProcAddressQueryResult *status)
{
    CUresult result = facet_cuda_driver.cuGetProcAddress_v2(symbol, function, version, flags, status);

    if (result == CUDA_SUCCESS && *function)
        *function = facet_cuda_swap_target(symbol, hook_or_address(symbol, *function));
    return result;
}

CUresult facet_cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    CUresult result = facet_cuda_driver.cuGetProcAddress(symbol, function, version, flags);

    if (result == CUDA_SUCCESS && *function)
        *function = facet_cuda_swap_target(symbol, hook_or_address(symbol, *function));
    return result;
}
