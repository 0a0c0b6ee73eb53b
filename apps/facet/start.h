/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: starting a private daemon. Never: keeps it: it leaves by itself when it has nothing to do. */
#ifndef FACET_START_H
#define FACET_START_H

#include <facet/error.h>

/*
 * Starts `facetd --private` in a session of its own and waits until it is ready, has reported why not, or has left
 * because another daemon was quicker (which is success). Shows that it waits on a terminal, after a second.
 */
enum facet_status daemon_start(struct facet_error *error);

/* The error for a daemon that started and yet does not answer; names its log. */
enum facet_status daemon_start_failed(const char *socket_path, struct facet_error *error);

#endif
