/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the present place of a function, whether it can be determined, and the steps that lead from one place to
 * another. Never: carries a step out.
 */
#include <stdio.h>
#include <string.h>

#include "passthrough/bind/manager.h"
#include "passthrough/scan/tree.h"
#include "passthrough/stuck.h"

void bind_fill_identity(const struct facet_pci_function *function, struct facet_passthrough_identity *identity)
{
    *identity = (struct facet_passthrough_identity){
        .address = function->address,
        .vendor = function->vendor,
        .device = function->device,
        .subsystem_vendor = function->subsystem_vendor,
        .subsystem_device = function->subsystem_device,
        .group = function->group,
    };
    snprintf(identity->serial, sizeof identity->serial, "%s", function->serial);
    snprintf(identity->slot, sizeof identity->slot, "%s", function->slot);
}

const struct facet_pci_function *bind_find(const struct facet_pci_snapshot *snapshot,
                                           const struct facet_passthrough_identity *identity, bool *ret_is_same)
{
    const struct facet_pci_function *found = facet_pci_snapshot_find(snapshot, &identity->address);

    *ret_is_same = found && found->vendor == identity->vendor && found->device == identity->device &&
                   found->subsystem_vendor == identity->subsystem_vendor &&
                   found->subsystem_device == identity->subsystem_device;
    return found;
}

/* ---- functions whose place cannot be determined ---- */

enum facet_status bind_check_stuck(const struct facet_pci_function *function, struct facet_error *error)
{
    char address[FACET_PCI_ADDRESS_SIZE], text[200];

    if (!stuck_is(function))
        return FACET_OK;
    facet_pci_address_print(&function->address, address);
    stuck_print(function, text, sizeof text);
    return facet_error_set(error, FACET_BUSY, "%s %s", address, text);
}

enum facet_status bind_scan_settled(struct bind_host *host, const struct journal *journal,
                                    struct facet_pci_snapshot **ret_snapshot, struct facet_error *error)
{
    struct facet_pci_snapshot *snapshot = NULL;
    enum facet_status status = host->ops->scan(host, &snapshot, error);
    bool is_same;

    for (size_t i = 0; !status && i < journal->count; i++) {
        const struct facet_pci_function *function = bind_find(snapshot, &journal->functions[i].identity, &is_same);

        if (is_same)
            status = bind_check_stuck(function, error);
    }
    if (status)
        facet_pci_snapshot_destroy(snapshot);
    else
        *ret_snapshot = snapshot;
    return status;
}

/* ---- the present place ---- */

void bind_group_node(int32_t group, char *path, size_t size)
{
    path[0] = '\0';
    if (group >= 0)
        snprintf(path, size, "/dev/vfio/%d", group);
}

static bool copy_first_name(void *context, char *name)
{
    snprintf(context, 20, "%.19s", name);
    return false;
}

void bind_device_node(const struct bind_host *host, const struct facet_pci_address *address, char *path, size_t size)
{
    char text[FACET_PCI_ADDRESS_SIZE], directory[80], name[20] = "";

    facet_pci_address_print(address, text);
    snprintf(directory, sizeof directory, BIND_DEVICES "/%s/vfio-dev", text);
    tree_each_name(host->root, directory, copy_first_name, name);
    path[0] = '\0';
    if (name[0] && journal_is_name(name))
        snprintf(path, size, "/dev/vfio/devices/%s", name);
    if (path[0] && !tree_exists(host->root, path))
        path[0] = '\0'; /* this kernel has the class in sysfs, but makes no nodes */
}

void bind_place(const struct bind_host *host, const struct facet_pci_function *function, struct journal_binding *place)
{
    char address[FACET_PCI_ADDRESS_SIZE], path[80];

    *place = (struct journal_binding){.driver = ""};
    snprintf(place->driver, sizeof place->driver, "%s", function->driver);
    snprintf(place->override, sizeof place->override, "%s", function->driver_override);
    facet_pci_address_print(&function->address, address);
    snprintf(path, sizeof path, BIND_DEVICES "/%s/power/control", address);
    tree_read_text(host->root, path, place->power, sizeof place->power);
    bind_group_node(function->group, path, sizeof path);
    if (path[0])
        bind_read_owner(host, path, place->rights, sizeof place->rights);
}

/* ---- steps from one place to another ---- */

static void begin_step(struct facet_passthrough_step *step, enum facet_passthrough_step_kind kind,
                       const struct facet_passthrough_identity *identity, const char *before)
{
    *step = (struct facet_passthrough_step){.kind = kind, .address = identity->address};
    snprintf(step->before, sizeof step->before, "%s", before);
}

