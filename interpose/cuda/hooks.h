/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one list of the driver's entry points that have a hook. Every other entry point is passed through.
 *
 * Owns: the list. Lookup by name and version, the table of the driver's own functions, and the check that every hook is
 * exported are generated from it.
 * Never: names a function without a hook: a call that is passed through costs nothing.
 *
 * A line is X(exported symbol, name asked for, first version whose requests for the name get this form, default
 * stream):
 *   - the version is that in which this form came, as CUDA counts (12020 = 12.2);
 *   - the default stream is LEGACY, PER_THREAD (forms _ptsz and _ptds), or ANY for functions that use no stream.
 *
 * Each part lists its own lines in its own header; they are joined here.
 *
 * A hook is named facet_<exported symbol> and declared below. The exported symbol itself is a jump (kit/forward.h): to
 * the hook in a tenant whose driver has the function, else to the driver. So a hook may call its own function in
 * facet_cuda_driver without checking for NULL.
 */
#ifndef FACET_CUDA_HOOKS_H
#define FACET_CUDA_HOOKS_H

#include "vendor/cuda/copy.h"
#include "vendor/cuda/driver.h"
#include "vendor/cuda/execution.h"
#include "vendor/cuda/graph_memory.h"
#include "vendor/cuda/graphics.h"
#include "vendor/cuda/green.h"
#include "vendor/cuda/memory.h"

#include "context_hooks.h"
#include "execution_hooks.h"
#include "memory_hooks.h"

#define FACET_CUDA_HOOKS(X)                                                                                            \
    FACET_CUDA_CONTEXT_HOOKS(X)   /* lookup.c, context.c: initialisation, lookup, devices, contexts */                 \
    FACET_CUDA_MEMORY_HOOKS(X)    /* memory/ */                                                                        \
    FACET_CUDA_EXECUTION_HOOKS(X) /* execution/ */

/* The hooks: facet_cuInit(), ... */
#define FACET_CUDA_DECLARE(symbol, name, version, stream) __typeof__(symbol) facet_##symbol;
FACET_CUDA_HOOKS(FACET_CUDA_DECLARE)
#undef FACET_CUDA_DECLARE

/*
 * The driver's own functions, by exported symbol; filled before the first hook runs. NULL: the driver lacks the
 * function.
 */
struct facet_cuda_driver {
#define FACET_CUDA_FIELD(symbol, name, version, stream) __typeof__(&symbol) symbol;
    FACET_CUDA_HOOKS(FACET_CUDA_FIELD)
#undef FACET_CUDA_FIELD
};
extern struct facet_cuda_driver facet_cuda_driver;

/* Functions of the driver that hooks call and that have no hook: facet_cuda_unhooked.cuCtxGetDevice(...). */
#define FACET_CUDA_UNHOOKED(X)                                                                                         \
    X(cuDriverGetVersion)                                                                                              \
    X(cuCtxGetDevice)                                                                                                  \
    X(cuCtxGetDevice_v2)                                                                                               \
    X(cuCtxPushCurrent_v2)                                                                                             \
    X(cuCtxPopCurrent_v2)                                                                                              \
    X(cuStreamGetDevice)                                                                                               \
    X(cuStreamGetCtx)                                                                                                  \
    FACET_CUDA_MEMORY_UNHOOKED(X)                                                                                      \
    FACET_CUDA_EXECUTION_UNHOOKED(X)

struct facet_cuda_unhooked {
#define FACET_CUDA_FIELD(symbol) __typeof__(&symbol) symbol;
    FACET_CUDA_UNHOOKED(FACET_CUDA_FIELD)
#undef FACET_CUDA_FIELD
};
extern struct facet_cuda_unhooked facet_cuda_unhooked;

#endif
