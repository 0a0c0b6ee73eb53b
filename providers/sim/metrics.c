/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table `metrics`: readings of the modelled load, each field with its bit.
 * Never: returns a field that is not modelled, or that is unknown because it is another process's. Encoders, decoders
 * and link errors have no bit, and a device's load has no bit while another process has a context on the device.
 *
 * Shares cover the time since the previous reading. A reading at the same moment repeats the previous reading; before
 * any time has passed there is no share, and no bit.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "machine.h"
#include "state.h"

#define PJ_PER_MJ UINT64_C(1000000000)

/* Reads the use by other processes again. */
static enum facet_status refresh_use(struct facet_provider_instance *instance, struct facet_error *error)
{
    struct sim_record *record;
    enum facet_status status = sim_state_begin(instance, &record, error);

    return status == FACET_OK ? sim_state_end(instance, FACET_OK, error) : status;
}

/* --- device --- */

/* The shares since the last reading. */
static void read_shares(const struct sim_model *model, struct sim_load *load)
{
    struct sim_integrals *now = &load->now, *read = &load->read;
    uint64_t units = model->compute_units ? model->compute_units : 1;
    uint64_t elapsed = now->at_ns - read->at_ns;

    if (elapsed == 0)
        return;
    now->compute_milli = (uint32_t)((sim_wide)(now->unit_ns - read->unit_ns) * 1000 / elapsed / units);
    now->tensor_milli = (uint32_t)((now->tensor_ns - read->tensor_ns) / elapsed / units);
    now->memory_milli = (uint32_t)((now->memory_ns - read->memory_ns) / elapsed);
    *read = *now;
    load->was_read = true;
}

/* Whether another process uses the device, whose load is unknown here. */
static bool is_shared(const struct facet_provider_instance *instance, uint32_t device)
{
    const struct sim_others *others = sim_others(instance);

    for (size_t i = 0; i < others->count; i++)
        if (others->items[i].contexts > 0 && others->items[i].device == device)
            return true;
    return false;
}

static void fill_load(const struct sim_load *load, struct facet_device_metrics *ret_metrics)
{
    ret_metrics->valid |= FACET_METRIC_POWER | FACET_METRIC_ENERGY | FACET_METRIC_TEMPERATURE | FACET_METRIC_CLOCK |
                          FACET_METRIC_PCIE_RX | FACET_METRIC_PCIE_TX | FACET_METRIC_BUSY | FACET_METRIC_THROTTLE;
    ret_metrics->power_mw = load->power_mw;
    ret_metrics->energy_mj = (uint64_t)(load->energy_pj / PJ_PER_MJ);
    ret_metrics->temperature_mc = (int32_t)(load->temperature_uc / 1000);
    ret_metrics->clock_mhz = load->clock_mhz;
    ret_metrics->pcie_rx_bytes = load->rx_bytes;
    ret_metrics->pcie_tx_bytes = load->tx_bytes;
    ret_metrics->busy_ns = load->busy_ns;
    ret_metrics->throttle = load->throttle;
    if (!load->was_read)
        return;
    ret_metrics->valid |= FACET_METRIC_COMPUTE_ACTIVE | FACET_METRIC_TENSOR_ACTIVE | FACET_METRIC_MEMORY_ACTIVE;
    ret_metrics->compute_active_milli = load->read.compute_milli;
    ret_metrics->tensor_active_milli = load->read.tensor_milli;
    ret_metrics->memory_active_milli = load->read.memory_milli;
}

/* Memory and faults are those of all processes; load is that of this process. */
static void fill_device(struct facet_provider_instance *instance, uint32_t device,
                        struct facet_device_metrics *ret_metrics)
{
    struct sim_load *load = &instance->engine->loads[device];

    read_shares(sim_device_model(instance, device), load);
    *ret_metrics = (struct facet_device_metrics){
        .size = sizeof *ret_metrics,
        .device = device,
        .valid = FACET_METRIC_MEMORY_USED | FACET_METRIC_ECC_CORRECTED | FACET_METRIC_ECC_UNCORRECTED,
        .timestamp_ns = facet_kit_now_ns(),
        .memory_used_bytes = sim_engine_use(instance, device, "", "").device,
    };
    sim_fault_ecc(instance, device, &ret_metrics->ecc_corrected, &ret_metrics->ecc_uncorrected);
    if (!is_shared(instance, device))
        fill_load(load, ret_metrics);
}

