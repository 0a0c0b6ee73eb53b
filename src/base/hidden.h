/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that the surrounding program does not notice. They send it no SIGCHLD, and its wait() neither returns nor
 * waits for them. Its handling of its own children (ignoring SIGCHLD, or waiting for all of them in a handler) does not
 * affect our knowledge of ours.
 *
 * Owns: making such processes, and waiting for them.
 * Never: changes a handler, or waits for a child of the program's own.
 *
 * A child without a signal at its end is passed over by wait(), but only until it calls exec, which gives it the usual
 * signal back. So a process that must exec is an orphan: init's child, or that of the nearest ancestor that is a
 * subreaper. A program that is one itself, or is the first of its PID namespace, adopts it, and may notice it after
 * all.
 */
#ifndef FACET_BASE_HIDDEN_H
#define FACET_BASE_HIDDEN_H

#include <spawn.h>
#include <sys/types.h>

/*
 * As fork(), for a child that does not exec. It may make only the calls that are allowed in a signal handler: it has
 * one thread, and no lock was prepared for it. -1: errno says why.
 */
pid_t facet_hidden_fork(void);

/* As waitpid() with these options, for such a child: its status; 0 while it runs (WNOHANG); -1 where the program has
 * taken it with __WALL. */
int facet_hidden_wait(pid_t pid, int options);

struct facet_hidden_program {
    const char *path;
    char *const *arguments;
    char *const *environment;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes; /* whose signal mask must be set: all signals are blocked when it starts */
};

/*
 * As posix_spawn(), for an orphan. The kernel does not report its end to us; the orphan itself has to, or its child.
 * The descriptor (pidfd) is for facet_hidden_reap(); -1 if there is none. Returns an errno.
 */
int facet_hidden_spawn(const struct facet_hidden_program *program, int *ret_pidfd);

/* Waits for an orphan that is about to end, if this process adopted it: it alone can. */
void facet_hidden_reap(int pidfd);

#endif
