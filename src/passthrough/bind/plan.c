/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: making plans: functions, their old and new places, the steps between them. Never: carries a step out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/bind/manager.h"
#include "passthrough/driver.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

static void cleanup_snapshot(struct facet_pci_snapshot **snapshot)
{
    facet_pci_snapshot_destroy(*snapshot);
}
#define CLEANUP_SNAPSHOT __attribute__((cleanup(cleanup_snapshot)))

void facet_passthrough_plan_destroy(struct facet_passthrough_plan *plan)
{
    struct bind_plan *inside = (struct bind_plan *)plan;

    if (!inside)
        return;
    facet_passthrough_verdict_destroy(inside->plan.verdict);
    journal_clear(&inside->journal);
    free(inside->plan.functions);
    free(inside->plan.steps);
    free(inside->request.addresses);
    free(inside);
}

static void cleanup_plan(struct bind_plan **plan)
{
    if (*plan)
        facet_passthrough_plan_destroy(&(*plan)->plan);
}
#define CLEANUP_PLAN __attribute__((cleanup(cleanup_plan)))

static enum facet_status no_memory(struct facet_error *error)
{
    return facet_error_set(error, FACET_NO_MEMORY, "no memory for a plan");
}

/* An empty plan, with room for `count` functions, that keeps a copy of the request. */
static struct bind_plan *new_plan(enum facet_passthrough_direction direction, const struct bind_request *request,
                                  size_t count)
{
    CLEANUP_PLAN struct bind_plan *plan = calloc(1, sizeof *plan);

    if (!plan)
        return NULL;
    plan->plan.size = sizeof plan->plan;
    plan->plan.direction = direction;
    plan->request = *request;
    plan->request.addresses = calloc(request->wish.count + 1, sizeof *plan->request.addresses);
    plan->plan.functions = calloc(count + 1, sizeof *plan->plan.functions);
    plan->journal.functions = calloc(count + 1, sizeof *plan->journal.functions);
    if (!plan->request.addresses || !plan->plan.functions || !plan->journal.functions)
        return NULL;
    if (request->wish.count > 0)
        memcpy(plan->request.addresses, request->wish.functions, request->wish.count * sizeof *plan->request.addresses);
    plan->request.wish.functions = plan->request.addresses;
    return FACET_TAKE_PTR(plan);
}

static bool add_step(struct bind_plan *plan, const struct facet_passthrough_step *step)
{
    void *array = plan->plan.steps;
    struct facet_passthrough_step *added = tree_append(&array, &plan->plan.step_count, sizeof *added);

    plan->plan.steps = array;
    if (added)
        *added = *step;
    return added != NULL;
}

static bool add_driver_steps(struct bind_plan *plan, const struct facet_passthrough_identity *identity,
                             const struct journal_binding *now, const struct journal_binding *target)
{
    struct facet_passthrough_step steps[BIND_DRIVER_STEPS];
    size_t count = bind_driver_steps(identity, now, target, steps);
    bool added = true;

    for (size_t i = 0; added && i < count; i++)
        added = add_step(plan, &steps[i]);
    return added;
}

static bool add_power_step(struct bind_plan *plan, const struct facet_passthrough_identity *identity,
                           const struct journal_binding *now, const struct journal_binding *target)
{
    struct facet_passthrough_step step;

    return !bind_power_step(identity, now, target, &step) || add_step(plan, &step);
}

/* ---- steps of binding ---- */

/* Adds a step that loads the driver, once for each driver that is not loaded. */
static bool add_load(const struct bind_host *host, struct bind_plan *plan,
                     const struct facet_passthrough_identity *identity, const struct journal_binding *now,
                     const struct journal_binding *target)
{
    struct facet_passthrough_step step;

    if (!bind_load_step(host, identity, now, target, &step))
        return true;
    for (size_t i = 0; i < plan->plan.step_count; i++)
        if (strcmp(plan->plan.steps[i].value, step.value) == 0)
            return true;
    return add_step(plan, &step);
}

