/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one list of the runtime's entry points that have a hook. Every other entry point is passed through.
 *
 * Owns: the list. The hooks' declarations, the table of the runtime's own functions, and lookups are generated from it.
 * Never: names a function without a hook: a call that is passed through costs one jump.
 *
 * A line is X(exported symbol); each part lists its own lines in its own header, and they are joined here. A hook is
 * named facet_<exported symbol>. The exported symbol itself is a jump (kit/forward.h): to the hook in a tenant whose
 * runtime has the function, else to the runtime. So a hook may call its own function in facet_hip_driver without
 * checking for NULL.
 */
#ifndef FACET_HIP_HOOKS_H
#define FACET_HIP_HOOKS_H

#include "vendor/hip/copy.h"
#include "vendor/hip/graph_memory.h"

#include "core_hooks.h"
#include "execution_hooks.h"
#include "memory_hooks.h"

#define FACET_HIP_HOOKS(X)                                                                                             \
    FACET_HIP_CORE_HOOKS(X)      /* lookup.c, initialize.c */                                                          \
    FACET_HIP_MEMORY_HOOKS(X)    /* memory/ */                                                                         \
    FACET_HIP_EXECUTION_HOOKS(X) /* execution/ */

/* The hooks: facet_hipMalloc(), ... */
#define FACET_HIP_DECLARE(symbol) __typeof__(symbol) facet_##symbol;
FACET_HIP_HOOKS(FACET_HIP_DECLARE)
#undef FACET_HIP_DECLARE

/* The runtime's own functions; filled before the first hook runs. NULL: the runtime lacks the function. */
struct facet_hip_driver {
#define FACET_HIP_FIELD(symbol) __typeof__(&symbol) symbol;
    FACET_HIP_HOOKS(FACET_HIP_FIELD)
};
extern struct facet_hip_driver facet_hip_driver;

/* Functions of the runtime that hooks call and that have no hook: facet_hip_unhooked.hipGetDevice(...). */
#define FACET_HIP_UNHOOKED(X)                                                                                          \
    FACET_HIP_MEMORY_UNHOOKED(X)                                                                                       \
    FACET_HIP_EXECUTION_UNHOOKED(X)

struct facet_hip_unhooked {
    FACET_HIP_UNHOOKED(FACET_HIP_FIELD)
#undef FACET_HIP_FIELD
};
extern struct facet_hip_unhooked facet_hip_unhooked;

#endif
