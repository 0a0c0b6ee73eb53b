/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging memory: reserve before the vendor's library is called, remember by pointer or handle, give back when it is
 * freed.
 *
 * Owns: the order of those.
 * Never: calls the vendor's library but through what it is given; lets memory that could not be remembered live
 * uncharged.
 */
#ifndef FACET_MEMORY_CHARGE_H
#define FACET_MEMORY_CHARGE_H

#include "driver.h"

enum facet_memory_kind {
    FACET_MEMORY_PLAIN,   /* dies with its owner: a context, a device */
    FACET_MEMORY_MANAGED, /* the same; charged on each GPU (managed.h) */
    FACET_MEMORY_SMALL,   /* the same; the regions that it lies in are charged (region.h), by who has such */
    FACET_MEMORY_ARRAY,   /* dies with its owner, too */
    FACET_MEMORY_POOLED,  /* a pointer out of a pool, its owner, which is charged for it */
    FACET_MEMORY_VIRTUAL, /* a handle; its owner is a struct of virtual.c, which is charged */
    FACET_MEMORY_GRAPH,   /* an executable; its owner is what it needs (graph.h), which is not charged here */
    FACET_MEMORY_LOADED,  /* a note: what is of this name is loaded; the interposer's own */
};

/* Why something was not charged; an interposer says it in its vendor's words. */
enum facet_memory_refusal { FACET_MEMORY_TAKEN = 0, FACET_MEMORY_OUT, FACET_MEMORY_NO_VGPU };

/* Without a tenant nothing was charged, and nothing is kept or given back: a call within a call. */
struct facet_memory_charge {
    struct facet_tenant *tenant;
    uint64_t bytes;
    uint32_t device;
    bool managed; /* of each GPU (managed.h) */
    bool refused; /* by the quota, and not counted as that yet */
};

/* A key of the ledger: pointers and handles of different kinds may be equal. Who frees a pointer knows no kind of it.
 */
static inline uint64_t facet_memory_key(enum facet_memory_kind kind, uint64_t handle)
{
    bool pointer = kind == FACET_MEMORY_SMALL || kind == FACET_MEMORY_MANAGED || kind == FACET_MEMORY_POOLED;

    return handle ^ (pointer ? 0 : (uint64_t)kind << 60);
}

/* In whole steps of a power of two; UINT64_MAX, which no quota grants, where that overflows. */
static inline uint64_t facet_memory_round(uint64_t bytes, uint64_t step)
{
    return bytes > UINT64_MAX - step ? UINT64_MAX : (bytes + step - 1) & ~(step - 1);
}

/* Refused when the quota has not so much left, also after pools and graphs let go of what nobody uses. */
enum facet_memory_refusal facet_charge_take(uint32_t device, uint64_t bytes, struct facet_memory_charge *ret_charge);

/*
 * The same before the library has judged the call. What the quota refuses is not counted as denied: the library may
 * refuse the call anyway, and then it is its answer that the program is told. So the caller asks it for the same and
 * more than any device has, and ends with facet_charge_refuse() where that lacks nothing but memory. In *ret_charge it
 * finds the tenant, the device, and `refused`.
 */
enum facet_memory_refusal facet_charge_try(uint32_t device, uint64_t bytes, struct facet_memory_charge *ret_charge);
void facet_charge_refuse(const struct facet_memory_charge *charge);

/* More than a device of `total` bytes has, in its steps where `bytes` is. */
static inline uint64_t facet_memory_too_much(uint64_t bytes, uint64_t total)
{
    uint64_t most = UINT64_C(1) << 56, twice = (total < most ? 2 * total : 2 * most) & ~((UINT64_C(2) << 20) - 1);

    return bytes > twice ? bytes : twice + bytes % (UINT64_C(2) << 20);
}
void facet_charge_drop(const struct facet_memory_charge *charge);

/* Makes a charge larger or smaller, as it turned out. */
enum facet_memory_refusal facet_charge_resize(struct facet_memory_charge *charge, uint64_t bytes);

/* Remembers what was paid; false when memory is out: the caller undoes the allocation and drops the charge. */
bool facet_charge_keep(const struct facet_memory_charge *charge, enum facet_memory_kind kind, uint64_t handle,
                       uint64_t owner);

/*
 * Frees something by `handle`: taken out before the library is called, as another thread may get the same handle right
 * after; `free_it` calls the library and answers 0 for success. What it did not free is put back.
 */
int facet_charge_free(enum facet_memory_kind kind, uint64_t handle, int (*free_it)(uint64_t handle, void *stream),
                      void *stream);

/* Gives back what belongs to `owner` and dies with it. */
void facet_charge_ended(uint64_t owner);

/* How much of an array of so many texels is charged: rows in steps of 512 bytes, in all in steps of 64 KiB. */
struct facet_memory_array {
    uint64_t width, height, depth; /* 0 where there is no such dimension */
    uint64_t texel_bytes;
    unsigned levels;
    bool layered; /* as many slices in each level */
};
uint64_t facet_memory_array_bytes(const struct facet_memory_array *array);

#endif
