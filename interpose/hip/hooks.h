/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one list of the runtime's entry points that are changed. Everything else is passed through.
 *
 * Owns: the list. The hooks' declarations, the addresses of the runtime's own, and lookups are made from it.
 * Never: names a function that is not changed: what passes through costs a jump.
 *
 * A line is X(exported symbol); each part lists its own lines in its own header, and they are joined here. The function
 * that a hook is, is named facet_<exported symbol>. The exported symbol itself is a jump (kit/forward.h): to the hook
 * in a tenant whose runtime has the function, else to the runtime's. So a hook may call what facet_hip_driver has under
 * its own name without looking whether it is there.
 */
#ifndef FACET_HIP_HOOKS_H
#define FACET_HIP_HOOKS_H

#include "vendor/hip/copy.h"
#include "vendor/hip/graph_memory.h"

#include "core_hooks.h"
#include "execution_hooks.h"
#include "memory_hooks.h"

#define FACET_HIP_HOOKS(X)                                                                                             \
    FACET_HIP_CORE_HOOKS(X)      /* lookup.c, begin.c */                                                               \
    FACET_HIP_MEMORY_HOOKS(X)    /* memory/ */                                                                         \
    FACET_HIP_EXECUTION_HOOKS(X) /* execution/ */

/* The hooks: facet_hipMalloc(), ... */
#define FACET_HIP_DECLARE(symbol) __typeof__(symbol) facet_##symbol;
FACET_HIP_HOOKS(FACET_HIP_DECLARE)
#undef FACET_HIP_DECLARE

/* The runtime's own functions; filled before the first hook is called, NULL where it has none. */
struct facet_hip_driver {
#define FACET_HIP_FIELD(symbol) __typeof__(&symbol) symbol;
    FACET_HIP_HOOKS(FACET_HIP_FIELD)
};
extern struct facet_hip_driver facet_hip_driver;

/* The runtime's functions that hooks call and nobody hooks: facet_hip_plain.hipGetDevice(...). */
#define FACET_HIP_PLAIN(X)                                                                                             \
    FACET_HIP_MEMORY_PLAIN(X)                                                                                          \
    FACET_HIP_EXECUTION_PLAIN(X)

struct facet_hip_plain {
    FACET_HIP_PLAIN(FACET_HIP_FIELD)
#undef FACET_HIP_FIELD
};
extern struct facet_hip_plain facet_hip_plain;

#endif
