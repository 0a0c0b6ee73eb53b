/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as NVIDIA's management library lists it.
 *
 * Owns: opening that library, the vendor's own and not our twin of it, and looking for this process in its lists.
 * Never: keeps what it found.
 */
#ifndef FACET_CUDA_LISTED_H
#define FACET_CUDA_LISTED_H

#include <stdbool.h>
#include <stdint.h>

#include "limiter/tenant.h"

/* What this process holds of the tenant's device. False when it is in no list, or the list cannot be had. One thread at
 * a time. */
bool facet_cuda_listed(const struct facet_tenant *tenant, uint64_t *ret_bytes);

/* Whether this process would be listed if it held anything: where processes are counted as the driver counts them. */
bool facet_cuda_listed_tells(const struct facet_tenant *tenant);

/* What all processes together hold of the tenant's device; asked for without a context. One thread at a time. */
bool facet_cuda_listed_device(const struct facet_tenant *tenant, uint64_t *ret_bytes);

/* In the child of fork(): the library is asked for its devices anew. */
void facet_cuda_listed_forked(void);

#endif
