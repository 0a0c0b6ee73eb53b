/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: a process between a session and the provider's child.
 *
 * The session's program may wait for all its children, or ignore them. So the provider's process is a child of the
 * supervisor, and the supervisor is an orphan.
 *
 * Owns: the child's process group, killing it when the session orders so, and reporting how the child ended.
 * Never: runs a provider's code, or outlives the child.
 */
#ifndef FACET_SESSION_SUPERVISOR_H
#define FACET_SESSION_SUPERVISOR_H

/* Returns in the child, a process group of its own. The calling process supervises it, and never returns. */
void facet_supervisor_split(void);

#endif
