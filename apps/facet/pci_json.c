/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: functions, hosts and verdicts as JSON (schemas/pci.schema.json). Never: puts zero for an unknown value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/integer.h"
#include "base/text.h"
#include "pci.h"

static json_t *address_json(const struct facet_pci_address *address)
{
    char text[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(address, text);
    return json_string(text);
}

static json_t *addresses_json(const struct facet_pci_address *addresses, size_t count)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, address_json(&addresses[i]));
    return array;
}

/* Makes a device's name, which comes from a file and may be any bytes, UTF-8 without control characters. */
static json_t *text_json(const char *text)
{
    FACET_CLEANUP_FREE char *line = strdup(text);

    if (!line)
        return NULL;
    facet_text_make_line(line);
    return json_string(line);
}

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text[0])
        json_object_set_new(object, name, text_json(text));
}

static void set_hex(json_t *object, const char *name, uint32_t value, int digits)
{
    char text[16];

    snprintf(text, sizeof text, "0x%0*x", digits, value);
    json_object_set_new(object, name, json_string(text));
}

static void set_number(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name, json_integer(facet_integer(value)));
}

static bool is_read(const struct facet_pci_function *function, enum facet_pci_attribute attribute)
{
    return function->unread[attribute] == FACET_PCI_READ;
}

/* ---- one function ---- */

static void add_identity(json_t *object, const struct facet_pci_function *function)
{
    json_object_set_new(object, "address", address_json(&function->address));
    json_object_set_new(object, "kind", json_string(facet_pci_kind_name(function->kind)));
    if (!is_read(function, FACET_PCI_IDENTITY))
        return;
    set_hex(object, "vendor", function->vendor, 4);
    set_hex(object, "device", function->device, 4);
    set_hex(object, "subsystem_vendor", function->subsystem_vendor, 4);
    set_hex(object, "subsystem_device", function->subsystem_device, 4);
    set_hex(object, "class", function->class_code, 6);
    set_hex(object, "revision", function->revision, 2);
    set_text(object, "vendor_name", function->vendor_name);
    set_text(object, "device_name", function->device_name);
    set_text(object, "subsystem_name", function->subsystem_name);
    set_text(object, "serial", function->serial);
    set_text(object, "slot", function->slot);
}

static void add_drivers(json_t *object, const struct facet_pci_function *function)
{
    if (is_read(function, FACET_PCI_DRIVER))
        json_object_set_new(object, "driver", function->driver[0] ? text_json(function->driver) : json_null());
    if (is_read(function, FACET_PCI_OVERRIDE))
        json_object_set_new(object, "driver_override",
                            function->driver_override[0] ? text_json(function->driver_override) : json_null());
    if (is_read(function, FACET_PCI_GROUP))
        json_object_set_new(object, "iommu_group", json_integer(function->group));
    if (is_read(function, FACET_PCI_NUMA) && function->numa_node >= 0)
        json_object_set_new(object, "numa_node", json_integer(function->numa_node));
    set_text(object, "local_cpus", function->cpus);
    set_text(object, "power_state", function->power_state);
    set_text(object, "runtime_status", function->runtime_status);
    if (function->is_lost)
        json_object_set_new(object, "lost", json_true());
    if (is_read(function, FACET_PCI_BOOT_VGA))
        json_object_set_new(object, "boot_vga", json_boolean(function->boot_vga));
}

static json_t *link_json(const struct facet_pci_link *link)
{
    return json_pack("{s:I, s:I}", "speed_mts", (json_int_t)link->speed_mts, "width", (json_int_t)link->width);
}

static json_t *bar_json(const struct facet_pci_bar *bar, uint32_t index)
{
    json_t *object =
        json_pack("{s:i, s:I, s:b, s:b, s:b}", "bar", (int)index, "bytes", (json_int_t)facet_integer(bar->bytes),
                  "memory", (int)bar->is_memory, "wide", (int)bar->is_64bit, "prefetchable", (int)bar->is_prefetchable);
    json_t *sizes = bar->sizes ? json_array() : NULL;

    for (uint32_t i = 0; sizes && i < 43; i++) /* bit i is 2^i MiB; 2^43 MiB would not fit into json_int_t */
        if (bar->sizes >> i & 1)
            json_array_append_new(sizes, json_integer((json_int_t)1 << (20 + i)));
    if (sizes)
        json_object_set_new(object, "possible_bytes", sizes);
    return object;
}

