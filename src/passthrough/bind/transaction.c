/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transaction: locks, a second scan, the verdict, the journal, the steps, and the undo after a failure.
 *
 * Owns: the order of these parts, and the report at the end.
 * Never: does a step that is not in the plan, or before the journal that undoes it is on the disk.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passthrough/bind/manager.h"
#include "passthrough/scan/tree.h"

struct transaction {
    struct bind_run run;
    const struct bind_plan *given; /* the caller's plan */
    struct bind_plan *plan;        /* made under the locks, and executed */
    char name[JOURNAL_NAME_SIZE];
};

/* ---- checks before the first step ---- */

static enum facet_status check_verdict(const struct facet_passthrough_plan *plan, struct facet_error *error)
{
    const struct facet_passthrough_verdict *verdict = plan->verdict;
    char address[FACET_PCI_ADDRESS_SIZE];
    size_t gates = 0;

    if (!verdict || verdict->answer == FACET_PASSTHROUGH_YES)
        return FACET_OK;
    while (gates < verdict->reason_count && verdict->reasons[gates].weight != FACET_PASSTHROUGH_WARNING)
        gates++;
    if (gates == 0)
        return facet_error_set(error, FACET_BAD_STATE, "the verdict is not yes");
    facet_pci_address_print(&verdict->reasons[0].address, address);
    facet_error_set(error, FACET_BAD_STATE, "%s %s", address, verdict->reasons[0].text);
    if (gates > 1)
        facet_error_set(error, FACET_BAD_STATE, "%s %s (and %zu more reasons)", address, verdict->reasons[0].text,
                        gates - 1);
    return FACET_BAD_STATE;
}

static enum facet_status check_holder(const struct facet_pci_function *function, struct facet_error *error)
{
    char address[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(&function->address, address);
    for (size_t i = 0; i < function->holder_count; i++)
        if (strncmp(function->holders[i].node, "/dev/vfio/", 10) == 0)
            return facet_error_set(error, FACET_BUSY, "process %lld (%s) has %s open for %s: end or unplug it first",
                                   (long long)function->holders[i].pid, function->holders[i].command,
                                   function->holders[i].node, address);
    if (function->unread[FACET_PCI_HOLDERS] != FACET_PCI_READ)
        return facet_error_set(error, FACET_PERMISSION, "%s: whether a virtual machine has it open is not known: %s",
                               address, facet_pci_unread_name(function->unread[FACET_PCI_HOLDERS]));
    return FACET_OK;
}

enum facet_status bind_check_users(struct bind_host *host, const struct journal *journal, struct facet_error *error)
{
    struct facet_pci_snapshot *snapshot = NULL;
    enum facet_status status = host->ops->scan(host, &snapshot, error);

    if (status)
        return status;
    for (uint32_t i = 0; !status && i < facet_pci_snapshot_count(snapshot); i++) {
        const struct facet_pci_function *function = facet_pci_snapshot_at(snapshot, i);

        if (function->group < 0 || !journal_has_group(journal, function->group))
            continue;
        status = bind_check_stuck(function, error);
        if (!status && function->is_vfio)
            status = check_holder(function, error);
    }
    facet_pci_snapshot_destroy(snapshot);
    return status;
}

/* ---- after the steps ---- */

/*
 * When all bytes are ones, no device has answered. Vendor and device alone do not show this, because in a virtual
 * function's configuration space both are all ones.
 */
static bool is_silent(const uint8_t *bytes, size_t length)
{
    size_t ones = 0;

    while (ones < length && bytes[ones] == 0xff)
        ones++;
    return ones == length;
}

static enum facet_status check_answers(const struct transaction *transaction, struct facet_error *error)
{
    const struct journal *journal = &transaction->plan->journal;
    char address[FACET_PCI_ADDRESS_SIZE], path[80];

    for (size_t i = 0; i < journal->count; i++) {
        uint8_t header[64];
        size_t length = 0;

        facet_pci_address_print(&journal->functions[i].identity.address, address);
        snprintf(path, sizeof path, BIND_DEVICES "/%s/config", address);
        enum facet_pci_unread unread =
            tree_read_bytes(transaction->run.manager->host.root, path, header, sizeof header, &length);
        if (unread != FACET_PCI_READ || is_silent(header, length))
            return facet_error_set(error, FACET_DEVICE_LOST, "%s: its configuration space does not answer", address);
    }
    return FACET_OK;
}

static enum facet_status check_nodes(const struct transaction *transaction, struct facet_error *error)
{
    const struct facet_passthrough_plan *plan = &transaction->plan->plan;
    bool wanted = false;

