/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging memory: reserve before the driver is called, record by pointer or handle, release when it is freed.
 *
 * Owns: the order of these steps, the sizes that are charged, and the meaning of a key in the ledger.
 * Never: calls the driver itself; leaves memory allocated whose charge could not be recorded.
 *
 * Charges by kind:
 *   - plain: from 1 MiB on, the requested size, rounded up to a multiple of 2 MiB, as the driver allocates it.
 *   - small: below that, each region of 2 MiB that contains a part of it (linear.h).
 *   - managed: the requested size, rounded up to 512 bytes below 1 MiB and to 2 MiB from there on; charged on each GPU,
 *     because the driver may keep it on any (managed.c).
 *   - pitched: like plain memory of the pitch that the driver chose times the height.
 *   - arrays: the bytes of a row, rounded up to 512, times the rows and layers; of all levels together, rounded up to
 *     64 KiB; nothing if the program maps the memory itself.
 *   - pools: the memory that a pool holds, in use or not (interpose/kit/memory/pool.h).
 *   - graphs: the memory that the driver holds for them (graph.h).
 *   - virtual: the memory of cuMemCreate, until its last handle and mapping are gone (virtual.c).
 *   - contexts: the memory that creating them took (context.h), also for green ones (green.h).
 *   - modules: the memory that loading them took, and later loading of their parts (code.h).
 *
 * Not charged: memory of the host; memory that another process or another API shared, because its owner was charged.
 */
#ifndef FACET_CUDA_CHARGE_H
#define FACET_CUDA_CHARGE_H

#include "interpose/cuda/hooks.h"
#include "interpose/cuda/process.h"
#include "interpose/kit/memory/charge.h"
#include "interpose/kit/pending.h"

#define FACET_CUDA_POOL_GROWTH (UINT64_C(32) << 20) /* drivers let a pool grow in steps of this */

/* Plain memory and arrays are freed with a context, their owner. The kit charges pools and graphs. */
enum facet_cuda_kind {
    FACET_CUDA_PLAIN = FACET_MEMORY_PLAIN,
    FACET_CUDA_MANAGED = FACET_MEMORY_MANAGED,
    FACET_CUDA_SMALL = FACET_MEMORY_SMALL, /* its regions are charged (linear.h) */
    FACET_CUDA_ARRAY = FACET_MEMORY_ARRAY,
    FACET_CUDA_LOADED = FACET_MEMORY_LOADED, /* code.c */
};

struct facet_cuda_charge {
    struct facet_tenant *tenant;
    uint64_t bytes;
    uint64_t owner;          /* facet_cuda_owner() */
    uint64_t contexts_ended; /* number of contexts that had ended before the driver was called (context.h) */
    uint32_t device;
    bool by_region; /* the bytes are whole 2 MiB regions, which the process's slot counts separately (linear.c) */
};

/* A key of the ledger. */
static inline uint64_t facet_cuda_key(enum facet_cuda_kind kind, uint64_t handle)
{
    return facet_memory_key((enum facet_memory_kind)kind, handle);
}

static inline uint64_t facet_cuda_round(uint64_t bytes, uint64_t step)
{
    return facet_memory_round(bytes, step);
}

/* The size that the driver allocates for `bytes` of linear memory. */
static inline uint64_t facet_cuda_granted(uint64_t bytes)
{
    return facet_cuda_round(bytes, bytes >> 20 ? UINT64_C(2) << 20 : 512);
}

/* CUDA_ERROR_OUT_OF_MEMORY when the quota has too little left, even after pools have released unused memory. */
CUresult facet_cuda_charge_take(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge);

/*
 * Takes a charge for the current context, before the driver has checked the call. On success the call is pending
 * until facet_cuda_charge_end(). After a refusal nothing is pending, and no denial is counted: the driver may refuse
 * the call anyway (refusal.h). The caller must not hold the contexts' lock (context.h).
 */
CUresult facet_cuda_charge_begin(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge);

/*
 * Makes the current context the owner of a charge that facet_cuda_charge_begin() did not begin (small and managed
 * memory). Called while the bytes are pending, before the driver is called.
 */
void facet_cuda_charge_set_owner(struct facet_cuda_charge *charge);

/* Ends the pending state. If the owning context has ended since the beginning, its charges are released. */
void facet_cuda_charge_end(const struct facet_cuda_charge *charge);

void facet_cuda_charge_drop(const struct facet_cuda_charge *charge);

/*
 * Adjusts a charge to the actual size. `_try_resize`, for use before the driver has checked the call, counts
 * no denial.
 */
CUresult facet_cuda_charge_resize(struct facet_cuda_charge *charge, uint64_t bytes);
CUresult facet_cuda_charge_try_resize(struct facet_cuda_charge *charge, uint64_t bytes);

/*
 * Records the charge; false when host memory is exhausted. The caller then frees the allocation and drops the charge.
 */
bool facet_cuda_charge_keep(const struct facet_cuda_charge *charge, enum facet_cuda_kind kind, uint64_t handle);

/*
 * Frees the object of `handle` by calling `free_it`, which calls the driver. The entry is taken out before that call,
 * because another thread may get the same handle right after it; it is put back if the driver refuses. Its bytes are
 * pending meanwhile, except for memory of a pool. The caller must not hold the contexts' lock.
 */
CUresult facet_cuda_charge_free(enum facet_cuda_kind kind, uint64_t handle, CUresult (*free_it)(uint64_t, CUstream),
                                CUstream stream);

/* Releases the charge of an entry that was taken out of the ledger under `key`, when its memory has been freed. */
void facet_cuda_charge_release_entry(uint64_t key, const struct facet_ledger_entry *entry);

/* The owner of memory that is allocated now: the current context, or the primary one of a green context; 0 if none. */
uint64_t facet_cuda_owner(void);

#endif
