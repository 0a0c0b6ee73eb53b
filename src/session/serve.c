/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the threads of a child, and its reports. Never: calls the provider in the thread that follows orders. */
#include "session/serve.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/control.h"
#include "session/load.h"
#include "session/tables.h"
#include "session/transport.h"

struct server {
    int control;
    sem_t closing;       /* posted when the session wants to close */
    _Atomic bool opened; /* the fields below are set, and stay; channels are served from then on */
    struct facet_tables tables;
    struct facet_served served;
};

struct channel {
    struct server *server;
    int fd;
};

static void *serve_channel(void *data)
{
    struct channel channel = *(struct channel *)data;

    free(data);
    facet_serve_channel(channel.fd, &channel.server->served);
    return NULL;
}

/* A channel that cannot be served is closed, and the call through it fails. */
static void start_channel(struct server *server, int fd)
{
    struct channel *channel = malloc(sizeof *channel);
    pthread_t thread;

    if (channel) {
        *channel = (struct channel){server, fd};
        if (pthread_create(&thread, NULL, serve_channel, channel) == 0) {
            pthread_detach(thread);
            return;
        }
        free(channel);
    }
    close(fd);
}

/* Kills the process group: this process and the processes that the provider started. */
static _Noreturn void end_all(void)
{
    if (getpgrp() == getpid())
        kill(0, SIGKILL);
    _exit(EXIT_FAILURE);
}

/* Follows the session's orders, and ends the process when the session is gone. */
static void *watch_session(void *data)
{
    struct server *server = data;

    for (;;) {
        struct facet_order_packet packet;
        FACET_CLEANUP_FD int fd = -1;
        enum facet_transport result =
            facet_transport_receive_packet(server->control, FACET_TRANSPORT_FOREVER, &packet, sizeof packet, &fd);

        if (result != FACET_TRANSPORT_OK)
            end_all();
        if (packet.order == FACET_ORDER_CHANNEL && fd >= 0 && atomic_load(&server->opened))
            start_channel(server, FACET_TAKE_FD(fd));
        else if (packet.order == FACET_ORDER_CLOSE)
            sem_post(&server->closing);
    }
    return NULL;
}

static void send_report(const struct server *server, enum facet_report kind, const struct facet_error *error)
{
    struct facet_report_packet packet = {.size = sizeof packet, .report = kind};
    const struct facet_provider *provider = &server->tables.provider;

    if (error)
        packet.error = *error;
    if (kind == FACET_REPORT_OPENED) {
        packet.abi_major = provider->abi_major;
        packet.abi_minor = provider->abi_minor;
        packet.traits = provider->traits;
        snprintf(packet.name, sizeof packet.name, "%s", provider->name);
        snprintf(packet.version, sizeof packet.version, "%s", provider->version);
        snprintf(packet.description, sizeof packet.description, "%s", provider->description);
    }
    /* A report that cannot be sent is no error: the session is gone, and watch_session() ends the process. */
    facet_transport_send_packet(server->control, &packet, sizeof packet, -1);
}

/* Loads and opens the provider. Reports each step before it begins, because the provider may crash or hang in it. */
static enum facet_status open_provider(struct server *server, const char *path, uint16_t abi_minor,
                                       struct facet_error *error)
{
    const struct facet_provider *provider = NULL;
    facet_provider_entry_func entry = NULL;

    send_report(server, FACET_REPORT_LOADING, NULL);
    enum facet_status status = facet_load_object(path, &entry, error);
    if (status == FACET_OK) {
        send_report(server, FACET_REPORT_ENTERING, NULL);
        status = facet_load_enter(entry, abi_minor, &provider, error);
    }
    if (status == FACET_OK) {
        send_report(server, FACET_REPORT_OPENING, NULL);
        facet_tables_fill(&server->tables, provider, abi_minor);
        server->served.provider = &server->tables.provider;
        status = facet_load_open(&server->tables.provider, &server->served.instance, error);
    }
    return status;
}

/* Closes the provider once no call is under way. When a call does not end, the session's deadline ends the process. */
static void close_on_order(struct server *server)
{
    while (sem_wait(&server->closing) < 0)
        ; /* a signal that the provider handles */
    pthread_rwlock_wrlock(&server->served.calls);
    server->tables.device.close(server->served.instance);
}

bool facet_serve(int control, const char *path, uint16_t abi_minor)
{
    /* Static, because watch_session() reads it until the process has ended. */
    static struct server server;
    struct facet_error error = {0};
    pthread_t watcher;

    server.control = control;
    sem_init(&server.closing, 0, 0);
    pthread_rwlock_init(&server.served.calls, NULL);
    if (pthread_create(&watcher, NULL, watch_session, &server) != 0)
        return false;
    if (open_provider(&server, path, abi_minor, &error) != FACET_OK) {
        send_report(&server, FACET_REPORT_REFUSED, &error);
        return true;
    }
    atomic_store(&server.opened, true);
    send_report(&server, FACET_REPORT_OPENED, NULL);
    close_on_order(&server);
    send_report(&server, FACET_REPORT_CLOSED, NULL);
    return true;
}
