/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that the fake libraries of a machine share among all processes: the truth that accounts are checked
 * against. Comments here are about NVIDIA's machine. For AMD's (tests/fake/hip) the variables begin with FAKE_HIP_, and
 * fake_model holds the other differences.
 *
 * Owns: one file that every process maps: devices, the memory of each process by kind, and when a device is busy.
 * Never: is linked by anything that ships.
 *
 * Environment: FAKE_CUDA_STATE names the file; the first process makes it, by the variables below. Without it each
 * process has a machine of its own, which no other process sees.
 *
 *   FAKE_CUDA_DEVICES    number of GPUs, default 1
 *   FAKE_CUDA_MEMORY     bytes of each, "8G", or a list "8G,4G"; default 8G
 *   FAKE_CUDA_CONTEXT    bytes that a context costs, default 300M
 *   FAKE_CUDA_CODE       bytes that the code of a function takes, default 64K
 *   FAKE_CUDA_COPY       bytes per second between a device and the host, default 50G
 *   FAKE_CUDA_PIDS       added to pids by the driver and its lists, as for a process in a container; default 0
 *   FAKE_CUDA_LINGER     ns that a call for large memory waits, before it is taken or after it is freed; default 0
 *   FAKE_CUDA_LATE       ns by which a free reaches the driver late; default 0
 *   FAKE_CUDA_TRUST      1: the owner of a slot counts as alive without a check of its lock; default 0
 *   FAKE_CUDA_HOST       bytes of host memory that all processes together may pin, default 1024G
 *   FAKE_CUDA_UNITS      multiprocessors, default 132
 *   FAKE_CUDA_VERSION    cuDriverGetVersion's answer, default 13000; entry points newer than it are missing
 *   FAKE_CUDA_HIDDEN     set: cuGetProcAddress answers for cuInit with a function that is not exported
 *   FAKE_CUDA_NEWER      set: cuInit also has a form of version 90000 (needs FAKE_CUDA_VERSION of at least that)
 *   FAKE_CUDA_MIG        1: GPUs with MIG (80 GB and more) begin in MIG mode; default 0
 *   FAKE_CUDA_SYSFS      unset, or a folder that stands for the root of /proc in NVML's answers
 *
 * A process holds the open-file-description lock of its slot's byte. A process that sums the memory in use checks the
 * locks, and does not count the memory of dead processes, which a real driver frees when a process ends.
 */
#ifndef FAKE_CUDA_STATE_H
#define FAKE_CUDA_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAKE_DEVICES   16u
#define FAKE_PROCESSES 64u

#include "nvml_state.h"

enum fake_kind {
    FAKE_PLAIN,   /* cuMemAlloc, pitched */
    FAKE_POOL,    /* reserved by pools, graphs' too */
    FAKE_VIRTUAL, /* cuMemCreate, while a handle or a mapping is left */
    FAKE_ARRAY,   /* arrays, mipmapped arrays */
    FAKE_MANAGED, /* cuMemAllocManaged */
    FAKE_CONTEXT, /* contexts */
    FAKE_MODULE,  /* code and buffers of a first launch */
    FAKE_KINDS
};

/* Threads count their launches in several tallies, so that they do not write the same cache line. */
#define FAKE_TALLIES 4u

struct fake_tally {
    _Alignas(64) _Atomic uint64_t launches;
};

/* The last pieces of work that a process submitted to a device, each with the time when it runs. */
#define FAKE_PIECES 64u

struct fake_piece {
    _Atomic uint64_t begin_ns, end_ns;
};

struct fake_process_device {
    _Atomic uint64_t bytes[FAKE_KINDS];
    _Atomic uint64_t slabs, slab_charged; /* of FAKE_PLAIN: slabs, and their bytes to be charged (memory_slab.c) */
    _Atomic uint64_t busy_ns;             /* device time of this process's work, past and queued: fake_consumed_ns() */
    _Atomic uint64_t piece_count;         /* pieces of all time, of which the last FAKE_PIECES are kept */
    struct fake_piece pieces[FAKE_PIECES];
    struct fake_tally tallies[FAKE_TALLIES]; /* kernels, those of graphs included: fake_launches() */
};

struct fake_process {
    _Atomic uint32_t pid;        /* 0: free */
    _Atomic uint32_t checkpoint; /* CUprocessState: a checkpointed process holds nothing of a device */
    _Atomic uint64_t pinned;     /* bytes of the host */
    struct fake_process_device devices[FAKE_DEVICES];
};

/* One process's work on a part of a device: it runs piece after piece, at the same time as the engine's work. */
struct fake_lane {
    _Atomic uint64_t busy_until_ns;
};

/* One engine: launches run one after the other, in the order of submission by any process. */
struct fake_engine {
    _Alignas(64) _Atomic uint64_t busy_until_ns; /* CLOCK_MONOTONIC; work that is submitted now begins then */
    _Atomic uint64_t busy_ns;                    /* all work ever submitted */
};