static bool add_reset(const struct bind_host *host, struct bind_plan *plan, const struct journal_function *function)
{
    struct facet_passthrough_step step = {.kind = FACET_PASSTHROUGH_STEP_RESET, .address = function->identity.address};
    char address[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(&step.address, address);
    snprintf(step.path, sizeof step.path, BIND_DEVICES "/%s/reset", address);
    snprintf(step.value, sizeof step.value, "1");
    return !tree_exists(host->root, step.path) || add_step(plan, &step); /* no file: the kernel cannot reset it */
}

static bool has_path(const struct bind_plan *plan, const char *path)
{
    for (size_t i = 0; i < plan->plan.step_count; i++)
        if (strcmp(plan->plan.steps[i].path, path) == 0)
            return true;
    return false;
}

static bool add_rights_step(struct bind_plan *plan, const struct journal_function *function, const char *path,
                            const char *before)
{
    struct facet_passthrough_step step = {.kind = FACET_PASSTHROUGH_STEP_RIGHTS, .address = function->identity.address};

    if (has_path(plan, path) || strcmp(before, function->bound.rights) == 0)
        return true; /* another function of the group has the step, or the node has the owner already */
    snprintf(step.path, sizeof step.path, "%s", path);
    snprintf(step.value, sizeof step.value, "%s", function->bound.rights);
    snprintf(step.before, sizeof step.before, "%s", before);
    return add_step(plan, &step);
}

/* Adds steps that give the owner the group's node and the function's own, whose number is known only after binding. */
static bool add_rights(const struct bind_host *host, struct bind_plan *plan, const struct journal_function *function)
{
    bool is_bound = strcmp(function->old.driver, function->bound.driver) == 0;
    char path[80], before[24], address[FACET_PCI_ADDRESS_SIZE];

    if (!function->bound.rights[0])
        return true;
    bind_group_node(function->identity.group, path, sizeof path);
    if (path[0] && (!is_bound || function->old.rights[0]) &&
        !add_rights_step(plan, function, path, function->old.rights))
        return false;
    if (!is_bound) {
        facet_pci_address_print(&function->identity.address, address);
        snprintf(path, sizeof path, BIND_DEVICES "/%s/vfio-dev", address);
        return add_rights_step(plan, function, path, "");
    }
    bind_device_node(host, &function->identity.address, path, sizeof path);
    bind_read_owner(host, path, before, sizeof before);
    return !path[0] || add_rights_step(plan, function, path, before);
}

/* Resets come after all functions have left the host's drivers, because a reset affects neighbours. They are planned
 * only if a function moves. */
static bool add_bind_steps(const struct bind_host *host, struct bind_plan *plan)
{
    struct journal *journal = &plan->journal;
    bool added = true, moves = false;

    for (size_t i = 0; added && i < journal->count; i++)
        added = add_load(host, plan, &journal->functions[i].identity, &journal->functions[i].old,
                         &journal->functions[i].bound);
    for (size_t i = 0; added && i < journal->count; i++) {
        const struct journal_function *function = &journal->functions[i];

        moves = moves || strcmp(function->old.driver, function->bound.driver) != 0;
        added = add_driver_steps(plan, &function->identity, &function->old, &function->bound);
    }
    for (size_t i = 0; added && i < journal->count; i++)
        added = add_power_step(plan, &journal->functions[i].identity, &journal->functions[i].old,
                               &journal->functions[i].bound);
    for (size_t i = 0; added && moves && plan->request.flags & FACET_PASSTHROUGH_RESET && i < journal->count; i++)
        added = add_reset(host, plan, &journal->functions[i]);
    for (size_t i = 0; added && i < journal->count; i++)
        added = add_rights(host, plan, &journal->functions[i]);
    return added;
}

/* ---- functions to bind ---- */

/* Sets the place to bind to. A driver of vfio that the function has already stays, unless the request names another. */
static void set_target(const struct facet_passthrough *manager, const struct bind_request *request,
                       const struct facet_pci_function *function, struct journal_function *record)
{
    struct journal_binding *bound = &record->bound;

    *bound = record->old;
    if (manager->config.has_owner)
        snprintf(bound->rights, sizeof bound->rights, "%u:%u", manager->config.uid, manager->config.gid);
    else
        bound->rights[0] = '\0';
    if (bound->power[0])
        snprintf(bound->power, sizeof bound->power, "on");
    if (function->is_vfio && (!request->driver[0] || strcmp(request->driver, function->driver) == 0))
        return;
    if (request->driver[0])
        snprintf(bound->driver, sizeof bound->driver, "%s", request->driver);
    else
        bind_choose_driver(&manager->host, function, bound->driver, sizeof bound->driver);
    memcpy(bound->override, bound->driver, sizeof bound->override);
}

static enum facet_status add_function(struct facet_passthrough *manager, struct bind_plan *plan,
                                      const struct facet_pci_function *function, struct facet_error *error)
{
    struct journal_function *record = &plan->journal.functions[plan->journal.count++];
    char address[FACET_PCI_ADDRESS_SIZE];

    bind_fill_identity(function, &record->identity);
    bind_place(&manager->host, function, &record->old);
    set_target(manager, &plan->request, function, record);
    plan->plan.functions[plan->plan.function_count++] = record->identity;
    facet_pci_address_print(&function->address, address);
    if (strcmp(record->old.override, record->bound.override) != 0 &&
        function->unread[FACET_PCI_OVERRIDE] == FACET_PCI_UNREAD_ABSENT)
        return facet_error_set(error, FACET_UNSUPPORTED,
                               "%s has no attribute driver_override; a kernel since 3.16 was expected", address);
    if (!journal_is_name(record->old.driver) || !journal_is_name(record->old.override))
        return facet_error_set(error, FACET_UNSUPPORTED, "%s has a driver whose name cannot be a path: \"%s\"", address,
                               record->old.driver);
    return FACET_OK;
}

/* ---- journals of the same groups ---- */

struct conflict {
    const struct facet_passthrough *manager;
    struct bind_plan *plan;
    char boot[40];
    enum facet_status status;
    struct facet_error *error;
};

static bool plan_has_group(const struct bind_plan *plan, int32_t group)
{
    return journal_has_group(&plan->journal, group);
}

static bool shares_group(const struct bind_plan *plan, const struct journal *journal)
{
    for (size_t i = 0; i < journal->count; i++)
        if (plan_has_group(plan, journal->functions[i].identity.group) ||
            journal_find(&plan->journal, &journal->functions[i].identity.address))
            return true;
    return false;
}

static bool covers_plan(const struct journal *journal, const struct bind_plan *plan)
{
    for (size_t i = 0; i < plan->journal.count; i++)
        if (!journal_find(journal, &plan->journal.functions[i].identity.address))
            return false;
    return true;
}

/* Functions that are bound already can be bound again only if the plan has no step. */
static enum facet_status check_journal(const struct conflict *conflict, const char *name, const struct journal *journal)
{
    if (journal->phase == JOURNAL_BOUND && covers_plan(journal, conflict->plan) && conflict->plan->plan.step_count == 0)
        return FACET_OK;
    if (journal->phase != JOURNAL_BOUND)
        return facet_error_set(conflict->error, FACET_BAD_STATE,
                               "a transaction of the IOMMU group runs or was interrupted (%s): wait, or recover it",
                               name);
    return facet_error_set(conflict->error, FACET_BAD_STATE,
                           "the IOMMU group is bound already, but not in this way (%s): give it back first", name);
}

static bool take_conflict(void *context, const char *name, struct journal *journal, const struct facet_error *failure)
{
    struct conflict *conflict = context;
    int32_t group = 0;

    if (failure) { /* an unreadable journal: only its name shows a group */
        if (sscanf(name, "group-%d.journal", &group) != 1 || !plan_has_group(conflict->plan, group))
            return true;
        if (conflict->error)
            *conflict->error = *failure;
        conflict->status = failure->status;
        return false;
    }
    if (strcmp(journal->boot, conflict->boot) != 0 || !shares_group(conflict->plan, journal))
        return true;
    conflict->status = check_journal(conflict, name, journal);
    return conflict->status == FACET_OK;
}

static enum facet_status check_journals(struct facet_passthrough *manager, struct bind_plan *plan,
                                        struct facet_error *error)
{
    struct conflict conflict = {.manager = manager, .plan = plan, .error = error};

    if (manager->config.state < 0)
        return FACET_OK;
    memcpy(conflict.boot, plan->journal.boot, sizeof conflict.boot);
    enum facet_status status = journal_each(&manager->host, take_conflict, &conflict, error);
    return status ? status : conflict.status;
}

/* ---- planning to bind ---- */

static enum facet_status fill_plan(struct facet_passthrough *manager, const struct facet_pci_snapshot *snapshot,
                                   struct bind_plan *plan, struct facet_error *error)
{
    const struct facet_passthrough_verdict *verdict = plan->plan.verdict;
    enum facet_status status = FACET_OK;

    for (size_t i = 0; !status && i < verdict->function_count; i++) {
        const struct facet_pci_function *function = facet_pci_snapshot_find(snapshot, &verdict->functions[i]);
        if (function)
            status = add_function(manager, plan, function, error);
    }
    bind_read_boot_id(&manager->host, plan->journal.boot, sizeof plan->journal.boot);
    if (!status && !add_bind_steps(&manager->host, plan))
        status = no_memory(error);
    return status ? status : check_journals(manager, plan, error);
}

static enum facet_status plan_bind(struct facet_passthrough *manager, const struct bind_request *request,
                                   struct bind_plan **ret_plan, struct facet_error *error)
{
    CLEANUP_SNAPSHOT struct facet_pci_snapshot *snapshot = NULL;
    CLEANUP_PLAN struct bind_plan *plan = NULL;
    struct facet_passthrough_verdict *verdict = NULL;
    enum facet_status status = manager->host.ops->scan(&manager->host, &snapshot, error);

    if (!status)
        status = facet_passthrough_judge(snapshot, &request->wish, &verdict, error);
    if (status)
        return status;
    plan = new_plan(FACET_PASSTHROUGH_BIND, request, verdict->function_count);
    if (!plan) {
        facet_passthrough_verdict_destroy(verdict);
        return no_memory(error);
    }
    plan->plan.verdict = verdict;
    if (verdict->function_count > JOURNAL_FUNCTIONS_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "wish->functions", "are %zu, at most %u were expected",
                                    verdict->function_count, JOURNAL_FUNCTIONS_MAX);
    status = fill_plan(manager, snapshot, plan, error);
    if (!status)
        *ret_plan = FACET_TAKE_PTR(plan);
    return status;
}

static enum facet_status check_request(const struct facet_passthrough_request *request, struct facet_error *error)
{
    if (request->size < sizeof *request)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request->size", "is %u, at least %zu was expected",
                                    request->size, sizeof *request);
    FACET_NEED_KNOWN("request", request, error);
    if (request->flags & ~FACET_PASSTHROUGH_RESET)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request->flags", "0x%x has bits that are unknown",
                                    request->flags);
    if (!request->wish || request->wish->size < sizeof *request->wish)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request->wish", "is NULL or too small");
    FACET_NEED_KNOWN("request->wish", request->wish, error);
    if (request->driver && (!request->driver[0] || !journal_is_name(request->driver) || strlen(request->driver) > 38))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request->driver",
                                    "\"%.40s\" is no name of a driver; one like \"vfio-pci\" was expected",
                                    request->driver);
    /* An override would make a driver of the host take any function, even one that it does not support. */
    if (request->driver && !driver_is_vfio(request->driver))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request->driver",
                                    "%s is no driver of vfio; one like \"vfio-pci\" was expected", request->driver);
    return FACET_OK;
}

