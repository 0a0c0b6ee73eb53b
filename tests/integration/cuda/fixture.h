/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated machine with vGPUs, and roles: child processes that load Facet's library like any program.
 *
 * Owns: the machine's file, the segments, the environment of roles.
 * Never: calls CUDA in the test's own process.
 */
#ifndef FACET_TEST_CUDA_FIXTURE_H
#define FACET_TEST_CUDA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "segment.h"

#define FIXTURE_DEVICES 2u
#define FIXTURE_MEMORY  (UINT64_C(1) << 30) /* quota of each vGPU */

/* Variables that name folders with a libcuda.so.1: ours, the fake driver, and an older fake driver. */
#define FIXTURE_OURS "FACET_TEST_CUDA_OURS"
#define FIXTURE_FAKE "FACET_TEST_CUDA_FAKE"
#define FIXTURE_OLD  "FACET_TEST_CUDA_OLD"

struct fixture {
    char state[96];                                /* the path of the machine's file */
    int file;                                      /* a descriptor of that file */
    struct test_segment segments[FIXTURE_DEVICES]; /* vGPU N is on the machine's device N */
};
extern struct fixture fixture;

/* Makes the machine and a segment for each of its devices; each test begins with no vGPU in its environment. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* The UUID of a device of the machine, as the driver's tools write it. */
void fixture_uuid(uint32_t device, char text[64]);

/* Sets FACET_VGPU_DIR to the vGPUs of a role, by number: "0", "1,0"; NULL for none. */
void fixture_enter(const char *vgpus);

/* Sets where a role finds libcuda.so.1: names of the variables above, with ',' between them. */
void fixture_library_path(const char *variables);

/*
 * Runs a program of this folder, or the test program itself if `program` is NULL, with up to two arguments. Returns its
 * standard output without the last newline. The test fails if the program does not exit with 0.
 */
const char *fixture_run(const char *program, const char *first, const char *second);

#endif
