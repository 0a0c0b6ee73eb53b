/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory for virtual GPUs: spaces whose addresses never change while pages move under them.
 *
 * Owns: one device's memory (struct facet_memory), the virtual address space of each vGPU on it (struct facet_space),
 * allocation, quotas, copying with range checks, defragmentation, and the measurements of all these.
 * Never: hands memory of one space to another without clearing it; moves an address; lets a space hold one byte beyond
 * its limit; follows an address that it did not give out.
 *
 *     facet_memory_open_host(&(struct facet_memory_config){.size = sizeof(struct facet_memory_config),
 *                                                          .memory_bytes = 8 * GIB}, &memory, &error);
 *     facet_space_create(memory, &(struct facet_space_config){.size = sizeof(struct facet_space_config),
 *                                                             .limit_bytes = 2 * GIB, .name = "App1"}, &space, &error);
 *     facet_space_allocate(space, 1 * MIB, NULL, &address, &error);
 *     facet_space_copy(space, address, data, 1 * MIB, FACET_COPY_TO_DEVICE, &error);
 *
 * Small allocations are blocks of size-class pools, several to a page; large allocations are runs of whole pages. A
 * space is charged for all memory that it withholds from others: whole pages, its pools' free blocks included.
 *
 * Thread rule: every function may be called by any number of threads at once, for one space too; but no call for a
 * space or memory may be under way when it is destroyed or closed. Errors name the argument, its value and the bound.
 * NULL where a value is required, and a `size` that was not set, are FACET_INVALID_ARGUMENT in all functions. Amounts
 * are bytes; times are nanoseconds of CLOCK_MONOTONIC. docs/promises.md lists the promises and their tests.
 */
#ifndef FACET_MEMORY_H
#define FACET_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_memory;
struct facet_space;

/* --- one device's memory --- */

/* Zeroed members mean the default. */
struct facet_memory_config {
    uint32_t size;
    uint32_t pools;        /* size classes, 1 to FACET_MEMORY_POOLS; default: enough for blocks of four pages */
    uint64_t memory_bytes; /* the device's memory; whole pages of it are used. Must be given for host memory */
    uint64_t page_bytes;   /* a power of two, at least the backend's own page; default 64 KiB on the host */
    uint64_t chunk_bytes;  /* the unit in which the device gives and takes back memory; a multiple of
                              the page, at most 4,096 pages; default 32 MiB, less for small devices */
    uint64_t block_bytes;  /* the smallest block; a power of two, 256 at least; default 256 */
    uint64_t pool_bytes; /* the step by which a pool grows, rounded up to pages; default: from eight blocks, by class */
    uint32_t defragment_milli; /* defragment by itself above this fragmentation, 1 to 1000; default 300; see below */
    uint32_t automatic;        /* 1: defragment by itself, in a thread of this memory */
    uint64_t pass_bytes;       /* the most that one step moves while its space waits; default 1 MiB, 2 MiB
                                  with `commit` */
    uint64_t interval_ns;      /* how often automatic defragmentation checks; default 1 s */
    uint64_t swap_bytes;       /* host memory for pages that the device has no room for; default none. See "more than
                                  there is" */
    uint32_t swap_repay;       /* pages that came in may stay this many times as long as bringing them in took; default
                                  20, FACET_SWAP_NEVER_REPAY: not at all */
    uint32_t commit;           /* 1: the kernel gives host memory a whole chunk at a time, in huge pages of 2 MiB if it
                                  has some, instead of 4 KiB at a time when the memory is touched. Pages then move
                                  several times as fast. Without effect on memory of devices */
};

#define FACET_SWAP_NEVER_REPAY UINT32_MAX

#define FACET_MEMORY_POOLS 128u

/*
 * Host memory as a device: a memfd, mapped as spaces need it. For programs without any device, for tests and for
 * benchmarks. Addresses are pointers of this process. FACET_UNSUPPORTED: the kernel has no memfd.
 */