enum facet_status facet_passthrough_plan_bind(struct facet_passthrough *manager,
                                              const struct facet_passthrough_request *request,
                                              struct facet_passthrough_plan **ret_plan, struct facet_error *error)
{
    struct bind_request inside = {.flags = 0};
    struct bind_plan *plan = NULL;

    if (!manager || !request || !ret_plan)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT,
                                    !manager ? "manager" : (request ? "ret_plan" : "request"), "must not be NULL");
    enum facet_status status = check_request(request, error);
    if (status)
        return status;
    inside.flags = request->flags;
    FACET_SIZED_TAKE(&inside.wish, request->wish);
    snprintf(inside.driver, sizeof inside.driver, "%s", request->driver ? request->driver : "");
    status = plan_bind(manager, &inside, &plan, error);
    if (!status)
        *ret_plan = &plan->plan;
    return status;
}

/* ---- planning to give back ---- */

struct search {
    const struct facet_pci_address *address;
    const char *boot;
    struct journal found;
    struct facet_error *error;
    enum facet_status status; /* of a journal that could not be read */
};

static bool take_journal(void *context, const char *name, struct journal *journal, const struct facet_error *failure)
{
    struct search *search = context;

    if (failure) {
        search->status = failure->status;
        if (search->error)
            *search->error = *failure;
        return true;
    }
    if (strcmp(journal->boot, search->boot) != 0 || !journal_find(journal, search->address))
        return true;
    search->found = *journal;
    *journal = (struct journal){.count = 0};
    return false;
}

