/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci`: the table of its verbs, and the scan that they share. Never: does a verb's work. */
#include "pci.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "view.h"

bool pci_read_look(const struct command *self, int argc, char **argv, const struct option *words, int operands,
                   const char *name, struct pci_look_options *ret_options, int *ret_exit)
{
    struct pci_look_options options = {.root = "/"};

    for (int option; (option = command_option(self, argc, argv, ":h", words)) != -1;) {
        switch (option) {
        case 'a':
            options.all = true;
            break;
        case 'p':
            options.probe = optarg;
            break;
        case 'r':
            options.root = optarg;
            break;
        case OPTION_JSON:
            options.json = true;
            break;
        default:
            *ret_exit = option == 'h' ? command_help(self) : EXIT_USAGE;
            return false;
        }
    }
    *ret_options = options;
    *ret_exit = EXIT_USAGE;
    return command_operands(self, argc, argv, operands, operands, name);
}

struct facet_pci_snapshot *pci_look(const struct command *self, const char *root, uint32_t flags, bool json,
                                    int *ret_exit)
{
    FACET_CLEANUP_FD int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct facet_pci_snapshot *snapshot = NULL;
    struct facet_error error = {0};
    enum facet_status status = FACET_OK;

    if (directory < 0)
        status = facet_error_errno(&error, errno, "cannot open the directory %s", root);
    if (!status)
        status = facet_pci_scan(&(struct facet_pci_scan_config){.size = sizeof(struct facet_pci_scan_config),
                                                                .flags = flags,
                                                                .root = directory},
                                &snapshot, &error);
    *ret_exit = status ? command_refuse(self, json, &error, NULL) : EXIT_DONE;
    return snapshot;
}

/* ---- reasons, for people ---- */

static bool is_same_reason(const json_t *a, const json_t *b)
{
    return strcmp(view_text(a, "reason"), view_text(b, "reason")) == 0 &&
           strcmp(view_text(a, "text"), view_text(b, "text")) == 0;
}

/* A reason that many functions share is printed once, with all of them. */
static bool gather_reason(json_t *gathered, json_t *reason)
{
    json_t *item;
    size_t index;

    json_array_foreach (gathered, index, item)
        if (is_same_reason(item, reason))
            return json_array_append(json_object_get(item, "addresses"), json_object_get(reason, "address")) == 0;
    item = json_copy(reason); /* it lacks members when memory runs out */
    if (item && json_object_size(item) == json_object_size(reason) &&
        json_object_set_new(item, "addresses", json_pack("[O]", json_object_get(reason, "address"))) == 0)
        return json_array_append_new(gathered, item) == 0;
    json_decref(item);
    return false;
}

static json_t *gather_reasons(const json_t *verdicts)
{
    json_t *gathered = json_array(), *reason;
    const json_t *verdict;
    size_t index, inner;
    bool complete = gathered != NULL;

    json_array_foreach (verdicts, index, verdict)
        json_array_foreach (json_object_get(verdict, "reasons"), inner, reason)
            complete = complete && gather_reason(gathered, reason);
    if (complete)
        return gathered;
    json_decref(gathered);
    return NULL;
}

static void print_reason(const json_t *reason)
{
    const json_t *addresses = json_object_get(reason, "addresses"), *address;
    size_t index, shown = 4, count = json_array_size(addresses);

    printf("  %s: %s (", view_text(reason, "weight"), view_text(reason, "text"));
    json_array_foreach (addresses, index, address)
        if (index < shown)
            printf("%s%s", index ? ", " : "", json_string_value(address));
    if (count > shown)
        printf(" and %zu more", count - shown);
    printf(")\n      %s\n", view_text(reason, "advice"));
}

bool pci_print_reasons(const json_t *verdicts)
{
    static const char *const weights[] = {"stop", "unmeasured", "warning"};
    json_t *gathered = gather_reasons(verdicts);
    const json_t *reason;
    size_t index;

    for (size_t i = 0; gathered && i < sizeof weights / sizeof weights[0]; i++)
        json_array_foreach (gathered, index, reason)
            if (strcmp(view_text(reason, "weight"), weights[i]) == 0)
                print_reason(reason);
    json_decref(gathered);
    return gathered != NULL;
}

static const struct command *const verbs[] = {
    &command_pci_scan,
    &command_pci_show,
    &command_pci_plan,
    &command_pci_bind,
    &command_pci_unbind,
    &command_pci_state,
    &command_pci_recover,
    &command_pci_persist,
    &command_pci_attach,
    &command_pci_detach,
    &command_pci_watch,
    &command_pci_doctor,
    NULL,
};

const struct command command_pci = {
    .name = "pci",
    .help = "usage: facet pci COMMAND\n"
            "\n"
            "Hands whole accelerators to virtual machines.\n"
            "\n"
            "  scan      list accelerators, and whether each can be handed on\n"
            "  show      one function in full\n"
            "  plan      what binding would write, and whether it may be done\n"
            "  bind      take functions from their drivers for vfio, all or none\n"
            "  unbind    give them back to the drivers that they came from\n"
            "  attach    print what a virtual machine needs for a function, or plug it in\n"
            "  detach    get a function back from a running virtual machine\n"
            "  state     where each is: with the host, ready, in a machine, stuck\n"
            "  recover   undo what a crash interrupted\n"
            "  persist   bind at each start of the machine\n"
            "  watch     what changes: hot-plug, drivers, power, links, errors\n"
            "  doctor    what to fix on this host\n"
            "\n"
            "'facet help pci scan' explains a command.\n",
    .children = verbs,
    .run = command_dispatch,
};