static enum facet_status metrics_device(struct facet_provider_instance *instance, uint32_t device,
                                        struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    struct facet_device_metrics metrics;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(ret_metrics, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_engine_begin(instance, "metrics.device", device, error);
    if (status == FACET_OK)
        status = refresh_use(instance, error);
    if (status != FACET_OK)
        return status;
    fill_device(instance, device, &metrics);
    return facet_kit_struct(&metrics, sizeof metrics, ret_metrics, error);
}

/* --- processes: one item for each process, worker and partition; of other processes only memory is known --- */

static void read_account(const struct sim_model *model, const struct sim_load *load, struct sim_account *account)
{
    uint64_t units = model->compute_units ? model->compute_units : 1;
    uint64_t elapsed = load->at_ns - account->read_at_ns;

    if (elapsed == 0)
        return;
    account->compute_milli = (uint32_t)((sim_wide)(account->unit_ns - account->read_unit_ns) * 1000 / elapsed / units);
    account->read_at_ns = load->at_ns;
    account->read_unit_ns = account->unit_ns;
    account->was_read = true;
}

static void fill_process(const struct sim_account *account, struct facet_process_metrics *ret_process)
{
    *ret_process = (struct facet_process_metrics){
        .size = sizeof *ret_process,
        .device = account->device,
        .pid = (int32_t)getpid(),
        .valid =
            FACET_PROCESS_HAS_MEMORY | FACET_PROCESS_HAS_RESERVED | FACET_PROCESS_HAS_BUSY | FACET_PROCESS_HAS_UNITS,
        .timestamp_ns = facet_kit_now_ns(),
        .memory_used_bytes = account->usage->used_bytes,
        .memory_reserved_bytes = account->usage->reserved_bytes,
        .busy_ns = account->busy_ns,
        .units_active = account->units_active,
    };
    if (account->was_read) {
        ret_process->valid |= FACET_PROCESS_HAS_COMPUTE;
        ret_process->compute_milli = account->compute_milli;
    }
    FACET_KIT_TEXT(ret_process->worker, account->worker);
    FACET_KIT_TEXT(ret_process->partition_uuid, account->partition_uuid);
}

static void fill_other(const struct sim_other *other, struct facet_process_metrics *ret_process)
{
    *ret_process = (struct facet_process_metrics){
        .size = sizeof *ret_process,
        .device = other->device,
        .pid = other->pid,
        .valid = FACET_PROCESS_HAS_MEMORY | FACET_PROCESS_HAS_RESERVED,
        .timestamp_ns = facet_kit_now_ns(),
        .memory_used_bytes = other->used_bytes,
        .memory_reserved_bytes = other->reserved_bytes,
    };
    FACET_KIT_TEXT(ret_process->worker, other->worker);
    FACET_KIT_TEXT(ret_process->partition_uuid, other->partition_uuid);
}

static enum facet_status list_processes(struct facet_provider_instance *instance, uint32_t device, uint32_t count,
                                        void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                        struct facet_error *error)
{
    struct facet_process_metrics *processes = calloc(count ? count : 1, sizeof *processes);
    struct sim_account *account;
    uint32_t filled = 0;

    if (!processes)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " processes", count);
    LIST_FOREACH (account, &instance->engine->accounts, link) {
        if (account->device != device)
            continue;
        if (capacity >= count) /* a query for the count is not a reading */
            read_account(sim_device_model(instance, device), &instance->engine->loads[device], account);
        fill_process(account, &processes[filled++]);
    }
    for (size_t i = 0; i < sim_others(instance)->count; i++)
        if (sim_others(instance)->items[i].device == device)
            fill_other(&sim_others(instance)->items[i], &processes[filled++]);
    enum facet_status status =
        facet_kit_list_items(processes, sizeof *processes, count, items, item_size, capacity, ret_count, error);
    free(processes);
    return status;
}

static enum facet_status metrics_processes(struct facet_provider_instance *instance, uint32_t device, void *items,
                                           uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                           struct facet_error *error)
{
    const struct sim_account *account;
    uint32_t count = 0;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_engine_begin(instance, "metrics.processes", device, error);
    if (status == FACET_OK)
        status = refresh_use(instance, error);
    if (status != FACET_OK)
        return status;
    LIST_FOREACH (account, &instance->engine->accounts, link)
        count += account->device == device;
    for (size_t i = 0; i < sim_others(instance)->count; i++)
        count += sim_others(instance)->items[i].device == device;
    return list_processes(instance, device, count, items, item_size, capacity, ret_count, error);
}

/* --- links: host copies take the device's link to the host; no other traffic is modelled --- */

/* The link that a device's host copies take: the nearest to a socket. UINT32_MAX: the profile has none. */
static uint32_t host_link(const struct sim_machine *machine, uint32_t device)
{
    uint32_t found = UINT32_MAX;

    for (uint32_t i = 0; i < machine->link_count; i++) {
        const struct facet_topology_link *link = &machine->links[i];
        uint32_t other = link->a == device ? link->b : link->a;

        if (!sim_link_touches(link, device) || machine->nodes[other].kind != FACET_NODE_SOCKET)
            continue;
        if (found == UINT32_MAX || link->level < machine->links[found].level)
            found = i;
    }
    return found;
}

static uint32_t fill_links(const struct facet_provider_instance *instance, uint32_t device,
                           struct facet_link_metrics *links)
{
    const struct sim_machine *machine = instance->machine;
    const struct sim_load *load = &instance->engine->loads[device];
    uint32_t host = host_link(machine, device), count = 0;

    for (uint32_t i = 0; i < machine->link_count; i++) {
        if (!sim_link_touches(&machine->links[i], device))
            continue;
        links[count++] = (struct facet_link_metrics){
            .size = sizeof *links,
            .link = i,
            .type = machine->links[i].type,
            .valid = FACET_LINK_METRIC_RX | FACET_LINK_METRIC_TX,
            .timestamp_ns = facet_kit_now_ns(),
            .rx_bytes = i == host ? load->rx_bytes : 0,
            .tx_bytes = i == host ? load->tx_bytes : 0,
        };
    }
    return count;
}

static enum facet_status metrics_links(struct facet_provider_instance *instance, uint32_t device, void *items,
                                       uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                       struct facet_error *error)
{
    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_engine_begin(instance, "metrics.links", device, error);
    if (status != FACET_OK)
        return status;
    struct facet_link_metrics *links = calloc((size_t)instance->machine->link_count + 1, sizeof *links);
    if (!links)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " links", instance->machine->link_count);
    uint32_t count = fill_links(instance, device, links);
    status = facet_kit_list_items(links, sizeof *links, count, items, item_size, capacity, ret_count, error);
    free(links);
    return status;
}

const struct facet_metrics_ops sim_metrics_ops = {
    .size = sizeof sim_metrics_ops,
    .device = metrics_device,
    .processes = metrics_processes,
    .links = metrics_links,
};
