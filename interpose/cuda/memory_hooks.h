/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: which entry points of memory are changed (hooks.h says how to read it), and which the hooks call besides. */
#ifndef FACET_CUDA_MEMORY_HOOKS_H
#define FACET_CUDA_MEMORY_HOOKS_H

#define FACET_CUDA_MEMORY_HOOKS(X)
#define FACET_CUDA_MEMORY_PLAIN(X)

#endif
