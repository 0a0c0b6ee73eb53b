/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: `facet pci persist`: rules that are applied at each start of the machine. Never: applies a rule to cards other
 * than those that it was made for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <facet/passthrough_rules.h>

#include "base/cleanup.h"
#include "base/paths.h"
#include "pci.h"
#include "pci_manage.h"
#include "terminal.h"
#include "view.h"

#define RULES "/etc/facet/passthrough.d"

/* The state that these verbs share. */
struct persist {
    const struct command *self;
    struct pci_wish wish;
    struct pci_manager manager;
    int directory; /* of the rules; -1: there is none */
    struct facet_passthrough_rules *rules;
};

static void persist_close(struct persist *persist)
{
    facet_passthrough_rules_destroy(persist->rules);
    pci_manager_close(&persist->manager);
    if (persist->directory >= 0)
        close(persist->directory);
}
#define PERSIST_CLEANUP __attribute__((cleanup(persist_close)))

/* $FACET_PCI_RULES_DIR names another folder, for tests and for images of other machines. */
static enum facet_status open_rules(bool must_write, int *ret_fd, struct facet_error *error)
{
    const char *chosen = getenv("FACET_PCI_RULES_DIR");
    const char *path = chosen && chosen[0] ? chosen : RULES;
    enum facet_status status = must_write ? facet_path_make(path, 0755, error) : FACET_OK;

    if (status)
        return status;
    *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0 && (must_write || errno != ENOENT))
        return facet_error_errno(error, errno, "cannot open the directory of rules %s", path);
    return FACET_OK;
}

/* False: the caller returns *ret_exit. */
static bool open_persist(struct persist *persist, bool must_write_rules, bool must_write_state, int *ret_exit)
{
    struct facet_error error = {0};
    enum facet_status status =
        pci_manager_open(persist->self, &persist->wish, must_write_state, &persist->manager, &error);

    if (!status)
        status = open_rules(must_write_rules, &persist->directory, &error);
    if (!status)
        status = facet_passthrough_rules_read(persist->directory, &persist->rules, &error);
    if (status)
        *ret_exit = command_refuse(persist->self, persist->wish.json, &error, NULL);
    return status == FACET_OK;
}

/* Reads the command line of a verb that has only --root and --json. False: the caller returns *ret_exit. */
static bool read_plain(struct persist *persist, int argc, char **argv, bool needs_address, int *ret_exit)
{
    static const struct option words[] = {{"root", required_argument, NULL, PCI_OPTION_ROOT},
                                          COMMAND_OPTION_HELP,
                                          COMMAND_OPTION_JSON,
                                          COMMAND_OPTION_END};

    return pci_read_wish(persist->self, argc, argv, words, needs_address, &persist->wish, ret_exit);
}

/* ---- add, remove ---- */

static int add_rule(struct persist *persist)
{
    struct facet_passthrough_rule rule = {.size = sizeof rule,
                                          .wish_flags = persist->wish.wish_flags,
                                          .flags = persist->wish.flags,
                                          .has_owner = persist->wish.has_owner,
                                          .uid = persist->wish.uid,
                                          .gid = persist->wish.gid};
    PCI_CLEANUP_PLAN struct facet_passthrough_plan *plan = NULL;
    struct facet_error error = {0};
    enum facet_status status = pci_make_plan(&persist->manager, &persist->wish, &plan, &error);

    snprintf(rule.driver, sizeof rule.driver, "%s", persist->wish.driver ? persist->wish.driver : "");
    if (!status)
        status = facet_passthrough_rule_write(persist->directory, plan, &rule, &error);
    if (status)
        return command_refuse(persist->self, persist->wish.json, &error, NULL);
    if (persist->wish.json) {
        json_t *object = pci_plan_json(plan);
        int exit = object ? command_print_json(object) : command_out_of_memory(persist->self);
        json_decref(object);
        return exit;
    }
    if (plan->step_count > 0 && plan->verdict->answer != FACET_PASSTHROUGH_YES)
        command_warn(persist->self, "as things are now it would be refused: 'facet pci plan' says why");
    printf("%zu function%s bound at each start of the machine\n", plan->function_count,
           plan->function_count == 1 ? " is" : "s are");
    return EXIT_DONE;
}

static int run_add(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {PCI_OPTIONS_WISH, COMMAND_OPTION_HELP, COMMAND_OPTION_JSON,
                                          COMMAND_OPTION_END};
    PERSIST_CLEANUP struct persist persist = {.self = self, .directory = -1, .manager = {.root = -1, .state = -1}};
    int exit;

    if (!pci_read_wish(self, argc, argv, words, true, &persist.wish, &exit) ||
        !open_persist(&persist, true, false, &exit))
        return exit;
    return add_rule(&persist);
}

static int run_remove(const struct command *self, int argc, char **argv)
{
    PERSIST_CLEANUP struct persist persist = {.self = self, .directory = -1, .manager = {.root = -1, .state = -1}};
    struct facet_error error = {0};
    int exit;

    if (!read_plain(&persist, argc, argv, true, &exit) || !open_persist(&persist, false, false, &exit))
        return exit;
    for (size_t i = 0; i < persist.wish.count; i++)
        if (facet_passthrough_rule_remove(persist.directory, &persist.wish.addresses[i], &error) != FACET_OK)
            return command_refuse(self, persist.wish.json, &error, NULL);
    return EXIT_DONE;
}

