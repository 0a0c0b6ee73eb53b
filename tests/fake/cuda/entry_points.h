/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fake driver exports, as its lookup sees it; made from vendor/cuda/entry_points.txt.
 *
 * Owns: one entry for each form of each function.
 * Never: includes the declarations of the driver: here every function is only an address.
 */
#ifndef FAKE_CUDA_ENTRY_POINTS_H
#define FAKE_CUDA_ENTRY_POINTS_H

#include <stdbool.h>
#include <stddef.h>

struct fake_entry_point {
    const char *name; /* what is asked for */
    int version;      /* in which this form came */
    bool per_thread;  /* its NULL stream is the thread's own */
    void *address;
};
extern const struct fake_entry_point fake_entry_points[];
extern const size_t fake_entry_point_count;

/* What a function says that nobody imitates. */
int fake_not_supported(void);

#endif
