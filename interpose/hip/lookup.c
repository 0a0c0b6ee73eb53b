/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: hipGetProcAddress, hipGetDriverEntryPoint. Never: finds a function for which the runtime found none. */
#include "lookup.h"

#include <string.h>

#include "hooks.h"

static const struct hook {
    const char *symbol;
    void *function;
    void *const *driver_function; /* the runtime's exported symbol */
} hooks[] = {
#define HOOK(exported)                                                                                                 \
    {.symbol = #exported,                                                                                              \
     .function = (void *)facet_##exported,                                                                             \
     .driver_function = (void *const *)&facet_hip_driver.exported},
    FACET_HIP_HOOKS(HOOK)
#undef HOOK
};
#define HOOKS (sizeof hooks / sizeof *hooks)

void *facet_hip_hook(const char *symbol)
{
    for (size_t i = 0; i < HOOKS; i++)
        if (strcmp(hooks[i].symbol, symbol) == 0)
            return hooks[i].function;
    return NULL;
}

/*
 * The hook of the function at `address`, or `address` itself. `name` may lack the suffix of the symbol (_spt, R0600).
 * It is compared too, because a runtime may use one address for several functions that do nothing.
 */
static void *hook_or_address(const char *name, void *address)
{
    for (size_t i = 0; i < HOOKS; i++)
        if (address == *hooks[i].driver_function && strncmp(hooks[i].symbol, name, strlen(name)) == 0)
            return hooks[i].function;
    return address;
}

hipError_t facet_hipGetProcAddress(const char *symbol, void **function, int version, uint64_t flags,
                                   hipDriverProcAddressQueryResult *status)
{
    hipError_t result = facet_hip_driver.hipGetProcAddress(symbol, function, version, flags, status);

    if (result == hipSuccess && *function)
        *function = hook_or_address(symbol, *function);
    return result;
}

hipError_t facet_hipGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                        hipDriverProcAddressQueryResult *status)
{
    hipError_t result = facet_hip_driver.hipGetDriverEntryPoint(symbol, function, flags, status);

    if (result == hipSuccess && *function)
        *function = hook_or_address(symbol, *function);
    return result;
}

hipError_t facet_hipGetDriverEntryPoint_spt(const char *symbol, void **function, unsigned long long flags,
                                            hipDriverProcAddressQueryResult *status)
{
    hipError_t result = facet_hip_driver.hipGetDriverEntryPoint_spt(symbol, function, flags, status);

    if (result == hipSuccess && *function)
        *function = hook_or_address(symbol, *function);
    return result;
}
