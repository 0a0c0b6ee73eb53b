/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine for tests and benches of launches: a fake GPU, the daemon's scheduler, vGPUs, and programs in them. It
 * knows no vendor but by the few words of world_vendor.
 *
 * Owns: a folder with the machine's state and the vGPUs' segments; the programs that it started.
 * Never: needs a daemon: no provider has a device of the fake driver.
 */
#ifndef FACET_TEST_CUDA_WORLD_H
#define FACET_TEST_CUDA_WORLD_H

#include <sys/types.h>

#include "../../../apps/facetd/scheduler.h"
#include "tests/fake/cuda/state.h"

#define WORLD_VGPUS  8
#define WORLD_DEVICE "cuda:0"

/* The differences between vendors' libraries; each test program links its vendor's (vendor.c). */
struct world_vendor {
    const char *address;                        /* of the machine's first GPU, as segments carry it */
    const char *library;                        /* the vendor's, as programs open it */
    const char *state_variable, *real_variable; /* in programs' environment: the machine's file, the fake library */
    const char *own_variable, *fake_variable;   /* in ours: the interposer's folder, and the fake library's */
};
extern const struct world_vendor world_vendor;

struct world {
    char root[64];
    int folder; /* keeps it */
    struct scheduler *scheduler;
    bool quiet; /* set by the caller: output of programs goes to standard error, which is not TAP's */
    uint32_t count;
    char ids[WORLD_VGPUS][8], dirs[WORLD_VGPUS][96];
};

/* False, and says why, when it cannot be made. The folders are those of the interposer and of the fake driver. */
bool world_open(struct world *world);
void world_close(struct world *world);

/* A vGPU with a guarantee and a limit; its number, or -1. */
int world_add(struct world *world, uint32_t request_milli, uint32_t limit_milli);

/* Adds a vGPU with oversubscription and so much memory; best effort where `request_milli` is 0. */
int world_add_oversubscribed(struct world *world, uint64_t memory_bytes, uint32_t request_milli);

/* Removes all vGPUs, after it has ended the programs that were not waited for. */
void world_clear(struct world *world);

/*
 * Starts a program in a vGPU (-1: in none, with the bare driver). Where the two libraries are is in the environment.
 */
pid_t world_start(struct world *world, int vgpu, char *const command[]);

/* Waits for its end: the exit status, or 1000 and the signal. */
int world_wait(pid_t pid);

struct facet_usage_totals world_totals(struct world *world, int vgpu);

/* Device time that a process has used of the first GPU, and its kernels, by the driver's own count. */
uint64_t world_busy_ns(pid_t pid);
uint64_t world_launches(pid_t pid);

#endif
