/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual GPUs as a library: a program carves devices into virtual GPUs, for tenants, for models or for its own parts.
 *
 * Owns: the driver (devices that are open, and the virtual GPUs on them), the lives of virtual GPUs, their memory, and
 * the measurements of each.
 * Never: knows a vendor; keeps anything outside the driver, of which a program may have several; takes an address of
 * one virtual GPU for another's.
 *
 *     facet_driver_open(NULL, &driver, &error);
 *     facet_vgpu_create(driver, &(struct facet_vgpu_config){.size = sizeof(struct facet_vgpu_config),
 *         .id = 1, .memory_bytes = 2 * GIB, .streams = 4, .request_milli = 400, .name = "App1"}, NULL, &error);
 *     facet_vgpu_allocate(driver, 1, 1 * MIB, NULL, &address, &error);
 *     facet_vgpu_copy(driver, 1, address, (uintptr_t)data, 1 * MIB, FACET_COPY_TO_DEVICE, &error);
 *     facet_vgpu_destroy(driver, 1, &error);
 *     facet_driver_close(driver);
 *
 * Kernels, streams and shares are in facet/compute.h, history and thresholds in facet/monitor.h.
 *
 * Virtual GPUs are named by numbers that the program chooses, and every call looks its number up. So a call with the
 * number of a destroyed vGPU is FACET_NOT_FOUND. Addresses are numbers of the device, which the host never
 * dereferences, except those of managed memory.
 *
 * Thread rule: any number of threads may call any function at once, for one virtual GPU too, except open and close,
 * which one thread calls. Destroying waits for the calls that are under way. A child of fork() cannot use its parent's
 * driver: its calls are FACET_BAD_STATE, and closing does nothing. It may open a driver of its own. Errors, of all
 * functions that take a vGPU's number: FACET_NOT_FOUND (no such vGPU), FACET_DEVICE_LOST (its device is gone: destroy
 * it; its status, info, history and target can still be asked for, and watched), FACET_INVALID_ARGUMENT (NULL where a
 * value is required, or a `size` that was not set). docs/promises.md lists the promises and their tests.
 */
#ifndef FACET_VGPU_H
#define FACET_VGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>
#include <facet/limits.h>
#include <facet/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_driver;

/* --- the driver --- */

#define FACET_DRIVER_DEVICES 16u
#define FACET_DRIVER_VGPUS   4000u

/* Features that a driver switches off for all its vGPUs. */
#define FACET_OFF_MEMORY                                                                                               \
    (UINT32_C(1) << 0) /* memory virtualization: vGPUs allocate from the device itself, with no limit of their         \
                          own, no pools, and pages that never move. The owner of an address is unknown then: if        \
                          addresses are pointers (FACET_SESSION_IN_PROCESS) the host's side of a copy is followed      \
                          wherever it leads, to other vGPUs' memory, too; and a balancer's reads wait for all          \
                          queued work of the vGPU */
#define FACET_OFF_COMPUTE         (UINT32_C(1) << 1) /* compute virtualization: no shares, bounds, priorities, pausing */
#define FACET_OFF_TENSOR_CORES    (UINT32_C(1) << 2) /* units that multiply in less than 32 bits */
#define FACET_OFF_MIXED_PRECISION (UINT32_C(1) << 3) /* f32 is never rounded before it is multiplied */
#define FACET_OFF_PREEMPTION      (UINT32_C(1) << 4) /* a launch that began keeps its units until it ends */

