/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the fake CUDA driver: declarations that its source files (memory_*.c) share.
 *
 * Owns: one range of addresses, which is cut into blocks, and one file that backs all of them, so that another process
 * can map an exported part.
 * Never: writes a byte that the program did not write, so the machine spends memory only on pages that the program
 * uses.
 *
 * As in the real driver, an allocation of 1 MiB or more takes device memory in steps of 2 MiB. A smaller allocation is
 * a piece of a slab of 2 MiB, which belongs to a context. One FIFO lock protects all of it.
 */
#ifndef FAKE_CUDA_MEMORY_H
#define FAKE_CUDA_MEMORY_H

#include "execution.h"
#include "fake.h"
#include "vendor/cuda/memory.h"

#define FAKE_PAGE       (UINT64_C(2) << 20)
#define FAKE_SLAB_LIMIT (UINT64_C(1) << 20) /* a smaller allocation is a piece of a slab */
#define FAKE_PITCH_STEP UINT64_C(512)
#define FAKE_ARRAY_STEP (UINT64_C(64) << 10)

/* The granularity of allocations. The fake of another vendor's library is compiled with its own values. */
#ifndef FAKE_LARGE_STEP
#define FAKE_LARGE_STEP         FAKE_PAGE
#define FAKE_SMALL_STEP         UINT64_C(512)
#define FAKE_POOL_STEP          (UINT64_C(32) << 20) /* by which pools grow */
#define FAKE_SLAB_CHARGED_WHOLE true                 /* a slab is charged as a whole while any piece of it is in use */
#else
#define FAKE_SLAB_CHARGED_WHOLE false
#endif

enum fake_block_type {
    FAKE_BLOCK_PLAIN,
    FAKE_BLOCK_SLAB,
    FAKE_BLOCK_MANAGED,
    FAKE_BLOCK_POOLED,   /* its pool took the memory from the device */
    FAKE_BLOCK_HOST,     /* takes no device memory */
    FAKE_BLOCK_RESERVED, /* addresses alone; memory is mapped there later */
    FAKE_BLOCK_IMPORTED, /* another process took the memory from the device */
    FAKE_BLOCK_ARRAY,    /* its address is the handle of the array */
    FAKE_BLOCK_GRAPH,    /* of a graph's node; the device's graph memory took the memory from the device */
    FAKE_BLOCK_DRIVER,   /* the driver's own: code, globals, buffers that a context's limits size */
};

struct fake_block {
    enum fake_block_type type;
    uint64_t address, bytes; /* bytes: the size that the program asked for */
    uint64_t span;           /* the size of its addresses, in whole pages */
    uint32_t physical;       /* index of the device */
    enum fake_kind kind;
    uint64_t device_bytes; /* bytes of the device's memory that it takes */
    CUcontext context;     /* the block is freed with it; NULL: with no context */
    uint64_t id;           /* no later block has the same */
    void *type_data;       /* data that only blocks of its type have; freed with the block */
};

static inline uint64_t fake_round_up(uint64_t bytes, uint64_t step)
{
    return bytes > UINT64_MAX - step ? UINT64_MAX / step * step : (bytes + step - 1) / step * step;
}

/* The device memory that an allocation of `bytes` takes. */
static inline uint64_t fake_device_bytes(uint64_t bytes)
{
    static const uint64_t steps[] = {FAKE_SMALL_STEP, FAKE_LARGE_STEP};

    return fake_round_up(bytes, steps[bytes >= FAKE_SLAB_LIMIT]);
}

void fake_memory_lock(void);
void fake_memory_unlock(void);

/* ---- memory_space.c: all under the lock ---- */

/* Makes a block of addresses, with memory behind them except RESERVED and IMPORTED. NULL: no addresses are left. */
struct fake_block *fake_block_make(enum fake_block_type type, uint64_t bytes);
void fake_block_free(struct fake_block *block);

/* The block that contains `address`, or NULL. */
struct fake_block *fake_block_at(uint64_t address);

/* Calls `visit` for each block, in the order of addresses; `visit` may free the block. */
void fake_visit_blocks(void (*visit)(struct fake_block *block, void *argument), void *argument);

/*
 * The file that backs all memory; the offset of a block in it; and allocating and freeing pages of it that belong to
 * no block, for memory that is mapped later.
 */
int fake_backing(void);
uint64_t fake_backing_offset(const struct fake_block *block);
bool fake_backing_allocate(uint64_t bytes, uint64_t *ret_offset);
void fake_backing_free(uint64_t offset, uint64_t bytes);

/* Maps `bytes` of a file at an address, and makes the addresses inaccessible again. */
bool fake_map(uint64_t address, uint64_t bytes, int fd, uint64_t offset, int protection);
void fake_unmap(uint64_t address, uint64_t bytes);

/* ---- memory_plain.c ---- */

/* Reserves memory of a device. Before it refuses, the device's pools release unused memory. Under the lock. */
bool fake_memory_reserve(uint32_t physical, enum fake_kind kind, uint64_t bytes);

