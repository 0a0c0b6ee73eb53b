/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the files of rules in a directory. Never: leaves a partial rule under its final name, or removes a rule that it
 * cannot read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/quiet.h"
#include "base/sized.h"
#include "passthrough/persist/rule.h"
#include "passthrough/scan/tree.h"

void facet_passthrough_rules_destroy(struct facet_passthrough_rules *rules)
{
    if (!rules)
        return;
    for (size_t i = 0; i < rules->count; i++)
        free(rules->rules[i].functions);
    free(rules->rules);
    free(rules);
}

/* ---- reading ---- */

struct reading {
    int directory;
    struct facet_passthrough_rules *rules;
    bool failed; /* no memory */
};

static enum facet_status load_rule(int directory, const char *name, struct facet_passthrough_rule *rule,
                                   struct facet_error *error)
{
    FACET_CLEANUP_FREE char *bytes = malloc(RULE_BYTES_MAX + 1);
    size_t size = 0;

    if (!bytes)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the rule %s", name);
    enum facet_pci_unread unread = tree_read_bytes(directory, name, bytes, RULE_BYTES_MAX + 1, &size);
    if (unread != FACET_PCI_READ)
        return facet_error_set(error, FACET_IO, "%s", facet_pci_unread_name(unread));
    return rule_parse(bytes, size, rule, error);
}

static bool take_name(void *context, char *name)
{
    struct reading *reading = context;
    size_t length = strlen(name);
    struct facet_error failure = {.status = FACET_OK};

    if (length < 6 || length >= FACET_PASSTHROUGH_RULE_NAME_SIZE || strcmp(name + length - 5, ".json") != 0)
        return true;
    void *array = reading->rules->rules;
    struct facet_passthrough_rule *rule = tree_append(&array, &reading->rules->count, sizeof *rule);
    reading->rules->rules = array;
    reading->failed = !rule;
    if (!rule)
        return false;
    *rule = (struct facet_passthrough_rule){.size = sizeof *rule};
    if (load_rule(reading->directory, name, rule, &failure) != FACET_OK) {
        facet_error_prefix(&failure, "rule %s", name);
        rule->failure = failure;
    }
    memcpy(rule->name, name, length + 1);
    return true;
}

static int compare_rules(const void *a, const void *b)
{
    return strcmp(((const struct facet_passthrough_rule *)a)->name, ((const struct facet_passthrough_rule *)b)->name);
}

enum facet_status facet_passthrough_rules_read(int directory, struct facet_passthrough_rules **ret_rules,
                                               struct facet_error *error)
{
    struct facet_passthrough_rules *rules = ret_rules ? calloc(1, sizeof *rules) : NULL;
    struct reading reading = {.directory = directory, .rules = rules};
    enum facet_pci_unread unread = FACET_PCI_READ;

    if (!ret_rules)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_rules", "must not be NULL");
    if (rules && directory >= 0)
        unread = tree_each_name(directory, ".", take_name, &reading);
    if (!rules || reading.failed || unread != FACET_PCI_READ) {
        facet_passthrough_rules_destroy(rules);
        if (unread != FACET_PCI_READ)
            return facet_error_set(error, FACET_IO, "cannot list the rules: %s", facet_pci_unread_name(unread));
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of rules");
    }
    rules->size = sizeof *rules;
    if (rules->count > 1)
        qsort(rules->rules, rules->count, sizeof *rules->rules, compare_rules);
    *ret_rules = rules;
    return FACET_OK;
}

/* ---- writing ---- */

static enum facet_status put_rule(int directory, const char *name, const char *text, struct facet_error *error)
{
    char fresh[FACET_PASSTHROUGH_RULE_NAME_SIZE + 8];
    size_t length = strlen(text);
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    snprintf(fresh, sizeof fresh, "%s.new", name);
    FACET_CLEANUP_FD int fd = openat(directory, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return facet_error_errno(error, errno, "cannot write the rule %s", name);
    if (write(fd, text, length) != (ssize_t)length || write(fd, "\n", 1) != 1 || fsync(fd) < 0 ||
        renameat(directory, fresh, directory, name) < 0 || fsync(directory) < 0) {
        int errnum = errno;

        unlinkat(directory, fresh, 0);
        return facet_error_errno(error, errnum, "cannot write the rule %s", name);
    }
    return FACET_OK;
}

static bool has_function(const struct facet_passthrough_rule *rule, const struct facet_pci_address *address)
{
    for (size_t i = 0; i < rule->function_count; i++)
        if (facet_pci_address_compare(&rule->functions[i].address, address) == 0)
            return true;
    return false;
}

/* Two rules for one function would undo each other. */
static enum facet_status check_others(int directory, const struct facet_passthrough_rule *rule,
                                      struct facet_error *error)
{
    struct facet_passthrough_rules *rules = NULL;
    char address[FACET_PCI_ADDRESS_SIZE];
    enum facet_status status = facet_passthrough_rules_read(directory, &rules, error);

