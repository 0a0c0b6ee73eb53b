/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the helpers that the parts of bench_vgpu share: a driver on the device `cpu`, a kernel that takes a given
 * time, ending with a reason. Never: measures.
 */
#ifndef BENCH_VGPU_COMMON_H
#define BENCH_VGPU_COMMON_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <facet/compute.h>
#include <facet/monitor.h>
#include <facet/vgpu.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define MS  UINT64_C(1000000)
#define S   UINT64_C(1000000000)

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * S + (uint64_t)now.tv_nsec;
}

static inline void sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / S), .tv_nsec = (long)(ns % S)}, NULL);
}

static inline void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_vgpu: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static inline void must(enum facet_status status, const struct facet_error *error, const char *what)
{
    if (status != FACET_OK)
        die(what, error->message);
}

/* burner.c */

/* A driver, and a kernel whose work-groups each take about GROUP_NS. */
#define GROUP_NS UINT64_C(20000)

struct burner {
    struct facet_driver *driver;
    struct facet_image *image;
    uint64_t rounds; /* the loop's rounds in a work-group */
    uint32_t units;
};

/* One tenant's kernel, on the vGPU `id`. */
struct burn {
    uint32_t id, streams;
    struct facet_kernel *kernel;
};

void burner_open(const struct facet_driver_config *config, struct burner *ret_burner);
void burner_close(struct burner *burner);
/* Makes a kernel for an existing vGPU. */
void burn_open(const struct burner *burner, uint32_t id, uint32_t streams, struct burn *ret_burn);
void burn_close(struct burn *burn);
/* Queues a kernel that takes `ns` on a device that has nothing else to do. */
void burn_launch(const struct burner *burner, const struct burn *burn, uint32_t stream, uint64_t ns,
                 uint64_t *ret_execution);

#define PATH_ROOM 80u

/* process.c */

/* Whether the process runs this process's provider, or supervises the process that runs it. */
bool provider_is_ours(const char *pid);
void provider_find(char *ret_pid, size_t size);

/* waits.c */

#define UNITS_MOST 64u

/* The accounts (schedstat) that Linux keeps of the device's threads. */
struct processor_waits {
    uint32_t count;
    char paths[UNITS_MOST][PATH_ROOM];
};
/* Called after a launch on the device, which then has its threads. */
void processor_waits_open(struct processor_waits *ret_waits);
/* The total time for which those threads were ready to run without a processor. */
uint64_t processor_waits_ns(const struct processor_waits *processor_waits);

/* A file of lengths: a line for each tenant, nanoseconds with blanks between them. */
struct lengths {
    uint64_t *ns;
    size_t count;
};
void lengths_read(const char *path, uint32_t lines, struct lengths *ret_lengths);

int many_main(char **arguments);
int shares_main(char **arguments);
int priority_main(char **arguments);

#endif
