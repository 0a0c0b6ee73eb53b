/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci scan`: the list of accelerators, with verdicts. Never: writes to a device, or wakes one. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "pci.h"
#include "view.h"

static const char help[] = "usage: facet pci scan [--all] [--root DIR] [--json]\n"
                           "\n"
                           "Lists the accelerators on PCI and whether each can be handed to a virtual\n"
                           "machine together with what shares its IOMMU group; if not, every reason and\n"
                           "what to do.\n"
                           "Nothing is written, no device is woken. As root it sees more: what could not be\n"
                           "read makes the answer 'unknown'.\n"
                           "\n"
                           "  --all       every PCI function\n"
                           "  --root DIR  look at the copy of another machine's /sys, /proc and /dev in DIR\n"
                           "  --json      one object: host, functions, platforms\n";

/* The verdict on the function's group, which is made once and shared by all functions of the group. */
static json_t *verdict_json(const struct facet_pci_snapshot *snapshot, const struct facet_pci_function *function,
                            json_t *groups)
{
    char group[16];

    if (function->group < 0)
        return pci_verdict_json(snapshot, function);
    snprintf(group, sizeof group, "%d", function->group);
    if (!json_object_get(groups, group))
        json_object_set_new(groups, group, pci_verdict_json(snapshot, function));
    return json_incref(json_object_get(groups, group));
}

static json_t *scan_json(const struct facet_pci_snapshot *snapshot, bool all)
{
    json_t *functions = json_array(), *groups = json_object();
    const struct facet_pci_function *function;

    for (uint32_t i = 0; (function = facet_pci_snapshot_at(snapshot, i)); i++) {
        bool is_accelerator = facet_pci_is_accelerator(function);

        if (!is_accelerator && !all)
            continue;
        json_t *object = pci_function_json(function);
        if (function->kind != FACET_PCI_KIND_BRIDGE)
            json_object_set_new(object, "passthrough", verdict_json(snapshot, function, groups));
        json_array_append_new(functions, object);
    }
    json_decref(groups);
    return json_pack("{s:o, s:o, s:o}", "host", pci_host_json(facet_pci_snapshot_host(snapshot)), "functions",
                     functions, "platforms", pci_platforms_json(facet_pci_snapshot_host(snapshot)));
}

/* ---- the table ---- */

static const char *name_of(const json_t *function, char *buffer, size_t size)
{
    const char *device = view_text(function, "device_name");

    if (device[0])
        return device;
    if (!view_has(function, "vendor"))
        return NULL;
    snprintf(buffer, size, "%s%s%s:%s", view_text(function, "vendor_name"),
             view_has(function, "vendor_name") ? " " : "", view_text(function, "vendor"),
             view_text(function, "device"));
    return buffer;
}

/* "16x 32 GT/s": the fastest that the link can be, because an idle link slows itself down. */
static const char *link_of(const json_t *function, char *buffer)
{
    const json_t *link = json_object_get(function, "link_maximum");
    unsigned speed = (unsigned)view_number(link, "speed_mts");

    if (!link)
        return NULL;
    snprintf(buffer, VIEW_SIZE, "%ux %u.%u GT/s", (unsigned)view_number(link, "width"), speed / 1000,
             speed % 1000 / 100);
    return buffer;
}

static const char *number_of(const json_t *function, const char *member, char *buffer)
{
    snprintf(buffer, VIEW_SIZE, "%u", (unsigned)view_number(function, member));
    return view_has(function, member) ? buffer : NULL;
}

/* The member's text; NULL when it is absent, empty or null. */
static const char *text_of(const json_t *object, const char *member)
{
    return view_text(object, member)[0] ? view_text(object, member) : NULL;
}

static bool add_function(struct libscols_table *table, const json_t *function)
{
    char name[160], link[VIEW_SIZE], node[VIEW_SIZE], group[VIEW_SIZE];
    const json_t *verdict = json_object_get(function, "passthrough");

    return view_row(table,
                    (const char *const[]){view_text(function, "address"), name_of(function, name, sizeof name),
                                          view_text(function, "kind"), text_of(function, "driver"),
                                          number_of(function, "numa_node", node), link_of(function, link),
                                          number_of(function, "iommu_group", group),
                                          verdict ? view_text(verdict, "answer") : NULL},
                    8);
}

static bool add_platform(struct libscols_table *table, const json_t *platform)
{
    return view_row(table,
                    (const char *const[]){view_text(platform, "name"), view_text(platform, "device"), "npu",
                                          text_of(platform, "driver"), NULL, NULL, NULL, "no"},
                    8);
}

static bool print_table(const json_t *scan)
{
    static const struct view_column columns[] = {
        {"ADDRESS", 0},
        {"NAME", SCOLS_FL_TRUNC},
        {"KIND", 0},
        {"DRIVER", 0},
        {"NUMA", SCOLS_FL_RIGHT},
        {"LINK", SCOLS_FL_RIGHT},
        {"GROUP", SCOLS_FL_RIGHT},
        {"PASSTHROUGH", 0},
        {NULL, 0},
    };
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    bool complete = table != NULL;
    const json_t *item;
    size_t index;

    json_array_foreach (json_object_get(scan, "functions"), index, item)
        complete = complete && add_function(table, item);
    json_array_foreach (json_object_get(scan, "platforms"), index, item)
        complete = complete && add_platform(table, item);
    return complete && scols_print_table(table) == 0;
}

static bool was_printed(const json_t *verdicts, const json_t *verdict)
{
    const json_t *earlier;
    size_t index;

    json_array_foreach (verdicts, index, earlier)
        if (earlier == verdict)
            return true;
    return false;
}

static bool print_why(const json_t *scan)
{
    json_t *verdicts = json_array(), *function, *verdict;
    const json_t *platform;
    size_t index;
    bool silent = json_array_size(json_object_get(scan, "platforms")) == 0;

    json_array_foreach (json_object_get(scan, "functions"), index, function) {
        verdict = json_object_get(function, "passthrough");
        /* A group's verdict is printed once. */
        if (was_printed(verdicts, verdict))
            continue;
        silent = silent && json_array_size(json_object_get(verdict, "reasons")) == 0;
        json_array_append(verdicts, verdict);
    }
    if (!silent)
        printf("\n");
    bool complete = verdicts && pci_print_reasons(verdicts);
    json_array_foreach (json_object_get(scan, "platforms"), index, platform)
        printf("  stop: %s is part of the machine's chip, not on PCI\n      use it through its driver\n",
               view_text(platform, "name"));
    json_decref(verdicts);
    return complete;
}

static int print_text(const struct command *self, const json_t *scan)
{
    if (json_array_size(json_object_get(scan, "functions")) == 0 &&
        json_array_size(json_object_get(scan, "platforms")) == 0) {
        printf("no accelerator on PCI; 'facet pci scan --all' lists every function, 'facet devices' what can be "
               "carved\n");
        return EXIT_DONE;
    }
    return print_table(scan) && print_why(scan) ? EXIT_DONE : command_out_of_memory(self);
}

static int run_scan(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        PCI_OPTION_LOOK_ALL, PCI_OPTION_LOOK_ROOT, COMMAND_OPTION_HELP, COMMAND_OPTION_JSON, COMMAND_OPTION_END,
    };
    struct pci_look_options options;
    int exit;

    if (!pci_read_look(self, argc, argv, words, 0, "", &options, &exit))
        return exit;
    PCI_CLEANUP_SNAPSHOT struct facet_pci_snapshot *snapshot = pci_look(
        self, options.root, FACET_PCI_SCAN_HOLDERS | (options.all ? FACET_PCI_SCAN_ALL : 0), options.json, &exit);
    if (!snapshot)
        return exit;
    json_t *scan = scan_json(snapshot, options.all);
    if (!scan)
        return command_out_of_memory(self);
    exit = options.json ? command_print_json(scan) : print_text(self, scan);
    json_decref(scan);
    return exit;
}

const struct command command_pci_scan = {.name = "pci scan", .help = help, .run = run_scan};
