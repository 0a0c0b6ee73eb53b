/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: doing one step, and verifying its effect. Never: trusts that an accepted write worked, or that a refused write
 * had no effect.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "passthrough/bind/manager.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

enum { WRITE_SECONDS = 10, SLOW_SECONDS = 60 };

/* ---- reading ---- */

static bool is_there(const struct bind_run *run, const struct facet_pci_address *address)
{
    char text[FACET_PCI_ADDRESS_SIZE], path[80];

    facet_pci_address_print(address, text);
    snprintf(path, sizeof path, BIND_DEVICES "/%s", text);
    return tree_exists(run->manager->host.root, path);
}

static bool has_driver(const struct bind_run *run, const struct facet_pci_address *address, const char *driver)
{
    char text[FACET_PCI_ADDRESS_SIZE], path[80], name[64];

    facet_pci_address_print(address, text);
    snprintf(path, sizeof path, BIND_DEVICES "/%s", text);
    FACET_CLEANUP_FD int directory = tree_open_directory(run->manager->host.root, path);
    if (directory < 0)
        return false;
    enum facet_pci_unread unread = tree_read_link_name(directory, "driver", name, sizeof name);
    return unread == FACET_PCI_READ ? strcmp(name, driver) == 0 : unread == FACET_PCI_UNREAD_ABSENT && !driver[0];
}

/* Reads an override through scan_override(), because the kernel may block its reader. */
static bool has_step_value(const struct bind_run *run, const struct facet_passthrough_step *step)
{
    int root = run->manager->host.root;
    const char *value = step->value;
    char text[80];
    enum facet_pci_unread unread = step->kind == FACET_PASSTHROUGH_STEP_OVERRIDE
                                       ? scan_override(root, &step->address, text, sizeof text)
                                       : tree_read_text(root, step->path, text, sizeof text);

    if (unread != FACET_PCI_READ)
        return false;
    return strcmp(text, value) == 0 || (!value[0] && strcmp(text, "(null)") == 0);
}

static bool has_loaded(const struct bind_run *run, const char *driver)
{
    char path[128];

    snprintf(path, sizeof path, BIND_DRIVERS "/%s", driver);
    return tree_exists(run->manager->host.root, path);
}

static bool is_reached(const struct bind_run *run, const struct facet_passthrough_step *step, const char *driver)
{
    switch (step->kind) {
    case FACET_PASSTHROUGH_STEP_LOAD:
        return has_loaded(run, step->value);
    case FACET_PASSTHROUGH_STEP_OVERRIDE:
    case FACET_PASSTHROUGH_STEP_POWER:
        return has_step_value(run, step);
    case FACET_PASSTHROUGH_STEP_UNBIND:
        return has_driver(run, &step->address, "");
    case FACET_PASSTHROUGH_STEP_PROBE:
    case FACET_PASSTHROUGH_STEP_ATTACH:
        return has_driver(run, &step->address, driver);
    default:
        return true;
    }
}

/* ---- doing ---- */

static uint64_t deadline_of(const struct bind_run *run, const struct facet_passthrough_step *step)
{
    bool is_quick = step->kind == FACET_PASSTHROUGH_STEP_OVERRIDE || step->kind == FACET_PASSTHROUGH_STEP_POWER;

    if (run->manager->config.write_deadline_ns)
        return run->manager->config.write_deadline_ns;
    return (is_quick ? WRITE_SECONDS : SLOW_SECONDS) * FACET_NS_PER_S;
}

/* Gives a node to the owner. A node that this kernel does not make is skipped; check_nodes() requires at least one. */
static int give_node(struct bind_run *run, const struct facet_passthrough_step *step)
{
    struct bind_host *host = &run->manager->host;
    unsigned uid = 0, gid = 0;
    char path[sizeof step->path];
    size_t length = strlen(step->path);

    snprintf(path, sizeof path, "%s", step->path);
    if (length > 9 && strcmp(path + length - 9, "/vfio-dev") == 0)
        bind_device_node(host, &step->address, path, sizeof path);
    if (!path[0] || !tree_exists(host->root, path))
        return 0;
    if (sscanf(step->value, "%u:%u", &uid, &gid) != 2)
        return EINVAL;
    int errnum = host->ops->set_owner(host, path, uid, gid);
    if (errnum == ENOENT)
        return 0;
    run->nodes_given += errnum == 0;
    return errnum;
}

