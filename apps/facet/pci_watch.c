/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci watch`: changes as they come, a line each. Never: writes to a device, or wakes one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <facet/pci_watch.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "pci.h"
#include "view.h"

static const char help[] = "usage: facet pci watch [--all] [--interval S] [--timeout S] [--root DIR]\n"
                           "                       [--json]\n"
                           "\n"
                           "Prints what changes among accelerators and what shares their groups, a line for\n"
                           "each change: functions that come and go, drivers, power, links, errors, holders.\n"
                           "Plugging and binding show at once, the rest each interval.\n"
                           "\n"
                           "  --all         every PCI function, and speeds, which change when links idle\n"
                           "  --interval S  look at least every S seconds; default 5\n"
                           "  --timeout S   end after S seconds, with success\n"
                           "  --root DIR    look at a copy of another machine below DIR\n"
                           "  --json        a JSON object on each line\n";

struct watch_options {
    const char *root;
    uint64_t interval_ns;
    uint64_t timeout_ns;
    bool all;
    bool json;
};

/* ---- one line for each change ---- */

static bool is_shown(const struct watch_options *options, const struct facet_pci_change *change)
{
    if (options->all)
        return true;
    /* The scan skips details of functions that share no group with an accelerator. */
    return change->kind != FACET_PCI_CHANGE_SPEED &&
           (facet_pci_is_accelerator(change->function) ||
            change->function->unread[FACET_PCI_POWER] != FACET_PCI_UNREAD_SKIPPED);
}

static void print_json(const struct facet_pci_change *change, const char *address)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    json_t *object =
        json_pack("{s:I, s:s, s:s, s:s*, s:s*}", "time_ms", (json_int_t)(facet_timespec_ns(&now) / FACET_NS_PER_MS),
                  "change", facet_pci_change_name(change->kind), "address", address, "before",
                  change->before[0] ? change->before : NULL, "after", change->after[0] ? change->after : NULL);
    json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(object);
}

static const char *text_or_none(const char *text)
{
    return text[0] ? text : "none";
}

static void print_line(const struct facet_pci_change *change, const char *address)
{
    char clock[16] = "", name[sizeof change->function->device_name];
    time_t now = time(NULL);
    struct tm local;

    if (localtime_r(&now, &local))
        strftime(clock, sizeof clock, "%H:%M:%S", &local);
    printf("%s %s %s", clock, address, facet_pci_change_name(change->kind));
    if (change->kind == FACET_PCI_CHANGE_ADDED)
        printf(" (driver %s)", text_or_none(change->after));
    else if (change->before[0] || change->after[0])
        printf(" %s -> %s", text_or_none(change->before), text_or_none(change->after));
    snprintf(name, sizeof name, "%s", change->function->device_name);
    facet_text_make_line(name);
    if (name[0])
        printf("  %s", name);
    putchar('\n');
}

static bool print_change(void *user, const struct facet_pci_change *change)
{
    const struct watch_options *options = user;
    char address[FACET_PCI_ADDRESS_SIZE];

    if (!is_shown(options, change))
        return true;
    facet_pci_address_print(&change->address, address);
    if (options->json)
        print_json(change, address);
    else
        print_line(change, address);
    return true;
}

/* ---- watching ---- */

static enum facet_status open_watch(const struct command *self, const struct watch_options *options, int root,
                                    struct facet_pci_watch **ret_watch, struct facet_error *error)
{
    struct facet_pci_watch_config config = {
        .size = sizeof config,
        .events = strcmp(options->root, "/") == 0,
        .scan = {.size = sizeof config.scan,
                 .flags = FACET_PCI_SCAN_HOLDERS | (options->all ? FACET_PCI_SCAN_ALL : 0),
                 .root = root},
        .poll_ns = options->interval_ns,
    };
    enum facet_status status = facet_pci_watch_open(&config, ret_watch, error);

    if (status != FACET_UNSUPPORTED || !config.events)
        return status;
    command_warn(self, "%s: looking every %.0f s only", error->message,
                 (double)options->interval_ns / (double)FACET_NS_PER_S);
    config.events = 0;
    return facet_pci_watch_open(&config, ret_watch, error);
}

static int watch_until(const struct command *self, struct facet_pci_watch *watch, struct watch_options *options)
{
    uint64_t now = facet_clock_now_ns();
    uint64_t end = options->timeout_ns ? now + options->timeout_ns : UINT64_MAX;
    struct facet_error error = {0};

    /* No change is missed from here on; a caller can wait for this line. */
    fprintf(stderr, "watching %u PCI functions%s\n", facet_pci_snapshot_count(facet_pci_watch_snapshot(watch)),
            isatty(STDERR_FILENO) ? "; Ctrl-C ends" : "");
    for (; now < end; now = facet_clock_now_ns()) {
        enum facet_status status =
            facet_pci_watch_wait(watch, end == UINT64_MAX ? UINT64_MAX : end - now, print_change, options, &error);

        if (status && status != FACET_TIMEOUT)
            return command_refuse(self, options->json, &error, NULL);
        if (fflush(stdout) != 0) /* the reader is gone; close_output() reports it */
            return EXIT_REFUSED;
    }
    return EXIT_DONE;
}

static int watch_functions(const struct command *self, struct watch_options *options)
{
    FACET_CLEANUP_FD int root = open(options->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct facet_pci_watch *watch = NULL;
    struct facet_error error = {0};
    enum facet_status status = FACET_OK;

    if (root < 0)
        status = facet_error_errno(&error, errno, "cannot open the directory %s", options->root);
    if (!status)
        status = open_watch(self, options, root, &watch, &error);
    if (status)
        return command_refuse(self, options->json, &error, NULL);
    int exit = watch_until(self, watch, options);
    facet_pci_watch_close(watch);
    return exit;
}

static bool read_option(struct watch_options *options, int option, const char *argument)
{
    switch (option) {
    case 'a':
        options->all = true;
        return true;
    case 'r':
        options->root = argument;
        return true;
    case OPTION_INTERVAL:
        return command_read_interval(argument, &options->interval_ns);
    case OPTION_TIMEOUT:
        return command_read_interval(argument, &options->timeout_ns);
    default:
        options->json = true;
        return true;
    }
}

static int run_watch(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        {"all", no_argument, NULL, 'a'},
        {"interval", required_argument, NULL, OPTION_INTERVAL},
        {"timeout", required_argument, NULL, OPTION_TIMEOUT},
        {"root", required_argument, NULL, 'r'},
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_END,
    };
    struct watch_options options = {.root = "/", .interval_ns = 5 * FACET_NS_PER_S};

    for (int option; (option = command_option(self, argc, argv, ":h", words)) != -1;) {
        if (option == 'h' || option == '?')
            return option == 'h' ? command_help(self) : EXIT_USAGE;
        if (!read_option(&options, option, optarg))
            return command_usage(self, "%s '%s': expected 0.1 to 3600 seconds",
                                 option == OPTION_TIMEOUT ? "--timeout" : "--interval", optarg);
    }
    return command_operands(self, argc, argv, 0, 0, "") ? watch_functions(self, &options) : EXIT_USAGE;
}

const struct command command_pci_watch = {.name = "pci watch", .help = help, .run = run_watch};