/* Makes a block in the current context, and reserves `device_bytes` of its device. Takes the lock. */
CUresult fake_memory_make_block(enum fake_block_type type, enum fake_kind kind, uint64_t bytes, uint64_t device_bytes,
                                struct fake_block **ret_block);

/* Makes a block for the driver itself; NULL: the device has no room. Under the lock, as is freeing any block. */
struct fake_block *fake_memory_make_driver_block(CUcontext context, enum fake_kind kind, uint64_t bytes);
void fake_memory_free_block(struct fake_block *block);

/*
 * Moves the managed block that contains `address` to a device, if that has room. A move to the host changes nothing.
 * Takes the lock.
 */
void fake_managed_move(uint64_t address, CUdevice device);

/* The block, the start and the size of the allocation that contains `address`. Under the lock. */
bool fake_memory_range(uint64_t address, struct fake_block **ret_block, uint64_t *ret_base, uint64_t *ret_bytes);

/*
 * Whether work may use the range: it lies wholly in one allocation, pinned host memory included, or in accessible
 * mappings. Takes the lock.
 */
bool fake_memory_usable(uint64_t address, uint64_t bytes);

/* ---- memory_slab.c: under the lock ---- */

struct fake_block *fake_slab_allocate(CUcontext context, uint64_t bytes, uint64_t *ret_address);
/* False when no allocation begins at `address`. */
bool fake_slab_free(struct fake_block *block, uint64_t address);
bool fake_slab_range(const struct fake_block *block, uint64_t address, uint64_t *ret_base, uint64_t *ret_bytes);
void fake_slab_destroy(struct fake_block *block);

/* ---- memory_pool.c: under the lock ---- */

void fake_pool_free(struct fake_block *block);
CUmemoryPool fake_pool_of(const struct fake_block *block);
/* Releases unused memory of the device's pools. Returns whether there was some. */
bool fake_pools_trim(uint32_t physical);

/* ---- memory_graph.c: under the lock ---- */

/* Frees a graph's allocation outside of the graph. False when it is not allocated at present. */
bool fake_allocation_free(struct fake_block *block);

/* ---- memory_virtual.c: under the lock ---- */

/* Frees exported memory that has no handle and no mapping, once the last of its exported descriptors is closed. */
void fake_virtual_free_unused(void);

/*
 * Takes a reference to memory by its handle, or by an address where it is mapped; NULL: there is none. And drops a
 * reference.
 */
void *fake_virtual_reference(CUmemGenericAllocationHandle handle);
void *fake_virtual_reference_at(uint64_t address);
void fake_virtual_unreference(void *memory);
uint32_t fake_virtual_device(const void *memory);

/* ---- memory_held.c: under the lock ---- */

/* Drops the references of an array that was destroyed to all memory that was mapped into it. */
void fake_held_drop_array(uint64_t array);

/* ---- memory_virtual.c, ranges: under the lock, except fake_virtual_set_used_until() ---- */

/* Whether the whole range is mapped and accessible. */
bool fake_virtual_usable(const struct fake_block *block, uint64_t address, uint64_t bytes);
/* Work uses the mapped memory until `until_ns`: to unmap it earlier is a fault. Takes the lock. */
void fake_virtual_set_used_until(uint64_t address, uint64_t bytes, uint64_t until_ns);

bool fake_virtual_range(const struct fake_block *block, uint64_t address, uint64_t *ret_base, uint64_t *ret_bytes);

/* The content of a handle by which memory is shared: it describes memory of another process, or of this one. */
struct fake_shared {
    uint64_t magic;
    int32_t pid, fd;
    uint64_t offset, bytes;
    uint32_t physical;
    uint32_t type; /* enum fake_shared_type */
    uint64_t id;
};
enum fake_shared_type { FAKE_SHARED_POINTER = 1, FAKE_SHARED_VIRTUAL, FAKE_SHARED_POOL, FAKE_SHARED_POOLED };
#define FAKE_SHARED_MAGIC UINT64_C(0x4445524148535546)

/*
 * An exported descriptor: one end of a socket pair, which can be read with MSG_PEEK any number of times. The exporting
 * process lists the other ends (`peer_fd`): they show whether any process still has a copy open.
 */
struct fake_export {
    struct fake_export *next;
    int peer_fd;
};
int fake_shared_export(const struct fake_shared *shared, struct fake_export **list); /* -1: no descriptor is left */
bool fake_shared_read(int fd, uint32_t type, struct fake_shared *ret_shared);
bool fake_shared_is_open(struct fake_export **list);

/*
 * Maps the memory that a handle describes. The mapping belongs to `context`; if that is NULL, the program frees the
 * mapping like any other pointer. Under the lock.
 */
CUresult fake_shared_map(const struct fake_shared *shared, CUcontext context, CUdeviceptr *pointer);

/* Opens the file that a handle refers to; -1 when its process has ended. */
int fake_shared_open(const struct fake_shared *shared);

#endif
