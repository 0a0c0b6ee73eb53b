/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the comparison of a host with a rule, and binding functions so that the host matches. Never: guesses which card
 * a rule means.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "passthrough/bind/manager.h"
#include "passthrough/persist/rule.h"

const char *facet_passthrough_rule_state_name(uint32_t state)
{
    static const char *const names[FACET_PASSTHROUGH_RULE_STATES] = {"met", "pending", "refused", "drift", "damaged"};

    return state < FACET_PASSTHROUGH_RULE_STATES ? names[state] : NULL;
}

static bool FACET_PRINTF(3, 4) set_finding(struct facet_passthrough_rule_finding *check,
                                           enum facet_passthrough_rule_state state, const char *format, ...)
{
    va_list arguments;

    check->state = state;
    va_start(arguments, format);
    vsnprintf(check->text, sizeof check->text, format, arguments);
    va_end(arguments);
    facet_text_make_line(check->text);
    return false;
}

/* ---- whether the host has the rule's cards ---- */

/* A value in the rule must equal the host's; a value that cannot be read on the host is a mismatch. */
static bool is_same_text(const char *what, const char *address, const char *expected, const char *found,
                         struct facet_passthrough_rule_finding *check)
{
    if (!expected[0] || strcmp(expected, found) == 0)
        return true;
    if (!found[0])
        return set_finding(check, FACET_PASSTHROUGH_RULE_DRIFT, "%s: its %s cannot be read, %s was expected", address,
                           what, expected);
    return set_finding(check, FACET_PASSTHROUGH_RULE_DRIFT, "%s: its %s is %s, %s was expected: another card", address,
                       what, found, expected);
}

static bool is_same_card(const struct facet_pci_snapshot *snapshot, const struct facet_passthrough_identity *identity,
                         struct facet_passthrough_rule_finding *check)
{
    bool is_same;
    const struct facet_pci_function *function = bind_find(snapshot, identity, &is_same);
    char address[FACET_PCI_ADDRESS_SIZE], expected[IDENTITY_MODEL_SIZE], found[IDENTITY_MODEL_SIZE];
    struct facet_passthrough_identity now;

    facet_pci_address_print(&identity->address, address);
    if (!function)
        return set_finding(check, FACET_PASSTHROUGH_RULE_DRIFT, "%s is not on this machine", address);
    bind_fill_identity(function, &now);
    identity_print_model(identity, expected);
    identity_print_model(&now, found);
    return is_same_text("model", address, expected, found, check) &&
           is_same_text("serial", address, identity->serial, now.serial, check) &&
           is_same_text("slot", address, identity->slot, now.slot, check);
}

static enum facet_status check_cards(struct facet_passthrough *manager, const struct facet_passthrough_rule *rule,
                                     struct facet_passthrough_rule_finding *check, struct facet_error *error)
{
    struct facet_pci_snapshot *snapshot = NULL;
    enum facet_status status = manager->host.ops->scan(&manager->host, &snapshot, error);

    if (status)
        return status;
    for (size_t i = 0; i < rule->function_count; i++)
        if (!is_same_card(snapshot, &rule->functions[i], check))
            break;
    facet_pci_snapshot_destroy(snapshot);
    return FACET_OK;
}

/* ---- the plan ---- */

static enum facet_status plan_rule(struct facet_passthrough *manager, const struct facet_passthrough_rule *rule,
                                   struct facet_passthrough_plan **ret_plan, struct facet_error *error)
{
    struct facet_pci_address addresses[JOURNAL_FUNCTIONS_MAX];
    struct facet_passthrough_wish wish = {.size = sizeof wish,
                                          .flags = rule->wish_flags,
                                          .functions = addresses,
                                          .count = rule->function_count,
                                          .own_pid = getpid()};
    struct facet_passthrough_request request = {
        .size = sizeof request, .flags = rule->flags, .wish = &wish, .driver = rule->driver[0] ? rule->driver : NULL};

    for (size_t i = 0; i < rule->function_count; i++)
        addresses[i] = rule->functions[i].address;
    return facet_passthrough_plan_bind(manager, &request, ret_plan, error);
}

/* A group with more members than before is not the group that the rule's author agreed to. */
static bool check_plan(const struct facet_passthrough_plan *plan, const struct facet_passthrough_rule *rule,
                       struct facet_passthrough_rule_finding *check)
{
    const struct facet_passthrough_verdict *verdict = plan->verdict;
    char address[FACET_PCI_ADDRESS_SIZE];

