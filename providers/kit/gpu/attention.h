/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as two products with a softmax between them: scores = Q * K^T * scale, then their softmax, then that times
 * V.
 *
 * Owns: what the two products are, how large the scores are, and the mask of causal attention.
 * Never: calls a library; keeps memory.
 */
#ifndef FACET_KIT_GPU_ATTENTION_H
#define FACET_KIT_GPU_ATTENTION_H

#include <stdbool.h>

#include <facet/provider.h>

/* Of f32; false: more than can be had. */
bool gpu_attention_score_bytes(const struct facet_attention *it, uint64_t *ret_bytes);

/* The scores, with B transposed; and what comes of their softmax, which is at `weights`. Both row-major. */
struct facet_gemm gpu_attention_first(const struct facet_attention *it, uint64_t scores);
struct facet_gemm gpu_attention_second(const struct facet_attention *it, uint64_t weights);

/* What is added to the scores of each head where position i sees the positions up to i alone: minus infinity for the
 * others. The caller's to free; NULL: no memory. */
float *gpu_attention_mask(uint64_t size, uint64_t *ret_bytes);

#endif
