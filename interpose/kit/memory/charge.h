/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging memory: reserve before the vendor's library is called, record by pointer or handle, release when it is
 * freed.
 *
 * Owns: the order of these steps.
 * Never: calls the vendor's library except through given functions; lets memory that could not be recorded live
 * uncharged.
 */
#ifndef FACET_MEMORY_CHARGE_H
#define FACET_MEMORY_CHARGE_H

#include "driver.h"

enum facet_memory_kind {
    FACET_MEMORY_PLAIN,   /* freed with its owner: a context, a device */
    FACET_MEMORY_MANAGED, /* freed with its owner; charged on each GPU (managed.h) */
    FACET_MEMORY_SMALL,   /* freed with its owner; charged by its regions (region.h), in interposers that use them */
    FACET_MEMORY_ARRAY,   /* freed with its owner */
    FACET_MEMORY_POOLED,  /* a pointer from a pool; the owner is the pool, which is charged */
    FACET_MEMORY_VIRTUAL, /* a handle; the owner is a struct of virtual.c, which is charged */
    FACET_MEMORY_GRAPH,   /* an executable; the owner is its needs (graph.h), not charged here */
    FACET_MEMORY_LOADED,  /* a note that a named object is loaded; defined by the interposer */
};

/* The result of a charge; an interposer translates it to its vendor's codes. */
enum facet_memory_refusal { FACET_MEMORY_CHARGED = 0, FACET_MEMORY_OVER_QUOTA, FACET_MEMORY_NO_VGPU };

/* `tenant` is NULL in a call that the library makes within another call: nothing is charged, recorded or released. */
struct facet_memory_charge {
    struct facet_tenant *tenant;
    uint64_t bytes;
    uint32_t device;
    bool managed; /* charged on each GPU (managed.h) */
    bool refused; /* the quota refused, and the denial is not counted yet */
};

/*
 * A key of the ledger. Pointers and handles of different kinds may be equal. All kinds of pointers share one key space,
 * because the kind is not known when a pointer is freed.
 */
static inline uint64_t facet_memory_key(enum facet_memory_kind kind, uint64_t handle)
{
    bool pointer = kind == FACET_MEMORY_SMALL || kind == FACET_MEMORY_MANAGED || kind == FACET_MEMORY_POOLED;

    return handle ^ (pointer ? 0 : (uint64_t)kind << 60);
}

/* Rounds up to a multiple of a power of two; UINT64_MAX, which no quota grants, if that overflows. */
static inline uint64_t facet_memory_round(uint64_t bytes, uint64_t step)
{
    return bytes > UINT64_MAX - step ? UINT64_MAX : (bytes + step - 1) & ~(step - 1);
}

/* Refused when the quota has too little left, even after pools and graphs have released unused memory. */
enum facet_memory_refusal facet_charge_take(uint32_t device, uint64_t bytes, struct facet_memory_charge *ret_charge);

/*
 * Takes a charge before the library has checked the call. A refusal is not counted as denied, because the library might
 * refuse the call for another reason, and its error takes precedence. So the caller calls the library with the same
 * arguments and a size beyond any device's memory, and calls facet_charge_refuse() if the library lacks only memory.
 * *ret_charge then has the tenant, the device, and `refused`.
 */
enum facet_memory_refusal facet_charge_try(uint32_t device, uint64_t bytes, struct facet_memory_charge *ret_charge);
void facet_charge_refuse(const struct facet_memory_charge *charge);

/* A size beyond a device of `total` bytes, with the same remainder as `bytes` when divided by 2 MiB. */
static inline uint64_t facet_memory_beyond_device(uint64_t bytes, uint64_t total)
{
    uint64_t most = UINT64_C(1) << 56, twice = (total < most ? 2 * total : 2 * most) & ~((UINT64_C(2) << 20) - 1);

    return bytes > twice ? bytes : twice + bytes % (UINT64_C(2) << 20);
}
void facet_charge_drop(const struct facet_memory_charge *charge);

/* Adjusts a charge to the actual size. */
enum facet_memory_refusal facet_charge_resize(struct facet_memory_charge *charge, uint64_t bytes);

/* Records the charge; false when memory is out: the caller then frees the allocation and drops the charge. */
bool facet_charge_keep(const struct facet_memory_charge *charge, enum facet_memory_kind kind, uint64_t handle,
                       uint64_t owner);

/*
 * Frees the object of `handle`: `free_it` calls the library and returns 0 for success. The entry is taken out before
 * that call, because another thread may get the same handle right after it; it is put back if the library refuses.
 */
int facet_charge_free(enum facet_memory_kind kind, uint64_t handle, int (*free_it)(uint64_t handle, void *stream),
                      void *stream);

/* Releases the charges of all memory that ended with `owner`. */
void facet_charge_drop_owner(uint64_t owner);

/* The charge of an array: rows in steps of 512 bytes, the total in steps of 64 KiB. */
struct facet_memory_array {
    uint64_t width, height, depth; /* 0 for a missing dimension */
    uint64_t texel_bytes;
    unsigned levels;
    bool layered; /* the same number of slices in each level */
};
uint64_t facet_memory_array_bytes(const struct facet_memory_array *array);

#endif
