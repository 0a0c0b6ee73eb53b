/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fake runtime exports, as its lookups see it; made from vendor/hip/entry_points.txt.
 *
 * Owns: one entry for each function.
 * Never: includes the declarations of the runtime: here every function is only an address.
 */
#ifndef FAKE_HIP_ENTRY_POINTS_H
#define FAKE_HIP_ENTRY_POINTS_H

#include <stddef.h>

struct fake_entry_point {
    const char *symbol;
    int node; /* 601: hip_6.1 */
    void *address;
};
extern const struct fake_entry_point fake_entry_points[];
extern const size_t fake_entry_point_count;

/* What a function says that nobody imitates. */
int fake_not_supported(void);

#endif
