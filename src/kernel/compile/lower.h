/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering for the host: from kernels, each the work of one work-item, to functions that run a work-group.
 *
 * Owns: work-item loops, barriers, vector lanes, the layout of scratch and local memory, the host's pass pipeline.
 * Never: reads source, links libraries, emits objects (host.c does), or depends on the caller of the result.
 *
 * Its input (portable.c makes it): a module for the host's triple and data layout in which
 *   - all pointers are of address space 0 and all calls of the C calling convention;
 *   - kernels are the functions named in `kernels`; every other function is internal and may be inlined away;
 *   - `__local` variables are internal globals named FACET_LOWER_LOCAL "...";
 *   - work-item functions are calls of these declarations (src/kernel/builtins/ defines OpenCL's own in terms of them):
 *         i32 __facet_local_id(i32 d)    i32 __facet_group_id(i32 d)   i32 __facet_group_size(i32 d)
 *         i32 __facet_global_id(i32 d)   i32 __facet_grid(i32 d)       i32 __facet_global_size(i32 d)
 *         i32 __facet_offset(i32 d)      i32 __facet_dimensions()      void __facet_barrier()
 *     where d may be any value, and 3 or more gives 0 (ids, offset) or 1 (sizes). A global id is a call of its own, not
 *     a sum of other calls, so that a kernel that uses only the global id in x is recognized (FACET_HOST_ROWS).
 * Its output: for each kernel a function `facet_run.NAME` of type facet_host_run_func (facet/host_kernel.h).
 */
#ifndef FACET_KERNEL_COMPILE_LOWER_H
#define FACET_KERNEL_COMPILE_LOWER_H

#include <stdint.h>

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include <facet/error.h>

#define FACET_LOWER_LOCAL "__facet_local."
#define FACET_LOWER_RUN   "facet_run."

/* Two hidden variables of checked modules: a pointer, to which the address of a struct facet_host_check is written
 * before the first call, and a constant array of struct facet_host_site. */
#define FACET_LOWER_CHECK "facet_check"
#define FACET_LOWER_SITES "facet_sites"

struct facet_lower_argument {
    uint32_t kind;          /* enum facet_argument_kind */
    uint32_t offset, bytes; /* in the argument block */
};

/* One kernel. The caller gives the first part, the lowering fills in the second. */
struct facet_lower_kernel {
    const char *name;
    const struct facet_lower_argument *arguments; /* as many as the function has parameters */
    uint32_t required_group_size[3];              /* zeros: any */

    uint32_t local_bytes, scratch_fixed_bytes, scratch_item_bytes, flags; /* as in struct facet_host_kernel */
    LLVMValueRef run;
};

struct facet_lower_options {
    LLVMTargetMachineRef machine;
    uint32_t optimize; /* 0 to 3 */
    uint32_t check;    /* 1: call struct facet_host_check before each access; debug locations give its position */
};

/* How many lanes of 32 bits the registers of a processor have, with these features ("+name,-name"): 16, 8 or 4. */
uint32_t facet_lower_lanes(const char *triple, const char *processor, const char *features);

/*
 * FACET_UNSUPPORTED: a construct that a work-group cannot have (recursion, a call of a function without a body); the
 * error names kernel and function.
 */
enum facet_status facet_lower_host(LLVMModuleRef module, const struct facet_lower_options *options,
                                   struct facet_lower_kernel *kernels, uint32_t count, struct facet_error *error);

#endif
