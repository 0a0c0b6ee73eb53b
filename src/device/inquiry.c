/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: asking a provider for its description, its devices and their health; refusing a provider whose answers make no
 * sense.
 * Never: fails because one device's health is unknown.
 */
#include "device/inquiry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/load.h"
#include "session/session.h"
#include "session/structs.h"

/* A list may grow between two calls. A provider whose list grows at every call is refused after LIST_ATTEMPTS calls. */
enum { LIST_ATTEMPTS = 4 };

enum facet_status facet_inquiry_start(const char *path, const struct facet_session_options *options,
                                      struct facet_inquiry *ret_inquiry, struct facet_error *error)
{
    struct facet_inquiry inquiry = {0};
    enum facet_status status = facet_session_start(path, options, &inquiry.session, error);

    if (status == FACET_OK)
        *ret_inquiry = inquiry;
    return status;
}

/* Replaces both arrays by new arrays for `count` devices. */
static enum facet_status make_room(struct facet_inquiry *inquiry, uint32_t count, struct facet_error *error)
{
    if (count > FACET_PROVIDER_DEVICES)
        return facet_error_set(error, FACET_CORRUPT, "lists %" PRIu32 " devices, expected at most %u", count,
                               FACET_PROVIDER_DEVICES);
    free(inquiry->infos);
    free(inquiry->health);
    inquiry->infos = calloc(count, sizeof *inquiry->infos);
    inquiry->health = calloc(count, sizeof *inquiry->health);
    if (!inquiry->infos || !inquiry->health)
        return facet_error_errno(error, ENOMEM, "no memory for %" PRIu32 " devices", count);
    for (uint32_t i = 0; i < count; i++)
        inquiry->infos[i].size = sizeof inquiry->infos[i];
    return FACET_OK;
}

/* Prefixes a provider's own error with "cannot list devices"; the session's errors about a provider stay as they
 * are. */
static enum facet_status prefix_list_error(struct facet_inquiry *inquiry, enum facet_status status,
                                           struct facet_error *error)
{
    if (status == FACET_CORRUPT || !facet_session_alive(inquiry->session, NULL))
        return status;
    return facet_load_failed(error, status, "cannot list devices");
}

static enum facet_status list_devices(struct facet_inquiry *inquiry, uint32_t *ret_count, struct facet_error *error)
{
    const struct facet_device_ops *ops = facet_session_provider(inquiry->session)->device;
    struct facet_provider_instance *instance = facet_session_instance(inquiry->session);
    uint32_t capacity = 0;

    for (int attempt = 0; attempt < LIST_ATTEMPTS; attempt++) {
        uint32_t count = 0;
        enum facet_status status =
            ops->list(instance, inquiry->infos, sizeof inquiry->infos[0], capacity, &count, error);

        if (status == FACET_OK)
            *ret_count = count;
        if (status != FACET_TOO_SMALL)
            return status == FACET_OK ? status : prefix_list_error(inquiry, status, error);
        status = make_room(inquiry, count, error);
        if (status != FACET_OK)
            return status;
        capacity = count;
    }
    return facet_error_set(error, FACET_CORRUPT, "asked for more room %d times in a row", LIST_ATTEMPTS);
}

/* The name of the first field that makes no sense; NULL when all is well. The session has checked that texts are
 * terminated. */
static const char *bad_field(const struct facet_device_info *info, uint32_t index)
{
    if (info->index != index)
        return "index";
    if (!info->uuid[0])
        return "uuid";
    if (!info->name[0])
        return "name";
    if (info->kind > FACET_DEVICE_ACCELERATOR)
        return "kind";
    return NULL;
}

static enum facet_status check_devices(const struct facet_inquiry *inquiry, uint32_t count, struct facet_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *field = bad_field(&inquiry->infos[i], i);

        if (field)
            return facet_error_set(error, FACET_CORRUPT, "describes its device %" PRIu32 " with a bad %s", i, field);
    }
    return FACET_OK;
}

