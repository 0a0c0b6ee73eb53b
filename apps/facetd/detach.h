/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going to the background, and reporting to the starting process whether that went well.
 *
 * Owns: the fork, the background's standard streams, and the descriptors that report readiness: an empty line for
 * "ready", else one line that says why not.
 * Never: decides whether starting went well.
 */
#ifndef FACETD_DETACH_H
#define FACETD_DETACH_H

#include <facet/error.h>

struct ready {
    int requested_fd; /* --ready-fd, or -1 */
    int parent_fd;    /* the pipe to the process that was started, or -1 */
};

/*
 * Returns in the background process, in a session of its own, logging to `log_path`. The process that was started waits
 * for the result and exits with it: 0, or 1 with the line on standard error.
 */
enum facet_status detach(const char *log_path, struct ready *ready, struct facet_error *error);

/* Report the result once; later calls do nothing. */
void ready_succeeded(struct ready *ready);
void ready_failed(struct ready *ready, const struct facet_error *error);

#endif
