/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: loading a provider, and checking what its entry point returns. Never: reads past the size that it states. */
#include "session/load.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NAME_RULE "[a-z][a-z0-9_-]{0,31}"

/* Whether the device table, in its first version, is long enough to hold an operation, and holds it. */
#define OFFERS(ops, op) ((ops)->size >= offsetof(struct facet_device_ops, op) + sizeof((ops)->op) && (ops)->op != NULL)

enum facet_status facet_load_failed(struct facet_error *error, enum facet_status status, const char *what)
{
    char provider_error[sizeof error->message] = "";

    if (error)
        snprintf(provider_error, sizeof provider_error, "%.*s", (int)sizeof provider_error - 1, error->message);
    return facet_error_set(error, status, "%s: %s%s%s", what, facet_status_text(status), provider_error[0] ? ": " : "",
                           provider_error);
}

/* dlsym() also searches the object's dependencies; an entry point found there is not the provider's. */
static bool is_from(void *handle, const void *symbol)
{
    struct link_map *own = NULL, *found = NULL;
    Dl_info info;

    return dlinfo(handle, RTLD_DI_LINKMAP, &own) == 0 &&
           dladdr1(symbol, &info, (void **)&found, RTLD_DL_LINKMAP) != 0 && own == found;
}

enum facet_status facet_load_object(const char *path, facet_provider_entry_func *ret_entry, struct facet_error *error)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        return facet_error_set(error, FACET_IO, "cannot be loaded: %s", dlerror());
    void *symbol = dlsym(handle, FACET_PROVIDER_ENTRY_NAME);
    if (!symbol)
        return facet_error_set(error, FACET_ABI_MISMATCH, "exports no " FACET_PROVIDER_ENTRY_NAME);
    if (!is_from(handle, symbol))
        return facet_error_set(error, FACET_ABI_MISMATCH,
                               "exports no " FACET_PROVIDER_ENTRY_NAME "; a library that it links to does");
    /* POSIX promises that a symbol's address converts to a function; ISO C has no cast for it. */
    memcpy(ret_entry, &symbol, sizeof symbol);
    return FACET_OK;
}

bool facet_load_is_name(const char *name)
{
    size_t length = 0;

    if (name[0] < 'a' || name[0] > 'z')
        return false;
    while (length <= 32 && name[length] && strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", name[length]))
        length++;
    return length <= 32 && name[length] == '\0';
}

/* The version is checked first: another major version may lay out the other members differently. */
static enum facet_status check_version(const struct facet_provider *provider, struct facet_error *error)
{
    if (provider->size >= offsetof(struct facet_provider, name) && provider->abi_major != FACET_PROVIDER_ABI_MAJOR)
        return facet_error_set(error, FACET_ABI_MISMATCH, "built for ABI %u.%u, expected %u.x", provider->abi_major,
                               provider->abi_minor, FACET_PROVIDER_ABI_MAJOR);
    if (provider->size < FACET_PROVIDER_SIZE_1_0)
        return facet_error_set(error, FACET_ABI_MISMATCH,
                               "states a provider struct of %" PRIu32 " bytes, expected at least %u", provider->size,
                               FACET_PROVIDER_SIZE_1_0);
    return FACET_OK;
}

static enum facet_status check_provider(const struct facet_provider *provider, struct facet_error *error)
{
    if (!provider)
        return facet_error_set(error, FACET_CORRUPT, "its entry point reported success without a provider");
    enum facet_status status = check_version(provider, error);
    if (status != FACET_OK)
        return status;
    if (!provider->name)
        return facet_error_set(error, FACET_CORRUPT, "has no name, expected " NAME_RULE);
    if (!facet_load_is_name(provider->name))
        return facet_error_set(error, FACET_CORRUPT, "has the name '%.40s', expected " NAME_RULE, provider->name);
    if (!provider->device || !OFFERS(provider->device, open) || !OFFERS(provider->device, list))
        return facet_error_set(error, FACET_UNSUPPORTED, "offers no operation to open or to list devices");
    return FACET_OK;
}

enum facet_status facet_load_enter(facet_provider_entry_func entry, uint16_t abi_minor,
                                   const struct facet_provider **ret_provider, struct facet_error *error)
{
    struct facet_error provider_error = {0};
    const struct facet_provider_host host = {
        .size = sizeof host, .abi_major = FACET_PROVIDER_ABI_MAJOR, .abi_minor = abi_minor, .error = &provider_error};
    const struct facet_provider *provider = NULL;
    enum facet_status status = entry(&host, &provider);

    if (status != FACET_OK) {
        facet_load_failed(&provider_error, status, "refuses to enter");
        return facet_error_set(error, status, "%s", provider_error.message);
    }
    status = check_provider(provider, error);
    if (status == FACET_OK)
        *ret_provider = provider;
    return status;
}

enum facet_status facet_load_open(const struct facet_provider *provider, struct facet_provider_instance **ret_instance,
                                  struct facet_error *error)
{
    struct facet_error provider_error = {0};
    struct facet_provider_instance *instance = NULL;
    enum facet_status status = provider->device->open(&instance, &provider_error);

    if (status != FACET_OK) {
        facet_load_failed(&provider_error, status, "cannot open");
        return facet_error_set(error, status, "%s", provider_error.message);
    }
    *ret_instance = instance;
    return FACET_OK;
}
