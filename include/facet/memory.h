/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory for virtual GPUs: spaces whose addresses never change while pages move under them.
 *
 * Owns: one device's memory (struct facet_memory), the virtual address space of each vGPU on it (struct facet_space),
 * allocation, quotas, copying with range checks, defragmentation, and true numbers about all of it.
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
 * Thread rule: every function may be called by any number of threads at once, for one space too; but nothing of a
 * space or memory may be under way when it is destroyed or closed. Errors name the argument, its value and the bound;
 * NULL where a value is required, and a `size` that was not set, are FACET_INVALID_ARGUMENT, of all functions.
 * Amounts are bytes; times are nanoseconds of CLOCK_MONOTONIC. docs/promises.md lists the promises and their tests.
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
    uint32_t commit;           /* 1: host memory is had from the kernel with its chunk, in huge pages of 2 MiB where the
                                  kernel has some, instead of 4 KiB at a time as it is touched. Pages then move several
                                  times as fast. Memory of devices is had as their provider has it */
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
 * Memory of a device of an open session (facet/session.h), which must outlive it. `owner` is a context of that device,
 * to which all pages are charged: its worker's limit is the size of this memory; spaces are used by contexts of their
 * own. Addresses are numbers of the device. `memory_bytes` and `page_bytes` default to the values of the owner's
 * context. FACET_UNSUPPORTED: the device does not map or share pages (FACET_CAN_MAP_MEMORY, FACET_CAN_SHARE_PAGES), or
 * cannot move them and defragment is called.
 */
FACET_API enum facet_status facet_memory_open_device(struct facet_session *session, uint32_t device, uint64_t owner,
                                                     const struct facet_memory_config *config,
                                                     struct facet_memory **ret_memory, struct facet_error *error);

/*
 * Destroys its spaces, all of them: the provider keeps pages that a launch may still use until the launch is over. NULL
 * is fine.
 */
FACET_API void facet_memory_close(struct facet_memory *memory);

/* --- spaces --- */

struct facet_space_config {
    uint32_t size;
    uint32_t id;          /* the caller's number for the space; named in messages and lists */
    uint64_t limit_bytes; /* the most it may hold, rounded down to whole pages, of which it must be one at least */
    const char *name;     /* copied; at most 63 bytes are kept */
    uint64_t context;     /* of a device: whose kernels use it. Host memory has none: 0 */
};

/* Reserves addresses only. FACET_OUT_OF_RANGE: a limit above the device and its swap, or below a page. */
FACET_API enum facet_status facet_space_create(struct facet_memory *memory, const struct facet_space_config *config,
                                               struct facet_space **ret_space, struct facet_error *error);

/*
 * Frees all its allocations, and ends it; cancel its context's queued work before, and destroy the context after.
 * Waits for launches that still run, two seconds at most. FACET_BUSY: some still run. Then the space holds only the
 * memory that they may use (`leaving_bytes`), no other space gets that, and the space is to be destroyed again once
 * they are over; closing the memory ends it in any case. FACET_BAD_STATE: likewise, of a context that is off its
 * device. The memory of a lost device, or of a context that was destroyed first, stays unused until the memory is
 * closed. NULL is fine.
 */
FACET_API enum facet_status facet_space_destroy(struct facet_space *space, struct facet_error *error);

/* Raises or lowers the limit. FACET_QUOTA: it holds more than that. FACET_OUT_OF_RANGE: below a page, above the device
 * and its swap; or above the addresses that it was made with. Those are enough for all of the device and its swap, but
 * where the process's addresses are limited (RLIMIT_AS) or its spaces want more than 16 TiB of them in all: there they
 * are four times its first limit, at least. */
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
    uint64_t bytes;        /* as asked for */
    uint64_t usable_bytes; /* the size of the block or pages that were given */
    uint64_t time_ns;      /* when it was allocated, to the clock's tick */
};

/*
 * `options` may be NULL. The memory is cleared when it last was another space's, and is otherwise as it was left.
 * FACET_OUT_OF_RANGE: 0 bytes, more than the device and its swap have, or an alignment that is none. FACET_QUOTA: above
 * the space's limit. FACET_NO_SPACE: the device has no page left. FACET_BUSY: it will fit when freed pages of the space
 * have left (see free): synchronize first. O(1) for blocks; for runs O(pages).
 */
FACET_API enum facet_status facet_space_allocate(struct facet_space *space, uint64_t bytes,
                                                 const struct facet_allocation_options *options, uint64_t *ret_address,
                                                 struct facet_error *error);

/*
 * Takes the address that allocate gave. FACET_NOT_FOUND, and nothing changes: an address of no space or of another one,
 * one inside an allocation, one that is free already. 0 is fine. O(1) for blocks.
 *
 * It never waits for a launch. Pages that earlier queued launches may still use are leaving: those launches go on with
 * them, later work finds nothing there, their addresses are not given out again, and they stay charged
 * (`leaving_bytes`). They go when those launches are over and one of these checks: an allocation that is refused, a
 * free, a compact, usage, the end of the space; of a vGPU also synchronizing, and each monitoring interval. Work queued
 * after the free keeps no page on the device `cpu`; providers of GPUs do not distinguish it from earlier work: there
 * pages go once the context has nothing queued at all.
 */
