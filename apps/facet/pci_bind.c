/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci bind`: functions to vfio, all or none. Never: writes when the host differs from the plan. */
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

    return pci_change(self, argc, argv, words, false);
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
            "'stuck', which is reported, and its group stays locked until it returns.\n",
    .run = run_bind,
};
