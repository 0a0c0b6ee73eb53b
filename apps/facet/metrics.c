/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet metrics`. Never: starts a daemon: without one there is nothing to measure. */
#include <stdio.h>

#include "base/cleanup.h"
#include "client.h"
#include "command.h"

static int run(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {COMMAND_OPTION_HELP, COMMAND_OPTION_END};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    FACET_CLEANUP_FREE char *text = NULL;
    int option = command_option(self, argc, argv, ":h", words);

    if (option != -1)
        return option == 'h' ? command_help(self) : EXIT_USAGE;
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    if (client_open(&client, false, &error) != FACET_OK || client_text(&client, "/metrics", &text, &error) != FACET_OK)
        return command_refuse(self, false, &error, client.advice);
    fputs(text, stdout);
    return EXIT_DONE;
}

const struct command command_metrics = {
    .name = "metrics",
    .help = "usage: facet metrics\n"
            "\n"
            "Prints the daemon's metrics in Prometheus' text format 0.0.4: limits, memory,\n"
            "device time, throttling, launches and denied allocations of every virtual GPU.\n",
    .run = run,
};
