/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the text of clang's opencl-c-base.h, in the compiler. Never: reads it from the machine that compiles kernels.
 */
#ifndef FACET_KERNEL_COMPILE_HEADER_H
#define FACET_KERNEL_COMPILE_HEADER_H

#ifdef __cplusplus
extern "C" {
#endif

extern const char facet_header_begin[], facet_header_end[];

#ifdef __cplusplus
}
#endif
#endif
