/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that a provider runs in.
 *
 * Owns: starting facet-provider-host, its end, and telling how it ended.
 * Never: talks to it beyond the socket it hands out, leaves one behind, or lets the surrounding program notice one.
 *
 * The program is spawned, not forked, so that programs with threads may have one, and is an orphan (base/hidden.h). It
 * becomes two (supervisor.h): one that runs the provider, and its supervisor, which reports how that one ended. The
 * child ends when its socket's other end is closed, thus with this program; a parent-death signal would not do, for it
 * fires when the starting thread ends.
 */
#ifndef FACET_SESSION_CHILD_H
#define FACET_SESSION_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

/* -1 each: none. */
struct facet_child {
    int control;    /* our end of the child's socket */
    int supervisor; /* our end of the supervisor's socket, readable once the child has ended */
    int pidfd;      /* the supervisor; may be -1 for a running child, too */
};

#define FACET_CHILD_NONE ((struct facet_child){-1, -1, -1})

/* Starts the program for the provider at `path`. Errors: FACET_NOT_FOUND (no program), FACET_BUSY, FACET_IO. */
enum facet_status facet_child_start(const char *path, uint16_t abi_minor, struct facet_child *ret_child,
                                    struct facet_error *error);

/* Whether it has ended by itself. Does not wait. */
bool facet_child_has_ended(const struct facet_child *child);

/*
 * Ends it: waits for at most `patience_ns` until it has ended by itself, then has it killed, with every process that it
 * started. `ret_how` describes the end: "crashed with signal 11 (Segmentation fault)", "called exit(3)", "ended its
 * process". True when it ended as it should, with status 0.
 */
bool facet_child_end(struct facet_child *child, uint64_t patience_ns, char *ret_how, size_t size);

#endif
