/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facet-provider-host: the process that a provider runs in, so that its crash ends no other program.
 *
 * Owns: setting the process up for code that may crash.
 * Never: is started by hand; a session (facet/session.h) starts it and talks to it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/surroundings.h"
#include "session/control.h"
#include "session/serve.h"
#include "session/supervisor.h"

static bool is_socket(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
}

/* Whether a session started this process: its sockets are then on the descriptors that it passes. The arguments are the
 * provider's path, the ABI's minor version, and the session's process number, which only people read. */
static bool is_started_by_a_session(int count)
{
    return count == 4 && is_socket(FACET_CONTROL_FD) && is_socket(FACET_SUPERVISOR_FD);
}

int main(int count, char **arguments)
{
    const struct rlimit no_core = {0};

    if (!is_started_by_a_session(count)) {
        fprintf(stderr, "%s: runs a provider for Facet's other programs, which start it themselves\n",
                FACET_HOST_PROGRAM);
        return 2;
    }
    facet_surroundings_reset_signals(); /* a crash is reported by its signal, which a sanitizer's handler would hide */
    setrlimit(RLIMIT_CORE, &no_core);
    facet_supervisor_split();
    /* A program that the provider starts must not keep the session open. */
    fcntl(FACET_CONTROL_FD, F_SETFD, FD_CLOEXEC);
    bool served = facet_serve(FACET_CONTROL_FD, arguments[1], (uint16_t)strtoul(arguments[2], NULL, 10));

    /* Not exit(): a vendor's exit handlers are known to wait for threads that are gone. */
    _exit(served ? EXIT_SUCCESS : EXIT_FAILURE);
}
