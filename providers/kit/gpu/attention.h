/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as two products with a softmax between them: scores = Q * K^T * scale, then their softmax, then that times
 * V.
 *
 * Owns: the parameters of the two products, the size of the scores, and the mask of causal attention.
 * Never: calls a library; keeps memory.
 */
#ifndef FACET_KIT_GPU_ATTENTION_H
#define FACET_KIT_GPU_ATTENTION_H

#include <stdbool.h>

#include <facet/provider.h>

/* The size of the scores in f32; false if it is above the limit. */
bool gpu_attention_score_bytes(const struct facet_attention *attention, uint64_t *ret_bytes);

/*
 * The product for the scores, with B transposed; and the product with their softmax, which is at `weights`. Both
 * row-major.
 */
struct facet_gemm gpu_attention_first(const struct facet_attention *attention, uint64_t scores);
struct facet_gemm gpu_attention_second(const struct facet_attention *attention, uint64_t weights);

/*
 * The mask of causal attention, added to the scores of each head: minus infinity for positions after i in row i. The
 * caller frees it; NULL: no memory.
 */
float *gpu_attention_mask(uint64_t size, uint64_t *ret_bytes);

#endif