/* Zeroed members mean the default. */
struct facet_driver_config {
    uint32_t size;
    uint32_t off;               /* FACET_OFF_* */
    const char *const *devices; /* as `facet devices` names them, ended by NULL; default: the first device that can
                                   be used. A device that is named twice is opened twice, each time in a process of
                                   its own */
    const char *providers;      /* the path to search, as for facet_device_list_open() */
    uint32_t place;             /* enum facet_session_place: a child process by default */
    uint32_t vgpus;             /* the most at a time; default 8, at most FACET_DRIVER_VGPUS */
    uint32_t streams;           /* the most of all vGPUs together; default 16, or 4 times `vgpus` if that is more */
    uint32_t policy;            /* enum facet_scheduling (facet/provider/execution.h); default fair */
    uint64_t slice_ns;          /* the longest turn while other vGPUs wait; default the device's own */
    uint64_t monitor_ns;        /* the interval of measurements; default 100 ms, at least 1 ms */
    uint32_t history;           /* measurements kept of each vGPU; default 600 */
    uint32_t scaling; /* 1: shares and units follow demand, within each vGPU's request and limit (facet/compute.h) */
    uint32_t publish; /* 1: `facet metrics` of this user shows the driver, updated once a second */
    uint32_t reserved;
    const struct facet_memory_config *memory; /* for each device, with `size` set; NULL: all defaults */
};

/*
 * `config` may be NULL. FACET_NOT_FOUND: no such device, or no device that can map and share pages and run kernels; the
 * message lists the examined devices. FACET_OUT_OF_RANGE, FACET_NO_MEMORY, and the status of opening a provider.
 */
FACET_API enum facet_status facet_driver_open(const struct facet_driver_config *config,
                                              struct facet_driver **ret_driver, struct facet_error *error);

/* Destroys all vGPUs of the driver. Kernels and balancers that were made with the driver must be destroyed before. Does
 * nothing in a watch's function (facet/monitor.h). NULL is fine. */
FACET_API void facet_driver_close(struct facet_driver *driver);

/*
 * The configuration that the driver was opened with, with every default filled in; its texts are borrowed until close.
 * Does nothing if `driver` or `ret_config` is NULL.
 */
FACET_API void facet_driver_get_config(const struct facet_driver *driver, struct facet_driver_config *ret_config);

#define FACET_DRIVER_HAS_BUSY        (UINT32_C(1) << 0)
#define FACET_DRIVER_HAS_UTILIZATION (UINT32_C(1) << 1)

/* One device of a driver, as measured. */
struct facet_driver_device {
    uint32_t size;
    uint32_t valid; /* FACET_DRIVER_HAS_* */
    char id[64];    /* "cpu:0" */
    char name[128];
    uint32_t lost;  /* 1: the provider's process ended, or the device failed */
    uint32_t units; /* compute units */
    uint32_t vgpus;
    uint32_t utilization_milli; /* the share of its units that work took, over the last monitoring interval */
    uint64_t busy_ns;           /* counter: time with at least one kernel on the device */
    uint64_t memory_bytes;      /* the most that vGPUs can have together */
    uint64_t memory_used_bytes; /* the part of memory_bytes that is obtained from the device now */
    uint64_t promised_bytes;    /* the sum of all limits, which may be above memory_bytes */
};

/* False past the last device, or when `size` is not set. */
FACET_API bool facet_driver_get_device(struct facet_driver *driver, uint32_t index,
                                       struct facet_driver_device *ret_device);

/* --- virtual GPUs --- */

#define FACET_ON_DEVICE(index)        ((index) + 1u)
#define FACET_VGPU_PRIORITY(priority) ((priority) + 1u)

