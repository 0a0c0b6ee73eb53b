/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One live provider, shared by sessions.c, which opens and restarts it, and reading.c, which reads it.
 *
 * Owns: struct live_provider.
 * Never: is included by other files.
 */
#ifndef FACETD_LIVE_PROVIDER_H
#define FACETD_LIVE_PROVIDER_H

#include <facet/session.h>
#include <pthread.h>

#include "sessions.h"

enum live_provider_state {
    LIVE_PROVIDER_CLOSED,  /* not needed yet */
    LIVE_PROVIDER_OPENING, /* for the first time, or again */
    LIVE_PROVIDER_ALIVE,
    LIVE_PROVIDER_LOST,
};

/* A device of the device table that this provider drives. */
struct provided_device {
    const struct facet_device_record *record;
    bool present;   /* the provider lists it now */
    uint32_t index; /* the device's number in the provider's list */
    bool has_reading;
    struct device_reading reading;
};

struct live_provider {
    struct sessions *sessions;
    const struct facet_provider_record *record;
    pthread_t thread;

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    enum live_provider_state state;
    bool thread_started, stopping, was_lost;
    bool look_is_due;              /* the thread does not wait for its next interval or retry */
    bool reports_restart;          /* the thread is reporting a restart, and restarts nothing meanwhile */
    struct facet_error loss;       /* why the provider was lost */
    unsigned users;                /* callers between use and release */
    struct facet_session *session; /* replaced by the thread alone, and only while there are no users */
    unsigned failures;             /* in a row */
    unsigned attempts;             /* to open it, since the start */
    uint64_t retry_at_ns, alive_since_ns;
    uint64_t events_seen;
    struct provided_device *devices;
    uint32_t device_count;
};

/* The provider's thread calls these without the lock; the session does not change meanwhile. */

/* Reads which devices the provider lists now; called after opening, and after a hot-plug. */
enum facet_status live_provider_list(struct live_provider *live, struct facet_error *error);

/* Reads events, health and metrics of all its devices, and keeps copies. A failure is part of the reading. */
void live_provider_read(struct live_provider *live, struct events *events);

/* Adds an event about each of the provider's devices, in the daemon's name. */
void live_provider_announce(struct live_provider *live, struct events *events, uint32_t health, const char *message);

#endif
