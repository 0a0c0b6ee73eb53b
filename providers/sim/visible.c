/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: FACET_SIM_VISIBLE_DEVICES: which devices of the profile this process sees. They keep the profile's order.
 * Never: hides devices from the state: records of hidden devices are kept for the processes that see them.
 *
 * Hidden devices stay in the array after the visible ones, and device_count leaves them out. So a partition or limit of
 * a hidden device has an index that no operation accepts.
 */
#include <stdlib.h>
#include <string.h>

#include "provider_kit.h"
#include "state.h"

#define SEPARATOR ','

bool sim_visible_lists_uuid(const struct sim_machine *machine, const char *uuid)
{
    size_t length = strlen(uuid);

    for (const char *at = machine->visible; length > 0 && at; at = strchr(at, SEPARATOR)) {
        at += *at == SEPARATOR;
        if (strncmp(at, uuid, length) == 0 && (at[length] == SEPARATOR || at[length] == '\0'))
            return true;
    }
    return false;
}

static bool is_device(const struct sim_machine *machine, const char *uuid, size_t length)
{
    for (uint32_t i = 0; i < machine->device_total; i++)
        if (strlen(machine->devices[i].info.uuid) == length && memcmp(machine->devices[i].info.uuid, uuid, length) == 0)
            return true;
    return false;
}

static bool is_partition(const struct sim_record *record, const char *uuid, size_t length)
{
    for (uint32_t i = 0; i < record->partition_count; i++)
        if (strlen(record->partitions[i].uuid) == length && memcmp(record->partitions[i].uuid, uuid, length) == 0)
            return true;
    return false;
}

/* An unknown name is refused: a misspelt one would silently hide a device. */
static enum facet_status check_names(const struct sim_machine *machine, const struct sim_record *record,
                                     struct facet_error *error)
{
    for (const char *at = machine->visible;; at++) {
        size_t length = strcspn(at, ",");

        if (!is_device(machine, at, length) && !is_partition(record, at, length))
            return facet_kit_fail(error, FACET_NOT_FOUND,
                                  "FACET_SIM_VISIBLE_DEVICES \"%.*s\": expected the uuid of a device or a partition",
                                  (int)(length < 100 ? length : 100), at);
        at += length;
        if (!*at)
            return FACET_OK;
    }
}

/* Whether a device is visible: whole, or only some partitions of it, which marks it as partial. */
static bool mark_visible(struct sim_machine *machine, const struct sim_record *record, struct sim_device *device)
{
    if (sim_visible_lists_uuid(machine, device->info.uuid))
        return true;
    for (uint32_t i = 0; i < record->partition_count; i++)
        if (record->partitions[i].device == device->number &&
            sim_visible_lists_uuid(machine, record->partitions[i].uuid))
            device->partial = true;
    return device->partial;
}

/* Moves hidden devices behind the visible ones; both keep their order. False: no memory. */
static bool move_hidden_devices_last(struct sim_machine *machine, const struct sim_record *record)
{
    struct sim_device *hidden = calloc(machine->device_total, sizeof *hidden);
    uint32_t visible_count = 0, hidden_count = 0;

    if (!hidden)
        return false;
    for (uint32_t i = 0; i < machine->device_total; i++) {
        struct sim_device device = machine->devices[i];

        if (!mark_visible(machine, record, &device)) {
            hidden[hidden_count++] = device;
            continue;
        }
        device.info.index = visible_count;
        machine->devices[visible_count++] = device;
    }
    memcpy(&machine->devices[visible_count], hidden, hidden_count * sizeof *hidden);
    free(hidden);
    machine->device_count = visible_count;
    return true;
}

/* The present place of a node of the profile; UINT32_MAX: it is hidden. */
static uint32_t node_place(const struct sim_machine *machine, uint32_t node)
{
    uint32_t place;

    if (node >= machine->device_total)
        return node - (machine->device_total - machine->device_count);
    place = sim_machine_index(machine, node);
    return place < machine->device_count ? place : UINT32_MAX;
}

/* Removes the nodes of hidden devices. Nodes keep their order, so each moves down or stays. */
static void remove_hidden_nodes(struct sim_machine *machine)
{
    uint32_t nodes = 0, links = 0;

    for (uint32_t i = 0; i < machine->node_count; i++) {
        if (node_place(machine, i) == UINT32_MAX)
            continue;
        machine->nodes[nodes] = machine->nodes[i];
        machine->nodes[nodes].index = nodes;
        if (i < machine->device_total)
            machine->nodes[nodes].device = nodes;
        nodes++;
    }
    for (uint32_t i = 0; i < machine->link_count; i++) {
        struct facet_topology_link link = machine->links[i];

        link.a = node_place(machine, link.a);
        link.b = node_place(machine, link.b);
        if (link.a != UINT32_MAX && link.b != UINT32_MAX)
            machine->links[links++] = link;
    }
    machine->node_count = nodes;
    machine->link_count = links;
}

enum facet_status sim_visible_apply(struct sim_machine *machine, const struct sim_state *state, const char *setting,
                                    struct facet_error *error)
{
    struct sim_record record = {0};
    enum facet_status status;

    if (!setting || !*setting || machine->device_total == 0)
        return FACET_OK;
    machine->visible = strdup(setting);
    if (!machine->visible)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for FACET_SIM_VISIBLE_DEVICES");
    status = sim_state_peek(state, machine, &record, error);
    if (status != FACET_OK)
        return status;
    status = check_names(machine, &record, error);
    if (status == FACET_OK && !move_hidden_devices_last(machine, &record))
        status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for FACET_SIM_VISIBLE_DEVICES");
    if (status == FACET_OK)
        remove_hidden_nodes(machine);
    sim_record_clear(&record);
    return status;
}
