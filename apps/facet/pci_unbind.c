/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci unbind`: gives functions back to their earlier drivers. Never: guesses such a driver. */
#include "pci.h"
#include "pci_manage.h"

static int run_unbind(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_END,
    };

    return pci_change(self, argc, argv, words, true);
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
