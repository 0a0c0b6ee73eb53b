/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that LLVM's own C interface lacks: clang, lld, all types of a module, the features of a processor.
 *
 * Owns: the C side of shim_*.cc.
 * Never: throws, prints, or keeps anything between two calls.
 */
#ifndef FACET_KERNEL_COMPILE_SHIMS_H
#define FACET_KERNEL_COMPILE_SHIMS_H

#include <stddef.h>
#include <stdint.h>

#include <llvm-c/TargetMachine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Severities are enum facet_severity. Texts are borrowed for the call. */
typedef void (*facet_remark_func)(void *context, uint32_t severity, uint32_t line, uint32_t column, const char *file,
                                  const char *text);

/* The file system's answer about a path: as in struct facet_backend_read. */
struct facet_shim_read {
    uint32_t kind, reserved;
    uint64_t bytes, hash[2];
};
/* Called at the end, for each path. NULL for both: there was a question that cannot be repeated. */
typedef void (*facet_read_func)(void *context, const char *path, const struct facet_shim_read *read);

/* Reports how many bytes of the source clang has read. */
typedef void (*facet_place_func)(void *context, size_t bytes);

/* Receives clang's diagnostics and its reads. */
struct facet_shim_listener {
    facet_remark_func remark;
    facet_read_func read;
    facet_place_func place;
    void *context;
};

/* Compiles a source in memory, as `clang -cc1` with these arguments does. NULL after errors. */
LLVMModuleRef facet_shim_clang(LLVMContextRef context, const char *name, const char *source, size_t bytes,
                               const char *const *arguments, size_t count, const struct facet_shim_listener *listener);

/* Links as `ld.lld` with these arguments does; the caller frees its messages. Returns 0, or another number when it
 * failed. One thread at a time. */
int facet_shim_lld(const char *const *arguments, size_t count, char **ret_text);

/* Calls `each` once for every type in the module's code and variables, and for parts of types; `owner` is a function or
 * a variable that has the type. */
typedef void (*facet_type_func)(void *context, LLVMTypeRef type, LLVMValueRef owner);
void facet_shim_types(LLVMModuleRef module, facet_type_func each, void *context);

/* Calls `each` for every alignment in the module: of variables, functions, private variables, and structs by value (the
 * parameter). LLVM's C interface cuts alignments to 32 bits. */
typedef void (*facet_alignment_func)(void *context, uint64_t bytes, LLVMValueRef aligned);
void facet_shim_alignments(LLVMModuleRef module, facet_alignment_func each, void *context);

/* Whether LLVM knows this processor. */
int facet_shim_knows(const char *triple, const char *processor);

/* Calls `each` for every feature, such as "avx2", that the processor has after changes by `features` ("+a,-b"). */
typedef void (*facet_feature_func)(void *context, const char *name);
void facet_shim_features(const char *triple, const char *processor, const char *features, facet_feature_func each,
                         void *context);

/* Makes the bodies of loops with more than `max_blocks` blocks functions, since the generator's time is quadratic in
 * them. */
void facet_shim_divide_loops(LLVMModuleRef module, size_t max_blocks);

/* Sets the alignment of the beginnings of loops. */
void facet_shim_align_loops(LLVMTargetMachineRef machine, unsigned bytes);

#ifdef __cplusplus
}
#endif
#endif
