/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: numbers without a sign where they are told with one. Never: makes a large number a negative one. */
#ifndef FACET_BASE_INTEGER_H
#define FACET_BASE_INTEGER_H

#include <stdint.h>

/* For JSON, whose integers are signed here: a number above the largest is written as the largest. */
static inline int64_t facet_integer(uint64_t number)
{
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

#endif
