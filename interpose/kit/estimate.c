/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table of estimates. Never: waits for anything. */
#include "estimate.h"

#include <stdatomic.h>

#define SLOTS        1024u
#define WEIGHT_SHIFT 2 /* a new measurement has the weight of a quarter */

static struct {
    _Atomic uint64_t key, average_ns;
} table[SLOTS];

static uint64_t mix_bits(uint64_t value)
{
    value = (value ^ value >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return value ^ value >> 32;
}

uint64_t facet_estimate_key(const void *object, uint64_t size)
{
    return mix_bits((uintptr_t)object ^ mix_bits(size)) | 1;
}

uint64_t facet_estimate_transfer_key(uint64_t bytes)
{
    return facet_estimate_key(NULL, bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0);
}

static size_t index_of(uint64_t key)
{
    return (size_t)(key >> 1) % SLOTS;
}

uint64_t facet_estimate_get(uint64_t key)
{
    size_t i = index_of(key);

    if (atomic_load_explicit(&table[i].key, memory_order_relaxed) != key)
        return 0;
    return atomic_load_explicit(&table[i].average_ns, memory_order_relaxed);
}

void facet_estimate_learn(uint64_t key, uint64_t measured_ns)
{
    size_t i = index_of(key);
    uint64_t old = facet_estimate_get(key);
    uint64_t average = old ? old - (old >> WEIGHT_SHIFT) + (measured_ns >> WEIGHT_SHIFT) : measured_ns;

    if (!average)
        average = 1; /* 0 would mean unknown */

    atomic_store_explicit(&table[i].average_ns, average, memory_order_relaxed);
    atomic_store_explicit(&table[i].key, key, memory_order_relaxed);
}
