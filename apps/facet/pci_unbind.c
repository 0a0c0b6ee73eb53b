/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci unbind`: functions back to where they came from. Never: guesses where that is. */
#include "pci.h"
#include "pci_manage.h"

static int run_unbind(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
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
    enum facet_status status = pci_manager_open(&wish, true, &manager, &error);
    if (status)
        return command_refuse(self, wish.json, &error, NULL);
    pci_finish_first();
    pci_recover_first(self, manager.manager);
    status = facet_passthrough_plan_unbind(manager.manager, wish.addresses, wish.count, &plan, &error);
    return status ? command_refuse(self, wish.json, &error, NULL) : pci_execute(self, &manager, plan, wish.json);
}

const struct command command_pci_unbind = {
    .name = "pci unbind",
    .help = "usage: facet pci unbind [--json] ADDRESS...\n"
            "\n"
            "Gives functions back to the drivers that they came from, with the settings that\n"
            "they had: all that were bound together, or nothing. A machine that has one open\n"
            "keeps it: unplug it there first.\n"
            "\n"
            "  --json          print what was done as JSON\n"
            "\n"
            "What Facet did not bind it does not give back: where it belongs is not known.\n",
    .run = run_unbind,
};
