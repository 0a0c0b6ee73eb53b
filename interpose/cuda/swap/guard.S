/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the stubs of guard.h: each enters the quiesce gate (quiesce.h), calls its target, and leaves the gate.
 * Never: interprets the arguments. A stub copies the registers that pass arguments, and eight words of the stack, which
 * are more than any function that touches memory uses. No such function takes or returns a floating-point number.
 */
#include "interpose/cuda/swap/guard_count.h"

#if defined(__x86_64__)

    .text
    .type guarded, %function
guarded:
    .cfi_startproc
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    subq $64, %rsp
    movq %rdi, -8(%rbp)
    movq %rsi, -16(%rbp)
    movq %rdx, -24(%rbp)
    movq %rcx, -32(%rbp)
    movq %r8, -40(%rbp)
    movq %r9, -48(%rbp)
    movq %r11, -56(%rbp)
    call facet_cuda_swap_enter
    testl %eax, %eax
    jnz 1f
    pushq 72(%rbp)
    pushq 64(%rbp)
    pushq 56(%rbp)
    pushq 48(%rbp)
    pushq 40(%rbp)
    pushq 32(%rbp)
    pushq 24(%rbp)
    pushq 16(%rbp)
    movq -8(%rbp), %rdi
    movq -16(%rbp), %rsi
    movq -24(%rbp), %rdx
    movq -32(%rbp), %rcx
    movq -40(%rbp), %r8
    movq -48(%rbp), %r9
    movq -56(%rbp), %r11
    leaq facet_cuda_guard_targets(%rip), %r10
    call *(%r10, %r11, 8)
    leaq -64(%rbp), %rsp
    movl %eax, %edi
    call facet_cuda_swap_leave
1:
    leave
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size guarded, . - guarded

    .macro stub index
    movl $\index, %r11d
    jmp guarded
    .endm

#elif defined(__aarch64__)

    .text
    .type guarded, %function
guarded:
    .cfi_startproc
    stp x29, x30, [sp, #-96]!
    .cfi_def_cfa_offset 96
    .cfi_offset x29, -96
    .cfi_offset x30, -88
    mov x29, sp
    .cfi_def_cfa_register x29
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x17, [sp, #80]
    bl facet_cuda_swap_enter
    cbnz w0, 1f
    sub sp, sp, #64
    ldp x9, x10, [x29, #96]
    stp x9, x10, [sp]
    ldp x9, x10, [x29, #112]
    stp x9, x10, [sp, #16]
    ldp x9, x10, [x29, #128]
    stp x9, x10, [sp, #32]
    ldp x9, x10, [x29, #144]
    stp x9, x10, [sp, #48]
    ldr x17, [x29, #80]
    adrp x16, facet_cuda_guard_targets
    add x16, x16, :lo12:facet_cuda_guard_targets
    ldr x16, [x16, x17, lsl #3]
    ldp x0, x1, [x29, #16]
    ldp x2, x3, [x29, #32]
    ldp x4, x5, [x29, #48]
    ldp x6, x7, [x29, #64]
    blr x16
    mov sp, x29
    bl facet_cuda_swap_leave
1:
    ldp x29, x30, [sp], #96
    .cfi_def_cfa sp, 0
    ret
    .cfi_endproc
    .size guarded, . - guarded

    .macro stub index
    movz w17, #\index
    b guarded
    .endm

#else
#error "no way through the gate for this processor"
#endif

    .balign 16
    .globl facet_cuda_guard_stubs
    .hidden facet_cuda_guard_stubs
    .type facet_cuda_guard_stubs, %function
facet_cuda_guard_stubs:
    .set number, 0
    .rept FACET_CUDA_GUARDS
    stub number
    .balign FACET_CUDA_GUARD_BYTES
    .set number, number + 1
    .endr
    .size facet_cuda_guard_stubs, . - facet_cuda_guard_stubs

    .section .note.GNU-stack, "", %progbits
