/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy or fill as a launch: one that is large by itself, of small ones each time that enough of them came together.
 *
 * Owns: how much is enough, and what each thread has gathered. Transfers of one kind and power of two are alike.
 * Never: writes what another thread reads, where a small one only adds to what is gathered.
 *
 * A small one counts its bytes and a fixed number more, for what it costs the device to begin: so loops of tiny ones
 * are held, too. The one that makes it enough is admitted for all, and as all of them are expected to take as long for
 * what they count, what those before it took is told by how long it took itself.
 */
#ifndef FACET_FLIGHT_TRANSFER_H
#define FACET_FLIGHT_TRANSFER_H

#include "launch.h"

#define FACET_FLIGHT_TRANSFER_LEAST (UINT64_C(1) << 20)
#define FACET_FLIGHT_TRANSFER_FIXED (UINT64_C(64) << 10)

/* By streams, as lanes are: what a thread does in one is not charged to another's vGPU, but for the default streams. */
extern _Thread_local uint64_t facet_flight_gathered[FACET_FLIGHT_AT_HAND] __attribute__((tls_model("initial-exec")));

static inline uint64_t facet_flight_transfer_counts(uint64_t bytes)
{
    return bytes > UINT64_MAX - FACET_FLIGHT_TRANSFER_FIXED ? bytes : bytes + FACET_FLIGHT_TRANSFER_FIXED;
}

/* For how much a transfer of `bytes` is to be admitted; 0: it passes. One of nothing, which the library may refuse, is
 * none. */
static inline uint64_t facet_flight_transfer_due(void *stream, uint64_t bytes)
{
    uint64_t counts = facet_flight_transfer_counts(bytes);
    uint64_t *gathered = &facet_flight_gathered[facet_flight_place((uintptr_t)stream)];

    if (bytes >= FACET_FLIGHT_TRANSFER_LEAST)
        return counts;
    if (!bytes || (*gathered += counts) < FACET_FLIGHT_TRANSFER_LEAST)
        return 0;
    counts = *gathered;
    *gathered = 0;
    return counts;
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
