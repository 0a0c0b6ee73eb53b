/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: recovering journals whose transaction no longer runs. Never: changes a function that differs from its journal:
 * such a function is only reported.
 */
#include <stdio.h>
#include <string.h>

#include "passthrough/bind/manager.h"
#include "passthrough/stuck.h"

struct recovery {
    struct facet_passthrough *manager;
    struct facet_passthrough_report *report;
    char boot[40];
    bool changed, broken;
};

static void note_recovery(const struct recovery *recovery, enum facet_passthrough_note_kind kind,
                          const struct journal *journal, const char *text)
{
    bind_note(recovery->report, kind, &journal->functions[0].identity.address, "%s", text);
}

static bool remove_journal(struct recovery *recovery, const char *name, const struct journal *journal)
{
    struct facet_error error = {.status = FACET_OK};

    if (journal_remove(&recovery->manager->host, name, &error) == FACET_OK) {
        recovery->changed = true;
        return true;
    }
    note_recovery(recovery, FACET_PASSTHROUGH_NOTE_UNDO_FAILED, journal, error.message);
    recovery->broken = true;
    return false;
}

/* ---- interrupted transactions ---- */

static void roll_back(struct recovery *recovery, const char *name, struct journal *journal)
{
    struct bind_run run = {.manager = recovery->manager, .journal = journal, .report = recovery->report};
    struct facet_error error = {.status = FACET_OK};

    /* If the crash came after the last step, a virtual machine may use the functions by now. */
    if (bind_check_users(&recovery->manager->host, journal, &error) != FACET_OK) {
        note_recovery(recovery, FACET_PASSTHROUGH_NOTE_BUSY, journal, error.message);
        recovery->broken = true;
        return;
    }
    recovery->changed = true;
    if (bind_restore(&run, true) > 0) {
        recovery->broken = true;
        if (journal_store(&recovery->manager->host, journal, &error) != FACET_OK)
            note_recovery(recovery, FACET_PASSTHROUGH_NOTE_UNDO_FAILED, journal, error.message);
        return;
    }
    if (remove_journal(recovery, name, journal))
        bind_note(recovery->report, FACET_PASSTHROUGH_NOTE_ROLLED_BACK, &journal->functions[0].identity.address,
                  "%swas being %s when the transaction was interrupted: it has its former driver again",
                  journal->count > 1 ? "with all of its set " : "",
                  journal->phase == JOURNAL_PREPARING ? "bound" : "given back");
}

/* ---- completed transactions ---- */

/* Notes the state of a bound function. False: it is no longer on this machine. */
static bool check_function(const struct recovery *recovery, const struct journal_function *record,
                           const struct facet_pci_snapshot *snapshot)
{
    const struct facet_pci_address *address = &record->identity.address;
    bool is_same;
    const struct facet_pci_function *function = bind_find(snapshot, &record->identity, &is_same);

    if (!function)
        bind_note(recovery->report, FACET_PASSTHROUGH_NOTE_GONE, address, "is bound, but not on this machine any more");
    else if (!is_same)
        bind_note(recovery->report, FACET_PASSTHROUGH_NOTE_DRIFT, address,
                  "is another card now (%04x:%04x, %04x:%04x was bound)", function->vendor, function->device,
                  record->identity.vendor, record->identity.device);
    else if (stuck_is(function))
        bind_note_stuck(recovery->report, function);
    else if (strcmp(function->driver, record->bound.driver) != 0)
        bind_note(recovery->report, FACET_PASSTHROUGH_NOTE_DRIFT, address, "has the driver %s, %s was expected",
                  function->driver[0] ? function->driver : "(none)", record->bound.driver);
    else
        bind_note(recovery->report, FACET_PASSTHROUGH_NOTE_ADOPTED, address, "is with %s, as it was left",
                  function->driver);
    return function != NULL;
}

static void adopt_journal(struct recovery *recovery, const char *name, const struct journal *journal)
{
    struct bind_host *host = &recovery->manager->host;
    struct facet_pci_snapshot *snapshot = NULL;
    struct facet_error error = {.status = FACET_OK};
    size_t present = 0;

    if (host->ops->scan(host, &snapshot, &error) != FACET_OK) {
        note_recovery(recovery, FACET_PASSTHROUGH_NOTE_FAILED, journal, error.message);
        recovery->broken = true;
        return;
    }
    for (size_t i = 0; i < journal->count; i++)
        present += check_function(recovery, &journal->functions[i], snapshot);
    facet_pci_snapshot_destroy(snapshot);
    if (present == 0)
        remove_journal(recovery, name, journal);
}

