/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci plan`: the changes of binding or giving back, without making them. Never: writes to a device. */
#include <stdio.h>

#include "pci.h"
#include "pci_manage.h"

static int print_text(const struct command *self, const struct facet_passthrough_plan *plan)
{
    if (plan->step_count == 0)
        printf("nothing is to be done\n");
    else if (!pci_print_steps(plan))
        return command_out_of_memory(self);
    if (!plan->verdict)
        return EXIT_DONE;
    printf("\npassthrough: %s", facet_passthrough_answer_name(plan->verdict->answer));
    if (plan->function_count > 1)
        printf(", as a group of %zu functions", plan->function_count);
    printf("\n");
    return pci_print_verdict(plan->verdict) ? EXIT_DONE : command_out_of_memory(self);
}

static int print_plan(const struct command *self, const struct facet_passthrough_plan *plan, bool json)
{
    int exit;

    if (json) {
        json_t *object = pci_plan_json(plan);
        exit = object ? command_print_json(object) : command_out_of_memory(self);
        json_decref(object);
    } else {
        exit = print_text(self, plan);
    }
    if (exit == EXIT_DONE && plan->step_count > 0 && plan->verdict && plan->verdict->answer != FACET_PASSTHROUGH_YES)
        exit = EXIT_REFUSED;
    return exit;
}

static int run_plan(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        PCI_OPTIONS_WISH,
        {"root", required_argument, NULL, PCI_OPTION_ROOT},
        {"unbind", no_argument, NULL, PCI_OPTION_UNBIND},
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_END,
    };
    struct pci_wish wish;
    PCI_CLEANUP_MANAGER struct pci_manager manager = {.root = -1, .state = -1};
    PCI_CLEANUP_PLAN struct facet_passthrough_plan *plan = NULL;
    struct facet_error error = {0};
    int exit;

    if (!pci_read_wish(self, argc, argv, words, true, &wish, &exit))
        return exit;
    enum facet_status status = pci_manager_open(self, &wish, false, &manager, &error);
    if (!status)
        status = pci_make_plan(&manager, &wish, &plan, &error);
    return status ? command_refuse(self, wish.json, &error, NULL) : print_plan(self, plan, wish.json);
}

const struct command command_pci_plan = {
    .name = "pci plan",
    .help = "usage: facet pci plan [OPTION...] ADDRESS...\n"
            "\n"
            "Shows exactly what 'facet pci bind' would write, in its order: what, where, and\n"
            "what is there now; and whether it may be done. Writes nothing. Exit status 1\n"
            "when it may not be done.\n"
            "\n"
            "  --alone         only these functions, not all of their IOMMU groups\n"
            "  --headless      the host needs no screen: take its last GPU as well\n"
            "  --reset         reset all functions once all are detached\n"
            "  --driver NAME   this driver of vfio; else the one made for the function\n"
            "  --owner USER[:GROUP]\n"
            "                  who gets the node in /dev/vfio\n"
            "  --unbind        what 'facet pci unbind' would write instead\n"
            "  --root DIR      look at the copy of another machine below DIR\n"
            "  --json          print the plan as JSON\n",
    .run = run_plan,
};