    if (plan->function_count != rule->function_count)
        return set_finding(check, FACET_PASSTHROUGH_RULE_DRIFT,
                           "its IOMMU groups have %zu functions now, %zu were expected", plan->function_count,
                           rule->function_count);
    if (plan->step_count == 0)
        return true;
    if (verdict->answer == FACET_PASSTHROUGH_YES)
        return set_finding(check, FACET_PASSTHROUGH_RULE_PENDING, "%s", "");
    if (verdict->reason_count == 0)
        return set_finding(check, FACET_PASSTHROUGH_RULE_REFUSED, "the verdict is not yes");
    facet_pci_address_print(&verdict->reasons[0].address, address);
    return set_finding(check, FACET_PASSTHROUGH_RULE_REFUSED, "%s %s", address, verdict->reasons[0].text);
}

static enum facet_status check_rule(struct facet_passthrough *manager, const struct facet_passthrough_rule *rule,
                                    struct facet_passthrough_rule_finding *check,
                                    struct facet_passthrough_plan **ret_plan, struct facet_error *error)
{
    struct facet_passthrough_plan *plan = NULL;
    struct facet_error failure = {.status = FACET_OK};
    enum facet_status status = check_cards(manager, rule, check, error);

    if (status || check->state != FACET_PASSTHROUGH_RULE_MET)
        return status;
    if (plan_rule(manager, rule, &plan, &failure) != FACET_OK) {
        set_finding(check, FACET_PASSTHROUGH_RULE_REFUSED, "%s", failure.message);
        return FACET_OK;
    }
    check_plan(plan, rule, check);
    if (check->state == FACET_PASSTHROUGH_RULE_DRIFT || !ret_plan) {
        facet_passthrough_plan_destroy(plan);
        return FACET_OK;
    }
    *ret_plan = plan;
    return FACET_OK;
}

/* ---- the calls ---- */

static enum facet_status check_arguments(const struct facet_passthrough *manager,
                                         const struct facet_passthrough_rule *rule,
                                         const struct facet_passthrough_rule_finding *check, struct facet_error *error)
{
    if (!manager || !rule || !check)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, !manager ? "manager" : (rule ? "ret_check" : "rule"),
                                    "must not be NULL");
    if (rule->function_count > JOURNAL_FUNCTIONS_MAX)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "rule->function_count",
                                    "is %zu, at most %u were expected", rule->function_count, JOURNAL_FUNCTIONS_MAX);
    return FACET_OK;
}

/* A copy of the manager that gives nodes to the rule's owner. */
static struct facet_passthrough with_owner_of(const struct facet_passthrough *manager,
                                              const struct facet_passthrough_rule *rule)
{
    struct facet_passthrough owner_manager = *manager;

    owner_manager.config.has_owner = rule->has_owner;
    owner_manager.config.uid = rule->uid;
    owner_manager.config.gid = rule->gid;
    return owner_manager;
}

enum facet_status facet_passthrough_rule_check(struct facet_passthrough *manager,
                                               const struct facet_passthrough_rule *rule,
                                               struct facet_passthrough_rule_finding *ret_check,
                                               struct facet_passthrough_plan **ret_plan, struct facet_error *error)
{
    struct facet_passthrough_rule_finding check = {.size = sizeof check};
    struct facet_passthrough_plan *plan = NULL;
    enum facet_status status = check_arguments(manager, rule, ret_check, error);

    if (status)
        return status;
    if (rule->function_count == 0) {
        set_finding(&check, FACET_PASSTHROUGH_RULE_DAMAGED, "%s", rule->failure.message);
    } else {
        struct facet_passthrough owner_manager = with_owner_of(manager, rule);
        status = check_rule(&owner_manager, rule, &check, ret_plan ? &plan : NULL, error);
    }
    if (status)
        return status;
    *ret_check = check;
    if (ret_plan)
        *ret_plan = plan;
    return FACET_OK;
}

enum facet_status facet_passthrough_rule_apply(struct facet_passthrough *manager,
                                               const struct facet_passthrough_rule *rule,
                                               struct facet_passthrough_report *report,
                                               struct facet_passthrough_rule_finding *ret_check,
                                               struct facet_error *error)
{
    struct facet_passthrough_rule_finding check = {.size = sizeof check};
    struct facet_passthrough_plan *plan = NULL;
    enum facet_status status = check_arguments(manager, rule, ret_check, error);

    if (!status)
        status = facet_passthrough_rule_check(manager, rule, &check, &plan, error);
    if (status)
        return status;
    bind_report_begin(report);
    if (check.state == FACET_PASSTHROUGH_RULE_PENDING) {
        struct facet_passthrough owner_manager = with_owner_of(manager, rule);
        status = facet_passthrough_bind(&owner_manager, plan, report, error);
        if (!status)
            check.state = FACET_PASSTHROUGH_RULE_MET;
    }
    facet_passthrough_plan_destroy(plan);
    if (!status)
        *ret_check = check;
    return status;
}
