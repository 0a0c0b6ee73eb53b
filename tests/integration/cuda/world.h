/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine for tests and benches of launches: a fake GPU, the daemon's scheduler, vGPUs, and programs in them.
 * world_vendor holds all that depends on the vendor.
 *
 * Owns: a folder with the machine's state and the vGPUs' segments; the programs that it started.
 * Never: starts a daemon.
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
    const char *address;                        /* the first GPU's address, as segments have it */
    const char *library;                        /* the name by which programs open the vendor's library */
    const char *state_variable, *real_variable; /* variables for programs: the machine's file, the fake library */
    const char *own_variable, *fake_variable;   /* variables of the test: folders of interposer and fake library */
};
extern const struct world_vendor world_vendor;

struct world {
    char root[64];
    int folder; /* a descriptor, whose lock keeps `root` from being cleaned up */
    struct scheduler *scheduler;
    bool quiet; /* set by the caller: programs' output goes to standard error, so that it does not mix with TAP */
    uint32_t count;
    char ids[WORLD_VGPUS][8], dirs[WORLD_VGPUS][96];
};

/* Makes the machine. Prints the reason and returns false if that fails. */
bool world_open(struct world *world);
void world_close(struct world *world);

/* Adds a vGPU with a guarantee and a limit. Returns its number, or -1. */
int world_add(struct world *world, uint32_t request_milli, uint32_t limit_milli);

/* Adds an oversubscribed vGPU with `memory_bytes`; it is best effort if `request_milli` is 0. Returns its number, or
 * -1. */
int world_add_oversubscribed(struct world *world, uint64_t memory_bytes, uint32_t request_milli);

/* Removes all vGPUs, after it has ended the programs that were not waited for. */
void world_clear(struct world *world);

/* Starts a program in a vGPU; -1: in no vGPU, with the bare driver. The environment names the folders of both
 * libraries. */
pid_t world_start(struct world *world, int vgpu, char *const command[]);

/* Waits for a program's end; returns its exit status, or 1000 plus the signal that ended it. */
int world_wait(pid_t pid);

struct facet_usage_totals world_totals(struct world *world, int vgpu);

/* The driver's own counts of a process on the first GPU: the device time that it has used, and the kernels that it has
 * launched. */
uint64_t driver_busy_ns(pid_t pid);
uint64_t driver_launches(pid_t pid);

#endif
