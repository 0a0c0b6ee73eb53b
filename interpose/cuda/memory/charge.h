/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging memory: reserve before the driver is called, remember by pointer or handle, give back when it is freed.
 *
 * Owns: the order of those, the sizes that are charged, and what a key in the ledger is of.
 * Never: calls the driver; lets memory that could not be remembered live uncharged.
 *
 * What is charged, by kind:
 *   plain: from 1 MiB on what was asked, in steps of 2 MiB, as the driver takes it.
 *   small: below that, each region of 2 MiB in which any of it lies (linear.h).
 *   managed: what was asked, in steps of 512 bytes and 2 MiB, on each GPU, wherever it is (managed.c).
 *   pitched: as plain, of the pitch that the driver chose times the height.
 *   arrays: rows in steps of 512 bytes, times rows and layers and levels, in steps of 64 KiB; nothing for those whose
 *     memory the program maps itself.
 *   pools: what a pool holds of the device, whoever uses it (interpose/kit/memory/pool.h).
 *   graphs: what the driver holds for them of the device (graph.h).
 *   virtual: what cuMemCreate made, until its last handle and mapping have gone (virtual.c).
 *   contexts: what their making took of the device (context.h), green ones besides (green.h).
 *   modules: what their loading took, and what of them is loaded later (code.h).
 * Not charged: memory of the host; what another process, or another API, shared, and has paid for.
 */
#ifndef FACET_CUDA_CHARGE_H
#define FACET_CUDA_CHARGE_H

#include "interpose/cuda/hooks.h"
#include "interpose/cuda/process.h"
#include "interpose/kit/memory/charge.h"
#include "interpose/kit/transit.h"

#define FACET_CUDA_POOL_GROWTH (UINT64_C(32) << 20) /* drivers let a pool grow in steps of this */

/* What is plain, and arrays, die with a context, their owner. Pools and graphs are charged by the kit. */
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
    uint64_t owner; /* facet_cuda_owner() */
    uint64_t ended; /* contexts, before the driver was called (context.h) */
    uint32_t device;
    bool by_region; /* whole regions, which the slot counts as such (linear.c) */
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

/* What the driver takes for `bytes` of linear memory. */
static inline uint64_t facet_cuda_granted(uint64_t bytes)
{
    return facet_cuda_round(bytes, bytes >> 20 ? UINT64_C(2) << 20 : 512);
}

/* CUDA_ERROR_OUT_OF_MEMORY when the quota has not so much left, also after pools let go of what nobody uses. */
CUresult facet_cuda_charge_take(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge);

/*
 * The same for the current context, before the driver has judged the call: in transit until facet_cuda_charge_end();
 * refused, it is left already, and not counted as denied: the driver may refuse the call anyway (judge.h). Not with the
 * contexts held (context.h).
 */
CUresult facet_cuda_charge_begin(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge);

/* What begins so by other ways: it will be the current context's. In transit, before the driver is called. */
void facet_cuda_charge_owned(struct facet_cuda_charge *charge);

/* No longer in transit; what was kept for a context that has ended meanwhile is given back. */
void facet_cuda_charge_end(const struct facet_cuda_charge *charge);

void facet_cuda_charge_drop(const struct facet_cuda_charge *charge);

/* Makes a charge larger or smaller, as it turned out; the second before the driver has judged the call, as above. */
CUresult facet_cuda_charge_resize(struct facet_cuda_charge *charge, uint64_t bytes);
CUresult facet_cuda_charge_try_resize(struct facet_cuda_charge *charge, uint64_t bytes);

/* Remembers what was paid; false when memory is out: the caller undoes the allocation and drops the charge. */
bool facet_cuda_charge_keep(const struct facet_cuda_charge *charge, enum facet_cuda_kind kind, uint64_t handle);

/*
 * Frees something by `handle`: taken out before the driver is called, as another thread may get the same handle right
 * after; `free_it` calls the driver. What the driver did not free is put back. In transit meanwhile, but for what is a
 * pool's. Not with the contexts held.
 */
CUresult facet_cuda_charge_free(enum facet_cuda_kind kind, uint64_t handle, CUresult (*free_it)(uint64_t, CUstream),
                                CUstream stream);

/* What has been taken out of the ledger under `key`, and is no more, is given back. */
void facet_cuda_charge_gone(uint64_t key, const struct facet_ledger_entry *entry);

/* The current context, or what it is a part of, as the owner of what is made now; 0 when there is none. */
uint64_t facet_cuda_owner(void);

#endif
