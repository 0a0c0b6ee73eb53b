/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as NVIDIA's management library lists it.
 *
 * Owns: opening that library, the vendor's own and not our replacement, and finding this process in its lists.
 * Never: caches a result.
 */
#ifndef FACET_CUDA_LISTED_H
#define FACET_CUDA_LISTED_H

#include <stdbool.h>
#include <stdint.h>

#include "limiter/tenant.h"

/*
 * The bytes that this process holds on the tenant's device. False when it is in no list, or there is no list. One
 * thread at a time.
 */
bool facet_cuda_process_bytes(const struct facet_tenant *tenant, uint64_t *ret_bytes);

/* Whether this process would be listed if it held memory: if its pid namespace is the one that the driver uses. */
bool facet_cuda_is_listable(const struct facet_tenant *tenant);

/* The bytes that all processes together hold on the tenant's device; needs no context. One thread at a time. */
bool facet_cuda_device_bytes(const struct facet_tenant *tenant, uint64_t *ret_bytes);

/* In the child of fork(): opens the library anew. */
void facet_cuda_listed_forked(void);

#endif