/* ---- plan, assert, apply: all rules, one after the other ---- */

/* One rule, and the result of checking or applying it. */
struct row {
    const struct facet_passthrough_rule *rule;
    struct facet_passthrough_rule_finding check;
    struct facet_passthrough_report report;
    struct facet_passthrough_plan *plan;
    struct facet_error error;
};

typedef void (*row_func)(struct persist *persist, struct row *row);

static void check_row(struct persist *persist, struct row *row)
{
    facet_passthrough_rule_check(persist->manager.manager, row->rule, &row->check, &row->plan, &row->error);
}

/* A failure makes the row `refused`, with the error's message. */
static void apply_row(struct persist *persist, struct row *row)
{
    if (facet_passthrough_rule_apply(persist->manager.manager, row->rule, &row->report, &row->check, &row->error) ==
        FACET_OK)
        return;
    row->check.state = FACET_PASSTHROUGH_RULE_REFUSED;
    snprintf(row->check.text, sizeof row->check.text, "%.299s", row->error.message);
    row->error.status = FACET_OK;
}

static json_t *row_json(const struct row *row)
{
    json_t *object =
        json_pack("{s:s, s:s}", "rule", row->rule->name, "state", facet_passthrough_rule_state_name(row->check.state));

    if (row->check.text[0])
        json_object_set_new(object, "reason", json_string(row->check.text));
    if (row->plan)
        json_object_set_new(object, "plan", pci_plan_json(row->plan));
    return object;
}

static bool print_row(const struct row *row)
{
    printf("%s: %s%s%s\n", row->rule->name, facet_passthrough_rule_state_name(row->check.state),
           row->check.text[0] ? ": " : "", row->check.text);
    return !row->plan || row->plan->step_count == 0 || pci_print_steps(row->plan);
}

static int run_rules(struct persist *persist, row_func work, bool all_must_be_met)
{
    json_t *array = persist->wish.json ? json_array() : NULL;
    int exit = EXIT_DONE;

    for (size_t i = 0; i < persist->rules->count; i++) {
        struct row row = {.rule = &persist->rules->rules[i], .report = {.size = sizeof row.report}};

        work(persist, &row);
        terminal_note_end();
        if (row.error.status) {
            json_decref(array);
            return command_refuse(persist->self, persist->wish.json, &row.error, NULL);
        }
        pci_warn_notes(persist->self, &row.report);
        if (array)
            json_array_append_new(array, row_json(&row));
        else if (!print_row(&row))
            exit = command_out_of_memory(persist->self);
        if (all_must_be_met && row.check.state != FACET_PASSTHROUGH_RULE_MET)
            exit = EXIT_REFUSED;
        facet_passthrough_plan_destroy(row.plan);
    }
    if (array && command_print_json(array) != EXIT_DONE)
        exit = EXIT_REFUSED;
    json_decref(array);
    return exit;
}

static int run_plan(const struct command *self, int argc, char **argv)
{
    PERSIST_CLEANUP struct persist persist = {.self = self, .directory = -1, .manager = {.root = -1, .state = -1}};
    int exit;

    if (!read_plain(&persist, argc, argv, false, &exit) || !open_persist(&persist, false, false, &exit))
        return exit;
    return run_rules(&persist, check_row, false);
}

static void assert_row(struct persist *persist, struct row *row)
{
    facet_passthrough_rule_check(persist->manager.manager, row->rule, &row->check, NULL, &row->error);
}

static int run_assert(const struct command *self, int argc, char **argv)
{
    PERSIST_CLEANUP struct persist persist = {.self = self, .directory = -1, .manager = {.root = -1, .state = -1}};
    int exit;

    if (!read_plain(&persist, argc, argv, false, &exit) || !open_persist(&persist, false, false, &exit))
        return exit;
    return run_rules(&persist, assert_row, true);
}

static bool begin_writing(struct persist *persist, int argc, char **argv, int *ret_exit)
{
    static const struct option words[] = {COMMAND_OPTION_HELP, COMMAND_OPTION_JSON, COMMAND_OPTION_END};

    if (!pci_read_wish(persist->self, argc, argv, words, false, &persist->wish, ret_exit) ||
        !open_persist(persist, false, true, ret_exit))
        return false;
    pci_block_signals();
    pci_recover_first(persist->self, persist->manager.manager);
    return true;
}

static int run_apply(const struct command *self, int argc, char **argv)
{
    PERSIST_CLEANUP struct persist persist = {.self = self, .directory = -1, .manager = {.root = -1, .state = -1}};
    int exit;

    return begin_writing(&persist, argc, argv, &exit) ? run_rules(&persist, apply_row, true) : exit;
}

/* ---- undo ---- */

