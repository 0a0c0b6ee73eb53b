/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of a vendor's library that launch tracking needs, in terms that every vendor shares.
 *
 * Owns: the table, and the constants that stand for the default streams.
 * Never: serves a launch that is not sampled: hooks call the vendor's functions directly.
 *
 * An interposer defines facet_flight_driver. Streams, events and contexts are the vendor's handles. For a vendor
 * without contexts the interposer chooses one value for all objects that end together. Any thread may call the
 * functions, with none of our locks held, unless their comment says otherwise. They leave the calling thread's current
 * context and device as they were.
 */
#ifndef FACET_FLIGHT_DRIVER_H
#define FACET_FLIGHT_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "limiter/tenant.h"

/* The handles of the default streams, which are the same in CUDA and HIP: shared by all threads, and per thread. */
#define FACET_FLIGHT_LEGACY     ((void *)1)
#define FACET_FLIGHT_PER_THREAD ((void *)2)

/* The most devices of one process. */
#define FACET_FLIGHT_DEVICES 16u

enum facet_flight_state {
    FACET_FLIGHT_DONE,
    FACET_FLIGHT_RUNNING,
    FACET_FLIGHT_LOST, /* no work is running any more, and its end is unknown */
};

struct facet_flight_driver {
    /* The vGPUs that this process is attached to, and their number. Does not call the driver. */
    uint32_t (*tenants)(struct facet_tenant **ret_tenants);

    /*
     * The context of a stream; a default stream belongs to the thread's current context. False when the driver does not
     * know the stream, or the thread has no context: the driver then refuses the call itself.
     */
    bool (*stream_context)(void *stream, void **ret_context);
    /* The vGPU that is charged for a launch, and its device. NULL when there is none: the launch is refused. */
    struct facet_tenant *(*stream_tenant)(void *stream, uint32_t *ret_device);
    /* The device of a stream; with one vGPU it is 0, without a call to the driver. */
    uint32_t (*stream_device)(void *stream);
    /* Whether the legacy stream waits for this one; also false when the driver cannot tell. Not for default streams. */
    bool (*stream_joins_legacy)(void *stream);
    /* Whether the stream records launches instead of running them; also true when the driver cannot tell. */
    bool (*stream_captured)(void *stream);
    /*
     * Whether the stream is empty. Only the helper thread calls it, so it need not restore the current context. Never
     * for a per-thread stream.
     */
    enum facet_flight_state (*stream_state)(void *stream, void *context);

    void *(*event_new)(void *context); /* NULL on failure */
    void (*event_free)(void *event);
    bool (*event_record)(void *event, void *stream);
    enum facet_flight_state (*event_state)(void *event);
    /* The time between two complete events; false when the driver cannot tell. */
    bool (*event_distance)(void *from, void *to, int64_t *ret_ns);

    /* The first function that the helper thread calls. */
    void (*helper_begins)(void);
};
extern const struct facet_flight_driver facet_flight_driver;

#endif
