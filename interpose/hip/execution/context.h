/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value in place of a context, for code that identifies contexts by pointers: HIP has one context per device.
 *
 * Owns: one value per device. Never: is NULL.
 */
#ifndef FACET_HIP_EXECUTION_CONTEXT_H
#define FACET_HIP_EXECUTION_CONTEXT_H

#include <stdint.h>

static inline void *facet_hip_context(int device)
{
    return (void *)((uintptr_t)device + 1); /* NOLINT(performance-no-int-to-ptr): never dereferenced */
}

static inline int facet_hip_context_device(const void *context)
{
    return (int)((uintptr_t)context - 1);
}

#endif
