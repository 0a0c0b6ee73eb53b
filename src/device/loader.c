/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the host's side of provider.h. Never: reads past the size that a provider states. */
#include "device/loader.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Version 1.0 of the provider's struct; anything shorter cannot be read. */
#define PROVIDER_SIZE_LEAST FACET_PROVIDER_SIZE_1_0

/* Whether a table is long enough to hold an operation, and holds it. */
#define OFFERS(ops, op) ((ops)->size >= offsetof(struct facet_device_ops, op) + sizeof((ops)->op) && (ops)->op != NULL)

/* A list may grow between two calls; one that grows every time will never be satisfied. */
enum { LIST_ATTEMPTS = 4 };

static void enter_stage(struct facet_provider_answer *answer, enum facet_loader_stage stage)
{
    atomic_store_explicit(&answer->stage, (uint32_t)stage, memory_order_release);
}

/* Names what a provider failed at; what it says itself, if anything, stays behind it. */
static enum facet_status provider_failed(struct facet_error *error, enum facet_status status, const char *what)
{
    char said[sizeof error->message];

    snprintf(said, sizeof said, "%.*s", (int)sizeof said - 1, error->message);
    return facet_error_set(error, status, "%s: %s%s%s", what, facet_status_text(status), said[0] ? ": " : "", said);
}

/* dlsym() also looks into what the object links to; an entry point found there is somebody else's. */
static bool is_from(void *handle, const void *symbol)
{
    struct link_map *own = NULL, *found = NULL;
    Dl_info info;

    return dlinfo(handle, RTLD_DI_LINKMAP, &own) == 0 &&
           dladdr1(symbol, &info, (void **)&found, RTLD_DL_LINKMAP) != 0 && own == found;
}

static enum facet_status load(const char *path, facet_provider_entry_func *ret_entry, struct facet_error *error)
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

