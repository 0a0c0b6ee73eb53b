/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: a process between a session and the provider's child.
 *
 * The session's program may wait for, or ignore, every child that it has; so the provider's child is the supervisor's,
 * and the supervisor is an orphan.
 *
 * Owns: the child's process group, ending it when the session says so, and telling the session how it ended.
 * Never: runs a provider's code, or outlives the child.
 */
#ifndef FACET_SESSION_SUPERVISOR_H
#define FACET_SESSION_SUPERVISOR_H

/* Returns in the child, a process group of its own. The calling process supervises it, and never returns. */
void facet_supervisor_split(void);

#endif
