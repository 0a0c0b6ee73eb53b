/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 on a Unix socket.
 *
 * Owns: the socket's file, routing, and the bounds on reading. The front decides which users may call (the daemon's own
 * and root), and which requests are well formed (front.h). A connection serves one call, on a thread of its own.
 * Never: knows what a vGPU is.
 *
 * Thread rule: start, hide, show, rebind and stop from one thread.
 */
#ifndef FACETD_SERVER_H
#define FACETD_SERVER_H

#include "endpoint.h"

struct server; /* opaque */

/* The socket on which a server listens. */
struct server_socket {
    const char *path;
    int fd;         /* a socket that listens on `path` already, which the server then owns; -1: the server makes it */
    bool is_passed; /* `fd` is the service manager's: its file stays when the server stops */
};

/*
 * Listens on the socket and serves. Only the holder of the daemon's lock may call it: a stale socket file is replaced.
 * A file that is no socket, or one with a listener, is refused. `daemon` must outlive the server.
 */
enum facet_status server_start(const struct server_socket *socket, const struct daemon *daemon,
                               struct server **ret_server, struct facet_error *error);

/* Finishes the calls under way, closes all connections and removes the socket's file. NULL is allowed. */
void server_stop(struct server *server);

/* Like server_stop(), but the socket goes on listening: callers wait until a later server_start() takes the descriptor,
 * which is returned. -1: no descriptor was left, and the socket is closed. *ret_is_passed: see struct server_socket. */
int server_stop_serving(struct server *server, bool *ret_is_passed);

/*
 * For ending without turning a caller away: hide the socket, so that no new caller comes; wait until the last
 * connection ends; then stop, or show the socket again if a caller created work. Both return false when renaming
 * failed.
 */
bool server_hide(struct server *server);
bool server_show(struct server *server);

/* Whether the socket's file is the one that was bound: a cleaner of temporary folders may have removed it. */
bool server_is_reachable(const struct server *server);

/* Binds the socket's path anew. Existing connections are closed; on failure the server goes on as it was. */
enum facet_status server_rebind(struct server *server, struct facet_error *error);

/* Whether a process listens on the socket `path`. */
bool server_answers(const char *path);

/* Connections that are open or waiting to be accepted. */
unsigned server_connections(struct server *server);

/* The number of calls since the start. */
uint64_t server_calls(const struct server *server);

/* When the last connection of a caller ended (CLOCK_MONOTONIC); 0: none has. */
uint64_t server_called_ns(const struct server *server);

#endif
