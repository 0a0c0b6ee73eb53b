/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's own lookups of entry points, and our lookup of hooks.
 *
 * Owns: replacing the runtime's answer by the hook of the function that the runtime found.
 * Never: decides by the name alone: the runtime maps some names to other functions (hipGetDeviceProperties).
 */
#ifndef FACET_HIP_LOOKUP_H
#define FACET_HIP_LOOKUP_H

/* The hook of an exported symbol; NULL when it has none. */
void *facet_hip_hook(const char *symbol);

#endif
