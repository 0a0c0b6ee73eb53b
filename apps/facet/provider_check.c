/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet provider check`: the conformance suite as TAP or JSON. Never: checks anything itself. */
#include "provider_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "conformance/conformance.h"

enum { OPTION_ISOLATED = 1000, OPTION_DEADLINE, OPTION_ONLY, DEADLINE_MOST_S = 3600 };

static const char *const outcomes[] = {"passed", "failed", "skipped", "note"};

/* The state that is kept from one result to the next. */
struct report {
    bool verbose;
    uint32_t number; /* of the last result */
    char group[16];  /* the last result's group of checks */
    json_t *results; /* NULL: print TAP */
};

/* Prints the diagnostic as TAP's YAML block, so that programs can read it. */
static void print_block(const char *diagnostic)
{
    printf("  ---\n");
    while (*diagnostic) {
        int length = (int)strcspn(diagnostic, "\n");

        printf("  %.*s\n", length, diagnostic);
        diagnostic += length + (diagnostic[length] == '\n');
    }
    printf("  ...\n");
}

static void print_tap(struct report *report, const struct facet_conformance_result *result)
{
    if (report->verbose && strcmp(report->group, result->group) != 0)
        printf("# group %s\n", result->group);
    snprintf(report->group, sizeof report->group, "%s", result->group);
    switch (result->outcome) {
    case FACET_CONFORMANCE_PASSED:
        printf("ok %" PRIu32 " - %s\n", ++report->number, result->text);
        break;
    case FACET_CONFORMANCE_FAILED:
        printf("not ok %" PRIu32 " - %s\n", ++report->number, result->text);
        print_block(result->diagnostic);
        break;
    case FACET_CONFORMANCE_SKIPPED:
        printf("ok %" PRIu32 " - %s # SKIP %s\n", ++report->number, result->text, result->diagnostic);
        break;
    default:
        if (report->verbose)
            printf("# %s\n", result->text);
    }
    fflush(stdout);
}

static void add_json(struct report *report, const struct facet_conformance_result *result)
{
    if (result->outcome == FACET_CONFORMANCE_NOTE)
        return;
    json_array_append_new(report->results, json_pack("{s:i, s:s, s:s, s:s, s:s}", "number", (int)++report->number,
                                                     "group", result->group, "text", result->text, "outcome",
                                                     outcomes[result->outcome], "diagnostic", result->diagnostic));
}

static void take_result(void *user, const struct facet_conformance_result *result)
{
    struct report *report = user;

    if (report->results)
        add_json(report, result);
    else
        print_tap(report, result);
}

static void print_summary(const struct report *report, const struct facet_conformance_summary *summary)
{
    printf("1..%" PRIu32 "\n# %" PRIu32 " passed, %" PRIu32 " failed, %" PRIu32 " skipped\n", report->number,
           summary->passed, summary->failed, summary->skipped);
}

static int print_json(const char *path, struct report *report, const struct facet_conformance_summary *summary)
{
    json_t *all = json_pack("{s:s, s:i, s:i, s:i, s:o}", "path", path, "passed", (int)summary->passed, "failed",
                            (int)summary->failed, "skipped", (int)summary->skipped, "results", report->results);
    int status = all ? command_print_json(all) : EXIT_REFUSED;

    json_decref(all);
    return status;
}

static bool parse_seconds(const struct command *self, const char *text, uint64_t *ret_ns)
{
    char *end = NULL;
    unsigned long seconds = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end || seconds == 0 || seconds > DEADLINE_MOST_S) {
        command_usage(self, "--deadline '%s': expected 1 to %d seconds", text, DEADLINE_MOST_S);
        return false;
    }
    *ret_ns = seconds * FACET_NS_PER_S;
    return true;
}

static bool is_group(const char *name)
{
    for (uint32_t i = 0; facet_conformance_group_name(i); i++)
        if (strcmp(facet_conformance_group_name(i), name) == 0)
            return true;
    return false;
}

static int refuse_group(const struct command *self, const char *name)
{
    char names[256] = "";

    for (uint32_t i = 0; facet_conformance_group_name(i); i++) {
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i ? ", " : "", facet_conformance_group_name(i));
    }
    return command_usage(self, "--only '%s': expected one of %s", name, names);
}

/* The options of the command line. */
struct request {
    struct facet_conformance_options options;
    bool json, verbose;
};

/* False: the caller returns *ret_exit. */
static bool read_options(const struct command *self, int argc, char **argv, struct request *ret_request, int *ret_exit)
{
    static const struct option words[] = {
        COMMAND_OPTION_JSON,
        {"isolated", no_argument, NULL, OPTION_ISOLATED},
        {"verbose", no_argument, NULL, 'v'},
        {"deadline", required_argument, NULL, OPTION_DEADLINE},
        {"only", required_argument, NULL, OPTION_ONLY},
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_END,
    };
    struct facet_conformance_options *options = &ret_request->options;
    int option;

    *ret_exit = EXIT_USAGE;
    while ((option = command_option(self, argc, argv, ":hv", words)) != -1) {
        switch (option) {
        case 'h':
            *ret_exit = command_help(self);
            return false;
        case 'v':
            ret_request->verbose = true;
            break;
        case OPTION_JSON:
            ret_request->json = true;
            break;
        case OPTION_ISOLATED:
            options->isolated = true;
            break;
        case OPTION_DEADLINE:
            if (!parse_seconds(self, optarg, &options->deadline_ns))
                return false;
            break;
        case OPTION_ONLY:
            options->only = optarg;
            break;
        default:
            return false;
        }
    }
    return true;
}

static int run_suite(const struct command *self, const struct request *request)
{
    struct report report = {.verbose = request->verbose, .results = request->json ? json_array() : NULL};
    struct facet_conformance_summary summary = {0};
    struct facet_error error = {0};
    int status = EXIT_DONE;

    if (!request->json)
        printf("TAP version 13\n");
    fflush(NULL); /* a child process would print what is buffered again */
    if (facet_conformance_run(&request->options, take_result, &report, &summary, &error) != FACET_OK) {
        json_decref(report.results);
        return command_refuse(self, request->json, &error, NULL);
    }
    if (request->json)
        status = print_json(request->options.path, &report, &summary);
    else
        print_summary(&report, &summary);
    return summary.failed ? EXIT_REFUSED : status;
}

static int run_check(const struct command *self, int argc, char **argv)
{
    struct request request = {0};
    int status;

    if (!read_options(self, argc, argv, &request, &status))
        return status;
    if (!command_operands(self, argc, argv, 1, 1, "FILE"))
        return EXIT_USAGE;
    if (request.options.only && !is_group(request.options.only))
        return refuse_group(self, request.options.only);
    /* A name without a slash is a file in the current folder; dlopen() would search the system's libraries for it. */
    FACET_CLEANUP_FREE char *path = realpath(argv[optind], NULL);
    if (!path)
        return command_usage(self, "%s: there is no such file", argv[optind]);
    request.options.path = path;
    return run_suite(self, &request);
}

const struct command command_provider_check = {
    .name = "provider check",
    .help = "usage: facet provider check [--json] [--isolated] [-v] [--deadline S]\n"
            "                            [--only GROUP] FILE.so\n"
            "\n"
            "Checks whether a provider keeps what facet/provider.h promises, and prints TAP:\n"
            "what passed, what failed and why, and what was skipped because no device claims\n"
            "it. Exit status 0 when nothing failed, 1 when something did.\n"
            "\n"
            "The checks create and remove partitions, limits and contexts: give them devices\n"
            "that no program uses. What is there before they begin, they leave alone.\n"
            "\n"
            "  --isolated      run the provider in a process of its own, as the daemon does\n"
            "  --deadline S    how long one answer may take (10)\n"
            "  --only GROUP    one of entry, device, topology, modes, partition, limit,\n"
            "                  metrics, container, memory, mapping, execution, math,\n"
            "                  snapshot, threads\n"
            "  -v, --verbose   say which group is running\n"
            "  --json          print the results as JSON\n"
            "\n"
            "docs/providers.md leads from an empty folder to a provider that passes.\n",
    .run = run_check,
};
