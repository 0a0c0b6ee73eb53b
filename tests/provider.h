/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions with which a test loads a built provider and reads counters of the fake libraries that the provider opens.
 *
 * Owns: loading a provider from FACET_LIB_DIR into `provider`. Never: opens an instance. Each test includes this file
 * once; it includes cmocka.h and the headers that cmocka.h needs.
 */
#ifndef TEST_PROVIDER_H
#define TEST_PROVIDER_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <facet/provider.h>

static const struct facet_provider *provider;

static inline void load_provider(const char *name)
{
    struct facet_error error = {0};
    const struct facet_provider_host host = {sizeof host, FACET_PROVIDER_ABI_MAJOR, FACET_PROVIDER_ABI_MINOR, &error};
    facet_provider_entry_func entry;
    char path[4096];

    snprintf(path, sizeof path, "%s/facet-provider-%s.so", getenv("FACET_LIB_DIR"), name);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        fail_msg("%s", dlerror());
    *(void **)&entry = dlsym(object, FACET_PROVIDER_ENTRY_NAME);
    assert_non_null(entry);
    assert_int_equal(entry(&host, &provider), FACET_OK);
}

/* The result of `function`, a counter of the fake library whose path is in the environment variable `variable`. */
static inline int seen(const char *variable, const char *function)
{
    int (*ask)(void);
    void *library = dlopen(getenv(variable), RTLD_NOW | RTLD_LOCAL);

    assert_non_null(library);
    *(void **)&ask = dlsym(library, function);
    assert_non_null(ask);
    int result = ask();
    dlclose(library);
    return result;
}

/* Like seen(), for a function that returns a pointer. */
static inline void *seen_pointer(const char *variable, const char *function)
{
    void *(*ask)(void);
    void *library = dlopen(getenv(variable), RTLD_NOW | RTLD_LOCAL);

    assert_non_null(library);
    *(void **)&ask = dlsym(library, function);
    assert_non_null(ask);
    void *result = ask();
    dlclose(library);
    return result;
}

#endif
