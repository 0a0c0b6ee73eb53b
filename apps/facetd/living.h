/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One live provider, shared by sessions.c (its life) and reading.c (its readings).
 *
 * Owns: struct living.
 * Never: is seen by other files.
 */
#ifndef FACETD_LIVING_H
#define FACETD_LIVING_H

#include <facet/session.h>
#include <pthread.h>

#include "sessions.h"

enum living_state {
    LIVING_CLOSED,  /* not needed yet */
    LIVING_OPENING, /* for the first time, or again */
    LIVING_ALIVE,
    LIVING_LOST,
};

/* A device of the table in this provider. */
struct place {
    const struct facet_device_record *record;
    bool present;   /* the provider lists it now */
    uint32_t index; /* in that list */
    bool read;
    struct device_reading reading;
};

struct living {
    struct sessions *sessions;
    const struct facet_provider_record *record;
    pthread_t thread;

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    enum living_state state;
    bool started, stopping, was_lost, look_now;
    bool telling;                  /* the thread is reporting a restart, and restarts nothing meanwhile */
    struct facet_error why;        /* of a loss */
    unsigned users;                /* callers between use and release */
    struct facet_session *session; /* replaced by the thread alone, and only while there are no users */
    unsigned failures;             /* in a row */
    unsigned attempts;             /* to open it, since the start */
    uint64_t retry_at_ns, alive_since_ns;
    uint64_t events_seen;
    struct place *places;
    uint32_t place_count;
};

/* The provider's thread calls these without the lock; the session does not change meanwhile. */

/* Which devices the provider lists now: after opening, and after a hot-plug. */
enum facet_status living_list(struct living *living, struct facet_error *error);

/* Reads events, health and metrics of all its devices, and keeps copies. A failure is part of the reading. */
void living_read(struct living *living, struct events *events);

/* Adds an event of the daemon's own making, about all its devices. */
void living_announce(struct living *living, struct events *events, uint32_t health, const char *message);

#endif
