/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that start a program out of a virtual GPU's reach: not as their own child, or without the variables by which
 * programs enter it.
 *
 * Owns: the list of them, and finding one behind env, nice and the like, and in the text for a shell.
 * Never: runs or refuses anything. It does not see programs that a script or program starts in its turn.
 */
#ifndef FACET_RUN_LAUNCHER_H
#define FACET_RUN_LAUNCHER_H

#include <stdbool.h>

#define RUN_LAUNCHER_NAME 32

struct run_launcher {
    char name[RUN_LAUNCHER_NAME]; /* as `command` names it, without a folder */
    const char *description;      /* "starts programs in a container": a verb and where */
};

/* True when `command`, as execvp() would run it, is one or leads to one. */
bool run_launcher_find(char *const *command, struct run_launcher *ret_launcher);

#endif