    for (size_t i = 0; i < plan->step_count; i++)
        wanted = wanted || plan->steps[i].kind == FACET_PASSTHROUGH_STEP_RIGHTS;
    if (!wanted || transaction->run.nodes_given > 0)
        return FACET_OK;
    return facet_error_set(error, FACET_NOT_FOUND, "vfio made no node in /dev/vfio that the owner could be given");
}

/* ---- steps ---- */

static enum facet_status run_steps(struct transaction *transaction, struct facet_error *error)
{
    const struct facet_passthrough_plan *plan = &transaction->plan->plan;
    bool binds = plan->direction == FACET_PASSTHROUGH_BIND;
    enum facet_status status = FACET_OK;

    for (size_t i = 0; !status && i < plan->step_count; i++) {
        const struct journal_function *record = journal_find(transaction->run.journal, &plan->steps[i].address);

        status =
            bind_step(&transaction->run, &plan->steps[i], binds ? record->bound.driver : record->old.driver, error);
    }
    if (!status && binds)
        status = check_answers(transaction, error);
    if (!status && binds)
        status = check_nodes(transaction, error);
    return status;
}

/* ---- results ---- */

static void note_journal_failure(struct transaction *transaction, const struct facet_error *error)
{
    bind_note(transaction->run.report, FACET_PASSTHROUGH_NOTE_UNDO_FAILED,
              &transaction->run.journal->functions[0].identity.address, "%s", error->message);
}

static void set_outcome(struct transaction *transaction, enum facet_passthrough_outcome outcome)
{
    if (transaction->run.report)
        transaction->run.report->outcome = outcome;
}

/* Leaves functions that could not be restored to a later recovery. The report notes a journal that cannot be stored. */
static void keep_journal(struct transaction *transaction)
{
    struct facet_error error = {.status = FACET_OK};

    if (journal_store(&transaction->run.manager->host, transaction->run.journal, &error) != FACET_OK)
        note_journal_failure(transaction, &error);
    set_outcome(transaction, FACET_PASSTHROUGH_BROKEN);
}

/* Undoes a binding that failed: brings all functions back, then removes the journal. */
static void undo_bind(struct transaction *transaction)
{
    struct facet_error error = {.status = FACET_OK};

    transaction->run.journal->phase = JOURNAL_PREPARING;
    if (bind_restore(&transaction->run, true) > 0) {
        keep_journal(transaction);
        return;
    }
    if (journal_remove(&transaction->run.manager->host, transaction->name, &error) == FACET_OK) {
        set_outcome(transaction, FACET_PASSTHROUGH_UNDONE);
        return;
    }
    note_journal_failure(transaction, &error);
    set_outcome(transaction, FACET_PASSTHROUGH_BROKEN);
}

/* Whether the journal on the disk has the phase BOUND, as it does when no write of it succeeded in this transaction. */
static bool is_stored_as_bound(const struct transaction *transaction)
{
    struct journal journal = {.count = 0};
    bool is_bound = journal_load(&transaction->run.manager->host, transaction->name, &journal, NULL) == FACET_OK &&
                    journal.phase == JOURNAL_BOUND;

    journal_clear(&journal);
    return is_bound;
}

/* Undoes a return that failed: binds the returned functions again, so that no group is split. */
static void undo_unbind(struct transaction *transaction)
{
    struct facet_error error = {.status = FACET_OK};

    if (bind_restore(&transaction->run, false) > 0) {
        keep_journal(transaction);
        return;
    }
    transaction->run.journal->phase = JOURNAL_BOUND;
    if (journal_store(&transaction->run.manager->host, transaction->run.journal, &error) == FACET_OK ||
        is_stored_as_bound(transaction)) {
        set_outcome(transaction, FACET_PASSTHROUGH_UNDONE);
        return;
    }
    note_journal_failure(transaction, &error);
    set_outcome(transaction, FACET_PASSTHROUGH_BROKEN);
}

static void note_failure(struct transaction *transaction, const struct facet_error *error)
{
    bind_note(transaction->run.report, FACET_PASSTHROUGH_NOTE_FAILED,
              &transaction->run.journal->functions[0].identity.address, "%s", error->message);
}

/* Stores the journal in a new phase. */
static enum facet_status store_phase(struct transaction *transaction, enum journal_phase phase,
                                     struct facet_error *error)
{
    transaction->run.journal->phase = phase;
    return journal_store(&transaction->run.manager->host, transaction->run.journal, error);
}

static enum facet_status execute_bind(struct transaction *transaction, struct facet_error *error)
{
    enum facet_status status = store_phase(transaction, JOURNAL_PREPARING, error);

    if (!status)
        status = run_steps(transaction, error);
    if (!status)
        status = store_phase(transaction, JOURNAL_BOUND, error);
    if (!status) {
        set_outcome(transaction, FACET_PASSTHROUGH_DONE);
        return FACET_OK;
    }
    note_failure(transaction, error);
    undo_bind(transaction);
    return status;
}

static enum facet_status execute_unbind(struct transaction *transaction, struct facet_error *error)
{
    enum facet_status status = store_phase(transaction, JOURNAL_RETURNING, error);

