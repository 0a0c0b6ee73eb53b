/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy or fill as a launch: a large one by itself, small ones each time that enough have accumulated.
 *
 * Owns: the threshold, the bytes that each thread accumulated on each device, and the size of a batch as far as it can
 * be read before the library has checked it. Transfers of one kind and power of two share an estimate.
 * Never: writes a word that another thread reads, when a small transfer only accumulates; charges one vGPU for a
 * transfer in another.
 *
 * A small transfer counts its bytes and a fixed number more for its overhead, so that loops of tiny transfers are
 * throttled, too. The transfer that reaches the threshold is admitted for all that have accumulated. Its own duration,
 * scaled by bytes, is the expected time of the earlier transfers.
 */
#ifndef FACET_FLIGHT_TRANSFER_H
#define FACET_FLIGHT_TRANSFER_H

#include "launch.h"

#include <stddef.h>

/* In bytes: smaller transfers accumulate up to this threshold; each transfer counts the fixed number in addition. */
#define FACET_FLIGHT_TRANSFER_LEAST (UINT64_C(1) << 20)
#define FACET_FLIGHT_TRANSFER_FIXED (UINT64_C(64) << 10)

/*
 * A batch with more entries is not read before the library has checked it, because the count may be wrong. Such a batch
 * counts as one large copy.
 */
#define FACET_FLIGHT_BATCH_MOST 4096u

extern _Thread_local uint64_t facet_flight_accumulated_bytes[FACET_FLIGHT_DEVICES]
    __attribute__((tls_model("initial-exec")));

static inline uint64_t facet_flight_transfer_counts(uint64_t bytes)
{
    return bytes > UINT64_MAX - FACET_FLIGHT_TRANSFER_FIXED ? bytes : bytes + FACET_FLIGHT_TRANSFER_FIXED;
}

/*
 * The bytes for which this transfer must be admitted; 0: it needs no admission. A transfer of 0 bytes, which the
 * library may refuse, is not counted.
 */
static inline uint64_t facet_flight_transfer_due(void *stream, uint64_t bytes)
{
    uint64_t counts = facet_flight_transfer_counts(bytes);

    if (bytes >= FACET_FLIGHT_TRANSFER_LEAST)
        return counts;
    uint32_t device = bytes ? facet_flight_driver.stream_device(stream) : FACET_FLIGHT_DEVICES;
    if (device >= FACET_FLIGHT_DEVICES)
        return 0;
    uint64_t *gathered = &facet_flight_accumulated_bytes[device];
    if ((*gathered += counts) < FACET_FLIGHT_TRANSFER_LEAST)
        return 0;
    counts = *gathered;
    *gathered = 0;
    return counts;
}

/* The sum of the bytes of `count` entries, each given by `bytes_of`; 0 if the sum overflows, or there is no list. */
static inline uint64_t facet_flight_batch(const void *list, size_t count, uint64_t (*bytes_of)(const void *, size_t))
{
    uint64_t bytes = 0;

    if (!list)
        return 0;
    if (count > FACET_FLIGHT_BATCH_MOST)
        return FACET_FLIGHT_TRANSFER_LEAST;
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(bytes, bytes_of(list, i), &bytes))
            return 0;
    return bytes;
}

static inline uint64_t facet_flight_size_at(const void *sizes, size_t index)
{
    return ((const size_t *)sizes)[index];
}

/* Like facet_flight_begin(), for `due` bytes. The call's name, which is no kernel's address, identifies the kind. */
bool facet_flight_transfer_begin(struct facet_flight *launch, void *stream, const char *name, uint64_t bytes,
                                 uint64_t due);

/*
 * The body of a hook that returns `type`, where 0 is success: `call` is the vendor's function, `refusal` the result
 * when there is no vGPU. A size that overflows counts as 0 bytes: no memory is that large, and the library refuses the
 * call.
 */
#define FACET_FLIGHT_TRANSFER(type, refusal, name, target, amount, call)                                               \
    uint64_t facet_bytes = amount;                                                                                     \
    void *facet_stream = target;                                                                                       \
    uint64_t facet_due = facet_flight_transfer_due(facet_stream, facet_bytes);                                         \
    struct facet_flight facet_launch;                                                                                  \
                                                                                                                       \
    if (!facet_due)                                                                                                    \
        return call;                                                                                                   \
    if (!facet_flight_transfer_begin(&facet_launch, facet_stream, name, facet_bytes, facet_due))                       \
        return refusal;                                                                                                \
    type facet_done = call;                                                                                            \
    facet_flight_end(&facet_launch, facet_stream, facet_done == 0);                                                    \
    return facet_done

#endif