static void set_attribute(struct facet_passthrough_step *step, const char *name, const char *value)
{
    char address[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(&step->address, address);
    snprintf(step->path, sizeof step->path, BIND_DEVICES "/%s/%s", address, name);
    snprintf(step->value, sizeof step->value, "%s", value);
}

/* The step writes to a named driver's file, so a driver that no longer has the function refuses. */
static void set_driver(struct facet_passthrough_step *step, const char *driver, const char *verb)
{
    char address[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(&step->address, address);
    snprintf(step->path, sizeof step->path, BIND_DRIVERS "/%s/%s", driver, verb);
    snprintf(step->value, sizeof step->value, "%s", address);
}

static size_t add_override(const struct facet_passthrough_identity *identity, const char *now, const char *target,
                           struct facet_passthrough_step *step)
{
    if (strcmp(now, target) == 0)
        return 0;
    begin_step(step, FACET_PASSTHROUGH_STEP_OVERRIDE, identity, now);
    set_attribute(step, "driver_override", target);
    return 1;
}

/* When the target has a driver and an override for another, the override would keep that driver from binding. So the
 * override first names the target's driver, and gets the target's value in the last step. */
size_t bind_driver_steps(const struct facet_passthrough_identity *identity, const struct journal_binding *now,
                         const struct journal_binding *target, struct facet_passthrough_step steps[BIND_DRIVER_STEPS])
{
    bool moves = strcmp(now->driver, target->driver) != 0;
    bool override_comes_last = moves && target->driver[0] && target->override[0];
    const char *override = override_comes_last ? target->driver : target->override;
    size_t count = add_override(identity, now->override, override, steps);

    if (moves && now->driver[0]) {
        begin_step(&steps[count], FACET_PASSTHROUGH_STEP_UNBIND, identity, now->driver);
        set_driver(&steps[count++], now->driver, "unbind");
    }
    if (!moves || !target->driver[0])
        return count;
    if (strcmp(override, target->driver) == 0) { /* the override lets no other driver match */
        begin_step(&steps[count], FACET_PASSTHROUGH_STEP_PROBE, identity, "");
        facet_pci_address_print(&identity->address, steps[count].value);
        snprintf(steps[count].path, sizeof steps[count].path, "/sys/bus/pci/drivers_probe");
    } else {
        begin_step(&steps[count], FACET_PASSTHROUGH_STEP_ATTACH, identity, "");
        set_driver(&steps[count], target->driver, "bind");
    }
    count++;
    return count + add_override(identity, override, target->override, &steps[count]);
}

bool bind_load_step(const struct bind_host *host, const struct facet_passthrough_identity *identity,
                    const struct journal_binding *now, const struct journal_binding *target,
                    struct facet_passthrough_step *ret_step)
{
    char path[80];

    snprintf(path, sizeof path, BIND_DRIVERS "/%s", target->driver);
    if (!target->driver[0] || strcmp(now->driver, target->driver) == 0 || tree_exists(host->root, path))
        return false;
    begin_step(ret_step, FACET_PASSTHROUGH_STEP_LOAD, identity, "");
    snprintf(ret_step->value, sizeof ret_step->value, "%s", target->driver);
    return true;
}

/*
 * Drivers set the power control when they get or lose a device (vfio-pci sets "auto"), so a step follows every move.
 */
bool bind_power_step(const struct facet_passthrough_identity *identity, const struct journal_binding *now,
                     const struct journal_binding *target, struct facet_passthrough_step *ret_step)
{
    bool moves = strcmp(now->driver, target->driver) != 0;

    if (!target->power[0] || !now->power[0] || (!moves && strcmp(now->power, target->power) == 0))
        return false;
    begin_step(ret_step, FACET_PASSTHROUGH_STEP_POWER, identity, now->power);
    set_attribute(ret_step, "power/control", target->power);
    return true;
}

bool bind_rights_step(const struct bind_host *host, const struct facet_passthrough_identity *identity,
                      const struct journal_binding *target, struct facet_passthrough_step *ret_step)
{
    char path[80], owner[24];

    bind_group_node(identity->group, path, sizeof path);
    if (!target->rights[0] || !path[0])
        return false;
    bind_read_owner(host, path, owner, sizeof owner);
    if (!owner[0] || strcmp(owner, target->rights) == 0)
        return false;
    begin_step(ret_step, FACET_PASSTHROUGH_STEP_RIGHTS, identity, owner);
    snprintf(ret_step->path, sizeof ret_step->path, "%s", path);
    snprintf(ret_step->value, sizeof ret_step->value, "%s", target->rights);
    return true;
}
