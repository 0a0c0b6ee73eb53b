/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI, table `execution`: streams, kernels, launches.
 *
 * Owns: loading binaries for a device, ordered launches, waiting and cancelling.
 * Never: compiles (src/kernel does) and never blocks without a timeout.
 */
#ifndef FACET_PROVIDER_EXECUTION_H
#define FACET_PROVIDER_EXECUTION_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_provider_instance;

/* One launch. Arguments are bytes, laid out as the kernel's target defines; at most 4096. */
struct facet_launch {
    uint32_t size;
    uint32_t argument_bytes; /* of the bytes passed beside this struct */
    uint64_t module;
    uint32_t grid[3];     /* work-groups */
    uint32_t group[3];    /* work-items of one */
    uint32_t local_bytes; /* work-group memory beyond the kernel's own */
    uint32_t reserved;
    char kernel[64];
};
FACET_STATIC_ASSERT(sizeof(struct facet_launch) == 112, "ABI: facet_launch");

struct facet_stream_state {
    uint32_t size;
    uint32_t failed;    /* enum facet_status of the first launch that failed, negated; 0: none */
    uint64_t launched;  /* counter: launches accepted */
    uint64_t completed; /* counter: of those, done, failed or cancelled */
    uint64_t busy_ns;   /* counter: device time of the completed ones, as measured by the device */
};
FACET_STATIC_ASSERT(sizeof(struct facet_stream_state) == 32, "ABI: facet_stream_state");

struct facet_execution_ops {
    uint64_t size; /* of this table, as the provider was built */

    /* Loads a binary. FACET_CORRUPT when it is none for this device; the error says what was expected. */
    enum facet_status (*load)(struct facet_provider_instance *instance, uint64_t context, const void *image,
                              uint64_t bytes, uint64_t *ret_module, struct facet_error *error);
    /* FACET_BUSY while a launch of it is not complete; FACET_NOT_FOUND, a second time too. */
    enum facet_status (*unload)(struct facet_provider_instance *instance, uint64_t context, uint64_t module,
                                struct facet_error *error);

    enum facet_status (*create_stream)(struct facet_provider_instance *instance, uint64_t context, uint64_t *ret_stream,
                                       struct facet_error *error);
    /* Waits for nothing: what is queued is cancelled. */
    enum facet_status (*destroy_stream)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                        struct facet_error *error);

    /* Queues a launch behind what the stream has. FACET_NOT_FOUND (stream, module, kernel), FACET_OUT_OF_RANGE
     * (dimensions of 0 or too large, argument bytes). */
    enum facet_status (*launch)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                const struct facet_launch *launch, const void *arguments, struct facet_error *error);

    /* Waits until everything queued before is complete, for at most `timeout_ns` (FACET_TIMEOUT). */
    enum facet_status (*synchronize)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     uint64_t timeout_ns, struct facet_error *error);
    enum facet_status (*query)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                               struct facet_stream_state *ret_state, struct facet_error *error);
    /* Drops what has not begun; what runs is ended where the device can. */
    enum facet_status (*cancel)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                struct facet_error *error);
};
FACET_STATIC_ASSERT(sizeof(struct facet_execution_ops) == 72, "ABI: facet_execution_ops");

#ifdef __cplusplus
}
#endif
#endif
