/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 on a Unix socket.
 *
 * Owns: the socket's file, routing, and the bounds on what is read. Who may speak (our user and root), and what is a
 * request, the front judges (front.h). A connection serves one call, on a thread of its own.
 * Never: knows what a vGPU is.
 *
 * Thread rule: start, hide, show, rebind and stop from one thread.
 */
#ifndef FACETD_SERVER_H
#define FACETD_SERVER_H

#include "endpoint.h"

struct server; /* opaque */

/*
 * Listens on `path` and serves. Only whoever holds the daemon's lock may call it: a stale socket file is replaced. A
 * file that is no socket, or one on which somebody answers, is refused. `daemon` must outlive the server.
 */
enum facet_status server_start(const char *path, const struct daemon *daemon, struct server **ret_server,
                               struct facet_error *error);

/* Finishes what is under way, closes all connections and removes the socket's file. NULL is allowed. */
void server_stop(struct server *server);

/*
 * Leaving without turning anybody away: hide the socket, so that nobody new comes; wait until nobody is connected; then
 * stop, or show it again when somebody came with work after all. Hide and show return false when renaming failed.
 */
bool server_hide(struct server *server);
bool server_show(struct server *server);

/* Whether the socket's file is the one that was bound: whoever cleans temporary folders may have removed it. */
bool server_is_reachable(const struct server *server);

/* Binds the socket's path anew. Who was connected is hung up on; on failure the server goes on as it was. */
enum facet_status server_rebind(struct server *server, struct facet_error *error);

/* Whether somebody listens on the socket `path`. */
bool server_answers(const char *path);

/* Connections that are open or waiting to be accepted. */
unsigned server_connections(struct server *server);

/* Counts calls since the start: tells whether somebody was there in between. */
uint64_t server_calls(const struct server *server);

#endif
