/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaying files of test vectors for allocation maps (docs/allocation.md has the format).
 *
 * Owns: the verdict on each vector, by comparison with the recorded outcomes. Where a recorded outcome breaks a rule of
 * ours, the rule decides.
 * Never: reads a file, prints, or lets one malformed vector keep others from being run.
 */
#ifndef FACET_PLACEMENT_REPLAY_H
#define FACET_PLACEMENT_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

#define FACET_REPLAY_BYTES_MAX ((size_t)64 << 20)

struct facet_replay_result {
    const char *id;
    const char *notes; /* lines about defects of the record; "" when there are none */
    const char *fault; /* lines that say why the vector failed; "" when it passed */
};

typedef void (*facet_replay_report)(void *user, const struct facet_replay_result *result);

struct facet_replay_summary {
    uint32_t passed, failed;
    uint32_t defects; /* passed vectors with a recorded outcome that breaks a rule */
    uint32_t broken;  /* vectors in which an outcome of ours breaks a rule, which never happens */
};

/* Reports each vector in the file's order, the table of densities last. FACET_INVALID_ARGUMENT: the text is
 * no file of vectors; the message names the position. */
enum facet_status facet_replay_run(const char *bytes, size_t size, facet_replay_report report, void *user,
                                   struct facet_replay_summary *ret_summary, struct facet_error *error);

#endif