FACET_API enum facet_status facet_memory_open_host(const struct facet_memory_config *config,
                                                   struct facet_memory **ret_memory, struct facet_error *error);

struct facet_session;

/*
 * Memory of a device of an open session (facet/session.h), which must outlive the memory. `owner` is a context of that
 * device, to which all pages are charged: its worker's limit is the size of this memory. The kernels that use a space
 * run in another context (struct facet_space_config). Addresses are numbers of the device. `memory_bytes` and
 * `page_bytes` default to the values of the context `owner`. FACET_UNSUPPORTED: the device cannot map or share pages
 * (FACET_CAN_MAP_MEMORY, FACET_CAN_SHARE_PAGES). A device that cannot move pages makes defragmenting FACET_UNSUPPORTED.
 */
FACET_API enum facet_status facet_memory_open_device(struct facet_session *session, uint32_t device, uint64_t owner,
                                                     const struct facet_memory_config *config,
                                                     struct facet_memory **ret_memory, struct facet_error *error);

/*
 * Destroys all its spaces, and waits for no launch: the provider keeps pages that a launch may still use until the
 * launch is over. NULL is fine.
 */
FACET_API void facet_memory_close(struct facet_memory *memory);

/* --- spaces --- */

struct facet_space_config {
    uint32_t size;
    uint32_t id;          /* the caller's number for the space; named in messages and lists */
    uint64_t limit_bytes; /* the most it may hold, rounded down to whole pages, of which it must be one at least */
    const char *name;     /* copied; at most 63 bytes are kept */
    uint64_t context;     /* the context whose kernels use the space, on a device; 0 for host memory */
};

/* Reserves addresses only. FACET_OUT_OF_RANGE: a limit above the device and its swap, or below a page. */
FACET_API enum facet_status facet_space_create(struct facet_memory *memory, const struct facet_space_config *config,
                                               struct facet_space **ret_space, struct facet_error *error);

/*
 * Frees all allocations of a space, and ends it; cancel its context's queued work before, and destroy the context
 * after. Waits for launches that still run, two seconds at most. FACET_BUSY: some launches still run. The space then
 * holds only the memory that these launches may use (`leaving_bytes`), which no other space gets, and must be destroyed
 * again once they are over; closing the memory ends it in any case. FACET_BAD_STATE: the same holds, because the
 * context is off its device. The memory of a lost device, or of a context that was destroyed first, stays unused until
 * the memory is closed. NULL is fine.
 */
FACET_API enum facet_status facet_space_destroy(struct facet_space *space, struct facet_error *error);

/* Raises or lowers the limit. FACET_QUOTA: the space holds more than that. FACET_OUT_OF_RANGE: below a page, above the
 * device and its swap, or above the addresses that were reserved for the space when it was created. These are enough
 * for all of the device and its swap, with two exceptions: if the process's addresses are limited (RLIMIT_AS), or its
 * spaces need more than 16 TiB of addresses in all, at least four times the space's first limit is reserved. */
FACET_API enum facet_status facet_space_set_limit(struct facet_space *space, uint64_t limit_bytes,
                                                  struct facet_error *error);

/* --- allocations --- */

struct facet_allocation_options {
    uint32_t size;
    uint32_t tag;   /* any number; kept with the allocation */
    uint64_t align; /* a power of two up to 1 GiB; default 256 */
};

/* The record of an allocation. */
struct facet_allocation {
    uint32_t size;
    uint32_t tag;
    uint64_t address;
    uint64_t bytes;        /* the size that was asked for */
    uint64_t usable_bytes; /* the size of the block or pages that were given */
    uint64_t time_ns;      /* when it was allocated, to the clock's tick */
};

/*
 * `options` may be NULL. Memory that last belonged to another space is cleared; other memory keeps its old contents.
 * FACET_OUT_OF_RANGE: 0 bytes, more than the device and its swap have, or an alignment that is not a power of two or
 * too large. FACET_QUOTA: above the space's limit. FACET_NO_SPACE: the device has no page left. FACET_BUSY: the
 * allocation will fit when launches no longer use freed pages of the space (see facet_space_free()): synchronize first.
 * O(1) for blocks; O(pages) for runs.
 */