FACET_API enum facet_status facet_space_free(struct facet_space *space, uint64_t address, struct facet_error *error);

/*
 * Makes an allocation larger or smaller; its contents up to the smaller size stay. In place if possible: for a block as
 * long as it is of the same class, for a run while the addresses behind it are free; else it is copied, and
 * *ret_address differs. Its tag stays, its alignment as the default has it. Errors as of allocate and free; after one
 * nothing has changed.
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
    FACET_COPY_DETECT = 4, /* by whether an address is the space's; an address of another space is refused as ever.
                              Of a device in another process the space keeps its addresses free here, too; if it
                              cannot (a limit on addresses, RLIMIT_AS), an address at which this process has a
                              mapping is FACET_INVALID_ARGUMENT: name the kind */
};

/* Returns when the bytes are written, after all that the context has queued, however long that takes. Ranges may
 * overlap. Each side that is the device's must lie inside one allocation: FACET_OUT_OF_RANGE, and nothing was copied.
 * Host sides are pointers of the caller. */
FACET_API enum facet_status facet_space_copy(struct facet_space *space, uint64_t to, uint64_t from, uint64_t bytes,
                                             enum facet_copy kind, struct facet_error *error);

/* Sets every byte of a range, which must lie inside one allocation. */
FACET_API enum facet_status facet_space_fill(struct facet_space *space, uint64_t address, uint8_t value, uint64_t bytes,
                                             struct facet_error *error);

/* --- more than there is --- */

/*
 * With `swap_bytes` spaces may hold more than the device has: unused memory lies in host memory meanwhile. Devices do
 * not wait for pages, so memory that a kernel uses must be pinned while it runs: then it is on the device, and stays.
 * Copies and fills pin for themselves. Memory without `swap_bytes` is always on the device; pinning it costs little and
 * changes nothing.
 *
 * All memory that is pinned at once must fit: a space may hold more than the device has, and copy and fill all of it,
 * but only as much as the device has can be used by kernels at a time (FACET_OUT_OF_RANGE). A vGPU's launch pins all
 * that it has.
 *
 * A space keeps the pages that it brought in for a multiple of the time that this took (`swap_repay`), or until it is
 * idle: working sets that do not fit together take turns, each as long as its own size demands, instead of evicting
 * each other all the time. Waiting pins are served in the order of arrival.
 */
struct facet_pin;

/*
 * Brings in and keeps the allocations that the addresses lie in; with a `count` of 0 all memory of the space, now and
 * until release. FACET_NOT_FOUND: an address in no allocation. FACET_OUT_OF_RANGE: more than the device has.
 * FACET_TIMEOUT: others kept the memory for `timeout_ns`. FACET_QUOTA: a page would be pinned more than 65,535 times at
 * once, where each address in it counts; then none of them is. A run that is pinned by an address in it cannot be freed
 * (FACET_BUSY). A caller that holds a pin and asks for another one may wait for itself: pin together all memory that is
 * used together.
 */
FACET_API enum facet_status facet_space_pin(struct facet_space *space, const uint64_t *addresses, uint32_t count,
                                            uint64_t timeout_ns, struct facet_pin **ret_pin, struct facet_error *error);
FACET_API void facet_pin_release(struct facet_pin *pin); /* NULL is fine */

/* --- order --- */

/* Bounds of one call; zeroed members: no bound. */
struct facet_defragment_options {
    uint32_t size;
    uint32_t reserved;
    uint64_t bytes; /* to move at most */
    uint64_t ns;    /* to take at most; checked between steps of `pass_bytes` */
};

struct facet_defragment_report {
    uint32_t size;
    uint32_t complete;       /* 1: there is nothing more to move */
    uint64_t moved_bytes;    /* from page to page, under addresses that stayed */
    uint64_t steps;          /* moves; the space's slow paths waited for one at a time */
    uint64_t longest_ns;     /* the longest of them */
    uint64_t returned_bytes; /* to the device */
    uint64_t moving_ns;      /* of all moves; the rest of a call plans them, and gives back */
};

/*
 * Moves pages so that free memory lies together and whole chunks go back to the device. Addresses and contents stay,
 * and reads and writes go on meanwhile, or wait for one step at most if the backend says so. The first moves pages of
 * this space only, the second of all. `options` and `ret_report` may be NULL.
 */
FACET_API enum facet_status facet_space_defragment(struct facet_space *space,
                                                   const struct facet_defragment_options *options,
                                                   struct facet_defragment_report *ret_report,
                                                   struct facet_error *error);
