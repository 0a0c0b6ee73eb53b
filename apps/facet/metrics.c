/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet metrics`. Never: starts a daemon, which would have nothing to measure. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <facet/measurement.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "client.h"
#include "command.h"
#include "metrics_gather.h"
#include "metrics_library.h"
#include "metrics_pci.h"

enum { OPTION_NODE = 1024, OPTION_PID, OPTION_CGROUP, OPTION_PCI };

static int print_published(const struct command *self)
{
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    FACET_CLEANUP_FREE char *text = NULL;
    bool has_daemon =
        client_open(&client, false, &error) == FACET_OK && client_text(&client, "/metrics", &text, &error) == FACET_OK;
    struct facet_error ours = {0};
    FACET_CLEANUP_FREE char *library = NULL;
    uint32_t drivers = 0;

    if (metrics_of_library(self, &library, &drivers, &ours) != FACET_OK)
        return command_refuse(self, false, &ours, NULL);
    if (!has_daemon && drivers == 0)
        return command_refuse(self, false, &error, client.advice);
    fputs(text ? text : "", stdout);
    fputs(library ? library : "", stdout);
    return EXIT_DONE;
}

static int print_gathered(const struct command *self, const struct metrics_request *request, bool json)
{
    struct facet_error error = {0};
    FACET_CLEANUP_FREE char *text = NULL;

    if (metrics_gather(request, json, &text, &error) != FACET_OK)
        return command_refuse(self, json, &error, NULL);
    fputs(text, stdout);
    fputs(json ? "\n" : "", stdout);
    return EXIT_DONE;
}

static int print_pci(const struct command *self)
{
    struct facet_error error = {0};
    FACET_CLEANUP_FREE char *text = NULL;

    if (metrics_of_pci("/", &text, &error) != FACET_OK)
        return command_refuse(self, false, &error, NULL);
    fputs(text, stdout);
    return EXIT_DONE;
}

/* ---- options ---- */

struct options {
    struct metrics_request request;
    bool json;
    bool pci;
    char node[256];
};

static bool is_pid(const char *text)
{
    char *end = NULL;

    errno = 0;
    long pid = strtol(text, &end, 10);

    return errno == 0 && *text >= '1' && *text <= '9' && !*end && pid <= INT32_MAX;
}

static bool add_subject(const struct command *self, struct options *options, uint32_t kind, const char *name)
{
    struct metrics_request *request = &options->request;

    if (request->count == METRICS_SUBJECTS) {
        (void)command_usage(self, "expected at most %d nodes, devices, processes and control groups", METRICS_SUBJECTS);
        return false;
    }
    for (uint32_t i = 0; i < request->count; i++)
        if (request->subject[i].kind == kind && strcmp(request->subject[i].name, name) == 0)
            return true;
    request->subject[request->count++] = (struct metrics_subject){.kind = kind, .name = name};
    return true;
}

/* False: the option was refused. */
static bool take_option(const struct command *self, struct options *options, int option)
{
    switch (option) {
    case OPTION_JSON:
        options->json = true;
        return true;
    case OPTION_PCI:
        options->pci = true;
        return true;
    case OPTION_NODE:
        if (gethostname(options->node, sizeof options->node - 1) < 0 || !options->node[0])
            snprintf(options->node, sizeof options->node, "node");
        facet_text_make_line(options->node); /* a host name may hold any bytes */
        return add_subject(self, options, FACET_SUBJECT_NODE, options->node);
    case OPTION_CGROUP:
        return add_subject(self, options, FACET_SUBJECT_CONTAINER, optarg);
    case 'd':
        return add_subject(self, options, FACET_SUBJECT_DEVICE, optarg);
    case OPTION_PID:
        if (is_pid(optarg))
            return add_subject(self, options, FACET_SUBJECT_PROCESS, optarg);
        (void)command_usage(self, "pid '%.40s': expected a number from 1 on", optarg);
        return false;
    case OPTION_INTERVAL:
        if (command_read_interval(optarg, &options->request.interval_ns))
            return true;
        (void)command_usage(self, "interval '%.40s': expected seconds from 0.1 to 3600", optarg);
        return false;
    default:
        return false;
    }
}

static int run_metrics(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_JSON,
        {"node", no_argument, NULL, OPTION_NODE},
        {"device", required_argument, NULL, 'd'},
        {"pid", required_argument, NULL, OPTION_PID},
        {"cgroup", required_argument, NULL, OPTION_CGROUP},
        {"interval", required_argument, NULL, OPTION_INTERVAL},
        {"pci", no_argument, NULL, OPTION_PCI},
        COMMAND_OPTION_END,
    };
    struct options options = {0};
    int option;

    while ((option = command_option(self, argc, argv, ":hd:", words)) != -1) {
        if (option == 'h')
            return command_help(self);
        if (!take_option(self, &options, option))
            return EXIT_USAGE;
    }
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    if (options.pci && (options.request.count > 0 || options.json || options.request.interval_ns > 0))
        return command_usage(self, "--pci: expected no other option with it; 'facet pci scan --json' is its JSON");
    if (options.pci)
        return print_pci(self);
    if (options.request.count > 0)
        return print_gathered(self, &options.request, options.json);
    if (options.json || options.request.interval_ns > 0)
        return command_usage(self, "--json and --interval: expected --node, --device, --pid or --cgroup with them");
    return print_published(self);
}

const struct command command_metrics = {
    .name = "metrics",
    .help = "usage: facet metrics\n"
            "       facet metrics [--node] [-d DEVICE]... [--pid PID]...\n"
            "                     [--cgroup DIRECTORY]... [--interval SECONDS] [--json]\n"
            "       facet metrics --pci\n"
            "\n"
            "Prints the daemon's metrics in Prometheus' text format 0.0.4: limits, memory,\n"
            "device time, throttling, launches and denied allocations of every virtual GPU.\n"
            "After them come virtual GPUs that programs of yours made with the library, where\n"
            "they publish them: facet_library_...\n"
            "\n"
            "With options, measures what they name instead; no daemon is asked. What cannot\n"
            "be measured has no sample, and is listed as facet_unmeasurable with the reason.\n"
            "\n"
            "      --node               this machine: processors, memory, network\n"
            "  -d, --device DEVICE      a device, as its provider measures it\n"
            "      --pid PID            a process\n"
            "      --cgroup DIRECTORY   a container, by its control group (version 2)\n"
            "      --interval SECONDS   look twice, 0.1 to 3600 apart: rates and utilization\n"
            "                           take two looks\n"
            "      --json               print it as JSON, with exact whole numbers\n"
            "      --pci                accelerators on PCI, and what shares their groups:\n"
            "                           links, errors, power, holders, passthrough\n",
    .repeats = (const char *const[]){"--device", "--cgroup", "--pid", NULL},
    .run = run_metrics,
};