FACET_API enum facet_status facet_space_allocate(struct facet_space *space, uint64_t bytes,
                                                 const struct facet_allocation_options *options, uint64_t *ret_address,
                                                 struct facet_error *error);

/*
 * Frees the allocation that begins at `address`. FACET_NOT_FOUND, and nothing changes: no allocation of this space
 * begins there, or it was freed already. An address of 0 is fine. O(1) for blocks.
 *
 * The call never waits for a launch. Pages that earlier queued launches may still use are "leaving": these launches go
 * on with them, later work cannot use them, their addresses are not given out again, and they stay charged
 * (`leaving_bytes`). The pages are given back at the first of these events after the launches are over: an allocation
 * that would be refused, a free, a compact, a call of facet_space_get_usage(), the end of the space; for a vGPU also a
 * synchronize, and each monitoring interval. On the device `cpu`, work that was queued after the free delays nothing.
 * Providers of GPUs do not distinguish it from earlier work: on a GPU pages are given back once the context has nothing
 * queued at all.
 */
FACET_API enum facet_status facet_space_free(struct facet_space *space, uint64_t address, struct facet_error *error);

/*
 * Makes an allocation larger or smaller; its contents up to the smaller size stay. It stays at its address if possible:
 * a block if its new size is of the same class, a run if the addresses behind it are free. Otherwise it is copied, and
 * *ret_address differs. It keeps its tag, but is aligned by the default only. Errors as of facet_space_allocate() and
 * facet_space_free(); after an error nothing has changed.
 */
FACET_API enum facet_status facet_space_resize(struct facet_space *space, uint64_t address, uint64_t bytes,
                                               uint64_t *ret_address, struct facet_error *error);

/* The allocation that `address` lies in. FACET_NOT_FOUND. */
FACET_API enum facet_status facet_space_find(struct facet_space *space, uint64_t address,
                                             struct facet_allocation *ret_allocation, struct facet_error *error);

/* --- contents --- */

enum facet_copy {
    FACET_COPY_HOST_TO_HOST = 0,
    FACET_COPY_TO_DEVICE = 1,
    FACET_COPY_TO_HOST = 2,
    FACET_COPY_ON_DEVICE = 3,
    FACET_COPY_DETECT = 4, /* the kind follows from which addresses are the space's; an address of another space is
                              refused. If the device is in another process, the space reserves the same addresses in
                              this process, so that no host pointer equals one of them. If it cannot reserve them (a
                              limit on addresses, RLIMIT_AS), an address at which this process has a mapping is
                              FACET_INVALID_ARGUMENT: name the kind */
};

/* Copies after all work that the context has queued, however long that takes, and returns when the bytes are written.
 * Ranges may overlap. FACET_OUT_OF_RANGE, and nothing is copied: a range on the device does not lie inside one
 * allocation. Addresses of the host are pointers of the caller. */
FACET_API enum facet_status facet_space_copy(struct facet_space *space, uint64_t to, uint64_t from, uint64_t bytes,
                                             enum facet_copy kind, struct facet_error *error);

/* Sets every byte of a range, which must lie inside one allocation. */
FACET_API enum facet_status facet_space_fill(struct facet_space *space, uint64_t address, uint8_t value, uint64_t bytes,
                                             struct facet_error *error);

/* --- more memory than the device has --- */

/*
 * With `swap_bytes` spaces may hold more than the device has: memory that is not in use then lies in host memory.
 * Devices cannot wait for a page, so memory that a kernel uses must be pinned while the kernel runs: pinned memory is
 * on the device, and stays there. Copies and fills pin their memory themselves. Without `swap_bytes` all memory is
 * always on the device; pinning it costs little and changes nothing.
 *
 * All memory that is pinned at once must fit into the device (FACET_OUT_OF_RANGE): a space may hold more than the
 * device has, and copy and fill all of it, but its kernels can use only as much as fits at a time. A launch of a vGPU
 * pins all memory of the vGPU.
 *
 * A space keeps the pages that it brought in for a multiple (`swap_repay`) of the time that bringing them in took, or
 * until it is idle. So working sets that do not fit together take turns, each as long as its own size demands, instead
 * of evicting each other all the time. Waiting pins are served in the order of arrival.
 */
