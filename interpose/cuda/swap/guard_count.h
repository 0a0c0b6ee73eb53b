/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: how many stubs there are, and how long each is: for C and for the assembler. Never: anything else. */
#ifndef FACET_CUDA_GUARD_COUNT_H
#define FACET_CUDA_GUARD_COUNT_H

#define FACET_CUDA_GUARDS      512
#define FACET_CUDA_GUARD_BYTES 16

#endif
