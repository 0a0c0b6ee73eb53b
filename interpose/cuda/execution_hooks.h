/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: which entry points of launches and streams are changed (hooks.h says how to read it), and which the hooks call.
 */
#ifndef FACET_CUDA_EXECUTION_HOOKS_H
#define FACET_CUDA_EXECUTION_HOOKS_H

#define FACET_CUDA_EXECUTION_HOOKS(X)
#define FACET_CUDA_EXECUTION_PLAIN(X)

#endif