struct facet_pin;

/*
 * Brings the allocations that the addresses lie in to the device, and keeps them there until release. With a `count` of
 * 0 these are all allocations of the space, later ones included. FACET_NOT_FOUND: an address in no allocation.
 * FACET_OUT_OF_RANGE: more than the device has. FACET_TIMEOUT: other spaces kept the device's memory for `timeout_ns`.
 * FACET_QUOTA: a page would be pinned more than 65,535 times at once (each address in it counts); nothing is pinned
 * then. A run that is pinned by an address in it cannot be freed (FACET_BUSY). A caller that holds a pin and asks for
 * another one may wait for itself: pin together all memory that is used together.
 */
FACET_API enum facet_status facet_space_pin(struct facet_space *space, const uint64_t *addresses, uint32_t count,
                                            uint64_t timeout_ns, struct facet_pin **ret_pin, struct facet_error *error);
FACET_API void facet_pin_release(struct facet_pin *pin); /* NULL is fine */

/* --- defragmenting --- */

/* Bounds of one call; zeroed members: no bound. */
struct facet_defragment_options {
    uint32_t size;
    uint32_t reserved;
    uint64_t bytes; /* the most bytes to move */
    uint64_t ns;    /* the longest time to take; checked between steps of `pass_bytes` */
};

struct facet_defragment_report {
    uint32_t size;
    uint32_t complete;       /* 1: there is nothing more to move */
    uint64_t moved_bytes;    /* bytes that moved to other pages; their addresses did not change */
    uint64_t steps;          /* the number of moves; a call that needs or frees pages waits for one move at most */
    uint64_t longest_ns;     /* the time of the longest move */
    uint64_t returned_bytes; /* memory that was given back to the device */
    uint64_t moving_ns;      /* the time of all moves; the call also plans moves, and gives memory back */
};

/*
 * Moves pages so that free memory lies together and whole chunks go back to the device. Addresses and contents stay.
 * Reads and writes go on meanwhile; with some backends they wait, for one move at most. facet_space_defragment() moves
 * pages of one space, facet_memory_defragment() of all spaces. `options` and `ret_report` may be NULL.
 */
FACET_API enum facet_status facet_space_defragment(struct facet_space *space,
                                                   const struct facet_defragment_options *options,
                                                   struct facet_defragment_report *ret_report,
                                                   struct facet_error *error);
FACET_API enum facet_status facet_memory_defragment(struct facet_memory *memory,
                                                    const struct facet_defragment_options *options,
                                                    struct facet_defragment_report *ret_report,
                                                    struct facet_error *error);

/* Gives back unused memory of the space (pages of pools in which no block is in use), then defragments. */
FACET_API enum facet_status facet_space_compact(struct facet_space *space,
                                                const struct facet_defragment_options *options,
                                                struct facet_defragment_report *ret_report, struct facet_error *error);

/* --- measurements --- */

/*
 * Fragmentation of a space is 1 - largest_free_bytes / free_bytes. A page that holds one live block cannot be given
 * back, so the free memory is mostly in partly used pages of pools; facet_space_compact() gives back the pages without
 * a live block. Fragmentation of a memory is the part of the pages in its chunks that is free: a space that needs a
 * whole chunk cannot have these pages.
 */
