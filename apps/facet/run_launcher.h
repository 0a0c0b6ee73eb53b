/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launchers: commands that start a program outside the virtual GPU, because it is not their own child or does not get
 * the variables by which programs enter.
 *
 * Owns: the list of launchers, and finding one behind env, nice and the like, and in a shell's -c text.
 * Never: runs or refuses anything, or looks into a script file.
 */
#ifndef FACET_RUN_LAUNCHER_H
#define FACET_RUN_LAUNCHER_H

#include <stdbool.h>

#define RUN_LAUNCHER_NAME 32

struct run_launcher {
    char name[RUN_LAUNCHER_NAME]; /* as `command` names it, without a folder */
    const char *description;      /* "starts programs in a container": a verb and where */
};

/* Whether `command`, as execvp() would run it, is a launcher or runs one. */
bool run_launcher_find(char *const *command, struct run_launcher *ret_launcher);

#endif
