/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: parsing the texts of /proc, with one function for each file, which the fuzzer calls as well. Never: opens a
 * file.
 */
#ifndef FACET_MONITOR_GATHER_PROCESS_H
#define FACET_MONITOR_GATHER_PROCESS_H

#include "monitor/gather/read.h"

/* /proc/PID/stat */
struct process_stat {
    struct gather_value ticks; /* of user and system time */
    struct gather_value start; /* in ticks since the machine's start */
    struct gather_value threads;
};

bool process_take_stat(void *stat, char *line);

/* /proc/stat: the first line, and how many lines "cpuN" follow. */
struct node_stat {
    struct gather_value ticks; /* of the CPUs at work: all time except idle time and time of waiting for I/O */
    int64_t cpus;
    bool any; /* the line "cpu" was seen */
};

bool node_take_stat(void *stat, char *line);

/* /proc/net/dev: two lines of headings, then one for each interface. */
struct node_network {
    struct gather_value received, sent;
    uint64_t names; /* a hash of all interfaces' names: the sums of different sets of interfaces must not be compared */
    uint32_t lines;
};

bool node_take_network(void *network, char *line);

/* Ticks as nanoseconds. */
struct gather_value process_ticks(struct gather_value ticks);

#endif
