/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the file FACET_OPENCL_HEADER, included by the assembler. Never: changes it. */
#include "kernel/compile/header.h"

__asm__(".pushsection .rodata\n"
        ".globl facet_header_begin, facet_header_end\n"
        ".hidden facet_header_begin, facet_header_end\n"
        "facet_header_begin: .incbin \"" FACET_OPENCL_HEADER "\"\n"
        "facet_header_end: .byte 0\n"
        ".popsection\n");
