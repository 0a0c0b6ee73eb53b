/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's memory, inside: the declarations that its parts share.
 *
 * Owns: one space of addresses, in which everything that has an address is a block; and one file behind all of it, so
 * that another process can map an exported part.
 * Never: touches a byte that the program did not touch: memory costs the machine only the pages that are written.
 *
 * As the driver does, memory is taken from the device in steps of 2 MiB from 1 MiB on, and less than that out of slabs
 * of 2 MiB that belong to a context. A fair lock (FIFO) protects all of it.
 */
#ifndef FAKE_CUDA_MEMORY_H
#define FAKE_CUDA_MEMORY_H

#include "execution.h"
#include "fake.h"
#include "vendor/cuda/memory.h"

#define FAKE_PAGE       (UINT64_C(2) << 20)
#define FAKE_SMALL      (UINT64_C(1) << 20) /* from here on an allocation has pages of its own */
#define FAKE_PITCH_STEP UINT64_C(512)
#define FAKE_ARRAY_STEP (UINT64_C(64) << 10)

/* Steps in which memory is given; another vendor's library is compiled with its own. */
#ifndef FAKE_LARGE_STEP
#define FAKE_LARGE_STEP FAKE_PAGE
#define FAKE_SMALL_STEP UINT64_C(512)
#define FAKE_POOL_STEP  (UINT64_C(32) << 20) /* in which pools grow */
#define FAKE_WHOLE      true                 /* a slab is to be charged whole while anything is given out of it */
#else
#define FAKE_WHOLE false
#endif

enum fake_sort {
    FAKE_BLOCK_PLAIN,
    FAKE_BLOCK_SLAB,
    FAKE_BLOCK_MANAGED,
    FAKE_BLOCK_POOLED,   /* its pool has taken the memory */
    FAKE_BLOCK_HOST,     /* takes none */
    FAKE_BLOCK_RESERVED, /* addresses, into which memory is mapped */
    FAKE_BLOCK_IMPORTED, /* another process has taken the memory */
    FAKE_BLOCK_ARRAY,    /* its address is the handle of the array */
    FAKE_BLOCK_GRAPH,    /* of a graph's node; the device's graph memory has taken what is behind it */
    FAKE_BLOCK_OWN,      /* the driver's: code, globals, buffers of limits */
};

struct fake_block {
    enum fake_sort sort;
    uint64_t address, bytes; /* bytes: as the program asked */
    uint64_t span;           /* of addresses, whole pages */
    uint32_t physical;       /* index of the device */
    enum fake_kind kind;
    uint64_t taken;    /* of the device */
    CUcontext context; /* with which it dies; NULL: it stays */
    uint64_t id;       /* never given again */
    void *detail;      /* of its sort; freed with the block */
};

static inline uint64_t fake_round(uint64_t bytes, uint64_t step)
{
    return bytes > UINT64_MAX - step ? UINT64_MAX / step * step : (bytes + step - 1) / step * step;
}

/* The device's grant for `bytes`. */
static inline uint64_t fake_granted(uint64_t bytes)
{
    static const uint64_t steps[] = {FAKE_SMALL_STEP, FAKE_LARGE_STEP};

    return fake_round(bytes, steps[bytes >= FAKE_SMALL]);
}

void fake_memory_lock(void);
void fake_memory_unlock(void);

/* ---- memory_space.c: all under the lock ---- */

/* A block with addresses and, except RESERVED and IMPORTED, memory behind them. NULL when no addresses are left. */
struct fake_block *fake_block_make(enum fake_sort sort, uint64_t bytes);
void fake_block_free(struct fake_block *block);

/* The block that has `address`, or NULL. */
struct fake_block *fake_block_at(uint64_t address);

/* Each block, in the order of addresses; `visit` may free its block. */
void fake_blocks(void (*visit)(struct fake_block *block, void *argument), void *argument);

/* The file behind it all, where in it a block begins, and pages of it that have no address yet. */
int fake_backing(void);
uint64_t fake_backing_offset(const struct fake_block *block);
bool fake_backing_take(uint64_t bytes, uint64_t *ret_offset);
void fake_backing_give(uint64_t offset, uint64_t bytes);

/* Puts `bytes` of a file at an address, or takes them away again. */
bool fake_map(uint64_t address, uint64_t bytes, int fd, uint64_t offset, int protection);
void fake_unmap(uint64_t address, uint64_t bytes);

/* ---- memory_plain.c ---- */

/* Takes memory of a device; pools give back their unused memory before it is refused. Under the lock. */
bool fake_memory_take(uint32_t physical, enum fake_kind kind, uint64_t bytes);