/* The access control services that are switched on; absent where there are none. */
static void add_acs(json_t *object, uint32_t acs)
{
    static const char *const names[] = {"source_validation",   "translation_blocking", "request_redirect",
                                        "completion_redirect", "upstream_forwarding",  "egress_control",
                                        "direct_translated"};
    json_t *array = json_array();

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (acs >> i & 1)
            json_array_append_new(array, json_string(names[i]));
    if (acs & FACET_PCI_ACS_PRESENT)
        json_object_set(object, "acs", array);
    json_decref(array);
}

static void add_hardware(json_t *object, const struct facet_pci_function *function)
{
    json_t *bars = json_array(), *resets = json_array();

    if (function->link_maximum.width)
        json_object_set_new(object, "link_maximum", link_json(&function->link_maximum));
    if (is_read(function, FACET_PCI_LINK) && function->link.width)
        json_object_set_new(object, "link", link_json(&function->link));
    for (uint32_t i = 0; i < FACET_PCI_BARS_COUNT; i++)
        if (function->bars[i].bytes)
            json_array_append_new(bars, bar_json(&function->bars[i], i));
    for (uint32_t i = 0; i < FACET_PCI_RESETS; i++)
        if (function->reset_methods & UINT32_C(1) << i)
            json_array_append_new(resets, json_string(facet_pci_reset_name(UINT32_C(1) << i)));
    if (is_read(function, FACET_PCI_BARS))
        json_object_set(object, "bars", bars);
    if (is_read(function, FACET_PCI_RESET))
        json_object_set(object, "reset_methods", resets);
    json_decref(bars);
    json_decref(resets);
    if (is_read(function, FACET_PCI_CONFIG))
        add_acs(object, function->acs);
    if (function->bridge_count)
        json_object_set_new(object, "bridges", addresses_json(function->bridges, function->bridge_count));
    if (is_read(function, FACET_PCI_AER))
        json_object_set_new(object, "errors",
                            json_pack("{s:I, s:I, s:I}", "correctable",
                                      (json_int_t)facet_integer(function->aer.correctable), "nonfatal",
                                      (json_int_t)facet_integer(function->aer.nonfatal), "fatal",
                                      (json_int_t)facet_integer(function->aer.fatal)));
}

static json_t *type_json(const struct facet_pci_type *type)
{
    json_t *object = json_pack("{s:o, s:I, s:s}", "id", text_json(type->id), "available", (json_int_t)type->available,
                               "made_as", type->is_vendor ? "vendor" : "mdev");

    set_text(object, "name", type->name);
    set_text(object, "api", type->api);
    if (type->current)
        json_object_set_new(object, "current", json_true());
    return object;
}

static void add_virtual(json_t *object, const struct facet_pci_function *function)
{
    json_t *types = function->type_count ? json_array() : NULL;

    if (is_read(function, FACET_PCI_SRIOV))
        json_object_set_new(object, "sriov",
                            json_pack("{s:I, s:I, s:o}", "total", (json_int_t)function->sriov_total, "count",
                                      (json_int_t)function->sriov_count, "functions",
                                      addresses_json(function->virtuals, function->virtual_count)));
    if (function->is_virtual)
        json_object_set_new(object, "physical", address_json(&function->physical));
    for (size_t i = 0; types && i < function->type_count; i++)
        json_array_append_new(types, type_json(&function->types[i]));
    if (types)
        json_object_set_new(object, "types", types);
}

static void add_users(json_t *object, const struct facet_pci_function *function)
{
    json_t *holders = json_array(), *uses = json_array();

    for (size_t i = 0; i < function->holder_count; i++)
        json_array_append_new(holders,
                              json_pack("{s:I, s:o, s:s}", "pid", (json_int_t)function->holders[i].pid, "command",
                                        text_json(function->holders[i].command), "node", function->holders[i].node));
    for (size_t i = 0; i < function->use_count; i++)
        json_array_append_new(
            uses, json_pack("{s:s, s:o, s:o}", "kind", function->uses[i].is_network ? "network" : "disk", "name",
                            text_json(function->uses[i].name), "place", text_json(function->uses[i].place)));
    if (is_read(function, FACET_PCI_HOLDERS) || function->holder_count)
        json_object_set(object, "holders", holders);
    if (function->use_count)
        json_object_set(object, "uses", uses);
    json_decref(holders);
    json_decref(uses);
}

