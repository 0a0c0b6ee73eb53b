/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's live providers: each in a child process, opened when it is first needed.
 *
 * Owns: the sessions (facet/session.h) and one thread for each, which opens it, reads health, metrics and events once a
 * second, notices when it is lost, and restarts it after 1, 2, 4 .. 60 seconds.
 * Never: runs vendor code in this process, or delays a reader: readings are copies.
 *
 * Thread rule: every function from any thread, except open and close. A provider's lock is held for moments, never
 * during a call of the provider; a user holds a reference, and the provider is restarted only when there are
 * none. That wait has a bound, since each call has a deadline.
 */
#ifndef FACETD_SESSIONS_H
#define FACETD_SESSIONS_H

#include <stdbool.h>

#include "device/table.h"
#include "events.h"

struct sessions; /* opaque */

/* Called from the provider's thread after a lost provider was restarted: its parts may be gone. It may call
 * sessions_*. */
typedef void (*sessions_restarted_func)(void *context, const struct facet_provider_record *provider);

/* A provider in use, between sessions_use() and sessions_release(). */
struct provider_use {
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    uint32_t device; /* the device's index in the provider now */
    struct live_provider *live;
};

/* The last reading of a device. */
struct device_reading {
    uint32_t health;  /* enum facet_health */
    char reason[360]; /* of a health that is not ok; may be empty */
    bool has_metrics;
    struct facet_device_metrics metrics;
    struct facet_process_metrics *processes; /* freed by device_reading_free(), as is `links` */
    struct facet_link_metrics *links;
    uint32_t process_count, link_count;
};

/* Opens no provider yet. `devices` and `events` must outlive the sessions. */
enum facet_status sessions_open(const struct facet_device_table *devices, struct events *events,
                                struct sessions **ret_sessions, struct facet_error *error);
void sessions_on_restart(struct sessions *sessions, sessions_restarted_func restarted, void *context);

/* Ends the threads, after which no restart is reported, and the providers. NULL is allowed. */
void sessions_stop(struct sessions *sessions);
void sessions_close(struct sessions *sessions);

/*
 * Takes a reference to the provider of `device`. Opens it at the first use, and restarts it if it has died since the
 * last use. FACET_DEVICE_LOST, with the reason, while the provider is lost or the device is missing.
 */
enum facet_status sessions_use(struct sessions *sessions, const struct facet_device_record *device,
                               struct provider_use *ret_use, struct facet_error *error);
void sessions_release(struct provider_use *use);

/*
 * Begins to read providers with metrics or events; does not wait. Leaves out a provider whose devices run no programs,
 * because its kernels run in other processes' sessions.
 */
void sessions_watch(struct sessions *sessions);

/* The health of a device: that of the last reading, or the table's if its provider was not opened. `ret_reason` may be
 * NULL. */
uint32_t sessions_health(struct sessions *sessions, const struct facet_device_record *device, char *ret_reason,
                         size_t size);

/* The whole reading of a device. Release with device_reading_free(). */
enum facet_status sessions_read(struct sessions *sessions, const struct facet_device_record *device,
                                struct device_reading *ret_reading, struct facet_error *error);
void device_reading_free(struct device_reading *reading);

static inline void cleanup_use(struct provider_use *use)
{
    sessions_release(use);
}
#define CLEANUP_USE __attribute__((cleanup(cleanup_use)))

#endif