struct fake_device {
    char uuid[16];
    char name[64];
    uint64_t memory_bytes;
    uint32_t units;        /* multiprocessors */
    uint32_t major, minor; /* compute capability */
    uint32_t pci_domain, pci_bus, pci_device;
    _Atomic uint32_t lost; /* set by a test: every call fails from then on */
    struct fake_engine engine;
};

struct fake_state {
    _Atomic uint64_t magic;
    uint32_t size;
    uint32_t device_count;
    uint32_t driver_version;
    uint32_t assumes_live;
    uint64_t context_bytes, code_bytes, copy_bytes_s, host_bytes, large_delay_ns, free_delay_ns;
    struct fake_device devices[FAKE_DEVICES];
    struct fake_process processes[FAKE_PROCESSES];
    struct fake_management management; /* the part that only NVML shows: nvml_state.h */
};

/*
 * The differences between vendors' machines; one definition in each library, and in each test that reads the true
 * numbers.
 */
struct fake_model {
    const char *prefix; /* of the variables: "FAKE_CUDA_" */
    uint64_t magic;
    uint32_t devices, units, version; /* these and the sizes below: defaults, without variables */
    uint64_t memory_bytes, context_bytes, code_bytes;
    bool eager;                                                   /* code is always loaded with its module */
    void (*describe)(struct fake_device *device, uint32_t index); /* sets name, uuid, PCI location, capability */
    void (*memory_changed)(uint32_t device, uint64_t bytes);      /* `bytes` that this process holds now; may be NULL */
};
extern const struct fake_model fake_model;

/* The machine; made or joined at a process's first call, and anew after fork(). Aborts with a message on failure. */
struct fake_state *fake_state(void);

/* This process's slot, claimed at the first call. A process that takes no memory and runs no work has none. */
struct fake_process *fake_process(void);

/* Reserves or releases memory of a device for this process. False when the device has too little free. */
bool fake_device_reserve(uint32_t device, enum fake_kind kind, uint64_t bytes);
void fake_device_release(uint32_t device, enum fake_kind kind, uint64_t bytes);

/* Reserves or releases memory of the host that is pinned for devices. */
bool fake_pin(uint64_t bytes);
void fake_unpin(uint64_t bytes);

/* The memory of a device that live processes hold, and that process `pid` holds (0: there is no such process). */
uint64_t fake_used(uint32_t device);
uint64_t fake_used_by(uint32_t device, uint32_t pid);

/* The memory of a device that live processes asked for: of slabs the charged bytes; without contexts and modules. */
uint64_t fake_requested(uint32_t device);

/* The memory of a device, of one kind, that live processes hold. */
uint64_t fake_used_of_kind(uint32_t device, enum fake_kind kind);

/*
 * Puts `cost_ns` of this process's work on the device's engine. The work begins at `ready_ns` at the earliest (0: now).
 * Returns the time at which it will be complete. Does not wait: a caller that needs the result sleeps until then.
 */
uint64_t fake_run(uint32_t device, uint64_t ready_ns, uint64_t cost_ns);

/* Like fake_run(), in a part of the device; `lane` NULL: in its engine. */
uint64_t fake_run_in(uint32_t device, struct fake_lane *lane, uint64_t ready_ns, uint64_t cost_ns);

/*
 * The device time that a process has used up to `now_ns`, without work that has not run yet. Only the last FAKE_PIECES
 * are examined. A piece that is submitted at this moment may count in full, or not at all.
 */
uint64_t fake_consumed_ns(const struct fake_process_device *device, uint64_t now_ns);

/* Adds launches to the number that the engine has counted for this process; UINT64_MAX subtracts one. */
void fake_count_launches(uint32_t device, uint64_t launches);

static inline uint64_t fake_launches(const struct fake_process_device *device)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < FAKE_TALLIES; i++)
        sum += atomic_load(&device->tallies[i].launches);
    return sum;
}

uint64_t fake_now_ns(void);

/* The memory of a device that a process holds, or would hold if it were not checkpointed. */
uint64_t fake_process_bytes(const struct fake_process *process, uint32_t device);

/* Waits while this process is locked or checkpointed. Each call of the driver begins with this. */
void fake_checkpoint_wait(void);

/* Whether the process of a slot lives. A slot whose pid is 0 has no process. */
bool fake_slot_is_live(uint32_t slot);

/* A lock that all processes share. The management library makes changes of several steps (MIG, samples) under it. */
void fake_lock(void);
void fake_unlock(void);

/* Raises an event that NVML returns to waiting calls, with a type and data of vendor/cuda/nvml.h. Called by tests. */
void fake_raise_event(uint32_t device, uint64_t type, uint64_t data);

#endif
