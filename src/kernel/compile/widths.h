/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: whether a type has integers that are of no width of SPIR-V's. Never: changes anything. */
#ifndef FACET_KERNEL_WIDTHS_H
#define FACET_KERNEL_WIDTHS_H

#include <stdbool.h>

#include <llvm-c/Core.h>

bool facet_widths_odd(LLVMTypeRef type);

#endif
