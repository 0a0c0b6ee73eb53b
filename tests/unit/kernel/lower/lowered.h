/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the lowering: kernels are lowered, compiled in process, and run.
 *
 * Owns: making a function of a file of LLVM IR, and running groups, whose memory is checked for writes past its end.
 * Never: knows the result of a kernel.
 */
#ifndef FACET_TEST_KERNEL_LOWERED_H
#define FACET_TEST_KERNEL_LOWERED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <llvm-c/Core.h>
#include <llvm-c/LLJIT.h>

#include <facet/host_kernel.h>

#include "kernel/compile/lower.h"

#define WORDS     4096
#define UNWRITTEN (-7) /* the value of each int of `output` before a run */

struct mode {
    uint32_t optimize;
    const char *features; /* added to the machine's own features */
    uint32_t check;       /* 1: the kernel checks its accesses */
};

struct loaded {
    LLVMOrcLLJITRef jit;
    facet_host_run_func run;
    struct facet_lower_kernel kernel;
    const struct facet_host_site *sites; /* the places of a checked kernel's checks; NULL for other kernels */
};

/* The block of arguments of the kernels of these tests. */
struct block {
    const void *first;
    void *second;
    union {
        struct {
            uint32_t a, b;
        };
        void *third;
    };
};

extern const char *lowered_processor; /* NULL: this machine's processor */
LLVMModuleRef lowered_parse(LLVMContextRef context, const char *text, const char *file);
enum facet_status lowered_make(LLVMModuleRef module, const struct mode *mode, struct facet_lower_kernel *kernel,
                               struct facet_error *error);
/* A kernel of a mode with checks calls `functions`; other kernels ignore it. */
struct loaded lowered_load(const struct mode *mode, const char *file, const char *name,
                           const struct facet_lower_argument *arguments, const struct facet_host_check *functions);
/* Runs groups one by one. Memory behind the part that a group may use must stay unchanged. */
void lowered_run(const struct loaded *loaded, const void *block, const uint32_t *grid, const uint32_t *size,
                 uint32_t dynamic_bytes, void *check);
void lowered_unload(struct loaded *loaded);

extern const struct facet_lower_argument lowered_pointers[3];
extern int input[WORDS * 8], output[WORDS * 8];
/* Fills `input` with numbers from 0 to below - 1 that look random, and `output` with UNWRITTEN. */
void lowered_fill(uint32_t seed, int below);

#endif
