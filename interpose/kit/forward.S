/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the exported functions (one jump each), their slots, and the code for the first call of each.
 * Never: changes a register that may hold an argument.
 */
#if defined(__x86_64__)

    /* `index` is the number of the slot; the stub passes it to `first`. */
    .macro forward_entry index, name
    .globl \name
    .type \name, %function
    .balign 16
\name:
    jmp *facet_forward_slots + 8 * \index(%rip)
    .size \name, . - \name
1:
    movl $\index, %r11d
    jmp first
    .pushsection .data.forward, "aw"
    .quad 1b
    .popsection
    .endm

    .text
    .type first, %function
first:
    .cfi_startproc
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    subq $192, %rsp
    movq %rdi, -8(%rbp)
    movq %rsi, -16(%rbp)
    movq %rdx, -24(%rbp)
    movq %rcx, -32(%rbp)
    movq %r8, -40(%rbp)
    movq %r9, -48(%rbp)
    movq %rax, -56(%rbp)
    movups %xmm0, -80(%rbp)
    movups %xmm1, -96(%rbp)
    movups %xmm2, -112(%rbp)
    movups %xmm3, -128(%rbp)
    movups %xmm4, -144(%rbp)
    movups %xmm5, -160(%rbp)
    movups %xmm6, -176(%rbp)
    movups %xmm7, -192(%rbp)
    movl %r11d, %edi
    call facet_forward_bind
    movq %rax, %r11
    movups -192(%rbp), %xmm7
    movups -176(%rbp), %xmm6
    movups -160(%rbp), %xmm5
    movups -144(%rbp), %xmm4
    movups -128(%rbp), %xmm3
    movups -112(%rbp), %xmm2
    movups -96(%rbp), %xmm1
    movups -80(%rbp), %xmm0
    movq -56(%rbp), %rax
    movq -48(%rbp), %r9
    movq -40(%rbp), %r8
    movq -32(%rbp), %rcx
    movq -24(%rbp), %rdx
    movq -16(%rbp), %rsi
    movq -8(%rbp), %rdi
    leave
    .cfi_def_cfa %rsp, 8
    jmp *%r11
    .cfi_endproc
    .size first, . - first

#elif defined(__aarch64__)

    .macro forward_entry index, name
    .globl \name
    .type \name, %function
    .balign 16
\name:
    adrp x16, facet_forward_slots + 8 * \index
    ldr x16, [x16, :lo12:facet_forward_slots + 8 * \index]
    br x16
    .size \name, . - \name
1:
    movz w17, #\index
    b first
    .pushsection .data.forward, "aw"
    .xword 1b
    .popsection
    .endm

    .text
    .type first, %function
first:
    .cfi_startproc
    stp x29, x30, [sp, #-224]!
    .cfi_def_cfa_offset 224
    .cfi_offset x29, -224
    .cfi_offset x30, -216
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    mov w0, w17
    bl facet_forward_bind
    mov x16, x0
    ldp q6, q7, [sp, #192]
    ldp q4, q5, [sp, #160]
    ldp q2, q3, [sp, #128]
    ldp q0, q1, [sp, #96]
    ldr x8, [sp, #80]
    ldp x6, x7, [sp, #64]
    ldp x4, x5, [sp, #48]
    ldp x2, x3, [sp, #32]
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #224
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    br x16
    .cfi_endproc
    .size first, . - first

#else
#error "no jumps for this processor"
#endif

    .section .data.forward, "aw"
    .balign 8
    .globl facet_forward_slots
    .hidden facet_forward_slots
    .type facet_forward_slots, %object
facet_forward_slots:

    .text
#define FORWARD(index, name) forward_entry index, name
#include "forward_names.h"

    .section .note.GNU-stack, "", %progbits
