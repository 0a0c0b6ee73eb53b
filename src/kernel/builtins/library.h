/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library of OpenCL C's builtin functions for one target: finding functions that a module only declares, and
 * linking them in.
 *
 * Owns: the mapped file. Never: loads more of it than a module needs (a kernel needs 20 of 10,000 functions).
 *
 * Files, made at build time beside the compiler's object (meson.build):
 *     FACET_BUILTINS_HOST   address spaces stripped; work-item functions in terms of __facet_* (compile/lower.h)
 *     FACET_BUILTINS_PTX    address spaces 0 private, 1 global, 3 local, 4 constant; work-item functions by llvm.nvvm.*
 * Both use the names that clang gives for nvptx64. On the host
 *     images    are pointers to struct facet_host_image_object (facet/host_kernel.h): names with `ocl_image2d_ro` ...
 *     samplers  are pointers whose address is the 32 bits of FACET_SAMPLER_*, zero-extended: inttoptr makes a sampler
 *               of a kernel's argument, __translate_sampler_initializer() of a constant
 *     events    are pointers that mean nothing: copies are complete when wait_group_events() returns
 * There is no printf(): a module that calls it keeps the declaration.
 */
#ifndef FACET_KERNEL_BUILTINS_LIBRARY_H
#define FACET_KERNEL_BUILTINS_LIBRARY_H

#include <llvm-c/Core.h>

#include <facet/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FACET_BUILTINS_HOST "facet-builtins-host.bc"
#define FACET_BUILTINS_PTX  "facet-builtins-ptx.bc"

struct facet_builtins;

/* Maps the file. FACET_NOT_FOUND, FACET_IO, FACET_CORRUPT name the file. Any number of threads may use the library. */
enum facet_status facet_builtins_open(const char *path, struct facet_builtins **ret_library, struct facet_error *error);
void facet_builtins_close(struct facet_builtins *library); /* NULL: nothing. Modules linked from it stay valid */

/*
 * Gives a body to every function of the library that `module` declares and calls, and to the functions that these call
 * in turn. Bodies get internal linkage. Functions that the library does not know stay declared.
 * FACET_INVALID_ARGUMENT: a declaration of another type than the library's. After a failure the module must be
 * discarded.
 */
enum facet_status facet_builtins_link(const struct facet_builtins *library, LLVMModuleRef module,
                                      struct facet_error *error);

/*
 * The prefix of functions that code generators call where a processor lacks an instruction: "fma" is
 * "facet_libcall_fma" in the archive.
 */
#define FACET_BUILTINS_LIBCALL "facet_libcall_"

/* Adds the function that a code generator calls `name` to `module`, hidden, unless the module has it. FACET_INTERNAL:
 * the library has no such function. The module must not be optimized afterwards: the optimizer may turn the code of
 * fma() into a call of fma(). */
enum facet_status facet_builtins_link_libcall(const struct facet_builtins *library, LLVMModuleRef module,
                                              const char *name, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
