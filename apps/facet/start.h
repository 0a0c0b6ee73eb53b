/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: starting a private daemon. Never: stops one: a private daemon ends by itself when it has nothing to do. */
#ifndef FACET_START_H
#define FACET_START_H

#include <facet/error.h>

/*
 * Starts `facetd --private` in a session of its own and waits until it is ready, has reported a failure, or has ended
 * because another daemon was quicker, which is success. After a second, shows a note on a terminal.
 */
enum facet_status daemon_start(struct facet_error *error);

/* Sets the error about a daemon that was started and does not answer; it names the daemon's log. */
enum facet_status daemon_start_failed(const char *socket_path, struct facet_error *error);

#endif