    if (!status)
        status = run_steps(transaction, error);
    if (!status)
        status = journal_remove(&transaction->run.manager->host, transaction->name, error);
    if (!status) {
        set_outcome(transaction, FACET_PASSTHROUGH_DONE);
        return FACET_OK;
    }
    note_failure(transaction, error);
    undo_unbind(transaction);
    return status;
}

/* ---- under the locks ---- */

/* Executes only the plan that the caller saw: a scan under the locks must give the same steps. */
static enum facet_status check_plan_is_current(const struct transaction *transaction, struct facet_error *error)
{
    if (bind_plan_is_same(transaction->given, transaction->plan))
        return FACET_OK;
    return facet_error_set(error, FACET_BAD_STATE, "the host has changed since the plan was made: plan anew");
}

static enum facet_status run_locked(struct transaction *transaction, struct facet_error *error)
{
    struct facet_passthrough *manager = transaction->run.manager;
    bool binds = transaction->given->plan.direction == FACET_PASSTHROUGH_BIND;
    struct facet_error own = {.status = FACET_OK};
    enum facet_status status = bind_plan_again(manager, transaction->given, &transaction->plan, error);

    if (status)
        return status;
    /* When another process has done the same meanwhile, the transaction has succeeded. */
    if (binds && transaction->plan->plan.step_count == 0 &&
        bind_plan_has_same_functions(transaction->given, transaction->plan))
        return FACET_OK;
    status = check_plan_is_current(transaction, error);
    if (!status && binds)
        status = check_verdict(&transaction->plan->plan, error);
    if (!status && !binds)
        status = bind_check_users(&manager->host, &transaction->plan->journal, error);
    if (status)
        return status;
    transaction->run.journal = &transaction->plan->journal;
    journal_name(transaction->run.journal, transaction->name);
    error = error ? error : &own; /* the report needs the error even if the caller does not */
    return binds ? execute_bind(transaction, error) : execute_unbind(transaction, error);
}

static enum facet_status lock_and_run(struct transaction *transaction, struct facet_error *error)
{
    const struct facet_passthrough_plan *plan = &transaction->given->plan;
    struct facet_passthrough *manager = transaction->run.manager;
    const struct facet_passthrough_identity *identities[JOURNAL_FUNCTIONS_MAX];
    struct bind_locks locks = {.count = 0};

    for (size_t i = 0; i < plan->function_count; i++)
        identities[i] = &plan->functions[i];
    enum facet_status status = bind_locks_take(&manager->host, identities, plan->function_count,
                                               manager->config.lock_deadline_ns, &locks, error);
    if (status)
        return status;
    status = run_locked(transaction, error);
    bind_locks_give(&locks);
    if (transaction->plan)
        facet_passthrough_plan_destroy(&transaction->plan->plan);
    return status;
}

static enum facet_status check_arguments(const struct facet_passthrough *manager,
                                         const struct facet_passthrough_plan *plan,
                                         enum facet_passthrough_direction direction,
                                         const struct facet_passthrough_report *report, struct facet_error *error)
{
    if (!manager || !plan)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, manager ? "plan" : "manager", "must not be NULL");
    if (report && report->size < sizeof *report)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "report->size", "is %u, at least %zu was expected",
                                    report->size, sizeof *report);
    if (plan->direction != direction)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "plan", "is one for the other direction");
    if (manager->config.state < 0)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config->state",
                                    "was not given; the directory of journals was expected");
    return FACET_OK;
}

static enum facet_status execute_plan(struct facet_passthrough *manager, const struct facet_passthrough_plan *plan,
                                      enum facet_passthrough_direction direction,
                                      struct facet_passthrough_report *report, struct facet_error *error)
{
    enum facet_status status = check_arguments(manager, plan, direction, report, error);

    if (status)
        return status;
    struct transaction transaction = {.run = {.manager = manager, .report = report},
                                      .given = (const struct bind_plan *)plan};
    bind_report_begin(report);
    if (plan->step_count > 0)
        status = check_verdict(plan, error);
    return status ? status : lock_and_run(&transaction, error);
}

enum facet_status facet_passthrough_bind(struct facet_passthrough *manager, const struct facet_passthrough_plan *plan,
                                         struct facet_passthrough_report *report, struct facet_error *error)
{
    return execute_plan(manager, plan, FACET_PASSTHROUGH_BIND, report, error);
}

enum facet_status facet_passthrough_unbind(struct facet_passthrough *manager, const struct facet_passthrough_plan *plan,
                                           struct facet_passthrough_report *report, struct facet_error *error)
{
    return execute_plan(manager, plan, FACET_PASSTHROUGH_UNBIND, report, error);
}