/* Zeroed members mean the default. */
struct facet_vgpu_config {
    uint32_t size;
    uint32_t id;            /* any number that no vGPU has now; default: the least such number */
    const char *name;       /* a name that facet_check_name() accepts; default "vgpu-ID" */
    uint64_t memory_bytes;  /* the most it may have, in whole pages; default: all of the device's. The sum of all limits
                               may exceed the device's memory, which then goes to the vGPUs that ask first, or, with
                               swap, to all in turns. With swap one limit alone may exceed it too, but the vGPU can
                               launch only while its memory fits into the device */
    uint32_t device;        /* FACET_ON_DEVICE(index); default: the device with the least promised time, then the least
                               promised memory */
    uint32_t streams;       /* how many streams it has, numbered from 0; default 1 */
    uint32_t request_milli; /* guaranteed share of the device's time, as a weight. Default: best effort, that is, the
                               best-effort vGPUs that have work divide equally the weight that the guarantees leave */
    uint32_t limit_milli;   /* cap; default 1000: no cap */
    uint32_t priority;      /* FACET_VGPU_PRIORITY(enum facet_priority); default normal */
    uint32_t units;         /* compute units that may work for it at a time; default all */
    uint32_t units_least;   /* the least `units` that scaling sets; default 1 */
    uint32_t launches;      /* kernels and transfers that may be in flight at a time; default as many as streams */
    uint32_t off;           /* FACET_OFF_TENSOR_CORES */
    uint32_t on;            /* FACET_ON_MIXED_PRECISION */
};
#define FACET_ON_MIXED_PRECISION (UINT32_C(1) << 0) /* f32 may be rounded to bf16 before it is multiplied */

/*
 * `config` and `ret_id` may be NULL. FACET_ALREADY_EXISTS: a vGPU has the number. FACET_QUOTA: the driver's vGPUs or
 * streams are used up. FACET_OUT_OF_RANGE, FACET_NO_SPACE: the request is more than the device has. After an error
 * nothing has changed.
 */
FACET_API enum facet_status facet_vgpu_create(struct facet_driver *driver, const struct facet_vgpu_config *config,
                                              uint32_t *ret_id, struct facet_error *error);

/*
 * Cancels queued work, ends running work at its next point of preemption, and frees all memory of the vGPU. Memory that
 * a work-group uses which cannot be interrupted is freed when that work-group ends. Waits for calls of other threads
 * that are under way; new calls get FACET_NOT_FOUND. FACET_BAD_STATE: the caller is a watch's function
 * (facet/monitor.h).
 */
FACET_API enum facet_status facet_vgpu_destroy(struct facet_driver *driver, uint32_t id, struct facet_error *error);

enum facet_vgpu_status {
    FACET_VGPU_CREATED = 1, /* never used yet */
    FACET_VGPU_RUNNING = 2,
    FACET_VGPU_PAUSED = 3,
    FACET_VGPU_ERROR = 4,     /* its device is lost; it can be destroyed */
    FACET_VGPU_DESTROYED = 5, /* a vGPU of that number existed */
};

FACET_API const char *facet_vgpu_status_name(uint32_t status); /* "running"; NULL when unknown */

/* FACET_NOT_FOUND: no vGPU has the number, nor had any of the last thousand vGPUs that were destroyed. */
FACET_API enum facet_status facet_vgpu_get_status(struct facet_driver *driver, uint32_t id, uint32_t *ret_status,
                                                  struct facet_error *error);

/*
 * While a vGPU is paused none of its work runs: kernels stop between two work-groups, and go on from there when it is
 * resumed. New launches are queued; synchronous copies and fills, and synchronizing, answer FACET_FROZEN.
 * FACET_TIMEOUT: the vGPU is paused, but a work-group is still running. Pausing a paused vGPU or resuming a running
 * vGPU does nothing. FACET_UNSUPPORTED: the device cannot pause, or compute virtualization is off.
 */
FACET_API enum facet_status facet_vgpu_pause(struct facet_driver *driver, uint32_t id, struct facet_error *error);
FACET_API enum facet_status facet_vgpu_resume(struct facet_driver *driver, uint32_t id, struct facet_error *error);

#define FACET_VGPU_HAS_COMPUTE (UINT32_C(1) << 0) /* compute_milli: from the second measurement on */
#define FACET_VGPU_HAS_RECORDS (UINT32_C(1) << 1) /* delay_ns .. cancelled_total */
#define FACET_VGPU_HAS_MEMORY                                                                                          \
    (UINT32_C(1) << 2) /* memory_* and allocations: clear when memory virtualization is                                \
                          off */