static enum facet_status find_journal(struct facet_passthrough *manager, const struct facet_pci_address *address,
                                      struct journal *ret_journal, struct facet_error *error)
{
    char boot[40], text[FACET_PCI_ADDRESS_SIZE];
    struct search search = {.address = address, .boot = boot, .error = error};

    bind_read_boot_id(&manager->host, boot, sizeof boot);
    enum facet_status status =
        manager->config.state < 0 ? FACET_OK : journal_each(&manager->host, take_journal, &search, error);
    if (!status && search.found.count > 0) {
        *ret_journal = search.found;
        return FACET_OK;
    }
    if (status || search.status)
        return status ? status : search.status;
    facet_pci_address_print(address, text);
    return facet_error_argument(error, FACET_NOT_FOUND, "functions",
                                "%s was not bound by Facet: no journal says where it belongs", text);
}

static enum facet_status check_together(const struct journal *journal, const struct bind_request *request,
                                        struct facet_error *error)
{
    char text[FACET_PCI_ADDRESS_SIZE];

    if (journal->phase != JOURNAL_BOUND)
        return facet_error_set(error, FACET_BAD_STATE,
                               "a transaction with the IOMMU group was interrupted: recover it first");
    for (size_t i = 0; i < request->wish.count; i++) {
        if (journal_find(journal, &request->wish.functions[i]))
            continue;
        facet_pci_address_print(&request->wish.functions[i], text);
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "functions", "%s was not bound together with them",
                                    text);
    }
    return FACET_OK;
}

