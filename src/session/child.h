/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that a provider runs in.
 *
 * Owns: starting facet-provider-host, ending it, and reporting how it ended.
 * Never: sends the child a message, leaves a child behind, or lets the surrounding program notice its child.
 *
 * The child is spawned, not forked, so that programs with threads may start it, and is an orphan (base/hidden.h). The
 * spawned process splits into two (supervisor.h): the child that runs the provider, and the supervisor that reports how
 * the child ended. The child ends when the other end of its socket is closed, thus with this program. A parent-death
 * signal would not do, because it fires when the thread that started the child ends.
 */
#ifndef FACET_SESSION_CHILD_H
#define FACET_SESSION_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

struct facet_child { /* a descriptor is -1 where there is none */
    int control;     /* our end of the child's socket */
    int supervisor;  /* our end of the supervisor's socket, readable once the child has ended */
    int pidfd;       /* the supervisor; may be -1 for a running child, too */
};

#define FACET_CHILD_NONE ((struct facet_child){-1, -1, -1})

/* Starts the program for the provider at `path`. Errors: FACET_NOT_FOUND (no program), FACET_BUSY, FACET_IO. */
enum facet_status facet_child_start(const char *path, uint16_t abi_minor, struct facet_child *ret_child,
                                    struct facet_error *error);

/* Whether the child has ended by itself. Does not wait. */
bool facet_child_has_ended(const struct facet_child *child);

/*
 * Ends the child: waits for at most `timeout_ns` until it has ended by itself, then has it killed, with every process
 * that it started. `ret_how` describes the end: "crashed with signal 11 (Segmentation fault)", "called exit(3)", "ended
 * its process". True when the child ended by itself, with status 0.
 */
bool facet_child_end(struct facet_child *child, uint64_t timeout_ns, char *ret_how, size_t size);

#endif
