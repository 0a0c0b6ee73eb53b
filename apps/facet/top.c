/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet top`: its loop, the interval, the signals that end it. Never: draws (top_view.c). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "client.h"
#include "command.h"
#include "terminal.h"
#include "top_view.h"

struct options {
    uint64_t interval_ns;
    bool once, json;
};

static bool read_options(const struct command *self, int argc, char **argv, struct options *options, int *ret_exit)
{
    static const struct option words[] = {
        {"interval", required_argument, NULL, OPTION_INTERVAL},
        {"once", no_argument, NULL, OPTION_ONCE},
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_END,
    };
    int option;

    while ((option = command_option(self, argc, argv, ":h", words)) != -1) {
        if (option == 'h' || option == '?') {
            *ret_exit = option == 'h' ? command_help(self) : EXIT_USAGE;
            return false;
        }
        options->once |= option == OPTION_ONCE;
        options->json |= option == OPTION_JSON;
        if (option != OPTION_INTERVAL || command_read_interval(optarg, &options->interval_ns))
            continue;
        *ret_exit = command_usage(self, "interval '%s': expected seconds from 0.1 to 3600", optarg);
        return false;
    }
    return true;
}

static enum facet_status take_sample(struct client *client, struct top_sample *sample, struct facet_error *error)
{
    json_t *answer = NULL;
    enum facet_status status = client_call(client, "GET", "/v1/vgpus", NULL, &answer, error);

    if (status != FACET_OK)
        return status;
    json_decref(sample->answer);
    *sample = (struct top_sample){.answer = answer, .at_ns = facet_clock_now_ns()};
    return FACET_OK;
}

/* False: the command must end, after ^C or because the reader of its output is gone. */
static bool pause_for(uint64_t ns, const sigset_t *end_signals)
{
    const struct timespec interval = facet_ns_timespec(ns);
    int number;

    /* An interrupted wait (the window was resized, the process was stopped and continued) simply refreshes early. */
    number = sigtimedwait(end_signals, NULL, &interval);
    return number < 0 && !ferror(stdout);
}

static bool print_line(const struct top_sample *sample)
{
    return json_dumpf(sample->answer, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF && fflush(stdout) == 0;
}

static int watch_json(const struct command *self, const struct options *options, struct client *client,
                      const sigset_t *end_signals)
{
    struct top_sample sample = {0};
    struct facet_error error = {0};
    int status = EXIT_DONE;

    do {
        if (take_sample(client, &sample, &error) != FACET_OK)
            status = command_refuse(self, true, &error, client->advice);
        else if (!print_line(&sample))
            status = EXIT_REFUSED;
    } while (status == EXIT_DONE && !options->once && pause_for(options->interval_ns, end_signals));
    json_decref(sample.answer);
    return status;
}

/*
 * Rates need two samples, so the first table comes after one interval. A terminal shows one at once; there the command
 * also waits for a daemon that does not run yet.
 */
static int watch_table(const struct command *self, const struct options *options, struct client *client,
                       const sigset_t *end_signals)
{
    struct top_sample before = {0}, now = {0};
    struct facet_error error = {0};
    bool redraw = terminal_paints(STDOUT_FILENO) && !options->once;
    int status = EXIT_DONE;

    bool found = take_sample(client, &before, &error) == FACET_OK;
    if (!found && !(redraw && client->unreachable))
        return command_refuse(self, false, &error, client->advice);
    if (redraw && !top_view_print(&before, &before, true, found ? NULL : error.message))
        status = command_out_of_memory(self);
    while (status == EXIT_DONE && pause_for(options->interval_ns, end_signals)) {
        bool answered = take_sample(client, &now, &error) == FACET_OK;
        if (!answered && !redraw)
            status = command_refuse(self, false, &error, client->advice);
        else if (!top_view_print(&before, answered ? &now : &before, redraw, answered ? NULL : error.message))
            status = command_out_of_memory(self);
        if (options->once)
            break;
        if (!answered)
            continue;
        json_decref(before.answer);
        before = now;
        now.answer = NULL;
    }
    json_decref(before.answer);
    json_decref(now.answer);
    return status;
}

static int run_top(const struct command *self, int argc, char **argv)
{
    struct options options = {.interval_ns = FACET_NS_PER_S};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    sigset_t end_signals;
    int status = EXIT_DONE;

    if (!read_options(self, argc, argv, &options, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    if (client_open(&client, false, &error) != FACET_OK)
        return command_refuse(self, options.json, &error, NULL);
    sigemptyset(&end_signals);
    sigaddset(&end_signals, SIGINT);
    sigaddset(&end_signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &end_signals, NULL);
    return options.json ? watch_json(self, &options, &client, &end_signals)
                        : watch_table(self, &options, &client, &end_signals);
}

const struct command command_top = {
    .name = "top",
    .help = "usage: facet top [--interval SECONDS] [--once] [--json]\n"
            "\n"
            "Shows who gets what, again and again until ^C: the share of the device's time\n"
            "measured over the last second, what was asked and the cap, memory used and its\n"
            "limit, and over the interval the time that launches waited (THR) and launches\n"
            "per second (L/S); processes and denied allocations. On a terminal it waits for\n"
            "a daemon where none runs yet.\n"
            "\n"
            "      --interval SECONDS   between refreshes, 0.1 to 3600; default 1\n"
            "      --once               one table after one interval\n"
            "      --json               one line of JSON a refresh, as the daemon answers\n",
    .run = run_top,
};