struct facet_space_usage {
    uint32_t size;
    uint32_t id;
    char name[64];
    uint64_t limit_bytes;
    uint64_t allocated_bytes;                     /* the sizes asked for; this call sums them, a few ns a block */
    uint64_t reserved_bytes;                      /* whole pages: the amount that the limit applies to */
    uint64_t peak_bytes;                          /* the most that was reserved */
    uint64_t free_bytes;                          /* what is reserved and in no allocation */
    uint64_t largest_free_bytes;                  /* the largest piece of free_bytes */
    uint64_t allocations;                         /* allocations that are not freed */
    uint64_t allocated_total;                     /* all allocations so far */
    uint64_t refused_total;                       /* allocations refused for lack of quota or space */
    uint64_t pages_total;                         /* pages whose addresses are reserved */
    uint64_t pages_valid;                         /* pages backed by memory of the device */
    uint64_t pages_moved_total;                   /* how often a page got other memory under its address */
    uint64_t pages_absent;                        /* pages without room on the device now: reserved, but not valid */
    uint64_t swapped_in_total, swapped_out_total; /* pages */
    uint64_t swap_ns;                             /* time spent on swapping for this space */
    uint64_t waited_ns;                           /* time in which the space waited for turns of other spaces to end */
    uint32_t fragmentation_milli;
    uint32_t pools;         /* pools that hold pages */
    uint64_t leaving_bytes; /* the part of reserved_bytes that is freed, but that earlier launches may still use */
};

struct facet_memory_usage {
    uint32_t size;
    uint32_t spaces;
    uint64_t total_bytes;
    uint64_t page_bytes, chunk_bytes;
    uint64_t chunk_count;        /* chunks that the device has handed out */
    uint64_t reserved_bytes;     /* the bytes of these chunks */
    uint64_t used_bytes;         /* the bytes of pages that spaces have */
    uint64_t free_bytes;         /* total_bytes less used_bytes */
    uint64_t largest_free_bytes; /* the largest piece of memory in one chunk, or that a new chunk would give */
    uint64_t limits_bytes;       /* the limits of all spaces together; above total_bytes: oversubscribed */
    uint64_t pages_moved_total;
    uint64_t swap_bytes, swap_used_bytes;
    uint32_t fragmentation_milli;
    uint32_t huge_milli; /* the part of reserved_bytes in huge pages, for host memory with `commit`; else 0 */
};

FACET_API enum facet_status facet_space_get_usage(struct facet_space *space, struct facet_space_usage *ret_usage,
                                                  struct facet_error *error);

/* reserved_bytes of struct facet_space_usage alone: a call that costs little. 0 for NULL. */
FACET_API uint64_t facet_space_reserved_bytes(struct facet_space *space);
FACET_API enum facet_status facet_memory_get_usage(struct facet_memory *memory, struct facet_memory_usage *ret_usage,
                                                   struct facet_error *error);

/* How much of its free memory a space could not use for a request of `bytes`: the sum of its free pieces that are
 * smaller, in milli of all that is free. 0 when nothing is free. (Linux' unusable_free_space index.) */
FACET_API enum facet_status facet_space_unusable(struct facet_space *space, uint64_t bytes, uint32_t *ret_milli,
                                                 struct facet_error *error);

/* Flags of a page, as the space's page table has them. */
#define FACET_PAGE_VALID  (UINT32_C(1) << 0) /* backed by memory */
#define FACET_PAGE_BLOCKS (UINT32_C(1) << 1) /* part of a pool, which gives blocks; else part of a run of pages */
#define FACET_PAGE_DIRTY                                                                                               \
    (UINT32_C(1) << 2) /* written since it was backed, if the backend can tell; else set by copies and fills */
#define FACET_PAGE_ACCESSED (UINT32_C(1) << 3)
#define FACET_PAGE_SWAPPED  (UINT32_C(1) << 4) /* its contents are in host memory; not valid */
#define FACET_PAGE_PINNED   (UINT32_C(1) << 5)
struct facet_page {
    uint32_t size;
    uint32_t flags;
    uint64_t address;        /* where the page begins */
    uint64_t physical_bytes; /* its place in the device's memory: the chunk's number times chunk_bytes, plus its offset
                                in the chunk */
    uint64_t access_ns;      /* the last copy, fill or pin that touched it; 0: none */
};
FACET_API enum facet_status facet_space_page(struct facet_space *space, uint64_t address, struct facet_page *ret_page,
                                             struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
