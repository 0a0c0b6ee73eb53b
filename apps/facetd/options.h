/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the command line of facetd. Never: acts on it, beyond --help and --version. */
#ifndef FACETD_OPTIONS_H
#define FACETD_OPTIONS_H

#include <stdbool.h>

#include "base/paths.h"

struct options {
    bool private;                 /* end when there is nothing to do, and silently when another daemon serves */
    bool foreground;              /* stay in this process and terminal */
    int ready_fd;                 /* receives the result of starting (detach.h); -1 when not requested */
    char config[FACET_PATH_SIZE]; /* the configuration file; empty: none is read */
    bool config_is_named;         /* by --config; else the file need not exist */
    char socket[FACET_PATH_SIZE];
    /* The lock and the socket of this process's earlier program (service_start_again()), or the service manager's
     * socket; -1: the daemon takes the lock and makes the socket itself. */
    int lock_fd, socket_fd;
    bool socket_is_passed; /* the service manager's: its file stays when the daemon ends */
    char runtime[FACET_PATH_SIZE];
    char state[FACET_PATH_SIZE];
};

/* Reads the command line. Prints and exits for --help, --version and usage errors (2). */
void options_read(int argc, char **argv, struct options *ret_options);

/* Checks the settings and fills in the folders, and the socket when none was named. */
enum facet_status options_resolve(struct options *options, struct facet_error *error);

#endif
