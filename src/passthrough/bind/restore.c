/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing functions back after a failure, after a crash, and on request.
 *
 * Owns: bringing functions from any place to one of the two places in their journal; steps that are not needed are
 * skipped.
 * Never: stops at the first failure, or writes to a stuck function or to another card than the journal's.
 */
#include <stdlib.h>
#include <string.h>

#include "passthrough/bind/manager.h"

/* One run: its scan, its direction, and the functions that could not be brought back. */
struct restoring {
    struct bind_run *run;
    const struct facet_pci_snapshot *snapshot;
    bool to_old;
    bool failed[JOURNAL_FUNCTIONS_MAX];
};

static const struct journal_binding *target_place(const struct restoring *restoring,
                                                  const struct journal_function *record)
{
    return restoring->to_old ? &record->old : &record->bound;
}

static void note_failure(struct restoring *restoring, size_t index, const struct facet_error *error)
{
    const struct journal_function *record = &restoring->run->journal->functions[index];

    restoring->failed[index] = true;
    if (!bind_is_alive(&restoring->run->manager->host, &record->stuck)) /* a stuck process has a note of its own */
        bind_note(restoring->run->report, FACET_PASSTHROUGH_NOTE_UNDO_FAILED, &record->identity.address, "%s",
                  error->message);
}

static bool do_step(struct restoring *restoring, size_t index, const struct facet_passthrough_step *step)
{
    struct journal_function *record = &restoring->run->journal->functions[index];
    struct facet_error error = {.status = FACET_OK};

    if (bind_step(restoring->run, step, target_place(restoring, record)->driver, &error) == FACET_OK)
        return true;
    note_failure(restoring, index, &error);
    return false;
}

/* The journal's function; NULL: it is gone or replaced. The first look at a function (`is_first`) notes that. */
static const struct facet_pci_function *find_function(struct restoring *restoring, size_t index, bool is_first)
{
    struct journal_function *record = &restoring->run->journal->functions[index];
    struct facet_passthrough_report *report = restoring->run->report;
    bool is_same;
    const struct facet_pci_function *function = bind_find(restoring->snapshot, &record->identity, &is_same);

    if (is_same)
        return function;
    if (is_first && !function)
        bind_note(report, FACET_PASSTHROUGH_NOTE_GONE, &record->identity.address,
                  "is not on this machine any more: there is nothing to undo");
    if (is_first && function)
        bind_note(report, FACET_PASSTHROUGH_NOTE_DRIFT, &record->identity.address,
                  "is another card now (%04x:%04x, %04x:%04x was bound): it is left alone", function->vendor,
                  function->device, record->identity.vendor, record->identity.device);
    return NULL;
}

static void move_driver(struct restoring *restoring, size_t index)
{
    struct journal_function *record = &restoring->run->journal->functions[index];
    struct facet_passthrough_step steps[BIND_DRIVER_STEPS];
    struct facet_error error = {.status = FACET_OK};
    struct journal_binding now;

    if (bind_is_alive(&restoring->run->manager->host, &record->stuck)) {
        restoring->failed[index] = true;
        return;
    }
    record->stuck = (struct bind_stuck){.pid = 0};
    const struct facet_pci_function *function = find_function(restoring, index, true);
    if (!function)
        return;
    if (bind_check_stuck(function, &error) != FACET_OK) { /* another process has made it stuck */
        note_failure(restoring, index, &error);
        return;
    }
    bind_place(&restoring->run->manager->host, function, &now);
    if (bind_load_step(&restoring->run->manager->host, &record->identity, &now, target_place(restoring, record),
                       steps) &&
        !do_step(restoring, index, &steps[0]))
        return;
    size_t count = bind_driver_steps(&record->identity, &now, target_place(restoring, record), steps);
    for (size_t i = 0; i < count; i++)
        if (!do_step(restoring, index, &steps[i]))
            return;
}

/* Called after the drivers are in place, because a driver may set the power for itself. */
static void set_power_and_rights(struct restoring *restoring, size_t index)
{
    const struct journal_function *record = &restoring->run->journal->functions[index];
    const struct journal_binding *target = target_place(restoring, record);
    struct bind_host *host = &restoring->run->manager->host;
    struct facet_passthrough_step step;
    struct journal_binding now;
    const struct facet_pci_function *function =
        restoring->failed[index] ? NULL : find_function(restoring, index, false);

    if (!function)
        return;
    bind_place(host, function, &now); /* now.driver is the driver before the move, because the scan is older */
    if (bind_power_step(&record->identity, &now, target, &step) && !do_step(restoring, index, &step))
        return;
    if (bind_rights_step(host, &record->identity, target, &step))
        do_step(restoring, index, &step);
}

static size_t count_failed(const struct restoring *restoring)
{
    size_t count = 0;

    for (size_t i = 0; i < restoring->run->journal->count; i++)
        count += restoring->failed[i];
    return count;
}

/* Goes through the functions in reverse order when it brings them to their old places. */
static void restore_all(struct restoring *restoring)
{
    size_t count = restoring->run->journal->count;

    for (size_t i = 0; i < count; i++)
        move_driver(restoring, restoring->to_old ? count - 1 - i : i);
    for (size_t i = 0; i < count; i++)
        set_power_and_rights(restoring, restoring->to_old ? count - 1 - i : i);
}

size_t bind_restore(struct bind_run *run, bool to_old)
{
    struct bind_host *host = &run->manager->host;
    struct facet_pci_snapshot *snapshot = NULL;
    struct facet_error error = {.status = FACET_OK};
    struct restoring restoring = {.run = run, .to_old = to_old};

    if (host->ops->scan(host, &snapshot, &error) != FACET_OK) {
        bind_note(run->report, FACET_PASSTHROUGH_NOTE_UNDO_FAILED, &run->journal->functions[0].identity.address,
                  "cannot scan the functions that are to be brought back: %s", error.message);
        return run->journal->count;
    }
    restoring.snapshot = snapshot;
    restore_all(&restoring);
    facet_pci_snapshot_destroy(snapshot);
    return count_failed(&restoring);
}