static int perform_step(struct bind_run *run, const struct facet_passthrough_step *step, struct bind_stuck *ret_stuck)
{
    struct bind_host *host = &run->manager->host;

    switch (step->kind) {
    case FACET_PASSTHROUGH_STEP_LOAD:
        return host->ops->load(host, step->value, deadline_of(run, step), ret_stuck);
    case FACET_PASSTHROUGH_STEP_RIGHTS:
        return give_node(run, step);
    default:
        return host->ops->write(host, step->path, step->value[0] ? step->value : "\n", deadline_of(run, step),
                                ret_stuck);
    }
}

/* ---- error texts ---- */

static void describe_step(const struct facet_passthrough_step *step, char *text, size_t size)
{
    char address[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(&step->address, address);
    if (step->kind == FACET_PASSTHROUGH_STEP_LOAD)
        snprintf(text, size, "%s: loading the module %s", address, step->value);
    else if (step->kind == FACET_PASSTHROUGH_STEP_RIGHTS)
        snprintf(text, size, "%s: giving %s to %s", address, step->path, step->value);
    else
        snprintf(text, size, "%s: writing \"%s\" to %s", address, step->value, step->path);
}

static enum facet_status refuse_stuck(struct bind_run *run, const struct facet_passthrough_step *step, const char *what,
                                      const struct bind_stuck *stuck, struct facet_error *error)
{
    struct journal_function *function = journal_find(run->journal, &step->address);

    if (function && step->kind != FACET_PASSTHROUGH_STEP_LOAD)
        function->stuck = *stuck;
    bind_note(run->report, FACET_PASSTHROUGH_NOTE_STUCK, &step->address,
              "%s has not returned; process %lld remains, and waits for it%s", what, (long long)stuck->pid,
              step->kind == FACET_PASSTHROUGH_STEP_LOAD ? "" : "; the group stays locked until that process ends");
    return facet_error_set(error, FACET_TIMEOUT,
                           "%s has not returned: the kernel waits until no process uses the device", what);
}

static enum facet_status refuse_step(struct bind_run *run, const struct facet_passthrough_step *step, const char *what,
                                     int errnum, const char *driver, struct facet_error *error)
{
    if (!is_there(run, &step->address))
        return facet_error_set(error, FACET_DEVICE_LOST, "%s: the device vanished", what);
    if (errnum == EPIPE)
        return facet_error_set(error, FACET_INTERNAL, "%s: the process for this step ended without an answer", what);
    if (errnum)
        return facet_error_errno(error, errnum, "%s", what);
    if (step->kind == FACET_PASSTHROUGH_STEP_LOAD)
        return facet_error_set(error, FACET_NOT_FOUND, "%s: there is no driver of that name afterwards", what);
    if (step->kind == FACET_PASSTHROUGH_STEP_PROBE || step->kind == FACET_PASSTHROUGH_STEP_ATTACH)
        return facet_error_set(error, FACET_IO, "%s: %s did not take it; the kernel's log says why", what, driver);
    return facet_error_set(error, FACET_IO, "%s was taken, but changed nothing", what);
}

enum facet_status bind_step(struct bind_run *run, const struct facet_passthrough_step *step, const char *driver,
                            struct facet_error *error)
{
    struct bind_stuck stuck = {.pid = 0};
    char what[300];

    describe_step(step, what, sizeof what);
    bind_progress(run->manager, "%s", what);
    int errnum = perform_step(run, step, &stuck);
    if (stuck.pid)
        return refuse_stuck(run, step, what, &stuck, error);
    if (errnum && (step->kind == FACET_PASSTHROUGH_STEP_RESET || step->kind == FACET_PASSTHROUGH_STEP_RIGHTS))
        return refuse_step(run, step, what, errnum, driver, error);
    return is_reached(run, step, driver) ? FACET_OK : refuse_step(run, step, what, errnum, driver, error);
}
