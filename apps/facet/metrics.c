/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet metrics`. Never: starts a daemon: without one, and without a program that publishes, there is nothing to
 * measure. */
#include <stdio.h>

#include "base/cleanup.h"
#include "client.h"
#include "command.h"
#include "metrics_library.h"

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
    bool daemon =
        client_open(&client, false, &error) == FACET_OK && client_text(&client, "/metrics", &text, &error) == FACET_OK;
    struct facet_error ours = {0};
    FACET_CLEANUP_FREE char *library = NULL;
    uint32_t drivers = 0;

    if (metrics_of_library(&library, &drivers, &ours) != FACET_OK)
        return command_refuse(self, false, &ours, NULL);
    if (!daemon && drivers == 0)
        return command_refuse(self, false, &error, client.advice);
    fputs(text ? text : "", stdout);
    fputs(library ? library : "", stdout);
    return EXIT_DONE;
}

const struct command command_metrics = {
    .name = "metrics",
    .help = "usage: facet metrics\n"
            "\n"
            "Prints the daemon's metrics in Prometheus' text format 0.0.4: limits, memory,\n"
            "device time, throttling, launches and denied allocations of every virtual GPU.\n"
            "After them come virtual GPUs that programs of yours made with the library, where\n"
            "they publish them: facet_library_...\n",
    .run = run,
};