/* A device whose health cannot be read is listed with health unknown; a provider that dies meanwhile is refused. */
static enum facet_status ask_health(struct facet_inquiry *inquiry, uint32_t count, struct facet_error *error)
{
    const struct facet_device_ops *ops = facet_session_provider(inquiry->session)->device;
    struct facet_provider_instance *instance = facet_session_instance(inquiry->session);

    for (uint32_t i = 0; i < count; i++)
        if (ops->health(instance, i, &inquiry->health[i], NULL) != FACET_OK)
            inquiry->health[i] = FACET_HEALTH_UNKNOWN;
    return facet_session_alive(inquiry->session, error) ? FACET_OK : FACET_DEVICE_LOST;
}

static void describe_provider(const struct facet_inquiry *inquiry, struct facet_provider_record *record)
{
    const struct facet_provider *provider = facet_session_provider(inquiry->session);

    snprintf(record->name, sizeof record->name, "%s", provider->name);
    snprintf(record->version, sizeof record->version, "%s", provider->version);
    snprintf(record->description, sizeof record->description, "%s", provider->description);
    record->abi_major = provider->abi_major;
    record->abi_minor = provider->abi_minor;
    record->traits = provider->traits;
}

static enum facet_status ask_provider(struct facet_inquiry *inquiry, struct facet_provider_record *record,
                                      struct facet_error *error)
{
    uint32_t count = 0;
    enum facet_status status = facet_session_await_open(inquiry->session, error);

    if (status != FACET_OK)
        return status;
    describe_provider(inquiry, record);
    status = list_devices(inquiry, &count, error);
    if (status == FACET_OK)
        status = check_devices(inquiry, count, error);
    if (status == FACET_OK)
        status = ask_health(inquiry, count, error);
    record->device_count = count;
    return status;
}

/* "opencl" of "/usr/lib/facet/facet-provider-opencl.so": the name for a provider that could not report its own. */
static void name_from_file(struct facet_provider_record *record)
{
    static const char prefix[] = "facet-provider-", suffix[] = ".so";
    const char *slash = strrchr(record->path, '/');
    const char *name = slash ? slash + 1 : record->path;

    if (strncmp(name, prefix, strlen(prefix)) == 0)
        name += strlen(prefix);
    facet_text_copy(record->name, sizeof record->name, name, strlen(name) + 1);
    char *end = strstr(record->name, suffix);
    if (end && end != record->name)
        *end = '\0';
}

/* A refused provider keeps its name and its reason. */
static void refuse_provider(struct facet_provider_record *record, const struct facet_error *reason)
{
    record->state = FACET_PROVIDER_REFUSED;
    record->reason = *reason;
    record->abi_major = record->abi_minor = 0;
    record->device_count = 0;
    if (!record->name[0])
        name_from_file(record);
}

void facet_inquiry_finish(struct facet_inquiry *inquiry, struct facet_provider_record *record)
{
    struct facet_error reason, ending;
    enum facet_status status = ask_provider(inquiry, record, &reason);
    enum facet_status ended = facet_session_end(inquiry->session, &ending);

    inquiry->session = NULL;
    record->state = FACET_PROVIDER_LOADED;
    if (status != FACET_OK)
        refuse_provider(record, &reason);
    else if (ended != FACET_OK)
        refuse_provider(record, &ending);
}

void facet_inquiry_device(const struct facet_inquiry *inquiry, uint32_t index, struct facet_device_record *ret_device)
{
    ret_device->info = inquiry->infos[index];
    ret_device->info.size = sizeof ret_device->info;
    ret_device->health = inquiry->health[index];
}

void facet_inquiry_close(struct facet_inquiry *inquiry)
{
    facet_session_close(inquiry->session);
    free(inquiry->infos);
    free(inquiry->health);
    *inquiry = (struct facet_inquiry){0};
}