FACET_API enum facet_status facet_memory_defragment(struct facet_memory *memory,
                                                    const struct facet_defragment_options *options,
                                                    struct facet_defragment_report *ret_report,
                                                    struct facet_error *error);

/* Gives back unused memory of the space (pages of pools without a block in use), as free does, then defragments. */
FACET_API enum facet_status facet_space_compact(struct facet_space *space,
                                                const struct facet_defragment_options *options,
                                                struct facet_defragment_report *ret_report, struct facet_error *error);

/* --- numbers --- */

/*
 * Fragmentation of a space is that of its free blocks: 1 - largest / free. A page that holds one live block cannot go,
 * so this is the memory that its pools withhold; compact removes the part that can go. Fragmentation of a memory is
 * that of its chunks: free pages in chunks that are in use, of all pages in those, since they are withheld from a space
 * that needs a chunk.
 */
struct facet_space_usage {
    uint32_t size;
    uint32_t id;
    char name[64];
    uint64_t limit_bytes;
    uint64_t allocated_bytes;                     /* as asked for; added up when asked, a few ns a block */
    uint64_t reserved_bytes;                      /* whole pages: the amount that the limit applies to */
    uint64_t peak_bytes;                          /* the most that was reserved */
    uint64_t free_bytes;                          /* reserved and in no allocation */
    uint64_t largest_free_bytes;                  /* the largest piece of that */
    uint64_t allocations;                         /* live */
    uint64_t allocated_total;                     /* ever */
    uint64_t refused_total;                       /* for quota or space */
    uint64_t pages_total;                         /* addresses reserved */
    uint64_t pages_valid;                         /* backed by memory */
    uint64_t pages_moved_total;                   /* under an address, ever */
    uint64_t pages_absent;                        /* that the device has no room for now; reserved, but not valid */
    uint64_t swapped_in_total, swapped_out_total; /* pages */
    uint64_t swap_ns;                             /* spent on that for this space */
    uint64_t waited_ns;                           /* for others' turns to end */
    uint32_t fragmentation_milli;
    uint32_t pools;         /* that hold pages */
    uint64_t leaving_bytes; /* of reserved: freed, but launches that were queued before may still use it */
};

struct facet_memory_usage {
    uint32_t size;
    uint32_t spaces;
    uint64_t total_bytes;
    uint64_t page_bytes, chunk_bytes;
    uint64_t chunk_count;        /* had from the device */
    uint64_t reserved_bytes;     /* in chunks */
    uint64_t used_bytes;         /* in pages of spaces */
    uint64_t free_bytes;         /* total less used */
    uint64_t largest_free_bytes; /* the largest piece of memory in one chunk, or that a new chunk would give */
    uint64_t limits_bytes;       /* of all spaces together; above total: oversubscribed */
    uint64_t pages_moved_total;
    uint64_t swap_bytes, swap_used_bytes;
    uint32_t fragmentation_milli;
    uint32_t huge_milli; /* of reserved_bytes: the part in huge pages, of host memory with `commit`; else 0 */
};

FACET_API enum facet_status facet_space_get_usage(struct facet_space *space, struct facet_space_usage *ret_usage,
                                                  struct facet_error *error);

/* reserved_bytes of the above by itself, without adding anything up: for frequent calls. Of NULL it is 0. */
FACET_API uint64_t facet_space_reserved_bytes(struct facet_space *space);
FACET_API enum facet_status facet_memory_get_usage(struct facet_memory *memory, struct facet_memory_usage *ret_usage,
                                                   struct facet_error *error);

/* How much of its free memory a space could not use for a request of `bytes`: the sum of its free pieces that are
 * smaller, in milli of all that is free. 0 when nothing is free. (Linux' unusable_free_space index.) */
FACET_API enum facet_status facet_space_unusable(struct facet_space *space, uint64_t bytes, uint32_t *ret_milli,
                                                 struct facet_error *error);

/* The page table's entry of an address. */
#define FACET_PAGE_VALID  (UINT32_C(1) << 0) /* backed by memory */
#define FACET_PAGE_BLOCKS (UINT32_C(1) << 1) /* of a pool; else of a run */
#define FACET_PAGE_DIRTY                                                                                               \
    (UINT32_C(1) << 2) /* written since it was backed, if the backend can tell; else set by copies and fills */
#define FACET_PAGE_ACCESSED (UINT32_C(1) << 3)
#define FACET_PAGE_SWAPPED  (UINT32_C(1) << 4) /* in host memory; not valid */
#define FACET_PAGE_PINNED   (UINT32_C(1) << 5)
struct facet_page {
    uint32_t size;
    uint32_t flags;
    uint64_t address;        /* where the page begins */
    uint64_t physical_bytes; /* its place in the device's memory: its chunk's number times the chunk, and the offset */
    uint64_t access_ns;      /* the last copy, fill or pin that touched it; 0: none */
};
FACET_API enum facet_status facet_space_page(struct facet_space *space, uint64_t address, struct facet_page *ret_page,
                                             struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
