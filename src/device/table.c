/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the two arrays of the table. Never: changes them once the table is open. */
#include "device/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/inquiry.h"
#include "device/search.h"
#include "device/topology.h"

struct facet_device_table {
    struct facet_provider_record *providers;
    struct facet_device_record *devices;
    uint32_t provider_count, device_count;
};

/* All providers start at once: their runtimes load side by side, so all take as long as the slowest. */
static enum facet_status start_inquiries(const struct facet_device_table *table,
                                         const struct facet_session_options *options, struct facet_inquiry *inquiries,
                                         struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < table->provider_count && status == FACET_OK; i++)
        status = facet_inquiry_start(table->providers[i].path, options, &inquiries[i], error);
    return status;
}

/* Device ids begin with the provider's name, so two providers cannot share a name. The earlier file keeps it. */
static void refuse_duplicate(struct facet_provider_record *providers, uint32_t index)
{
    struct facet_provider_record *late = &providers[index];

    for (uint32_t i = 0; i < index && late->state == FACET_PROVIDER_LOADED; i++) {
        if (providers[i].state != FACET_PROVIDER_LOADED || strcmp(providers[i].name, late->name) != 0)
            continue;
        facet_error_set(&late->reason, FACET_ALREADY_EXISTS, "its name '%s' is taken by %s", late->name,
                        providers[i].path);
        late->state = FACET_PROVIDER_REFUSED;
        late->abi_major = late->abi_minor = 0;
        late->device_count = 0;
    }
}

static void finish_inquiries(struct facet_device_table *table, struct facet_inquiry *inquiries)
{
    for (uint32_t i = 0; i < table->provider_count; i++) {
        facet_inquiry_finish(&inquiries[i], &table->providers[i]);
        refuse_duplicate(table->providers, i);
        table->device_count += table->providers[i].device_count;
    }
}

/* Writes the devices at *ret_end, which moves behind them: those that take programs, or those that take none. */
static void add_devices(const struct facet_device_table *table, const struct facet_inquiry *inquiries,
                        bool takes_programs, struct facet_device_record **ret_end)
{
    for (uint32_t i = 0; i < table->provider_count; i++) {
        const struct facet_provider_record *provider = &table->providers[i];

        for (uint32_t j = 0; j < provider->device_count; j++) {
            struct facet_device_record device = {.provider = provider};

            facet_inquiry_device(&inquiries[i], j, &device);
            snprintf(device.id, sizeof device.id, "%.40s:%" PRIu32, provider->name, j);
            if (facet_device_takes_programs(&device) == takes_programs)
                *(*ret_end)++ = device;
        }
    }
}

static void fill_devices(struct facet_device_table *table, const struct facet_inquiry *inquiries)
{
    struct facet_device_record *end = table->devices;

    add_devices(table, inquiries, true, &end);
    add_devices(table, inquiries, false, &end);
    facet_topology_fill(table->devices, table->device_count);
}

static enum facet_status fill_table(struct facet_device_table *table, const struct facet_session_options *options,
                                    struct facet_inquiry *inquiries, struct facet_error *error)
{
    enum facet_status status = start_inquiries(table, options, inquiries, error);

    if (status != FACET_OK)
        return status;
    finish_inquiries(table, inquiries);
    table->devices = calloc(table->device_count + 1, sizeof *table->devices);
    if (!table->devices)
        return facet_error_errno(error, ENOMEM, "no memory for %" PRIu32 " devices", table->device_count);
    fill_devices(table, inquiries);
    return FACET_OK;
}

enum facet_status facet_device_table_open_with(const char *paths, const struct facet_session_options *options,
                                               struct facet_device_table **ret_table, struct facet_error *error)
{
    struct facet_inquiry inquiries[FACET_PROVIDER_FILES] = {0};
    struct facet_device_table *table = calloc(1, sizeof *table);

    if (!table)
        return facet_error_errno(error, ENOMEM, "no memory for the device table");
    enum facet_status status = facet_provider_search(paths, &table->providers, &table->provider_count, error);
    if (status == FACET_OK)
        status = fill_table(table, options, inquiries, error);
    for (uint32_t i = 0; i < table->provider_count; i++)
        facet_inquiry_close(&inquiries[i]);
    if (status == FACET_OK)
        *ret_table = table;
    else
        facet_device_table_close(table);
    return status;
}

enum facet_status facet_device_table_open(const char *paths, struct facet_device_table **ret_table,
                                          struct facet_error *error)
{
    return facet_device_table_open_with(paths, NULL, ret_table, error);
}

