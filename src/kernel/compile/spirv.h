/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: turning SPIR-V into LLVM bitcode, which two children do: spirv-val checks, llvm-spirv translates; the check of
 *       SPIR-V that the compiler makes.
 * Never: runs the translator in this process, since it aborts on some valid modules.
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

/* FACET_CORRUPT: the validator refuses the module, with its reason. FACET_OK when no validator is installed. */
enum facet_status facet_spirv_check(const void *words, size_t bytes, struct facet_error *error);

/*
 * Makes a copy in which null constants of numbers are written as zeros, as the translator requires, and other null
 * constants have no words behind their id, which LLVM's generator adds; to be freed. FACET_CORRUPT: not a module of
 * whole instructions.
 */
enum facet_status facet_spirv_plain(const void *words, size_t bytes, uint32_t **ret_words, size_t *ret_count,
                                    struct facet_error *error);

#endif
