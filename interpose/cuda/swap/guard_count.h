/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the number of stubs and the size of each, for C and for the assembler. Never: does anything else. */
#ifndef FACET_CUDA_GUARD_COUNT_H
#define FACET_CUDA_GUARD_COUNT_H

#define FACET_CUDA_GUARDS      512
#define FACET_CUDA_GUARD_BYTES 16

#endif
