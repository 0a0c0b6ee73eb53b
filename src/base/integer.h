/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the smaller and the larger of two numbers, and unsigned numbers as the signed ones of JSON.
 * Never: wraps: a number that JSON cannot hold becomes the largest that it can.
 */
#ifndef FACET_BASE_INTEGER_H
#define FACET_BASE_INTEGER_H

#include <stdint.h>

/* For JSON, whose integers are signed here: a number above the largest is written as the largest. */
static inline int64_t facet_integer(uint64_t number)
{
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static inline uint64_t facet_min_u64(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

static inline uint64_t facet_max_u64(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

#endif
