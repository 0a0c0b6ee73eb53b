/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading CLOCK_MONOTONIC, the only clock whose values processes exchange.
 * Never: is called by the pure rooms; they take `now_ns` as an argument.
 *
 * CLOCK_MONOTONIC is shared by all processes of one time namespace; segments hold its values.
 */
#ifndef FACET_BASE_CLOCK_H
#define FACET_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define FACET_NS_PER_US UINT64_C(1000)
#define FACET_NS_PER_MS UINT64_C(1000000)
#define FACET_NS_PER_S  UINT64_C(1000000000)

static inline uint64_t facet_timespec_ns(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * FACET_NS_PER_S + (uint64_t)time->tv_nsec;
}

static inline uint64_t facet_clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return facet_timespec_ns(&now);
}

static inline struct timespec facet_ns_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / FACET_NS_PER_S), .tv_nsec = (long)(ns % FACET_NS_PER_S)};
}

#endif