/* Lists the attributes whose files exist and could not be read. */
static void add_unread(json_t *object, const struct facet_pci_function *function)
{
    json_t *unread = json_object();

    for (uint32_t i = 0; i < FACET_PCI_ATTRIBUTES; i++)
        if (function->unread[i] != FACET_PCI_READ && function->unread[i] != FACET_PCI_UNREAD_ABSENT)
            json_object_set_new(unread, facet_pci_attribute_name(i),
                                json_string(facet_pci_unread_name(function->unread[i])));
    if (json_object_size(unread))
        json_object_set(object, "unread", unread);
    json_decref(unread);
}

json_t *pci_function_json(const struct facet_pci_function *function)
{
    json_t *object = json_object();

    add_identity(object, function);
    add_drivers(object, function);
    add_hardware(object, function);
    add_virtual(object, function);
    add_users(object, function);
    add_unread(object, function);
    return object;
}

/* ---- the host ---- */

static void set_known(json_t *object, const char *name, uint32_t known)
{
    if (known != FACET_PCI_UNKNOWN)
        json_object_set_new(object, name, json_boolean(known == FACET_PCI_YES));
}

json_t *pci_host_json(const struct facet_pci_host *host)
{
    json_t *object = json_object();

    set_number(object, "iommus", host->iommus);
    set_known(object, "iommu_off", host->iommu_off);
    set_known(object, "interrupt_remapping", host->interrupt_remapping);
    set_known(object, "unsafe_interrupts", host->unsafe_interrupts);
    set_known(object, "acs_override", host->acs_override);
    set_known(object, "vfio_pci", host->has_vfio_pci);
    set_known(object, "iommufd", host->has_iommufd);
    set_known(object, "noiommu", host->has_noiommu);
    set_known(object, "disable_idle_d3", host->disable_idle_d3);
    if (host->dma_entries)
        set_number(object, "dma_entries", host->dma_entries);
    if (host->memory_bytes)
        set_number(object, "memory_bytes", host->memory_bytes);
    return object;
}

json_t *pci_platforms_json(const struct facet_pci_host *host)
{
    json_t *array = json_array();

    for (size_t i = 0; i < host->platform_count; i++) {
        json_t *object = json_object();

        set_text(object, "name", host->platforms[i].name);
        set_text(object, "device", host->platforms[i].device);
        set_text(object, "driver", host->platforms[i].driver);
        json_array_append_new(array, object);
    }
    return array;
}

/* ---- verdicts ---- */

static json_t *reason_json(const struct facet_passthrough_reason *reason)
{
    static const char *const weights[] = {"stop", "unmeasured", "warning"};

    return json_pack("{s:s, s:s, s:o, s:o, s:s}", "reason", facet_passthrough_reason_name(reason->code), "weight",
                     weights[reason->weight], "address", address_json(&reason->address), "text",
                     text_json(reason->text), "advice", facet_passthrough_reason_advice(reason->code));
}

json_t *pci_judgement_json(const struct facet_passthrough_verdict *verdict)
{
    json_t *reasons = json_array();

    for (size_t i = 0; i < verdict->reason_count; i++)
        json_array_append_new(reasons, reason_json(&verdict->reasons[i]));
    return json_pack("{s:s, s:o, s:o}", "answer", facet_passthrough_answer_name(verdict->answer), "functions",
                     addresses_json(verdict->functions, verdict->function_count), "reasons", reasons);
}

json_t *pci_verdict_json(const struct facet_pci_snapshot *snapshot, const struct facet_pci_function *function)
{
    struct facet_passthrough_verdict *verdict = NULL;
    struct facet_passthrough_wish wish = {
        .size = sizeof wish, .flags = FACET_PASSTHROUGH_WHOLE_GROUP, .functions = &function->address, .count = 1};

    if (facet_passthrough_judge(snapshot, &wish, &verdict, NULL))
        return NULL;
    json_t *object = pci_judgement_json(verdict);
    facet_passthrough_verdict_destroy(verdict);
    return object;
}