/* The settings and measurements of a vGPU. Counters begin when it is created. */
struct facet_vgpu_info {
    uint32_t size;
    uint32_t id;
    uint32_t status; /* enum facet_vgpu_status */
    uint32_t valid;  /* FACET_VGPU_HAS_* */
    char name[FACET_NAME_SIZE];
    uint32_t device; /* index */
    uint32_t off, on;
    uint32_t streams, streams_active; /* active: streams with work that is not complete */
    uint32_t units, launches;         /* bounds now; 0: none */
    uint32_t request_milli, limit_milli, priority;
    uint32_t given_milli, given_units; /* set by scaling, now; 0: as requested */
    uint32_t memory_milli;             /* memory_reserved_bytes as a part of memory_limit_bytes */
    uint32_t compute_milli;   /* device time of the last interval, as a part of the device time of all units in it */
    uint32_t queued, running; /* launches and transfers */
    uint64_t created_ns;      /* CLOCK_MONOTONIC */
    uint64_t memory_limit_bytes;
    uint64_t memory_allocated_bytes; /* sum of the requested sizes */
    uint64_t memory_reserved_bytes;  /* whole pages */
    uint64_t memory_peak_bytes;
    uint64_t allocations;
    uint64_t launched_total, completed_total;
    uint64_t busy_ns;  /* device time (facet/compute.h) of completed work */
    uint64_t delay_ns; /* sum of the queueing times of all completed work */
    uint64_t failed_total, cancelled_total;
};

FACET_API enum facet_status facet_vgpu_get_info(struct facet_driver *driver, uint32_t id,
                                                struct facet_vgpu_info *ret_info, struct facet_error *error);

/* All vGPUs, in the order of their numbers. `infos` has room for `capacity`; *ret_count becomes the number of vGPUs.
 * FACET_TOO_SMALL: they do not fit, and only *ret_count is written. Each `size` must be set. */