/* ---- one journal ---- */

static void recover_journal(struct recovery *recovery, const char *name, struct journal *journal)
{
    if (strcmp(journal->boot, recovery->boot) != 0) {
        if (remove_journal(recovery, name, journal))
            note_recovery(recovery, FACET_PASSTHROUGH_NOTE_STALE, journal,
                          "was in a transaction before the machine was restarted, which undid it");
    } else if (journal_is_stuck(journal, &recovery->manager->host)) {
        note_recovery(
            recovery, FACET_PASSTHROUGH_NOTE_STUCK, journal,
            "a write to it, or to a function that was bound with it, has not returned yet: it is not touched");
        recovery->broken = true;
    } else if (journal->phase == JOURNAL_BOUND) {
        adopt_journal(recovery, name, journal);
    } else {
        roll_back(recovery, name, journal);
    }
}

/* Notes a journal whose groups could not be locked in time, and which is therefore left unchanged. */
static void note_busy(struct recovery *recovery, const struct journal *journal, const struct facet_error *error)
{
    bool is_stuck = journal_is_stuck(journal, &recovery->manager->host);

    note_recovery(recovery, is_stuck ? FACET_PASSTHROUGH_NOTE_STUCK : FACET_PASSTHROUGH_NOTE_BUSY, journal,
                  is_stuck ? "a write has not returned yet, and holds the lock of its group" : error->message);
    recovery->broken = recovery->broken || is_stuck || journal->phase != JOURNAL_BOUND;
}

/* Whether all groups of the journal as it is now are among those of the journal that was read before the locking. */
static bool has_same_groups(const struct journal *locked, const struct journal *current)
{
    for (size_t i = 0; i < current->count; i++)
        if (!journal_has_group(locked, current->functions[i].identity.group))
            return false;
    return true;
}

/*
 * How long to wait for the locks. A running transaction, or a writer whose parent was killed, is about to end and is
 * waited for. A stuck writer is not. Nor is any process waited for when no transaction of the journal can be running.
 */
static uint64_t lock_timeout_ns(const struct recovery *recovery, const struct journal *journal)
{
    bool is_at_rest = journal->phase == JOURNAL_BOUND || strcmp(journal->boot, recovery->boot) != 0;

    if (is_at_rest || journal_is_stuck(journal, &recovery->manager->host))
        return 0;
    return recovery->manager->config.lock_deadline_ns;
}

/* Locks the groups of a journal and reads it again, because another transaction may have written it meanwhile. */
static bool take_journal(void *context, const char *name, struct journal *journal, const struct facet_error *failure)
{
    struct recovery *recovery = context;
    const struct facet_passthrough_identity *identities[JOURNAL_FUNCTIONS_MAX];
    struct bind_locks locks = {.count = 0};
    struct journal current = {.count = 0};
    struct facet_error error = {.status = FACET_OK};

    if (failure) {
        bind_note(recovery->report, FACET_PASSTHROUGH_NOTE_DAMAGED, NULL, "%s", failure->message);
        recovery->broken = true;
        return true;
    }
    for (size_t i = 0; i < journal->count; i++)
        identities[i] = &journal->functions[i].identity;
    if (bind_locks_take(&recovery->manager->host, identities, journal->count, lock_timeout_ns(recovery, journal),
                        &locks, &error) != FACET_OK) {
        note_busy(recovery, journal, &error);
        return true;
    }
    if (journal_load(&recovery->manager->host, name, &current, &error) == FACET_OK &&
        has_same_groups(journal, &current))
        recover_journal(recovery, name, &current);
    journal_clear(&current);
    bind_locks_give(&locks);
    return true;
}

enum facet_status facet_passthrough_recover(struct facet_passthrough *manager, struct facet_passthrough_report *report,
                                            struct facet_error *error)
{
    struct recovery recovery = {.manager = manager, .report = report};

    if (!manager)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "manager", "must not be NULL");
    if (report && report->size < sizeof *report)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "report->size", "is %u, at least %zu was expected",
                                    report->size, sizeof *report);
    if (manager->config.state < 0)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config->state",
                                    "was not given; the directory of journals was expected");
    bind_report_begin(report);
    bind_read_boot_id(&manager->host, recovery.boot, sizeof recovery.boot);
    enum facet_status status = journal_each(&manager->host, take_journal, &recovery, error);
    if (report && (recovery.changed || recovery.broken))
        report->outcome = recovery.broken ? FACET_PASSTHROUGH_BROKEN : FACET_PASSTHROUGH_DONE;
    return status;
}