/* Gives functions back in the reverse order. Functions that are gone, or whose card was replaced, get no step. */
static bool add_return_steps(const struct bind_host *host, const struct facet_pci_snapshot *snapshot,
                             struct bind_plan *plan)
{
    struct journal *journal = &plan->journal;
    struct journal_binding now;
    bool added = true, is_same;

    for (size_t i = journal->count; added && i-- > 0;) { /* the old driver may have been unloaded meanwhile */
        struct journal_function *record = &journal->functions[i];
        const struct facet_pci_function *function = bind_find(snapshot, &record->identity, &is_same);

        if (!is_same)
            continue;
        bind_place(host, function, &now);
        added = add_load(host, plan, &record->identity, &now, &record->old);
    }
    for (size_t i = journal->count; added && i-- > 0;) {
        struct journal_function *record = &journal->functions[i];
        const struct facet_pci_function *function = bind_find(snapshot, &record->identity, &is_same);

        if (!is_same)
            continue;
        bind_place(host, function, &now);
        added = add_driver_steps(plan, &record->identity, &now, &record->old);
    }
    for (size_t i = journal->count; added && i-- > 0;) {
        struct journal_function *record = &journal->functions[i];
        const struct facet_pci_function *function = bind_find(snapshot, &record->identity, &is_same);

        if (!is_same)
            continue;
        struct facet_passthrough_step step;
        bind_place(host, function, &now);
        added = add_power_step(plan, &record->identity, &now, &record->old);
        if (added && bind_rights_step(host, &record->identity, &record->old, &step) && !has_path(plan, step.path))
            added = add_step(plan, &step);
    }
    return added;
}

