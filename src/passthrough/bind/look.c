/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of functions with their states, and the notes about groups of which the host's drivers have some
 * functions and vfio has others. Never: writes, or takes a lock: functions of a running transaction are reported in a
 * state of their own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passthrough/bind/manager.h"
#include "passthrough/driver.h"
#include "passthrough/scan/tree.h"
#include "passthrough/stuck.h"

struct looking {
    struct facet_passthrough *manager;
    struct facet_passthrough_report *report;
    const struct facet_pci_snapshot *snapshot;
    struct facet_passthrough_list *list;
    char boot[40];
    bool failed; /* no memory */
};

void facet_passthrough_list_destroy(struct facet_passthrough_list *list)
{
    if (!list)
        return;
    free(list->entries);
    free(list);
}

static struct facet_passthrough_entry *add_entry(struct looking *looking,
                                                 const struct facet_passthrough_identity *identity)
{
    void *array = looking->list->entries;
    struct facet_passthrough_entry *entry = tree_append(&array, &looking->list->count, sizeof *entry);

    looking->list->entries = array;
    looking->failed = looking->failed || !entry;
    if (entry)
        *entry = (struct facet_passthrough_entry){.identity = *identity};
    return entry;
}

/* ---- functions that exist ---- */

static bool is_open(const struct facet_pci_function *function)
{
    for (size_t i = 0; i < function->holder_count; i++)
        if (strncmp(function->holders[i].node, "/dev/vfio/", 10) == 0)
            return true;
    return false;
}

static void set_node(const struct looking *looking, const struct facet_pci_function *function,
                     struct facet_passthrough_entry *entry)
{
    const struct bind_host *host = &looking->manager->host;

    if (!function->is_vfio)
        return;
    bind_group_node(function->group, entry->node, sizeof entry->node);
    if (!entry->node[0] || !tree_exists(host->root, entry->node))
        bind_device_node(host, &function->address, entry->node, sizeof entry->node);
}

static void add_present(struct looking *looking, const struct facet_pci_function *function)
{
    struct facet_passthrough_facts facts = {.size = sizeof facts,
                                            .is_present = true,
                                            .is_lost = function->is_lost,
                                            .is_vfio = function->is_vfio,
                                            .is_open = is_open(function),
                                            .is_stuck = stuck_is(function)};
    struct facet_passthrough_identity identity;

    bind_fill_identity(function, &identity);
    struct facet_passthrough_entry *entry = add_entry(looking, &identity);
    if (!entry)
        return;
    entry->state = facet_passthrough_state_of(&facts);
    snprintf(entry->driver, sizeof entry->driver, "%s", function->driver);
    set_node(looking, function, entry);
    if (stuck_is(function))
        bind_note_stuck(looking->report, function);
}

/* ---- functions in journals ---- */

static struct facet_passthrough_entry *find_entry(struct looking *looking, const struct facet_pci_address *address)
{
    for (size_t i = 0; i < looking->list->count; i++)
        if (facet_pci_address_compare(&looking->list->entries[i].identity.address, address) == 0)
            return &looking->list->entries[i];
    return NULL;
}

static void apply_record(struct looking *looking, const struct journal *journal, const struct journal_function *record)
{
    bool is_same;
    const struct facet_pci_function *function = bind_find(looking->snapshot, &record->identity, &is_same);
    struct facet_passthrough_facts facts = {
        .size = sizeof facts,
        .is_present = is_same,
        .is_detaching = journal->phase == JOURNAL_PREPARING,
        .is_returning = journal->phase == JOURNAL_RETURNING,
        .is_stuck = bind_is_alive(&looking->manager->host, &record->stuck),
    };

    if (function && !find_entry(looking, &record->identity.address))
        add_present(looking, function);
    struct facet_passthrough_entry *entry =
        is_same ? find_entry(looking, &record->identity.address) : add_entry(looking, &record->identity);
    if (!entry)
        return;
    facts.is_lost = is_same && function->is_lost;
    facts.is_vfio = is_same && function->is_vfio;
    facts.is_open = is_same && is_open(function);
    facts.is_stuck = facts.is_stuck || (is_same && stuck_is(function));
    entry->is_ours = true;
    entry->state = facet_passthrough_state_of(&facts);
    snprintf(entry->old_driver, sizeof entry->old_driver, "%s", record->old.driver);
}

