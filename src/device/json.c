/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the JSON name of each member of a record. Never: writes 0 for an absent measurement. */
#include "device/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/limits.h>

#include "base/cleanup.h"
#include "base/integer.h"

static void drop_value(json_t **value)
{
    json_decref(*value);
}

#define CLEANUP_JSON __attribute__((cleanup(drop_value)))

/* A file's name may be any bytes, but JSON is UTF-8: invalid bytes become '?'. */
static json_t *text_json(const char *text)
{
    json_t *value = json_string(text);
    FACET_CLEANUP_FREE char *copy = value ? NULL : strdup(text);

    if (value || !copy)
        return value;
    for (char *c = copy; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    return json_string(copy);
}

/* The setters below return false when memory runs out. An absent field (empty text, cleared bit) is left out: true. */
static bool put_text(json_t *object, const char *key, const char *text)
{
    return !text[0] || json_object_set_new(object, key, text_json(text)) == 0;
}

static bool put_integer(json_t *object, const char *key, bool present, uint64_t value)
{
    return !present || json_object_set_new(object, key, json_integer(facet_integer(value))) == 0;
}

static json_t *modes_json(uint32_t modes)
{
    CLEANUP_JSON json_t *array = json_array();

    for (uint32_t mode = FACET_MODE_SHARED; array && mode <= FACET_MODE_PARTITIONED; mode++)
        if ((modes & FACET_DEVICE_MODE(mode)) &&
            json_array_append_new(array, json_string(facet_mode_name((enum facet_mode)mode))) < 0)
            return NULL;
    return FACET_TAKE_PTR(array);
}

static bool put_measures(json_t *object, const struct facet_device_info *info)
{
    uint64_t valid = info->valid;

    return put_integer(object, "memory_bytes", valid & FACET_DEVICE_HAS_MEMORY, info->memory_bytes) &&
           put_integer(object, "max_alloc_bytes", valid & FACET_DEVICE_HAS_MAX_ALLOC, info->max_alloc_bytes) &&
           put_integer(object, "compute_units", valid & FACET_DEVICE_HAS_COMPUTE_UNITS, info->compute_units) &&
           put_integer(object, "clock_mhz", valid & FACET_DEVICE_HAS_CLOCK, info->clock_mhz) &&
           put_integer(object, "numa_node", (valid & FACET_DEVICE_HAS_NUMA) && info->numa_node >= 0,
                       (uint64_t)info->numa_node) &&
           put_text(object, "pci_address", valid & FACET_DEVICE_HAS_PCI ? info->pci_address : "");
}

json_t *facet_device_json(const struct facet_device_record *device)
{
    const struct facet_device_info *info = &device->info;
    CLEANUP_JSON json_t *object = json_object();
    bool simulated = device->provider->traits & FACET_PROVIDER_SIMULATED;

    bool good =
        object && put_text(object, "id", device->id) && put_text(object, "uuid", info->uuid) &&
        put_text(object, "name", info->name) && put_text(object, "vendor", info->vendor) &&
        put_text(object, "driver_version", info->driver_version) &&
        put_text(object, "provider", device->provider->name) &&
        put_text(object, "kind", facet_device_kind_name(info->kind)) &&
        put_text(object, "health", facet_health_name(device->health)) &&
        json_object_set_new(object, "modes", modes_json(facet_device_takes_programs(device) ? info->modes : 0)) == 0 &&
        put_measures(object, info) && put_text(object, "cpuset", device->cpuset) &&
        json_object_set_new(object, "simulated", json_boolean(simulated)) == 0;
    return good ? FACET_TAKE_PTR(object) : NULL;
}

json_t *facet_provider_json(const struct facet_provider_record *provider)
{
    CLEANUP_JSON json_t *object = json_object();
    bool loaded = provider->state == FACET_PROVIDER_LOADED;
    char abi[16] = "";

    if (loaded)
        snprintf(abi, sizeof abi, "%u.%u", provider->abi_major, provider->abi_minor);
    bool good = object && put_text(object, "name", provider->name) && put_text(object, "path", provider->path) &&
                put_text(object, "version", provider->version) &&
                put_text(object, "description", provider->description) && put_text(object, "abi", abi) &&
                put_text(object, "state", loaded ? "loaded" : "refused") &&
                put_text(object, "reason", loaded ? "" : provider->reason.message) &&
                put_integer(object, "devices", true, provider->device_count);
    return good ? FACET_TAKE_PTR(object) : NULL;
}

json_t *facet_device_table_json(const struct facet_device_table *table)
{
    CLEANUP_JSON json_t *array = json_array();

    for (uint32_t i = 0; array && i < facet_device_table_count(table); i++)
        if (json_array_append_new(array, facet_device_json(facet_device_table_at(table, i))) < 0)
            return NULL;
    return json_pack("{s:O}", "devices", array);
}

json_t *facet_provider_table_json(const struct facet_device_table *table)
{
    CLEANUP_JSON json_t *array = json_array();

    for (uint32_t i = 0; array && i < facet_provider_count(table); i++)
        if (json_array_append_new(array, facet_provider_json(facet_provider_at(table, i))) < 0)
            return NULL;
    return json_pack("{s:O}", "providers", array);
}
