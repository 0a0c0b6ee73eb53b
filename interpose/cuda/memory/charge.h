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
 *   managed: what was asked, in steps of 512 bytes and 2 MiB, wherever it is.
 *   pitched: as plain, of the pitch that the driver chose times the height.
 *   arrays: rows in steps of 512 bytes, times rows and layers and levels, in steps of 64 KiB; nothing for those whose
 *     memory the program maps itself.
 *   pools: what a pool holds of the device, whoever uses it (pool.h).
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
#include "interpose/kit/transit.h"

enum facet_cuda_kind {
    FACET_CUDA_PLAIN,   /* dies with its owner, a context */
    FACET_CUDA_SMALL,   /* the same; its regions are charged (linear.h) */
    FACET_CUDA_ARRAY,   /* dies with its owner, too */
    FACET_CUDA_POOLED,  /* a pointer out of a pool, its owner, which is charged for it */
    FACET_CUDA_VIRTUAL, /* a handle; its owner is a struct of virtual.c, which is charged */
    FACET_CUDA_GRAPH,   /* an executable; its owner is what it needs (graph.h), which is not charged here */
    FACET_CUDA_LOADED,  /* a note: what is of this name is loaded (code.c) */
};

struct facet_cuda_charge {
    struct facet_tenant *tenant;
    uint64_t bytes;
    uint32_t device;
};

/* A key of the ledger: pointers and handles of different kinds may be equal. Who frees a pointer knows no kind of it.
 */
static inline uint64_t facet_cuda_key(enum facet_cuda_kind kind, uint64_t handle)
{
    return handle ^ (kind == FACET_CUDA_SMALL || kind == FACET_CUDA_POOLED ? 0 : (uint64_t)kind << 60);
}

static inline uint64_t facet_cuda_round(uint64_t bytes, uint64_t step)
{
    return bytes > UINT64_MAX - step ? UINT64_MAX : (bytes + step - 1) & ~(step - 1);
}

/* What the driver takes for `bytes` of linear memory. */
static inline uint64_t facet_cuda_granted(uint64_t bytes)
{
    return facet_cuda_round(bytes, bytes >> 20 ? UINT64_C(2) << 20 : 512);
}

/* CUDA_ERROR_OUT_OF_MEMORY when the quota has not so much left, also after pools let go of what nobody uses. */
CUresult facet_cuda_charge_take(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge);

/* The same, in transit until facet_transit_leave() (interpose/kit/transit.h); refused, it is left already. Not with the
 * contexts held (context.h). */
CUresult facet_cuda_charge_begin(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge);

void facet_cuda_charge_drop(const struct facet_cuda_charge *charge);

/* Makes a charge larger or smaller, as it turned out. */
CUresult facet_cuda_charge_resize(struct facet_cuda_charge *charge, uint64_t bytes);

/* Remembers what was paid; false when memory is out: the caller undoes the allocation and drops the charge. */
bool facet_cuda_charge_keep(const struct facet_cuda_charge *charge, enum facet_cuda_kind kind, uint64_t handle,
                            uint64_t owner);

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
