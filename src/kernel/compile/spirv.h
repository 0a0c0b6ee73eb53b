/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: SPIR-V becoming LLVM bitcode: checked by spirv-val, translated by llvm-spirv, both children; the check of
 *       SPIR-V that we make.
 * Never: runs the translator in this process: it aborts on valid input that it does not like.
 */
#ifndef FACET_KERNEL_COMPILE_SPIRV_H
#define FACET_KERNEL_COMPILE_SPIRV_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

/* Bitcode for spir64, to be freed. FACET_CORRUPT: the module's fault, or the translator's, with its reason;
 * FACET_UNSUPPORTED: the translator is not installed. */
enum facet_status facet_spirv_translate(const void *words, size_t bytes, void **ret_bitcode, size_t *ret_size,
                                        struct facet_error *error);

/* FACET_CORRUPT: the validator refuses the module, with its reason. Without the validator all is well. */
enum facet_status facet_spirv_check(const void *words, size_t bytes, struct facet_error *error);

/*
 * A copy in which null constants of numbers are written out as zeros, which the translator insists on, and others have
 * no words behind their id, as LLVM's generator adds them; to be freed. FACET_CORRUPT: not a module of whole
 * instructions.
 */
enum facet_status facet_spirv_plain(const void *words, size_t bytes, uint32_t **ret_words, size_t *ret_count,
                                    struct facet_error *error);

#endif