static bool is_name(const char *name)
{
    size_t length = 0;

    if (!name || name[0] < 'a' || name[0] > 'z')
        return false;
    while (length <= 32 && name[length] && strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", name[length]))
        length++;
    return length <= 32 && name[length] == '\0';
}

/* The versions come before everything else: what follows them may be laid out otherwise in another major version. */
static enum facet_status check_provider(const struct facet_provider *provider, struct facet_error *error)
{
    if (!provider)
        return facet_error_set(error, FACET_CORRUPT, "its entry point reported success without a provider");
    if (provider->size >= offsetof(struct facet_provider, name) && provider->abi_major != FACET_PROVIDER_ABI_MAJOR)
        return facet_error_set(error, FACET_ABI_MISMATCH, "built for ABI %u.%u, expected %u.x", provider->abi_major,
                               provider->abi_minor, FACET_PROVIDER_ABI_MAJOR);
    if (provider->size < PROVIDER_SIZE_LEAST)
        return facet_error_set(error, FACET_ABI_MISMATCH,
                               "states a provider struct of %" PRIu32 " bytes, expected at least %zu", provider->size,
                               PROVIDER_SIZE_LEAST);
    if (!provider->name)
        return facet_error_set(error, FACET_CORRUPT, "has no name, expected [a-z][a-z0-9_-]{0,31}");
    if (!is_name(provider->name))
        return facet_error_set(error, FACET_CORRUPT, "has the name '%.40s', expected [a-z][a-z0-9_-]{0,31}",
                               provider->name);
    if (!provider->device || !OFFERS(provider->device, open) || !OFFERS(provider->device, list))
        return facet_error_set(error, FACET_UNSUPPORTED, "offers no operation to open or to list devices");
    return FACET_OK;
}

static enum facet_status enter(facet_provider_entry_func entry, uint16_t abi_minor,
                               const struct facet_provider **ret_provider, struct facet_error *error)
{
    const struct facet_provider_host host = {
        .size = sizeof host, .abi_major = FACET_PROVIDER_ABI_MAJOR, .abi_minor = abi_minor, .error = error};
    const struct facet_provider *provider = NULL;
    enum facet_status status = entry(&host, &provider);

    if (status != FACET_OK)
        return provider_failed(error, status, "refuses to enter");
    status = check_provider(provider, error);
    if (status == FACET_OK)
        *ret_provider = provider;
    return status;
}

static void describe(const struct facet_provider *provider, uint16_t abi_minor, struct facet_provider_answer *answer)
{
    snprintf(answer->name, sizeof answer->name, "%s", provider->name);
    snprintf(answer->version, sizeof answer->version, "%s", provider->version ? provider->version : "");
    snprintf(answer->description, sizeof answer->description, "%s", provider->description ? provider->description : "");
    answer->abi_major = provider->abi_major;
    answer->abi_minor = provider->abi_minor < abi_minor ? provider->abi_minor : abi_minor;
    answer->traits = provider->traits;
}

/* One call of the list operation: OK with at most `capacity` devices, or TOO_SMALL with more, or a refusal. */
static enum facet_status list_once(const struct facet_device_ops *ops, struct facet_provider_instance *instance,
                                   struct facet_provider_answer *answer, uint32_t capacity, uint32_t *ret_count,
                                   struct facet_error *error)
{
    enum facet_status status = ops->list(instance, answer->infos, sizeof answer->infos[0], capacity, ret_count, error);

    if (status != FACET_OK && status != FACET_TOO_SMALL)
        return provider_failed(error, status, "cannot list devices");
    if (*ret_count > FACET_PROVIDER_DEVICES)
        return facet_error_set(error, FACET_CORRUPT, "lists %" PRIu32 " devices, expected at most %u", *ret_count,
                               FACET_PROVIDER_DEVICES);
    if (status == FACET_OK && *ret_count > capacity)
        return facet_error_set(error, FACET_CORRUPT,
                               "lists %" PRIu32 " devices in room for %" PRIu32 " and calls that a success", *ret_count,
                               capacity);
    if (status == FACET_TOO_SMALL && *ret_count <= capacity)
        return facet_error_set(error, FACET_CORRUPT,
                               "asks for room for %" PRIu32 " devices when it has room for %" PRIu32, *ret_count,
                               capacity);
    return status;
}

static enum facet_status list(const struct facet_device_ops *ops, struct facet_provider_instance *instance,
                              struct facet_provider_answer *answer, struct facet_error *error)
{
    uint32_t capacity = 0;

    for (int attempt = 0; attempt < LIST_ATTEMPTS; attempt++) {
        uint32_t count = 0;

        for (uint32_t i = 0; i < capacity; i++)
            answer->infos[i].size = sizeof answer->infos[i];
        enum facet_status status = list_once(ops, instance, answer, capacity, &count, error);
        if (status == FACET_OK)
            answer->device_count = count;
        if (status != FACET_TOO_SMALL)
            return status;
        capacity = count;
    }
    return facet_error_set(error, FACET_CORRUPT, "asked for more room %d times in a row", LIST_ATTEMPTS);
}

/* A device whose health cannot be told is still a device. */
static void ask_health(const struct facet_device_ops *ops, struct facet_provider_instance *instance,
                       struct facet_provider_answer *answer)
{
    for (uint32_t i = 0; OFFERS(ops, health) && i < answer->device_count; i++) {
        uint32_t health = FACET_HEALTH_UNKNOWN;

        if (ops->health(instance, i, &health, NULL) == FACET_OK)
            answer->health[i] = health;
    }
}

static enum facet_status ask(const struct facet_device_ops *ops, struct facet_provider_answer *answer,
                             struct facet_error *error)
{
    struct facet_provider_instance *instance = NULL;

    enter_stage(answer, FACET_LOADER_OPEN);
    enum facet_status status = ops->open(&instance, error);
    if (status != FACET_OK)
        return provider_failed(error, status, "cannot open");
    enter_stage(answer, FACET_LOADER_LIST);
    status = list(ops, instance, answer, error);
    if (status == FACET_OK) {
        enter_stage(answer, FACET_LOADER_HEALTH);
        ask_health(ops, instance, answer);
    }
    enter_stage(answer, FACET_LOADER_CLOSE);
    if (OFFERS(ops, close))
        ops->close(instance);
    return status;
}

void facet_loader_run(const char *path, uint16_t abi_minor, struct facet_provider_answer *answer)
{
    const struct facet_provider *provider = NULL;
    facet_provider_entry_func entry = NULL;
    struct facet_error *error = &answer->error;

    enter_stage(answer, FACET_LOADER_LOAD);
    enum facet_status status = load(path, &entry, error);
    if (status == FACET_OK) {
        enter_stage(answer, FACET_LOADER_ENTER);
        status = enter(entry, abi_minor, &provider, error);
    }
    if (status == FACET_OK) {
        describe(provider, abi_minor, answer);
        status = ask(provider->device, answer, error);
    }
    enter_stage(answer, status == FACET_OK ? FACET_LOADER_DONE : FACET_LOADER_REFUSED);
}
