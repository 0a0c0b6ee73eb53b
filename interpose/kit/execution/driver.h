/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What following launches asks of a vendor's library: a few functions, in words that every vendor has.
 *
 * Owns: the table, and the names of the streams that are no objects.
 * Never: is on the way of a launch that is not sampled: hooks call the vendor's functions themselves.
 *
 * An interposer defines facet_flight_driver. Streams, events and contexts are the vendor's handles; where a vendor has
 * no contexts, what stands for one is the interposer's own: one value for all that ends together. The functions may be
 * called by any thread, with no lock of ours held, unless it says otherwise, and leave the calling thread's current
 * context and device as they were.
 */
#ifndef FACET_FLIGHT_DRIVER_H
#define FACET_FLIGHT_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "limiter/tenant.h"

/* The default streams, by the handles that both CUDA and HIP have for them: the one all threads share, the thread's. */
#define FACET_FLIGHT_LEGACY     ((void *)1)
#define FACET_FLIGHT_PER_THREAD ((void *)2)

/* Devices of one process at most. */
#define FACET_FLIGHT_DEVICES 16u

enum facet_flight_state {
    FACET_FLIGHT_DONE,
    FACET_FLIGHT_RUNNING,
    FACET_FLIGHT_LOST, /* nothing is running there any more, and nobody can tell since when */
};

struct facet_flight_driver {
    /* The vGPUs that this process is attached to: how many, and where they are. Asks nobody. */
    uint32_t (*tenants)(struct facet_tenant **ret_tenants);

    /* Where a launch into the stream goes; a default stream is of the thread's current context. False when the driver
     * knows no such stream, or the thread has no context: the call is for the driver to judge. */
    bool (*stream_context)(void *stream, void **ret_context);
    /* The vGPU that pays for it, and its device. NULL when there is none: the launch is refused. */
    struct facet_tenant *(*stream_tenant)(void *stream, uint32_t *ret_device);
    /* Its device; with one vGPU it is 0, and nobody is asked. */
    uint32_t (*stream_device)(void *stream);
    /* Whether the legacy stream waits for what is in it; false, too, when the driver cannot say. No default stream. */
    bool (*stream_joins_legacy)(void *stream);
    /* Whether it takes notes instead of running what is launched; true, too, when the driver cannot say. */
    bool (*stream_captured)(void *stream);
    /* Whether all that was launched is complete. In the helper's thread, which has no context of its own to keep; never
     * for a thread's own stream. */
    enum facet_flight_state (*stream_state)(void *stream, void *context);

    void *(*event_new)(void *context); /* NULL when there is none */
    void (*event_free)(void *event);
    bool (*event_record)(void *event, void *stream);
    enum facet_flight_state (*event_state)(void *event);
    /* From one complete event to another; false when the driver cannot tell. */
    bool (*event_distance)(void *from, void *to, int64_t *ret_ns);

    /* In the helper's thread, before anything else. */
    void (*helper_begins)(void);
};
extern const struct facet_flight_driver facet_flight_driver;

#endif
