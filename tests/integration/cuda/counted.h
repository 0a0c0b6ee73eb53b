/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles are processes in a vGPU. With these functions a role checks the counts in the segment of its vGPU.
 *
 * Owns: reading the counts, waiting until they are as expected, and ending a role whose check fails.
 * Never: names a vendor; waits forever.
 */
#ifndef FACET_TEST_COUNTED_H
#define FACET_TEST_COUNTED_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "limiter/tenant.h"
#include "tests/integration/cuda/world.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The counts in the segment of this process's vGPU. */
static inline struct facet_usage_totals own_vgpu_totals(void)
{
    struct facet_usage_totals totals = {0};
    struct facet_error error;

    CHECK(facet_segment_read_totals(getenv(FACET_ENV_VGPU_DIR), &totals, &error) == FACET_OK);
    return totals;
}

/*
 * Waits up to 40 s until `holds` returns true. The wait is long because launches of a thread that has ended count as
 * complete only after twice their expected time: seconds, if a busy machine has made an earlier launch slow.
 */
static inline bool totals_become(bool (*holds)(uint64_t value), uint64_t value)
{
    for (int i = 0; i < 8000; i++) {
        if (holds(value))
            return true;
        usleep(5000);
    }
    return false;
}

static inline bool is_settled(uint64_t launches)
{
    struct facet_usage_totals totals = own_vgpu_totals();

    return totals.inflight == 0 && totals.inflight_ns == 0 && totals.launches == launches;
}

static inline bool is_idle(uint64_t unused)
{
    (void)unused;
    return own_vgpu_totals().inflight == 0 && own_vgpu_totals().inflight_ns == 0;
}

static inline bool one_launch_waits(uint64_t unused)
{
    (void)unused;
    return own_vgpu_totals().waiting == 1;
}

/* All launches are complete and reported, and there were `count` of them. */
#define CHECK_SETTLED(count) CHECK(totals_become(is_settled, count))

#endif
