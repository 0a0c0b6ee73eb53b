/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's exports, for its lookup. The table is generated from vendor/cuda/entry_points.txt.
 *
 * Owns: one entry for each form of each function.
 * Never: includes the declarations of the driver: here every function is only an address.
 */
#ifndef FAKE_CUDA_ENTRY_POINTS_H
#define FAKE_CUDA_ENTRY_POINTS_H

#include <stdbool.h>
#include <stddef.h>

struct fake_entry_point {
    const char *name; /* the name to look up */
    int version;      /* the version in which this form was added */
    bool per_thread;  /* its NULL stream is the thread's own */
    void *address;
};
extern const struct fake_entry_point fake_entry_points[];
extern const size_t fake_entry_point_count;

/* The answer of a function that the fake does not imitate. */
int fake_not_supported(void);

#endif