static enum facet_status plan_unbind(struct facet_passthrough *manager, const struct bind_request *request,
                                     struct bind_plan **ret_plan, struct facet_error *error)
{
    CLEANUP_SNAPSHOT struct facet_pci_snapshot *snapshot = NULL;
    CLEANUP_PLAN struct bind_plan *plan = NULL;
    struct journal journal = {.count = 0};
    enum facet_status status = find_journal(manager, &request->wish.functions[0], &journal, error);

    if (status)
        return status;
    plan = new_plan(FACET_PASSTHROUGH_UNBIND, request, journal.count);
    if (!plan) {
        journal_clear(&journal);
        return no_memory(error);
    }
    free(plan->journal.functions);
    plan->journal = journal;
    for (size_t i = 0; i < journal.count; i++)
        plan->plan.functions[plan->plan.function_count++] = journal.functions[i].identity;
    status = check_together(&journal, request, error);
    if (!status)
        status = bind_scan_settled(&manager->host, &plan->journal, &snapshot, error);
    if (!status && !add_return_steps(&manager->host, snapshot, plan))
        status = no_memory(error);
    if (!status)
        *ret_plan = FACET_TAKE_PTR(plan);
    return status;
}

enum facet_status facet_passthrough_plan_unbind(struct facet_passthrough *manager,
                                                const struct facet_pci_address *functions, size_t count,
                                                struct facet_passthrough_plan **ret_plan, struct facet_error *error)
{
    struct bind_request request = {.wish = {.functions = functions, .count = count}};
    struct bind_plan *plan = NULL;

    if (!manager || !functions || !ret_plan)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT,
                                    !manager ? "manager" : (functions ? "ret_plan" : "functions"), "must not be NULL");
    if (count == 0)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "count", "is 0, at least one function was expected");
    enum facet_status status = plan_unbind(manager, &request, &plan, error);
    if (!status)
        *ret_plan = &plan->plan;
    return status;
}

/* ---- planning again ---- */

enum facet_status bind_plan_again(struct facet_passthrough *manager, const struct bind_plan *plan,
                                  struct bind_plan **ret_plan, struct facet_error *error)
{
    return plan->plan.direction == FACET_PASSTHROUGH_BIND ? plan_bind(manager, &plan->request, ret_plan, error)
                                                          : plan_unbind(manager, &plan->request, ret_plan, error);
}

static bool is_same_function(const struct facet_passthrough_identity *a, const struct facet_passthrough_identity *b)
{
    return facet_pci_address_compare(&a->address, &b->address) == 0 && a->vendor == b->vendor &&
           a->device == b->device && a->subsystem_vendor == b->subsystem_vendor &&
           a->subsystem_device == b->subsystem_device && a->group == b->group && strcmp(a->serial, b->serial) == 0;
}

static bool is_same_step(const struct facet_passthrough_step *a, const struct facet_passthrough_step *b)
{
    return a->kind == b->kind && facet_pci_address_compare(&a->address, &b->address) == 0 &&
           strcmp(a->path, b->path) == 0 && strcmp(a->value, b->value) == 0 && strcmp(a->before, b->before) == 0;
}

bool bind_plan_has_same_functions(const struct bind_plan *a, const struct bind_plan *b)
{
    bool is_same = a->plan.function_count == b->plan.function_count;

    for (size_t i = 0; is_same && i < a->plan.function_count; i++)
        is_same = is_same_function(&a->plan.functions[i], &b->plan.functions[i]);
    return is_same;
}

bool bind_plan_is_same(const struct bind_plan *a, const struct bind_plan *b)
{
    bool is_same = a->plan.direction == b->plan.direction && bind_plan_has_same_functions(a, b) &&
                   a->plan.step_count == b->plan.step_count;

    for (size_t i = 0; is_same && i < a->plan.step_count; i++)
        is_same = is_same_step(&a->plan.steps[i], &b->plan.steps[i]);
    return is_same;
}
