/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake runtime's exports, for its lookups. The table is generated from vendor/hip/entry_points.txt.
 *
 * Owns: one entry for each function.
 * Never: includes the declarations of the runtime: here every function is only an address.
 */
#ifndef FAKE_HIP_ENTRY_POINTS_H
#define FAKE_HIP_ENTRY_POINTS_H

#include <stddef.h>

struct fake_entry_point {
    const char *symbol;
    int node; /* the symbol's version node; 601: hip_6.1 */
    void *address;
};
extern const struct fake_entry_point fake_entry_points[];
extern const size_t fake_entry_point_count;

/* The answer of a function that the fake does not imitate. */
int fake_not_supported(void);

#endif
