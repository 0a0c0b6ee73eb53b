/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: loading and opening the provider under test, in this process or, through a session, in a process of its own.
 * Never: checks an operation except those that open the provider and list its devices.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <facet/session.h>

#include "conformance/check.h"

/* Copies a provider's table as far as it goes; operations beyond its size stay NULL. A table begins with its size. */
static void copy_table(const void *table, void *ret_copy, uint64_t size)
{
    uint64_t stated;

    if (!table)
        return;
    memcpy(&stated, table, sizeof stated);
    memcpy(ret_copy, table, stated < size ? stated : size);
}

/* The struct of a provider of an older version ends before the tables of later versions. */
#define COPY_TABLE(check, member)                                                                                      \
    if ((check)->provider->size >= offsetof(struct facet_provider, member) + sizeof(check)->provider->member)          \
    copy_table((check)->provider->member, &(check)->member##_ops, sizeof(check)->member##_ops)

static void copy_tables(struct facet_check *check)
{
    COPY_TABLE(check, device);
    COPY_TABLE(check, partition);
    COPY_TABLE(check, limit);
    COPY_TABLE(check, metrics);
    COPY_TABLE(check, container);
    COPY_TABLE(check, snapshot);
    COPY_TABLE(check, memory);
    COPY_TABLE(check, execution);
    COPY_TABLE(check, math);
}

static bool load_session(struct facet_check *check)
{
    const struct facet_session_options options = {.size = sizeof options, .place = FACET_SESSION_CHILD};

    if (!EXPECT_OK(check, "load: opens in a process of its own",
                   facet_session_open(check->path, &options, &check->session, &check->error)))
        return false;
    check->provider = facet_session_provider(check->session);
    check->instance = facet_session_instance(check->session);
    copy_tables(check);
    return true;
}

static bool load_object(struct facet_check *check)
{
    facet_check_begin(check, "load: the file can be loaded");
    check->object = dlopen(check->path, RTLD_NOW | RTLD_LOCAL);
    if (!check->object)
        return facet_check_judge(check, false, "expected: a shared object\ngot: %s", dlerror());
    void *symbol = dlsym(check->object, FACET_PROVIDER_ENTRY_NAME);
    if (!symbol)
        return facet_check_judge(check, false, "expected: the symbol " FACET_PROVIDER_ENTRY_NAME "\ngot: none");
    /* POSIX promises that a symbol's address converts to a function; ISO C has no cast for it. */
    memcpy(&check->entry, &symbol, sizeof symbol);
    return true;
}

bool facet_check_load(struct facet_check *check)
{
    const struct facet_provider_host host = {.size = sizeof host,
                                             .abi_major = FACET_PROVIDER_ABI_MAJOR,
                                             .abi_minor = FACET_PROVIDER_ABI_MINOR,
                                             .error = &check->error};

    if (check->isolated)
        return load_session(check);
    if (!load_object(check))
        return false;
    enum facet_status status = check->entry(&host, &check->provider);
    if (status != FACET_OK || !check->provider || !check->provider->device ||
        check->provider->size < FACET_PROVIDER_SIZE_1_0)
        return facet_check_status(check, FACET_OK, status == FACET_OK ? FACET_CORRUPT : status);
    copy_tables(check);
    return true;
}

static enum facet_status call_list(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                   uint32_t capacity, uint32_t *ret_count)
{
    return check->device_ops.list(check->instance, items, item_size, capacity, ret_count, &check->error);
}

bool facet_check_open(struct facet_check *check)
{
    const struct facet_check_list list = {"device.list", sizeof(struct facet_device_info), false, call_list, NULL};

    if (!check->device_ops.open || !check->device_ops.list) {
        facet_check_begin(check, "open: operations to open and to list are offered");
        return facet_check_judge(check, false, "expected: device.open and device.list\ngot: NULL");
    }
    if (!check->isolated && !EXPECT_OK(check, "open: opens", check->device_ops.open(&check->instance, &check->error)))
        return false;
    check->devices = facet_check_fetch(check, &list, &check->device_count);
    for (uint32_t i = 0; i < check->device_count; i++)
        facet_check_drop_broken_promises(check, i);
    return check->devices != NULL;
}

void facet_check_close(struct facet_check *check)
{
    if (check->isolated)
        facet_session_close(check->session);
    else if (check->device_ops.close)
        check->device_ops.close(check->instance);
    free(check->devices);
    check->devices = NULL;
    check->device_count = 0;
    check->session = NULL;
    check->instance = NULL;
}

bool facet_check_open_second(struct facet_check *check, struct facet_check *ret_second)
{
    struct facet_check second = *check;

    if (check->isolated ? !load_session(&second)
                        : !EXPECT_OK(check, "open: opens a second instance",
                                     check->device_ops.open(&second.instance, &check->error)))
        return false;
    *ret_second = second;
    return true;
}

void facet_check_close_second(struct facet_check *second)
{
    if (second->isolated)
        facet_session_close(second->session);
    else if (second->device_ops.close)
        second->device_ops.close(second->instance);
}

bool facet_check_any_claims(const struct facet_check *check, uint64_t capabilities)
{
    for (uint32_t i = 0; i < check->device_count; i++)
        if ((check->devices[i].capabilities & capabilities) == capabilities)
            return true;
    return false;
}

bool facet_check_claims(const struct facet_check *check, uint64_t capabilities)
{
    return (check->devices[check->device].capabilities & capabilities) == capabilities;
}
