/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the command line of opencl_burn.
 * Never: touches OpenCL.
 */
#include "burn_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: opencl_burn [OPTION...]\n"
    "Keeps the first OpenCL device busy and checks that every kernel ran.\n"
    "  --seconds S       how long to run (default 5)\n"
    "  --start-ns N      begin at this time of CLOCK_MONOTONIC, to begin together with others\n"
    "  --kernel-us N     length of one kernel alone on the device (default 1000; measured first)\n"
    "  --steps N         instead of --kernel-us: steps of one kernel, as an earlier run printed them\n"
    "  --items N         work-items of one kernel, a multiple of 64 (default 2048)\n"
    "  --queues N        queues, 1..16 (default 1)\n"
    "  --depth N         kernels in flight per queue, 1..64 (default 4)\n"
    "  --sync            wait for each kernel with clFinish\n"
    "  --memory SIZE     hold so much device memory (64M, 1G)\n"
    "  --grab            then take 1 MiB buffers until refused, keep them, and go on\n"
    "  --duty BUSY:IDLE  milliseconds of work and of rest, in turn\n"
    "  --idle-after S    rest after S seconds until the end\n"
    "  --windows MS      print the kernels completed in each window of so many milliseconds\n"
    "  --device-time     also print when kernels were on the device, by the device's clock\n";

__attribute__((noreturn)) static void refuse(const char *option, const char *text)
{
    fprintf(stderr, "opencl_burn: --%s: '%s' is not a value that this option takes\n%s", option, text, usage);
    exit(2);
}

/* Reads a decimal number, which must be from `low` to `high`; *ret_end is the text behind the number. */
static uint64_t parse_prefix(const char *option, const char *text, uint64_t low, uint64_t high, char **ret_end)
{
    errno = 0;
    unsigned long long value = strtoull(text, ret_end, 10);
    if (*ret_end == text || errno || *text == '-' || value < low || value > high)
        refuse(option, text);
    return value;
}

static uint64_t parse_number(const char *option, const char *text, uint64_t low, uint64_t high)
{
    char *end;
    uint64_t value = parse_prefix(option, text, low, high, &end);

    if (*end)
        refuse(option, text);
    return value;
}

static uint64_t parse_seconds(const char *option, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value > 0) || value > 86400)
        refuse(option, text);
    return (uint64_t)(value * (double)NS_PER_S);
}

static uint64_t parse_size(const char *option, const char *text)
{
    static const char suffixes[] = "KMG";
    char *end;
    uint64_t value = parse_prefix(option, text, 1, UINT64_MAX >> 30, &end);
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;

    if (*end && (!suffix || end[1]))
        refuse(option, text);
    return suffix ? value << (10 * (suffix - suffixes + 1)) : value;
}

static void parse_duty(struct burn_options *options, const char *text)
{
    char *colon;

    options->busy_ns = parse_prefix("duty", text, 1, 86400000, &colon) * NS_PER_MS;
    if (*colon != ':')
        refuse("duty", text);
    options->idle_ns = parse_number("duty", colon + 1, 1, 86400000) * NS_PER_MS;
}

static void parse_option(struct burn_options *options, const char *name, const char *text)
{
    if (!strcmp(name, "seconds"))
        options->seconds_ns = parse_seconds(name, text);
    else if (!strcmp(name, "idle-after"))
        options->idle_after_ns = parse_seconds(name, text);
    else if (!strcmp(name, "start-ns"))
        options->start_ns = parse_number(name, text, 0, UINT64_MAX / 2);
    else if (!strcmp(name, "kernel-us"))
        options->kernel_us = parse_number(name, text, 1, 60000000);
    else if (!strcmp(name, "steps"))
        options->steps = parse_number(name, text, 1, UINT32_MAX);
    else if (!strcmp(name, "items"))
        options->items = (unsigned)parse_number(name, text, GROUP_ITEMS, 1u << 24) / GROUP_ITEMS * GROUP_ITEMS;
    else if (!strcmp(name, "queues"))
        options->queues = (unsigned)parse_number(name, text, 1, MAX_QUEUES);
    else if (!strcmp(name, "depth"))
        options->depth = (unsigned)parse_number(name, text, 1, MAX_DEPTH);
    else if (!strcmp(name, "windows"))
        options->window_ns = parse_number(name, text, 1, 3600000) * NS_PER_MS;
    else if (!strcmp(name, "memory"))
        options->memory_bytes = parse_size(name, text);
    else if (!strcmp(name, "duty"))
        parse_duty(options, text);
    else if (!strcmp(name, "grab"))
        options->grab = true;
    else if (!strcmp(name, "sync"))
        options->sync = true;
    else if (!strcmp(name, "device-time"))
        options->device_time = true;
}

void burn_options_parse(struct burn_options *ret_options, int argc, char **argv)
{
    static const struct option table[] = {{"seconds", required_argument, NULL, 1},
                                          {"start-ns", required_argument, NULL, 1},
                                          {"idle-after", required_argument, NULL, 1},
                                          {"kernel-us", required_argument, NULL, 1},
                                          {"steps", required_argument, NULL, 1},
                                          {"items", required_argument, NULL, 1},
                                          {"queues", required_argument, NULL, 1},
                                          {"depth", required_argument, NULL, 1},
                                          {"windows", required_argument, NULL, 1},
                                          {"memory", required_argument, NULL, 1},
                                          {"duty", required_argument, NULL, 1},
                                          {"grab", no_argument, NULL, 1},
                                          {"sync", no_argument, NULL, 1},
                                          {"device-time", no_argument, NULL, 1},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int choice, index;

    *ret_options =
        (struct burn_options){.seconds_ns = 5 * NS_PER_S, .kernel_us = 1000, .depth = 4, .queues = 1, .items = 2048};
    while ((choice = getopt_long(argc, argv, "h", table, &index)) != -1) {
        if (choice == 'h') {
            fputs(usage, stdout);
            exit(EXIT_SUCCESS);
        }
        if (choice != 1)
            exit(2);
        parse_option(ret_options, table[index].name, optarg);
    }
    if (optind < argc) {
        fprintf(stderr, "opencl_burn: '%s' is one argument too many\n%s", argv[optind], usage);
        exit(2);
    }
}
