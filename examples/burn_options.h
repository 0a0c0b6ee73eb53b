/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the options of opencl_burn, and their syntax.
 * Never: touches OpenCL.
 */
#ifndef BURN_OPTIONS_H
#define BURN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_US   UINT64_C(1000)
#define NS_PER_MS   UINT64_C(1000000)
#define NS_PER_S    UINT64_C(1000000000)
#define MAX_QUEUES  16u
#define MAX_DEPTH   64u
#define GROUP_ITEMS 64u

struct burn_options {
    uint64_t start_ns;                  /* of CLOCK_MONOTONIC; a time in the past means at once */
    uint64_t seconds_ns, idle_after_ns; /* idle_after_ns 0: never */
    uint64_t busy_ns, idle_ns;          /* work and rest in turn, for these times; idle_ns 0: no rest */
    uint64_t window_ns;                 /* 0: print no windows */
    uint64_t kernel_us, steps;          /* steps of a kernel; 0: measure how many steps take kernel_us */
    uint64_t memory_bytes;
    unsigned depth, queues, items;
    bool grab, sync, device_time;
};

/* Reads the command line. Ends the program with status 0 after --help, and with 2 after an error, which it prints. */
void burn_options_parse(struct burn_options *ret_options, int argc, char **argv);

#endif
