/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: which entry points of initialisation, lookup, devices and contexts are changed (hooks.h says how to read it).
 */
#ifndef FACET_CUDA_CONTEXT_HOOKS_H
#define FACET_CUDA_CONTEXT_HOOKS_H

#define FACET_CUDA_CONTEXT_HOOKS(X)                                                                                    \
    X(cuInit, "cuInit", 2000, ANY)                                                                                     \
    X(cuGetProcAddress, "cuGetProcAddress", 11030, ANY)                                                                \
    X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, ANY)

#endif
