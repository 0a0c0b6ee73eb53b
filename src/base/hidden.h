/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that the surrounding program does not notice. They send it no SIGCHLD, and its wait() neither returns nor
 * waits for them. Its handling of its own children (ignoring SIGCHLD, or waiting for all of them in a handler) does not
 * take the exit status of ours.
 *
 * Owns: making such processes, and waiting for them.
 * Never: changes a handler, or waits for a child of the program's own.
 *
 * A child without a signal at its end is passed over by wait(), but only until it calls exec, which gives it the usual
 * signal back. So a process that must exec is an orphan: a child of init, or of the nearest ancestor that is a
 * subreaper. A surrounding program that is a subreaper itself, or the first process of its PID namespace, adopts the
 * orphan and may notice it.
 */
#ifndef FACET_BASE_HIDDEN_H
#define FACET_BASE_HIDDEN_H

#include <spawn.h>
#include <sys/types.h>

/*
 * Like fork(), for a child that does not exec. The child may make only async-signal-safe calls: another thread may have
 * held any lock at the time of the fork. -1: errno says why.
 */
pid_t facet_hidden_fork(void);

/*
 * Like waitpid() with these options, for a child of facet_hidden_fork(). Returns its status; 0 while it runs (WNOHANG);
 * -1 if the program has waited for it with __WALL.
 */
int facet_hidden_wait(pid_t pid, int options);

struct facet_hidden_program {
    const char *path;
    char *const *arguments;
    char *const *environment;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes; /* must set a signal mask: all signals are blocked when the program starts */
};

/*
 * Like posix_spawn(), for an orphan. The kernel does not report the end of an orphan to us: the orphan, or a child of
 * it, must do that. *ret_pidfd is for facet_hidden_reap(); -1 if there is none. Returns an errno.
 */
int facet_hidden_spawn(const struct facet_hidden_program *program, int *ret_pidfd);

/* Waits for an orphan that is about to end, if this process adopted it; no other process can wait for it then. */
void facet_hidden_reap(int pidfd);

#endif