void facet_device_table_close(struct facet_device_table *table)
{
    if (!table)
        return;
    free(table->devices);
    free(table->providers);
    free(table);
}

uint32_t facet_device_table_count(const struct facet_device_table *table)
{
    return table->device_count;
}

const struct facet_device_record *facet_device_table_at(const struct facet_device_table *table, uint32_t index)
{
    return index < table->device_count ? &table->devices[index] : NULL;
}

uint32_t facet_provider_count(const struct facet_device_table *table)
{
    return table->provider_count;
}

const struct facet_provider_record *facet_provider_at(const struct facet_device_table *table, uint32_t index)
{
    return index < table->provider_count ? &table->providers[index] : NULL;
}

/* Whether `text` is `index`, in decimal digits only. */
static bool is_index(const char *text, uint32_t index)
{
    char digits[16];

    snprintf(digits, sizeof digits, "%" PRIu32, index);
    return strcmp(text, digits) == 0;
}

/* Appends to a message of fixed size; a text too long for it is cut, and ends with "...". */
static void append_text(char *message, size_t size, const char *text)
{
    size_t used = strlen(message);

    if ((size_t)snprintf(message + used, size - used, "%s", text) >= size - used)
        memcpy(message + size - 4, "...", 4);
}

bool facet_device_takes_programs(const struct facet_device_record *device)
{
    return device->info.modes != 0 && device->info.address[0];
}

/* The provider that a text like "cuda:0" or "cuda" names; NULL: none. */
static const struct facet_provider_record *find_named_provider(const struct facet_device_table *table, const char *text)
{
    size_t length = strcspn(text, ":");

    for (uint32_t i = 0; i < table->provider_count; i++) {
        const char *name = table->providers[i].name;
        if (strlen(name) == length && strncmp(name, text, length) == 0)
            return &table->providers[i];
    }
    return NULL;
}

/* Why a provider has no device, like "; provider cuda was refused: ..."; empty when it has a device, or is NULL. */
static void explain_no_device(const struct facet_provider_record *provider, char *why, size_t size)
{
    why[0] = '\0';
    if (!provider || provider->device_count)
        return;
    if (provider->state == FACET_PROVIDER_REFUSED)
        snprintf(why, size, "; provider %s was refused: %.200s", provider->name, provider->reason.message);
    else
        snprintf(why, size, "; provider %s (%s) finds no device on this machine", provider->name,
                 provider->description);
}

void facet_device_table_explain(const struct facet_device_table *table, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    for (uint32_t i = 0; i < table->provider_count; i++) {
        const struct facet_provider_record *provider = &table->providers[i];

        if (provider->state != FACET_PROVIDER_REFUSED)
            continue;
        append_text(ret_text, size, "; provider ");
        append_text(ret_text, size, provider->name);
        append_text(ret_text, size, " was refused: ");
        append_text(ret_text, size, provider->reason.message);
    }
}

/* Explains why the provider named by `text` has no device; without such a provider, why providers were refused. */
static void explain_missing(const struct facet_device_table *table, const char *text, char *why, size_t size)
{
    const struct facet_provider_record *named = text ? find_named_provider(table, text) : NULL;

    if (named)
        explain_no_device(named, why, size);
    else
        facet_device_table_explain(table, why, size);
}

static enum facet_status no_device(const struct facet_device_table *table, const char *text, struct facet_error *error)
{
    char why[400];

    explain_missing(table, text, why, sizeof why);
    return facet_error_argument(error, FACET_UNSUPPORTED, "device", "no device on this machine%s", why);
}

static enum facet_status not_found(const struct facet_device_table *table, const char *text, struct facet_error *error)
{
    char names[256] = "", why[400];

    for (uint32_t i = 0; i < table->device_count; i++) {
        append_text(names, sizeof names, i ? ", " : "");
        append_text(names, sizeof names, table->devices[i].id);
    }
    explain_missing(table, text, why, sizeof why);
    return facet_error_argument(error, FACET_NOT_FOUND, "device", "device '%.64s': expected one of %s%s", text, names,
                                why);
}

enum facet_status facet_device_table_find(const struct facet_device_table *table, const char *text,
                                          const struct facet_device_record **ret_device, struct facet_error *error)
{
    if (table->device_count == 0)
        return no_device(table, text, error);
    for (uint32_t i = 0; i < table->device_count; i++) {
        const struct facet_device_record *device = &table->devices[i];

        if (!text || strcmp(text, device->id) == 0 || strcmp(text, device->info.uuid) == 0 || is_index(text, i)) {
            *ret_device = device;
            return FACET_OK;
        }
    }
    return not_found(table, text, error);
}