static bool take_journal(void *context, const char *name, struct journal *journal, const struct facet_error *failure)
{
    struct looking *looking = context;

    if (failure)
        bind_note(looking->report, FACET_PASSTHROUGH_NOTE_DAMAGED, NULL, "%s", failure->message);
    else if (strcmp(journal->boot, looking->boot) != 0)
        bind_note(looking->report, FACET_PASSTHROUGH_NOTE_STALE, &journal->functions[0].identity.address,
                  "has a journal from before the machine's restart (%s)", name);
    for (size_t i = 0; !failure && strcmp(journal->boot, looking->boot) == 0 && i < journal->count; i++)
        apply_record(looking, journal, &journal->functions[i]);
    return !looking->failed;
}

/* ---- groups ---- */

static bool is_host_driven(const struct facet_pci_function *function)
{
    return function->kind != FACET_PCI_KIND_BRIDGE && !driver_is_harmless(function->driver) &&
           !driver_is_port(function->driver);
}

static void note_half_bound(const struct looking *looking, const struct facet_pci_function *function)
{
    char text[FACET_PCI_ADDRESS_SIZE];

    for (uint32_t i = 0; i < facet_pci_snapshot_count(looking->snapshot); i++) {
        const struct facet_pci_function *other = facet_pci_snapshot_at(looking->snapshot, i);

        if (other->group != function->group || !is_host_driven(other))
            continue;
        facet_pci_address_print(&other->address, text);
        bind_note(looking->report, FACET_PASSTHROUGH_NOTE_HALF_BOUND, &function->address,
                  "has a driver of vfio, but %s of the same group %d has the host's driver %s: no VM can use it", text,
                  function->group, other->driver);
    }
}

/* ---- the reading ---- */

static int compare_entries(const void *a, const void *b)
{
    return facet_pci_address_compare(&((const struct facet_passthrough_entry *)a)->identity.address,
                                     &((const struct facet_passthrough_entry *)b)->identity.address);
}

static enum facet_status fill_looking(struct looking *looking, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < facet_pci_snapshot_count(looking->snapshot); i++) {
        const struct facet_pci_function *function = facet_pci_snapshot_at(looking->snapshot, i);

        if (facet_pci_is_accelerator(function) || function->is_vfio || stuck_is(function))
            add_present(looking, function);
        if (function->is_vfio && function->group >= 0)
            note_half_bound(looking, function);
    }
    if (looking->manager->config.state >= 0)
        status = journal_each(&looking->manager->host, take_journal, looking, error);
    if (!status && looking->failed)
        status = facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of functions");
    if (looking->list->count > 1)
        qsort(looking->list->entries, looking->list->count, sizeof *looking->list->entries, compare_entries);
    return status;
}

enum facet_status facet_passthrough_look(struct facet_passthrough *manager, struct facet_passthrough_list **ret_list,
                                         struct facet_passthrough_report *report, struct facet_error *error)
{
    struct facet_pci_snapshot *snapshot = NULL;
    struct looking looking = {.manager = manager, .report = report};

    if (!manager || !ret_list)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, manager ? "ret_list" : "manager",
                                    "must not be NULL");
    bind_report_begin(report);
    enum facet_status status = manager->host.ops->scan(&manager->host, &snapshot, error);
    if (status)
        return status;
    looking.list = calloc(1, sizeof *looking.list);
    looking.snapshot = snapshot;
    bind_read_boot_id(&manager->host, looking.boot, sizeof looking.boot);
    status =
        looking.list ? fill_looking(&looking, error) : facet_error_set(error, FACET_NO_MEMORY, "no memory for a list");
    facet_pci_snapshot_destroy(snapshot);
    if (status) {
        facet_passthrough_list_destroy(looking.list);
        return status;
    }
    looking.list->size = sizeof *looking.list;
    *ret_list = looking.list;
    return FACET_OK;
}
