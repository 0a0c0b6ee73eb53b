/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child's side: the work of the program facet-provider-host.
 *
 * Owns: loading and opening one provider, serving calls through the channels it is handed, closing it.
 * Never: outlives its parent: when the other end of the socket is closed, it ends, whatever the provider is doing.
 */
#ifndef FACET_SESSION_SERVE_H
#define FACET_SESSION_SERVE_H

#include <pthread.h>
#include <stdbool.h>

#include <facet/provider.h>

/* Serves the provider at `path` for the session at the other end of `control`. Returns when the session has closed the
 * provider or it did not open; the process is to end at once then. False when the serving thread could not start. */
bool facet_serve(int control, const char *path, uint16_t abi_minor);

/* An open provider with complete tables. A call holds `calls` for reading, so that closing can wait for all calls. */
struct facet_served {
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    pthread_rwlock_t calls;
};

/* Serves the calls that come through `channel`, in this thread, until it is closed. */
void facet_serve_channel(int channel, struct facet_served *served);

#endif
