/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list of hooked entry points for initialisation and lookup; hooks.h explains its columns. */
#ifndef FACET_CUDA_CONTEXT_HOOKS_H
#define FACET_CUDA_CONTEXT_HOOKS_H

#define FACET_CUDA_CONTEXT_HOOKS(X)                                                                                    \
    X(cuInit, "cuInit", 2000, ANY)                                                                                     \
    X(cuGetProcAddress, "cuGetProcAddress", 11030, ANY)                                                                \
    X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, ANY)

#endif