/* A block of a sort that pays for itself, in the current context. Takes the lock. */
CUresult fake_memory_make(enum fake_sort sort, enum fake_kind kind, uint64_t bytes, uint64_t take,
                          struct fake_block **ret_block);

/* A block of the driver's own, in any context; NULL when the device has no room. Under the lock, as freeing it is. */
struct fake_block *fake_memory_make_own(CUcontext context, enum fake_kind kind, uint64_t bytes);
void fake_memory_release(struct fake_block *block);

/* The managed block that `address` lies in goes to a device that has room for it; to the host it does not go. Takes the
 * lock. */
void fake_managed_move(uint64_t address, CUdevice device);

/* Where an allocation begins and how long it is, by any address in it. Under the lock. */
bool fake_memory_range(uint64_t address, struct fake_block **ret_block, uint64_t *ret_base, uint64_t *ret_bytes);

/* Whether `bytes` from `address` on may be used by a copy: memory of the driver's, whole, or the host's own. */
bool fake_memory_usable(uint64_t address, uint64_t bytes);

/* ---- memory_slab.c: under the lock ---- */

struct fake_block *fake_slab_take(CUcontext context, uint64_t bytes, uint64_t *ret_address);
/* False when nothing was given there. */
bool fake_slab_give(struct fake_block *block, uint64_t address);
bool fake_slab_range(const struct fake_block *block, uint64_t address, uint64_t *ret_base, uint64_t *ret_bytes);
void fake_slab_gone(struct fake_block *block);

/* ---- memory_pool.c: under the lock ---- */

void fake_pool_give(struct fake_block *block);
CUmemoryPool fake_pool_of(const struct fake_block *block);
/* Gives back unused memory of the device's pools. True when there was some. */
bool fake_pools_trim(uint32_t physical);

/* ---- memory_graph.c: under the lock ---- */

/* Frees memory that a graph allocated, from outside of it; false when it is not alive. */
bool fake_allocation_give(struct fake_block *block);

/* ---- memory_virtual.c: under the lock ---- */

/* Lets go of memory whose last holder was a descriptor that is closed by now: it has no handle and no mapping. */
void fake_virtual_sweep(void);

/* Holds memory by its handle, or by where it is mapped, NULL for none; and lets it go. */
void *fake_virtual_hold(CUmemGenericAllocationHandle handle);
void *fake_virtual_hold_at(uint64_t address);
void fake_virtual_let_go(void *memory);
uint32_t fake_virtual_device(const void *memory);

/* ---- memory_held.c: under the lock ---- */

/* An array is gone, with all memory mapped into it. */
void fake_held_array_gone(uint64_t array);

/* Whether all of the range is mapped and may be reached. */
bool fake_virtual_usable(const struct fake_block *block, uint64_t address, uint64_t bytes);
/* Work that uses the mapped memory is complete then: to take a mapping away before is a fault. Takes the lock. */
void fake_virtual_touch(uint64_t address, uint64_t bytes, uint64_t until_ns);

bool fake_virtual_range(const struct fake_block *block, uint64_t address, uint64_t *ret_base, uint64_t *ret_bytes);

/* Memory of another process, or of this one: the content of a handle. */
struct fake_shared {
    uint64_t magic;
    int32_t pid, fd;
    uint64_t offset, bytes;
    uint32_t physical;
    uint32_t sort; /* of handle */
    uint64_t id;
};
enum fake_shared_sort { FAKE_SHARED_POINTER = 1, FAKE_SHARED_VIRTUAL, FAKE_SHARED_POOL, FAKE_SHARED_POOLED };
#define FAKE_SHARED_MAGIC UINT64_C(0x4445524148535546)

/*
 * An export: a descriptor that can be read with MSG_PEEK any number of times. Each is on a list of its maker, which
 * tells whether any copy of any of them is still open, in any process.
 */
struct fake_export {
    struct fake_export *next;
    int watch;
};
int fake_shared_export(const struct fake_shared *shared, struct fake_export **list); /* -1: none */
bool fake_shared_read(int fd, uint32_t sort, struct fake_shared *ret_shared);
bool fake_shared_held(struct fake_export **list);

/*
 * Maps the memory of a handle, in the name of a context, or of none: such is freed as any pointer is. Under the lock.
 */
CUresult fake_shared_map(const struct fake_shared *shared, CUcontext context, CUdeviceptr *pointer);

/* Opens the file that a handle speaks of; -1 when its process has gone. */
int fake_shared_open(const struct fake_shared *shared);

#endif
