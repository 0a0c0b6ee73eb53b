/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check before the HTTP library: accepts connections, and hands on those whose request can be read in one way only.
 *
 * Owns: the listening socket, a thread that accepts, and one for each connection until its request's head has arrived;
 * the answers to connections that are refused: other users, and malformed heads (head.h).
 * Never: takes anything out of a connection that it hands on.
 */
#ifndef FACETD_FRONT_H
#define FACETD_FRONT_H

#include <facet/error.h>

struct front; /* opaque */

/* Takes over a connection, and closes it in the end. Called on any thread. */
typedef void (*front_serve_func)(void *context, int fd);

/* Listens on `fd`, and serves at most `connections_most` connections at once. Takes over `fd`, also on failure. */
enum facet_status front_start(int fd, unsigned connections_most, front_serve_func serve, void *context,
                              struct front **ret_front, struct facet_error *error);

/* Accepts no more connections: they wait in the socket's backlog. Those that were accepted are still read and handed
 * on. */
void front_stop_accepting(struct front *front);

/* Accepts no more connections, and hangs up on those that were not handed on. NULL is allowed. */
void front_stop(struct front *front);

/* How many connections wait to be accepted, or have not sent all of their head; how many of them were accepted. */
unsigned front_connections(struct front *front);
unsigned front_accepted(const struct front *front);

#endif
