/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory, for the files of managed/: a vGPU's managed state, and which of its pages are at the host.
 *
 * Owns: the objects of managed/ and the rule that keeps the host and the device from writing a page at the same time.
 * Never: is included outside managed/; other files of this room use managed/enter.h.
 *
 * The rule: a page is at the host only while no work of its vGPU is queued or running. A caller that is about to queue
 * work sends all pages back first, and no page comes to the host until that work is over (`active`, `generation`,
 * `drained_generation`). So the device's copy of a page at the host cannot change, and sending back the whole page
 * overwrites nothing that a kernel wrote.
 *
 * The lock of a vGPU's managed memory is taken before a stream's. It is held while an idle device is read or written,
 * and never while a thread waits for work to end.
 */
#ifndef FACET_VGPU_MANAGED_H
#define FACET_VGPU_MANAGED_H

#include <sys/queue.h>

#include "vgpu/driver.h"

enum facet_managed_state {
    FACET_MANAGED_AT_DEVICE = 0, /* at the device; the page is missing in this process */
    FACET_MANAGED_CLEAN = 1,     /* at the host, equal to the device's copy, and protected from writes */
    FACET_MANAGED_DIRTY = 2,     /* at the host, and newer than the device's copy */
    FACET_MANAGED_LOST = 3,      /* its content is lost; a thread that touches it gets a signal */
};

/* One allocation. */
struct facet_managed_range {
    LIST_ENTRY(facet_managed_range) all, with_host_pages; /* links in the lists `ranges` and `with_host_pages` */
    uint64_t address, bytes;
    uint32_t pages, pages_at_host, dirty_pages;
    uint64_t to_host, to_device, fault_count; /* pages moved to the host and to the device; page faults */
    uint8_t state[];                          /* enum facet_managed_state, by page */
};

/* All managed memory of one vGPU. */
struct facet_managed {
    struct facet_vgpu *vgpu;
    uint64_t page_bytes;
    bool shared;           /* device addresses are valid pointers in this process: no page is mapped or moved */
    bool system_calls;     /* a system call may touch managed memory: its faults are reported, too */
    bool can_poison;       /* the kernel can make single pages fault */
    int fault_fd, wake_fd; /* userfaultfd, eventfd */
    pthread_t thread;
    bool running;

    pthread_mutex_t lock;                                     /* protects the members below */
    pthread_cond_t idle;                                      /* `active` or `starved_times` fell to 0 */
    void *tree;                                               /* ranges, by address */
    LIST_HEAD(, facet_managed_range) ranges, with_host_pages; /* all ranges; those with pages at the host */
    uint64_t active;                                          /* calls that are queueing work, or using the memory */
    uint64_t generation;         /* how many calls counted in `active` have ended, plus one */
    uint64_t drained_generation; /* the generation whose work is known to be over */
    uint32_t starved_times;      /* how often work was queued while a thread waited for the device to be idle */
    bool ending;
    uint64_t buffer_bytes;
    char *buffer; /* pages pass through it between host and device */
};

/* --- page.c: the caller holds the lock --- */

/* A range that overlaps the `bytes` from `address` on; NULL: none does. */
struct facet_managed_range *facet_managed_find(const struct facet_managed *managed, uint64_t address, uint64_t bytes);
/* False: there is no memory for the tree's node. */
bool facet_managed_insert(struct facet_managed *managed, struct facet_managed_range *range);
void facet_managed_remove(struct facet_managed *managed, struct facet_managed_range *range);

/*
 * Brings at most `pages` adjacent pages from `address` on to the host: as many as the buffer holds, up to the first
 * page that is not at the device. Waits until the device is idle, and releases the lock meanwhile. FACET_FROZEN: the
 * vGPU is paused. FACET_BAD_STATE: the vGPU ends.
 */
enum facet_status facet_managed_fetch(struct facet_managed *managed, uint64_t address, uint32_t pages, bool write,
                                      struct facet_error *error);
/* Sends pages back to the device. After an error, pages that are still at the host keep their content. */
enum facet_status facet_managed_return(struct facet_managed *managed, struct facet_managed_range *range, uint32_t first,
                                       uint32_t pages, struct facet_error *error);
/* Unprotects a clean page that is about to be written. */
enum facet_status facet_managed_mark_dirty(struct facet_managed *managed, struct facet_managed_range *range,
                                           uint32_t page, struct facet_error *error);
/* Marks a page as lost: a thread that touches it gets a signal. */
void facet_managed_poison(struct facet_managed *managed, struct facet_managed_range *range, uint32_t page);
void facet_managed_wake(const struct facet_managed *managed, uint64_t address, uint64_t bytes);

/* --- fault.c --- */

/* Opens the descriptor that reports faults, and the thread that answers them. */
enum facet_status facet_managed_watch(struct facet_managed *managed, struct facet_error *error);
/* Ends the thread and closes the descriptor. No range may be mapped any more. */
void facet_managed_unwatch(struct facet_managed *managed);
/* Stops answering; a thread that faults then waits until its page is unmapped. */
void facet_managed_stop(struct facet_managed *managed);

/* --- map.c --- */

/* Whether the device's memory at `address` is also this process's memory at that address. */
enum facet_status facet_managed_probe(const struct facet_vgpu *vgpu, uint64_t address, bool *ret_shared,
                                      struct facet_error *error);
/* Maps the addresses in this process and watches them for faults. FACET_BUSY: something else is mapped there. */
enum facet_status facet_managed_map(const struct facet_managed *managed, uint64_t address, uint64_t bytes,
                                    struct facet_error *error);
void facet_managed_unmap(const struct facet_managed *managed, uint64_t address, uint64_t bytes);

static inline void *facet_managed_at(uint64_t address)
{
    return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
}

static inline uint64_t facet_managed_address(const struct facet_managed *managed,
                                             const struct facet_managed_range *range, uint32_t page)
{
    return range->address + page * managed->page_bytes;
}

#endif
