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

/* How far clang has come in the source: so many of its bytes are behind it. */
typedef void (*facet_place_func)(void *context, size_t bytes);

/* Receives clang's diagnostics and its reads. */
struct facet_shim_listener {
    facet_remark_func remark;
    facet_read_func read;
    facet_place_func place;
    void *context;
};

/* A source in memory, for `clang -cc1` with these arguments. NULL after errors. */
LLVMModuleRef facet_shim_clang(LLVMContextRef context, const char *name, const char *source, size_t bytes,
                               const char *const *arguments, size_t count, const struct facet_shim_listener *listener);

/* `ld.lld` with these arguments; the caller frees its messages. Not 0: it failed. One thread at a time. */
int facet_shim_lld(const char *const *arguments, size_t count, char **ret_text);

/* Calls `each` once for every type that the module's code and variables have, parts of types too; `owner` is a function
 * or a variable that has it. */
typedef void (*facet_type_func)(void *context, LLVMTypeRef type, LLVMValueRef owner);
void facet_shim_types(LLVMModuleRef module, facet_type_func each, void *context);

/* Calls `each` for every alignment that the module asks for and LLVM would keep, which C's own interface cuts to 32
 * bits: of variables, functions, private variables, and structs by value (the parameter). */
typedef void (*facet_alignment_func)(void *context, uint64_t bytes, LLVMValueRef aligned);
void facet_shim_alignments(LLVMModuleRef module, facet_alignment_func each, void *context);

/* Whether LLVM knows this processor. */
int facet_shim_knows(const char *triple, const char *processor);

/* Calls `each` for every feature that the processor has with these ("+a,-b"): "avx2". */
typedef void (*facet_feature_func)(void *context, const char *name);
void facet_shim_features(const char *triple, const char *processor, const char *features, facet_feature_func each,
                         void *context);

/* Makes functions of the bodies of loops that have more blocks, in which the generator's time is quadratic. */
void facet_shim_divide_loops(LLVMModuleRef module, size_t max_blocks);

/* Where loops begin, at multiples of so many bytes. */
void facet_shim_align_loops(LLVMTargetMachineRef machine, unsigned bytes);

#ifdef __cplusplus
}
#endif
#endif
