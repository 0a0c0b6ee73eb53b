/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci bind`: functions to vfio, all or none. Never: goes on where the plan is not what it planned. */
#include "pci.h"
#include "pci_manage.h"

static int run_bind(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        PCI_OPTIONS_WISH,
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_END,
    };
    struct pci_wish wish;
    struct facet_passthrough_wish inside;
    PCI_CLEANUP_MANAGER struct pci_manager manager = {.root = -1, .state = -1};
    PCI_CLEANUP_PLAN struct facet_passthrough_plan *plan = NULL;
    struct facet_error error = {0};
    int exit;

    if (!pci_read_wish(self, argc, argv, words, true, &wish, &exit))
        return exit;
    struct facet_passthrough_request request = pci_request(&wish, &inside);
    enum facet_status status = pci_manager_open(&wish, true, &manager, &error);
    if (status)
        return command_refuse(self, wish.json, &error, NULL);
    pci_finish_first();
    pci_recover_first(self, manager.manager);
    status = facet_passthrough_plan_bind(manager.manager, &request, &plan, &error);
    return status ? command_refuse(self, wish.json, &error, NULL) : pci_execute(self, &manager, plan, wish.json);
}

const struct command command_pci_bind = {
    .name = "pci bind",
    .help = "usage: facet pci bind [OPTION...] ADDRESS...\n"
            "\n"
            "Takes functions from their drivers and gives them to vfio, to be handed to a\n"
            "virtual machine: all of their IOMMU groups, or nothing. What fails half-way is\n"
            "undone; what a crash interrupts is undone by the next call. Binding what is\n"
            "bound already writes nothing. 'facet pci plan' shows what would be written.\n"
            "\n"
            "  --alone         only these functions, not all of their IOMMU groups\n"
            "  --headless      the host needs no screen: take its last GPU as well\n"
            "  --reset         reset all functions once all are detached\n"
            "  --driver NAME   this driver of vfio; else the one made for the function\n"
            "  --owner USER[:GROUP]\n"
            "                  who gets the node in /dev/vfio\n"
            "  --json          print what was done as JSON\n"
            "\n"
            "A driver that does not let go is given up on after a minute: the function is\n"
            "'stuck', which is reported, and its group stays locked until it comes back.\n",
    .run = run_bind,
};
