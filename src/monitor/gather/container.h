/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the lines of a control group's files, one function for each kind; open to the fuzzer. Never: opens a file. */
#ifndef FACET_MONITOR_GATHER_CONTAINER_H
#define FACET_MONITOR_GATHER_CONTAINER_H

#include "monitor/gather/read.h"

/* io.stat: "MAJOR:MINOR rbytes=N wbytes=N ...", a line for each device. */
struct container_io {
    struct gather_value read, write;
};

bool container_take_io(void *io, char *line);

/* cpu.max: "QUOTA PERIOD" in microseconds; the value is thousandths of a percent of one CPU. */
bool container_take_cpu_max(void *value, char *line);

/* dmem.current and dmem.max: "REGION N" or "REGION max", a line for each region. Absent while there is no line. */
struct container_regions {
    struct gather_value sum;
    size_t count;
};

bool container_take_region(void *regions, char *line);

#endif