FACET_API enum facet_status facet_vgpu_list(struct facet_driver *driver, struct facet_vgpu_info *infos,
                                            uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

/* --- memory --- */

/*
 * These functions do for a vGPU's space what the functions of facet/memory.h do, where they are described. Freeing
 * waits for no launch; memory that launches may still use stays charged until they are complete. FACET_BUSY: an
 * allocation would have to wait for such memory. With memory virtualization off there is only the device's own
 * allocator: tags, alignments above 256, find, resize, defragment, compact, usage, pages and pins are FACET_UNSUPPORTED
 * then.
 */
FACET_API enum facet_status facet_vgpu_allocate(struct facet_driver *driver, uint32_t id, uint64_t bytes,
                                                const struct facet_allocation_options *options, uint64_t *ret_address,
                                                struct facet_error *error);
FACET_API enum facet_status facet_vgpu_free(struct facet_driver *driver, uint32_t id, uint64_t address,
                                            struct facet_error *error);
FACET_API enum facet_status facet_vgpu_reallocate(struct facet_driver *driver, uint32_t id, uint64_t address,
                                                  uint64_t bytes, uint64_t *ret_address, struct facet_error *error);
FACET_API enum facet_status facet_vgpu_find(struct facet_driver *driver, uint32_t id, uint64_t address,
                                            struct facet_allocation *ret_allocation, struct facet_error *error);
/*
 * Copies and fills run after everything that the vGPU has queued, for as long as that takes, and before anything that
 * is queued later. If the vGPU is paused meanwhile they wait until it is resumed; if it is destroyed they end.
 */
FACET_API enum facet_status facet_vgpu_copy(struct facet_driver *driver, uint32_t id, uint64_t to, uint64_t from,
                                            uint64_t bytes, enum facet_copy kind, struct facet_error *error);
FACET_API enum facet_status facet_vgpu_fill(struct facet_driver *driver, uint32_t id, uint64_t address, uint8_t value,
                                            uint64_t bytes, struct facet_error *error);
FACET_API enum facet_status facet_vgpu_set_memory(struct facet_driver *driver, uint32_t id, uint64_t memory_bytes,
                                                  struct facet_error *error);
FACET_API enum facet_status facet_vgpu_get_memory(struct facet_driver *driver, uint32_t id,
                                                  struct facet_space_usage *ret_usage, struct facet_error *error);
/* The part of its free memory that cannot serve a request of `bytes`, in milli (facet_space_unusable()). */
FACET_API enum facet_status facet_vgpu_get_unusable(struct facet_driver *driver, uint32_t id, uint64_t bytes,
                                                    uint32_t *ret_milli, struct facet_error *error);
/* The page of an address (facet_space_page()). */
FACET_API enum facet_status facet_vgpu_get_page(struct facet_driver *driver, uint32_t id, uint64_t address,
                                                struct facet_page *ret_page, struct facet_error *error);
FACET_API enum facet_status facet_vgpu_defragment(struct facet_driver *driver, uint32_t id,
                                                  const struct facet_defragment_options *options,
                                                  struct facet_defragment_report *ret_report,
                                                  struct facet_error *error);
FACET_API enum facet_status facet_vgpu_compact(struct facet_driver *driver, uint32_t id,
                                               const struct facet_defragment_options *options,
                                               struct facet_defragment_report *ret_report, struct facet_error *error);

/*
 * With swap, brings allocations to the device and keeps them there (facet_space_pin()); `count` 0 means all memory of
 * the vGPU. A launch pins its memory by itself while it runs, so this is for memory that must be on the device without
 * a delay. `ret_pin` is a number, never 0 and never used again, which ends with unpin or with the vGPU. Launches of
 * other vGPUs that need the pinned memory wait for it, half a minute at most. FACET_NOT_FOUND: an address in no
 * allocation, a pin that has ended. FACET_OUT_OF_RANGE: more than the device has. FACET_TIMEOUT: other vGPUs kept the
 * device's memory for `timeout_ns`. FACET_QUOTA: the vGPU has FACET_VGPU_PINS pins already, or a page has as many pins
 * as can be counted.
 */
#define FACET_VGPU_PINS 60000u
FACET_API enum facet_status facet_vgpu_pin(struct facet_driver *driver, uint32_t id, const uint64_t *addresses,
                                           uint32_t count, uint64_t timeout_ns, uint64_t *ret_pin,
                                           struct facet_error *error);
FACET_API enum facet_status facet_vgpu_unpin(struct facet_driver *driver, uint32_t id, uint64_t pin,
                                             struct facet_error *error);

/* --- managed memory --- */

/*
 * Memory that the host and the device reach by one number: this number is a pointer of this process, and an address of
 * the vGPU for kernels, operations, copies and fills. So pointers that are stored in managed memory are valid on both
 * sides. Pages move to the side that touches them.
 *
 *     facet_vgpu_allocate_managed(driver, 1, count * sizeof *words, NULL, (void **)&words, &error);
 *     words[7] = 40;                                                  the page comes here, and becomes dirty
 *     facet_kernel_set_memory(kernel, 0, (uintptr_t)words, &error);
 *     facet_vgpu_execute(driver, 1, 0, kernel, &range, NULL, &error); dirty pages go to the device first
 *     printf("%lu", words[7]);                                        waits for the kernel, and the page comes here
 *     facet_vgpu_free(driver, 1, (uintptr_t)words, &error);
 *
 * When pages move. When a thread touches a page that is on the device, the page moves to the host: the thread waits
 * until all work of the vGPU is complete, and until this page has been read. Pages move back before anything is queued
 * or copied on the vGPU: dirty pages are copied whole, clean pages are dropped. No page moves while anything is queued
 * or runs, so when a kernel and the host write different bytes of a page, both writes stay. With a provider that runs
 * in this process on memory of the host (FACET_SESSION_IN_PROCESS, `cpu`) there is only one memory
 * (FACET_MANAGED_SHARED): no page moves, and no thread waits.
 *
 * While kernels run, the host may do anything with memory that they do not use. If the host writes memory that a
 * running kernel uses, work that is queued later sees the writes, and the kernel may see them. If the host reads such
 * memory, it may get the value before or after the kernel's own write. Synchronize first where it matters: only memory
 * that moves makes a thread wait by itself. A kernel must not wait for a change that the host makes in managed memory:
 * the thread that touches the page would wait for that kernel.
 *
 * A thread that touches a page goes on waiting while the vGPU is paused, until it is resumed. When the page cannot be
 * read because the device is lost, the thread gets SIGBUS, or SIGSEGV before Linux 6.6; pages at the host stay
 * readable. After free and destroy the addresses are unmapped: SIGSEGV.
 *
 * System calls such as read(2) and write(2) take these pointers when FACET_MANAGED_SYSTEM_CALLS is set, which needs
 * root, access to /dev/userfaultfd, or the sysctl vm.unprivileged_userfaultfd. Else they answer EFAULT for pages that
 * are not at the host. Functions of this library take these pointers only where they take an address of the device: as
 * the host's side of a copy they are FACET_OUT_OF_RANGE, and structures, texts and results may not lie in managed
 * memory. A child of fork() does not have the memory. Leave its mapping alone: no munmap(), mprotect(), madvise(). Each
 * vGPU with managed memory has one thread, in which no code of the program runs.
 */

/* The allocation is freed with facet_vgpu_free(), ends with its vGPU, and cannot be reallocated. `bytes` are rounded up
 * to whole pages, which the allocation shares with no other; `options` as of facet_vgpu_allocate(). The contents are
 * not cleared. FACET_UNSUPPORTED: no userfaultfd here (Linux 5.7; containers may forbid it), memory virtualization is
 * off, or memory of this process was to swap. FACET_BUSY: all addresses that were tried are in use in this process.
 * FACET_FROZEN: the vGPU is paused. */
FACET_API enum facet_status facet_vgpu_allocate_managed(struct facet_driver *driver, uint32_t id, uint64_t bytes,
                                                        const struct facet_allocation_options *options,
                                                        void **ret_pointer, struct facet_error *error);

#define FACET_MANAGED_SHARED       (UINT32_C(1) << 0) /* host and device have one memory: no page moves */
#define FACET_MANAGED_SYSTEM_CALLS (UINT32_C(1) << 1) /* system calls may be given pointers to the allocation */

/* The measurements of one managed allocation. Counters begin when it is made. */
struct facet_managed_usage {
    uint32_t size;
    uint32_t flags; /* FACET_MANAGED_* */
    uint64_t address, bytes;
    uint64_t page_bytes;      /* the unit of a move: the device's page */
    uint64_t pages;           /* of that size */
    uint64_t pages_at_host;   /* now; always 0 with FACET_MANAGED_SHARED */
    uint64_t pages_dirty;     /* the part of pages_at_host that was written since it came */
    uint64_t to_host_total;   /* counter: pages that came to the host */
    uint64_t to_device_total; /* counter: pages that were written back; clean ones are dropped and not counted */
    uint64_t faults_total;    /* counter: touches that a thread had to wait for */
};

/* `pointer` may point anywhere into the allocation. FACET_NOT_FOUND: it is not managed memory of this vGPU. */
FACET_API enum facet_status facet_vgpu_get_managed(struct facet_driver *driver, uint32_t id, const void *pointer,
                                                   struct facet_managed_usage *ret_usage, struct facet_error *error);

/* Brings the pages of a range to the host, many at a time, as touching each page would, or sends them back to the
 * device. The call changes only the time that later accesses take, also when an error stops it halfway.
 * FACET_NOT_FOUND: not managed memory of this vGPU; FACET_OUT_OF_RANGE: beyond the allocation's end; FACET_FROZEN: the
 * vGPU is paused. */
FACET_API enum facet_status facet_vgpu_prefetch(struct facet_driver *driver, uint32_t id, const void *pointer,
                                                uint64_t bytes, bool to_host, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
