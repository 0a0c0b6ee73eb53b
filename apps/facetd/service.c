/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the manager's protocols; see service.h. Never: decides when the daemon stops. */
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef FACET_HAS_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "base/clock.h"
#include "base/log.h"
#include "options.h"

/* ---- the manager's socket ---- */

#ifdef FACET_HAS_SYSTEMD

static int passed_sockets(void)
{
    return sd_listen_fds(1); /* closes on exec, and unsets the variables, which children must not see */
}

void service_notify(const char *state)
{
    sd_notify(0, state); /* a manager that is gone need not know */
}

#else

enum { SD_LISTEN_FDS_START = 3 };

/* Without the library a manager's socket cannot be taken over: to go on would leave its callers without an answer. */
static int passed_sockets(void)
{
    return getenv("LISTEN_FDS") ? -ENOTSUP : 0;
}

void service_notify(const char *state)
{
}

#endif

static bool has_option(int fd, int option, int wanted)
{
    int value = -1;
    socklen_t size = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
}

bool service_is_listening(int fd)
{
    return has_option(fd, SO_ACCEPTCONN, 1) && has_option(fd, SO_TYPE, SOCK_STREAM);
}

enum facet_status service_socket(int *ret_fd, char *ret_path, size_t size, struct facet_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNSPEC};
    socklen_t length = sizeof address;
    int count = passed_sockets();

    *ret_fd = -1;
    if (count == 0)
        return FACET_OK;
    if (count < 0)
        return facet_error_errno(error, -count, "taking the socket that the service manager passed");
    if (count > 1)
        return facet_error_set(error, FACET_INVALID_ARGUMENT, "the service manager passed %d sockets: expected one",
                               count);
    if (getsockname(SD_LISTEN_FDS_START, (struct sockaddr *)&address, &length) < 0 || address.sun_family != AF_UNIX ||
        address.sun_path[0] != '/' || !service_is_listening(SD_LISTEN_FDS_START))
        return facet_error_set(error, FACET_INVALID_ARGUMENT,
                               "the service manager passed something else than a Unix socket that listens on a path");
    snprintf(ret_path, size, "%.*s", (int)sizeof address.sun_path, address.sun_path);
    fcntl(SD_LISTEN_FDS_START, F_SETFL, O_NONBLOCK);
    *ret_fd = SD_LISTEN_FDS_START;
    return FACET_OK;
}

void service_notify_reloading(void)
{
    char state[64];

    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, facet_clock_now_ns() / 1000);
    service_notify(state);
}

/* ---- starting again ---- */

#define SELF "/proc/self/exe" /* this program, also after its file was removed */

/* The path of this program; after an upgrade, of the new one. */
static void find_program(char *path, size_t size)
{
    static const char deleted[] = " (deleted)";
    ssize_t length = readlink(SELF, path, size - 1);
    size_t kept = length > (ssize_t)sizeof deleted - 1 ? (size_t)length - (sizeof deleted - 1) : 0;

    path[length > 0 ? length : 0] = '\0';
    if (kept && strcmp(path + kept, deleted) == 0 && access(path, F_OK) < 0)
        path[kept] = '\0';
}

enum facet_status service_may_start_again(struct facet_error *error)
{
    char program[FACET_PATH_SIZE];

    find_program(program, sizeof program);
    if (access(program, X_OK) == 0 || access(SELF, X_OK) == 0)
        return FACET_OK;
    return facet_error_errno(error, errno, "facetd's program %.200s cannot be started again", program);
}

enum facet_status service_start_again(const struct options *options, int lock, int listener, struct facet_error *error)
{
    char program[FACET_PATH_SIZE], descriptors[48];
    const char *arguments[12] = {"facetd", "--socket", options->socket, "--resume", descriptors};
    size_t count = 5;

    snprintf(descriptors, sizeof descriptors, "%d,%d,%d", lock, listener, options->socket_is_passed);
    if (options->config_is_named) {
        arguments[count++] = "--config";
        arguments[count++] = options->config;
    }
    if (options->foreground)
        arguments[count++] = "--foreground";
    if (options->private)
        arguments[count++] = "--private";
    find_program(program, sizeof program);
    if (fcntl(lock, F_SETFD, 0) < 0 || fcntl(listener, F_SETFD, 0) < 0)
        return facet_error_errno(error, errno, "keeping facetd's lock and socket");
    execv(program, (char *const *)(const void *)arguments);
    facet_log(FACET_LOG_WARNING, "%.200s cannot be started: %s; going on with the present program", program,
              strerror(errno));
    execv(SELF, (char *const *)(const void *)arguments);
    return facet_error_errno(error, errno, "starting %.200s again", program);
}
