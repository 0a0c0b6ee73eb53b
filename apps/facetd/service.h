/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facetd as a service of systemd, or of another manager that speaks its protocols.
 *
 * Owns: the socket that the manager passes (sd_listen_fds), messages to the manager (sd_notify), and starting the
 * daemon anew in its process. Never: needs a manager: without one these functions do nothing.
 */
#ifndef FACETD_SERVICE_H
#define FACETD_SERVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <facet/error.h>

struct options;

/*
 * The listening socket that the manager passed, and its path; *ret_fd is -1 when it passed none.
 * FACET_INVALID_ARGUMENT: it passed several, or something else than a listening Unix socket with a path.
 */
enum facet_status service_socket(int *ret_fd, char *ret_path, size_t size, struct facet_error *error);

/* Whether the descriptor is a stream socket that listens. */
bool service_is_listening(int fd);

/* Tells the manager how the daemon is: "READY=1", "STOPPING=1"; see sd_notify(3). */
void service_notify(const char *state);

/* Tells the manager that the daemon reads its configuration again. service_notify("READY=1") ends that. */
void service_notify_reloading(void);

/* Whether the daemon's program can be executed: asked before the daemon stops. */
enum facet_status service_may_start_again(struct facet_error *error);

/*
 * Starts the daemon's program again in this process, with the same options and the descriptors of its lock and socket,
 * so that no caller is turned away. Returns only if that fails.
 */
enum facet_status service_start_again(const struct options *options, int lock, int listener, struct facet_error *error);

#endif
