/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the operations on devices: description, health, topology.
 * Never: fails a query for the health of a lost device: FACET_HEALTH_FAILED is the answer.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "events.h"
#include "instance.h"
#include "provider_kit.h"

static enum facet_status device_list(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                     uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    const struct sim_machine *machine;
    struct facet_device_info *infos;
    enum facet_status status;

    if (!instance || !ret_count)
        return sim_refuse_null(instance ? "ret_count" : "instance", error);
    machine = instance->machine; /* does not change: no lock */
    infos = calloc(machine->device_count + 1, sizeof *infos);
    if (!infos)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a list of devices");
    for (uint32_t i = 0; i < machine->device_count; i++)
        infos[i] = machine->devices[i].info;
    status = facet_kit_list(infos, machine->device_count, items, item_size, capacity, ret_count, error);
    free(infos);
    return status;
}

static enum facet_status device_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                       struct facet_error *error)
{
    enum facet_status status;

    if (!instance || !ret_health)
        return sim_refuse_null(instance ? "ret_health" : "instance", error);
    SIM_LOCK(instance);
    status = sim_begin(instance, device, "device.health", error);
    if (status != FACET_OK && status != FACET_DEVICE_LOST)
        return status;
    *ret_health = sim_fault_health(instance, device);
    return FACET_OK;
}

static enum facet_status device_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                           uint32_t capacity, uint32_t *ret_size, struct facet_error *error)
{
    enum facet_status status;

    if (!instance || !ret_size)
        return sim_refuse_null(instance ? "ret_size" : "instance", error);
    SIM_LOCK(instance);
    status = sim_begin(instance, device, "device.properties", error);
    if (status != FACET_OK)
        return status;
    return facet_kit_text_out(instance->machine->devices[device].product->properties, text, capacity, ret_size, error);
}

static enum facet_status device_nodes(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                      uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    if (!instance || !ret_count)
        return sim_refuse_null(instance ? "ret_count" : "instance", error);
    return facet_kit_list_items(instance->machine->nodes, sizeof *instance->machine->nodes,
                                instance->machine->node_count, items, item_size, capacity, ret_count, error);
}

/* A link is down by a fault of its own, or because a device at its end is lost. */
static bool is_link_up(const struct facet_provider_instance *instance, uint32_t link)
{
    const struct sim_machine *machine = instance->machine;

    for (uint32_t device = 0; device < machine->device_count; device++)
        if (sim_link_touches(&machine->links[link], device) && sim_fault_lost(instance, device))
            return false;
    return !sim_fault_link_down(instance, link);
}

static enum facet_status device_links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                      uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    const struct sim_machine *machine;
    struct facet_topology_link *links;
    enum facet_status status;

    if (!instance || !ret_count)
        return sim_refuse_null(instance ? "ret_count" : "instance", error);
    SIM_LOCK(instance);
    sim_faults_apply(instance);
    machine = instance->machine;
    links = calloc(machine->link_count + 1, sizeof *links);
    if (!links)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a list of links");
    for (uint32_t i = 0; i < machine->link_count; i++) {
        links[i] = machine->links[i];
        links[i].up = is_link_up(instance, i);
    }
    status =
        facet_kit_list_items(links, sizeof *links, machine->link_count, items, item_size, capacity, ret_count, error);
    free(links);
    return status;
}

const struct facet_device_ops sim_device_ops = {
    .size = sizeof sim_device_ops,
    .open = sim_open,
    .close = sim_close,
    .list = device_list,
    .health = device_health,
    .properties = device_properties,
    .nodes = device_nodes,
    .links = device_links,
    .events = sim_events,
};
