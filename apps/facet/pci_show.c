/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci show`: one function in full. Never: writes to a device, or wakes one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "pci.h"
#include "view.h"

static const char help[] = "usage: facet pci show ADDRESS [--root DIR] [--json]\n"
                           "\n"
                           "One PCI function in full: what it is, who drives and holds it, what it shares,\n"
                           "and whether it can be handed to a virtual machine. ADDRESS is 0000:01:00.0\n"
                           "or 01:00.0.\n"
                           "\n"
                           "  --root DIR  look at the copy of another machine's /sys, /proc and /dev in DIR\n"
                           "  --json      one object, as 'facet pci scan --json' has it for each function\n";

/* ---- the card ---- */

static bool add_text(struct libscols_table *card, const char *name, const json_t *object, const char *member)
{
    return !view_text(object, member)[0] || view_card_add(card, name, view_text(object, member));
}

static bool add_number(struct libscols_table *card, const char *name, const json_t *object, const char *member)
{
    char text[VIEW_SIZE];

    snprintf(text, sizeof text, "%" PRIu64, view_number(object, member));
    return !view_has(object, member) || view_card_add(card, name, text);
}

/* "a, b" */
static bool add_list(struct libscols_table *card, const char *name, const json_t *array)
{
    char text[512];
    const json_t *item;
    size_t index, used = 0;

    text[0] = '\0';
    json_array_foreach (array, index, item)
        if (used < sizeof text)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", json_string_value(item));
    return json_array_size(array) == 0 || view_card_add(card, name, text);
}

static bool add_link(struct libscols_table *card, const char *name, const json_t *link)
{
    char text[VIEW_SIZE];
    unsigned speed = (unsigned)view_number(link, "speed_mts");

    snprintf(text, sizeof text, "%u lanes of %u.%u GT/s", (unsigned)view_number(link, "width"), speed / 1000,
             speed % 1000 / 100);
    return !link || view_card_add(card, name, text);
}

static bool add_bars(struct libscols_table *card, const json_t *bars)
{
    char name[VIEW_SIZE], size[VIEW_SIZE], text[128];
    const json_t *bar;
    size_t index;
    bool complete = true;

    json_array_foreach (bars, index, bar) {
        unsigned number = (unsigned)view_number(bar, "bar");

        if (number == FACET_PCI_ROM)
            snprintf(name, sizeof name, "rom");
        else
            snprintf(name, sizeof name, "bar %u", number);
        snprintf(text, sizeof text, "%s%s%s%s%s", view_memory(view_number(bar, "bytes"), size),
                 json_is_true(json_object_get(bar, "memory")) ? "" : ", ports",
                 json_is_true(json_object_get(bar, "wide")) ? ", 64 bits" : "",
                 json_is_true(json_object_get(bar, "prefetchable")) ? ", prefetchable" : "",
                 view_has(bar, "possible_bytes") ? ", resizable" : "");
        complete = complete && view_card_add(card, name, text);
    }
    return complete;
}

static bool add_errors(struct libscols_table *card, const json_t *errors)
{
    char text[128];

    snprintf(text, sizeof text, "%" PRIu64 " corrected, %" PRIu64 " nonfatal, %" PRIu64 " fatal",
             view_number(errors, "correctable"), view_number(errors, "nonfatal"), view_number(errors, "fatal"));
    return !errors || view_card_add(card, "errors", text);
}

static bool add_sriov(struct libscols_table *card, const json_t *sriov)
{
    char text[VIEW_SIZE];

    snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64, view_number(sriov, "count"), view_number(sriov, "total"));
    return !sriov || view_card_add(card, "virtual functions", text);
}

/* Says "no process" only where the processes that hold the function could be read. */
static bool add_holders(struct libscols_table *card, const json_t *function)
{
    char text[512] = "";
    const json_t *holders = json_object_get(function, "holders"), *holder;
    size_t index, used = 0;

    json_array_foreach (holders, index, holder) {
        bool is_same =
            index > 0 && view_number(holder, "pid") == view_number(json_array_get(holders, index - 1), "pid");

        if (!is_same && used < sizeof text) /* a process may hold several nodes */
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s (pid %" PRIu64 ")", used ? ", " : "",
                                     view_text(holder, "command"), view_number(holder, "pid"));
    }
    if (strcmp(view_text(json_object_get(function, "unread"), "holders"), "unknown") == 0)
        snprintf(text + used, used < sizeof text ? sizeof text - used : 0,
                 "%sunknown: the device nodes of its driver are not known", used ? "; all others are " : "");
    else if (holders && !used)
        snprintf(text, sizeof text, "no process");
    return !text[0] || view_card_add(card, "held by", text);
}

static bool add_unread(struct libscols_table *card, json_t *unread)
{
    char text[512];
    const char *name;
    json_t *reason;
    size_t used = 0;

    text[0] = '\0';
    json_object_foreach (unread, name, reason)
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s (%s)", used ? ", " : "", name,
                                     json_string_value(reason));
    return used == 0 || view_card_add(card, "not known", text);
}

static bool add_rows(struct libscols_table *card, const json_t *function)
{
    char identity[VIEW_SIZE];

    snprintf(identity, sizeof identity, "%s:%s", view_text(function, "vendor"), view_text(function, "device"));
    return view_card_add(card, "address", view_text(function, "address")) &&
           add_text(card, "vendor", function, "vendor_name") && add_text(card, "device", function, "device_name") &&
           add_text(card, "subsystem", function, "subsystem_name") && view_card_add(card, "identity", identity) &&
           add_text(card, "class", function, "class") && add_text(card, "kind", function, "kind") &&
           add_text(card, "serial", function, "serial") && add_text(card, "slot", function, "slot") &&
           view_card_add(card, "driver", view_text(function, "driver")[0] ? view_text(function, "driver") : "none") &&
           add_text(card, "driver override", function, "driver_override") &&
           (!view_has(function, "lost") || view_card_add(card, "lost", "listed, and does not answer")) &&
           add_number(card, "IOMMU group", function, "iommu_group") &&
           add_number(card, "NUMA node", function, "numa_node") &&
           add_text(card, "near CPUs", function, "local_cpus") && add_text(card, "power", function, "power_state") &&
           add_link(card, "link", json_object_get(function, "link")) &&
           add_link(card, "link at best", json_object_get(function, "link_maximum")) &&
           add_list(card, "bridges", json_object_get(function, "bridges")) &&
           add_list(card, "ACS", json_object_get(function, "acs")) &&
           add_list(card, "reset by", json_object_get(function, "reset_methods")) &&
           add_bars(card, json_object_get(function, "bars")) && add_sriov(card, json_object_get(function, "sriov")) &&
           add_text(card, "virtual function of", function, "physical") &&
           add_errors(card, json_object_get(function, "errors")) && add_holders(card, function) &&
           add_unread(card, json_object_get(function, "unread"));
}

static bool print_types(const json_t *types)
{
    static const struct view_column columns[] = {
        {"TYPE", 0}, {"NAME", SCOLS_FL_TRUNC}, {"AVAILABLE", SCOLS_FL_RIGHT}, {"MADE AS", 0}, {NULL, 0}};
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    char available[VIEW_SIZE];
    const json_t *type;
    size_t index;
    bool complete = table != NULL;

    if (json_array_size(types) == 0)
        return true;
    json_array_foreach (types, index, type) {
        snprintf(available, sizeof available, "%" PRIu64, view_number(type, "available"));
        if (json_is_true(json_object_get(type, "current")))
            snprintf(available, sizeof available, "is one");
        complete = complete && view_row(table,
                                        (const char *const[]){view_text(type, "id"), view_text(type, "name"), available,
                                                              view_text(type, "made_as")},
                                        4);
    }
    printf("\n");
    return complete && scols_print_table(table) == 0;
}

static int print_text(const struct command *self, const json_t *function)
{
    json_t *verdict = json_object_get(function, "passthrough"), *verdicts = json_pack("[O]", verdict);
    const json_t *functions = json_object_get(verdict, "functions");
    VIEW_CLEANUP_TABLE struct libscols_table *card = view_card();

    if (!card || !add_rows(card, function) || scols_print_table(card) != 0 ||
        !print_types(json_object_get(function, "types")))
        return command_out_of_memory(self);
    printf("\npassthrough: %s", view_text(verdict, "answer"));
    if (json_array_size(functions) > 1)
        printf(", as a group of %zu functions", json_array_size(functions));
    printf("\n");
    bool complete = verdicts && pci_print_reasons(verdicts);
    json_decref(verdicts);
    return complete ? EXIT_DONE : command_out_of_memory(self);
}

/* ---- the verb ---- */

static json_t *show_json(const struct facet_pci_snapshot *snapshot, const struct facet_pci_function *function)
{
    json_t *object = pci_function_json(function), *verdict = pci_verdict_json(snapshot, function);

    if (object && verdict && json_object_set_new(object, "passthrough", verdict) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static int show_function(const struct command *self, const char *text, const char *root, bool json)
{
    struct facet_pci_address address;
    struct facet_error error = {0};
    int exit;

    if (facet_pci_address_parse(text, &address, &error))
        return command_usage(self, "%s", error.message);
    PCI_CLEANUP_SNAPSHOT struct facet_pci_snapshot *snapshot =
        pci_look(self, root, FACET_PCI_SCAN_HOLDERS | FACET_PCI_SCAN_ALL, json, &exit);
    if (!snapshot)
        return exit;
    const struct facet_pci_function *function = facet_pci_snapshot_find(snapshot, &address);
    if (!function) {
        facet_error_argument(&error, FACET_NOT_FOUND, "ADDRESS", "there is no PCI function %s", text);
        return command_refuse(self, json, &error, "'facet pci scan --all' lists them");
    }
    json_t *object = show_json(snapshot, function);
    if (!object)
        return command_out_of_memory(self);
    exit = json ? command_print_json(object) : print_text(self, object);
    json_decref(object);
    return exit;
}

static int run_show(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        PCI_OPTION_LOOK_ROOT,
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_END,
    };
    struct pci_look_options options;
    int exit;

    if (!pci_read_look(self, argc, argv, words, 1, "ADDRESS", &options, &exit))
        return exit;
    return show_function(self, argv[optind], options.root, options.json);
}

const struct command command_pci_show = {.name = "pci show", .help = help, .run = run_show};
