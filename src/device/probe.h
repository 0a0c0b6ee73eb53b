/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running the loader in a child process, so that a provider that crashes, hangs or exits harms nobody.
 *
 * Owns: the child, its deadline, the memory through which it answers, and saying how it died.
 * Never: believes the answer: texts are terminated and cleaned, counts are bounded, devices are checked.
 */
#ifndef FACET_DEVICE_PROBE_H
#define FACET_DEVICE_PROBE_H

#include <sys/types.h>

#include "device/table.h"

struct facet_provider_answer;

/* A child at work. Zeroed: none. */
struct facet_probe {
    struct facet_provider_answer *answer; /* shared with the child */
    pid_t pid;                            /* 0 once it was waited for */
    int done_fd;                          /* reads a byte when the child is done, end of file when it died */
    uint64_t deadline_ns;
    uint64_t limit_ns; /* the deadline's length, for people */
};

/* Starts asking the provider at `path`. Several may be at work at once. Errors: FACET_NO_MEMORY, FACET_BUSY, FACET_IO.
 */
enum facet_status facet_probe_start(const char *path, const struct facet_device_table_options *options,
                                    struct facet_probe *ret_probe, struct facet_error *error);

/*
 * Waits for the answer and writes it to `record`: loaded, or refused with the reason. On return the child is gone.
 * `record->path` must be filled in.
 */
void facet_probe_finish(struct facet_probe *probe, struct facet_provider_record *record);

/* The device at `index` of a provider that facet_probe_finish() found good. */
void facet_probe_device(const struct facet_probe *probe, uint32_t index, struct facet_device_record *ret_device);

/* Ends the child if it is still there and frees the answer. A zeroed probe is allowed. */
void facet_probe_close(struct facet_probe *probe);

#endif
