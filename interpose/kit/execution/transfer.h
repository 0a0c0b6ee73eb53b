/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy or fill as a launch: one that is large by itself, of small ones each time that enough of them came together.
 *
 * Owns: how much is enough, and what each thread has gathered on each device. Transfers of one kind and power of two
 * are alike. How much a batch moves, as far as that can be told before the library has judged it. Never: writes what
 * another thread reads, where a small one only adds to what is gathered; charges to one vGPU what was done in another.
 *
 * A small one counts its bytes and a fixed number more, for what it costs the device to begin: so loops of tiny ones
 * are held, too. The one that makes it enough is admitted for all, and as all of them are expected to take as long for
 * what they count, what those before it took is told by how long it took itself.
 */
#ifndef FACET_FLIGHT_TRANSFER_H
#define FACET_FLIGHT_TRANSFER_H

#include "launch.h"

#include <stddef.h>

#define FACET_FLIGHT_TRANSFER_LEAST (UINT64_C(1) << 20)
#define FACET_FLIGHT_TRANSFER_FIXED (UINT64_C(64) << 10)

/* A longer batch is not read before the library has judged it: its count may be anything. It counts as one large copy.
 */
#define FACET_FLIGHT_BATCH_MOST 4096u

extern _Thread_local uint64_t facet_flight_gathered[FACET_FLIGHT_DEVICES] __attribute__((tls_model("initial-exec")));

static inline uint64_t facet_flight_transfer_counts(uint64_t bytes)
{
    return bytes > UINT64_MAX - FACET_FLIGHT_TRANSFER_FIXED ? bytes : bytes + FACET_FLIGHT_TRANSFER_FIXED;
}

/* For how much a transfer of `bytes` is to be admitted; 0: it passes. One of nothing, which the library may refuse, is
 * none. */
static inline uint64_t facet_flight_transfer_due(void *stream, uint64_t bytes)
{
    uint64_t counts = facet_flight_transfer_counts(bytes);

    if (bytes >= FACET_FLIGHT_TRANSFER_LEAST)
        return counts;
    uint32_t device = bytes ? facet_flight_driver.stream_device(stream) : FACET_FLIGHT_DEVICES;
    if (device >= FACET_FLIGHT_DEVICES)
        return 0;
    uint64_t *gathered = &facet_flight_gathered[device];
    if ((*gathered += counts) < FACET_FLIGHT_TRANSFER_LEAST)
        return 0;
    counts = *gathered;
    *gathered = 0;
    return counts;
}

/* What `count` entries move, of which `bytes_of` tells each; 0 where it overflows, and where there is no list. */
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

/* As facet_flight_begin(), for as much as is due. The name of the call stands for its kind: no kernel's address. */
bool facet_flight_transfer_begin(struct facet_flight *launch, void *stream, const char *name, uint64_t bytes,
                                 uint64_t due);

/*
 * The body of a hook that returns `type`, in which 0 is success: `call` is the vendor's function, `refusal` what is
 * said when there is no vGPU. Nothing is as large as what overflows: that is the library's to refuse, and of no bytes.
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
