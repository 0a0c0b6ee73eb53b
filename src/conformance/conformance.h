/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance suite: checks that a provider keeps what facet/provider.h and the headers beside it promise.
 *
 * Owns: the groups of checks, the child that each group runs in, its deadline, and the report of its end.
 * Never: prints, trusts the provider, or counts an unclaimed promise as kept: such a promise is skipped, with a reason.
 *
 * Each group runs in a forked child of the caller with the provider loaded into it, so that overruns, prints and signal
 * handlers can be seen, and so that a provider that crashes, exits or hangs costs one group. No group depends on
 * another.
 */
#ifndef FACET_CONFORMANCE_CONFORMANCE_H
#define FACET_CONFORMANCE_CONFORMANCE_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>

enum facet_conformance_outcome {
    FACET_CONFORMANCE_PASSED,
    FACET_CONFORMANCE_FAILED,
    FACET_CONFORMANCE_SKIPPED,
    FACET_CONFORMANCE_NOTE, /* no assertion: a remark that helps to read the other results */
};

struct facet_conformance_result {
    uint32_t outcome; /* enum facet_conformance_outcome */
    char group[16];
    char text[160];       /* "partition.create: an unknown template is not found" */
    char diagnostic[640]; /* failed: the expected and the actual result, in lines; skipped: why */
};

struct facet_conformance_options {
    const char *path;     /* the provider's file */
    const char *only;     /* a group; NULL: all */
    uint64_t deadline_ns; /* of each assertion; 0: 10 s */
    bool isolated;        /* run the provider in a process of its own, reached through facet/session.h */
};

struct facet_conformance_summary {
    uint32_t passed, failed, skipped;
};

/* Called for each result, in order, by the thread that runs the suite. */
typedef void (*facet_conformance_report_func)(void *user, const struct facet_conformance_result *result);

/*
 * Runs the suite. Failed assertions are results, not errors.
 * Errors: FACET_INVALID_ARGUMENT (no such group), FACET_IO and the like (no child can be started).
 */
enum facet_status facet_conformance_run(const struct facet_conformance_options *options,
                                        facet_conformance_report_func report, void *user,
                                        struct facet_conformance_summary *ret_summary, struct facet_error *error);

/* The name of the group at `index`, and its subject; NULL beyond the last. */
const char *facet_conformance_group_name(uint32_t index);
const char *facet_conformance_group_about(uint32_t index);

#endif
