/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: measuring the node, devices, processes and control groups for `facet metrics`. Never: asks the daemon. */
#ifndef FACET_METRICS_GATHER_H
#define FACET_METRICS_GATHER_H

#include "command.h"

#include <stdint.h>

enum { METRICS_SUBJECTS = 64 };

struct metrics_subject {
    uint32_t kind;    /* enum facet_subject_kind */
    const char *name; /* a control group's path, a pid, or a device by its id, uuid or index */
};

struct metrics_request {
    struct metrics_subject subject[METRICS_SUBJECTS];
    uint32_t count;
    uint64_t interval_ns; /* 0: one sample; else two, and the rates between them */
};

/* The text is the caller's. FACET_NOT_FOUND: there is no such process, device or control group. */
enum facet_status metrics_gather(const struct metrics_request *request, bool json, char **ret_text,
                                 struct facet_error *error);

#endif