    for (size_t i = 0; !status && i < rules->count; i++)
        for (size_t j = 0; !status && j < rule->function_count; j++)
            if (strcmp(rules->rules[i].name, rule->name) != 0 &&
                has_function(&rules->rules[i], &rule->functions[j].address)) {
                facet_pci_address_print(&rule->functions[j].address, address);
                status = facet_error_set(error, FACET_ALREADY_EXISTS, "the rule %s has %s already: remove it first",
                                         rules->rules[i].name, address);
            }
    facet_passthrough_rules_destroy(rules);
    return status;
}

/*
 * Copies the plan's functions. A slot distinguishes cards of one model, so it is kept only for a function without a
 * serial number.
 */
static bool copy_functions(const struct facet_passthrough_plan *plan, struct facet_passthrough_rule *rule)
{
    rule->functions = calloc(plan->function_count + 1, sizeof *rule->functions);
    if (!rule->functions)
        return false;
    for (size_t i = 0; i < plan->function_count; i++) {
        rule->functions[i] = plan->functions[i];
        rule->functions[i].group = -1;
        if (rule->functions[i].serial[0])
            rule->functions[i].slot[0] = '\0';
    }
    rule->function_count = plan->function_count;
    return true;
}

enum facet_status facet_passthrough_rule_write(int directory, const struct facet_passthrough_plan *plan,
                                               const struct facet_passthrough_rule *settings, struct facet_error *error)
{
    char address[FACET_PCI_ADDRESS_SIZE];

    if (!plan || !settings || plan->direction != FACET_PASSTHROUGH_BIND || plan->function_count == 0)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, plan ? "plan" : "settings",
                                    "a plan to bind and settings were expected");
    if (settings->size < sizeof *settings)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "settings->size", "is %u, at least %zu was expected",
                                    settings->size, sizeof *settings);
    FACET_NEED_KNOWN("settings", settings, error);
    struct facet_passthrough_rule rule;
    FACET_SIZED_TAKE(&rule, settings);
    rule.functions = NULL;
    facet_pci_address_print(&plan->functions[0].address, address);
    snprintf(rule.name, sizeof rule.name, "%s.json", address);
    FACET_CLEANUP_FREE char *text = copy_functions(plan, &rule) ? rule_text(&rule) : NULL;
    enum facet_status status =
        text ? check_others(directory, &rule, error) : facet_error_set(error, FACET_NO_MEMORY, "no memory for a rule");

    free(rule.functions);
    return status ? status : put_rule(directory, rule.name, text, error);
}

enum facet_status facet_passthrough_rule_remove(int directory, const struct facet_pci_address *address,
                                                struct facet_error *error)
{
    struct facet_passthrough_rules *rules = NULL;
    char text[FACET_PCI_ADDRESS_SIZE], name[FACET_PASSTHROUGH_RULE_NAME_SIZE] = "";

    if (!address)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "address", "must not be NULL");
    enum facet_status status = facet_passthrough_rules_read(directory, &rules, error);
    if (status)
        return status;
    for (size_t i = 0; i < rules->count; i++)
        if (has_function(&rules->rules[i], address))
            memcpy(name, rules->rules[i].name, sizeof name);
    facet_passthrough_rules_destroy(rules);
    facet_pci_address_print(address, text);
    if (!name[0])
        return facet_error_argument(error, FACET_NOT_FOUND, "address", "no rule has %s", text);
    if (unlinkat(directory, name, 0) < 0 || fsync(directory) < 0)
        return facet_error_errno(error, errno, "cannot remove the rule %s", name);
    return FACET_OK;
}
