/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: parsing the lines of a control group's files, with one function for each file, which the fuzzer calls as well.
 * Never: opens a file.
 */
#ifndef FACET_MONITOR_GATHER_CONTAINER_H
#define FACET_MONITOR_GATHER_CONTAINER_H

#include "monitor/gather/read.h"

/* io.stat: "MAJOR:MINOR rbytes=N wbytes=N ...", a line for each device. */
struct container_io {
    struct gather_value read, write;
};

bool container_take_io(void *io, char *line);

/* cpu.max: "QUOTA PERIOD" in microseconds. The value is QUOTA / PERIOD, in thousandths of a percent of one CPU. */
bool container_take_cpu_max(void *value, char *line);

/* dmem.current and dmem.max: "REGION N" or "REGION max", a line for each region. Absent while there is no line. */
struct container_regions {
    struct gather_value sum;
    size_t count;
};

bool container_take_region(void *regions, char *line);

#endif