/* Gives the rule's functions back to the host, if Facet bound them. */
static void undo_row(struct persist *persist, struct row *row)
{
    PCI_CLEANUP_PLAN struct facet_passthrough_plan *plan = NULL;
    struct facet_error error = {0};
    enum facet_status status = FACET_NOT_FOUND;

    assert_row(persist, row);
    if (row->rule->function_count > 0)
        status =
            facet_passthrough_plan_unbind(persist->manager.manager, &row->rule->functions[0].address, 1, &plan, &error);
    if (!status)
        status = facet_passthrough_unbind(persist->manager.manager, plan, &row->report, &error);
    if (status && status != FACET_NOT_FOUND) {
        row->check.state = FACET_PASSTHROUGH_RULE_REFUSED;
        snprintf(row->check.text, sizeof row->check.text, "%.299s", error.message);
    } else if (!status) {
        assert_row(persist, row);
    }
}

static int run_undo(const struct command *self, int argc, char **argv)
{
    PERSIST_CLEANUP struct persist persist = {.self = self, .directory = -1, .manager = {.root = -1, .state = -1}};
    int exit;

    return begin_writing(&persist, argc, argv, &exit) ? run_rules(&persist, undo_row, false) : exit;
}

/* ---- the table ---- */

#define ABOUT_RULES                                                                                                    \
    "\n"                                                                                                               \
    "Rules are files in " RULES ", one for each set of functions; a\n"                                                 \
    "rule is for those very cards: address, model, and serial number or slot.\n"

static const struct command add = {
    .name = "pci persist add",
    .help = "usage: facet pci persist add [OPTION...] ADDRESS...\n"
            "\n"
            "Writes the rule that these functions, with their IOMMU groups, are bound at each\n"
            "start of the machine. Binds nothing now. Options are those of 'facet pci bind'.\n" ABOUT_RULES "\n"
            "  --alone         only these functions, not all of their IOMMU groups\n"
            "  --headless      the host needs no screen: take its last GPU as well\n"
            "  --reset         reset all functions once all are detached\n"
            "  --driver NAME   this driver of vfio; else the one made for the function\n"
            "  --owner USER[:GROUP]\n"
            "                  who gets the node in /dev/vfio\n"
            "  --json          print the plan as JSON\n",
    .run = run_add,
};

static const struct command remove_rule = {
    .name = "pci persist remove",
    .help = "usage: facet pci persist remove ADDRESS...\n"
            "\n"
            "Removes the rule that has this function. What is bound stays bound until\n"
            "'facet pci unbind' or the next start of the machine.\n",
    .run = run_remove,
};

static const struct command plan = {
    .name = "pci persist plan",
    .help = "usage: facet pci persist plan [--root DIR] [--json]\n"
            "\n"
            "Shows for each rule whether it is met, and what applying it would write.\n" ABOUT_RULES "\n"
            "  met             bound as it says\n"
            "  pending         it can be applied\n"
            "  refused         it may not be applied as things are; the reason follows\n"
            "  drift           these are not the cards that it was made for: left alone\n"
            "  damaged         its file cannot be read: left alone\n"
            "\n"
            "  --root DIR      look at the copy of another machine below DIR\n"
            "  --json          print the rules as JSON\n",
    .run = run_plan,
};

static const struct command apply = {
    .name = "pci persist apply",
    .help = "usage: facet pci persist apply [--json]\n"
            "\n"
            "Binds what the rules say, each all or nothing; what facet-passthrough.service\n"
            "does at each start. A rule whose cards are not those that it was made for is\n"
            "reported and left alone. Exit status 1 when a rule is not met afterwards.\n"
            "\n"
            "  --json          print the rules as JSON\n",
    .run = run_apply,
};

static const struct command assert_rules = {
    .name = "pci persist assert",
    .help = "usage: facet pci persist assert [--root DIR] [--json]\n"
            "\n"
            "Exit status 0 when every rule is met, else 1; each is printed with its state.\n"
            "Writes nothing.\n"
            "\n"
            "  --root DIR      look at the copy of another machine below DIR\n"
            "  --json          print the rules as JSON\n",
    .run = run_assert,
};

static const struct command undo = {
    .name = "pci persist undo",
    .help = "usage: facet pci persist undo [--json]\n"
            "\n"
            "Gives back what the rules bound since the machine was started. The rules stay,\n"
            "and are applied at the next start; 'facet pci persist remove' removes one.\n"
            "\n"
            "  --json          print the rules as JSON\n",
    .run = run_undo,
};

static const struct command *const children[] = {&add, &remove_rule, &plan, &apply, &assert_rules, &undo, NULL};

const struct command command_pci_persist = {
    .name = "pci persist",
    .help = "usage: facet pci persist COMMAND\n"
            "\n"
            "Functions that are bound at each start of the machine.\n" ABOUT_RULES "\n"
            "  add     write a rule for functions\n"
            "  remove  remove it\n"
            "  plan    each rule, and what applying it would write\n"
            "  apply   bind what the rules say, as the system does at its start\n"
            "  assert  whether every rule is met\n"
            "  undo    give back what they bound; the rules stay\n"
            "\n"
            "'facet help pci persist add' explains a command.\n",
    .children = children,
    .run = command_dispatch,
};
