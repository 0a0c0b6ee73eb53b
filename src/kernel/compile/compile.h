/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the state of one compile from source to image, and the steps of a compile.
 * Never: is included outside src/kernel/compile; the state does not outlive its call.
 */
#ifndef FACET_KERNEL_COMPILE_H
#define FACET_KERNEL_COMPILE_H

#include <stdbool.h>
#include <sys/types.h>

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "kernel/backend.h"
#include "kernel/compile/files.h"

enum facet_compile_family {
    FACET_COMPILE_HOST,
    FACET_COMPILE_PTX,
    FACET_COMPILE_AMDGCN,
    FACET_COMPILE_SPIRV,
};

enum { FACET_COMPILE_NAME_SIZE = 64, FACET_COMPILE_FEATURES_SIZE = 4096, FACET_COMPILE_FAMILIES = 4 };

/* The constants of a family, for all its processors. */
struct facet_compile_flavour {
    const char *name;             /* "host" */
    const char *source_triple;    /* the triple that clang compiles for */
    const char *triple;           /* the triple that code is made for */
    const char *library;          /* file of built-in functions in the compiler's folder; NULL: none */
    const char *const *arguments; /* for clang, NULL-terminated */
    uint32_t convention;          /* LLVM's number of the calling convention that marks kernels */
};

/* A kernel: its declaration, and what the lowering finds out about it. */
struct facet_compile_kernel {
    char *name;
    struct facet_host_argument *arguments; /* their texts are from malloc() */
    uint32_t argument_count, argument_bytes;
    uint32_t required_group_size[3];
    uint32_t local_bytes, scratch_fixed_bytes, scratch_item_bytes, flags;
};

struct facet_compilation {
    const struct facet_backend_request *request;
    struct facet_backend_result *result;
    const struct facet_compile_flavour *flavour;
    enum facet_compile_family family;
    char processor[FACET_COMPILE_NAME_SIZE]; /* by LLVM's name; for SPIR-V its version */
    char target[FACET_COMPILE_NAME_SIZE + 16];
    char machine_features[FACET_COMPILE_FEATURES_SIZE]; /* features that LLVM gets beside the processor's name */
    char features[FACET_COMPILE_FEATURES_SIZE]; /* features that the machine must have, as /proc/cpuinfo names them;
                                                   host only */
    uint32_t optimize;                          /* 0 to 3 */
    const char **arguments;                     /* clang's; borrowed from the request and from constants */
    uint32_t argument_count;

    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    struct facet_compile_kernel *kernels; /* in order of name */
    uint32_t kernel_count;
    bool failed; /* a diagnostic is an error */
};

/* target.c: family, processor and machine of the request's target. FACET_INVALID_ARGUMENT. */
enum facet_status facet_compile_target(struct facet_compilation *compilation, struct facet_error *error);
enum facet_status facet_compile_machine(struct facet_compilation *compilation, struct facet_error *error);
int facet_compile_knows(const char *family, const char *processor);
/* Prepares the state that all compiles share: LLVM's tables, and the identity of this processor. */
void facet_compile_prepare(void);

/*
 * arguments.c: clang's command line and the optimization level. FACET_INVALID_ARGUMENT names the option that is
 * refused.
 */
enum facet_status facet_compile_arguments(struct facet_compilation *compilation, struct facet_error *error);

/* source.c: the module in the family's flavour, verified. FACET_CORRUPT: the source has errors, which are
 * diagnostics. */
enum facet_status facet_compile_source(struct facet_compilation *compilation, struct facet_error *error);

/*
 * admit.c: refuses constructs that a source may not contain, before Facet's own code is linked; on the host also most
 * functions of LLVM.
 */
enum facet_status facet_compile_admit(struct facet_compilation *compilation, struct facet_error *error);

/*
 * types.c: refuses types that the target lacks; in optimized and mended modules, types and constants that SPIR-V lacks.
 */
void facet_compile_admit_types(struct facet_compilation *compilation);
void facet_compile_check_spirv(struct facet_compilation *compilation);

/* extent.c: refuses by name each variable that is larger or more aligned than all targets support. */
void facet_compile_admit_extents(struct facet_compilation *compilation);

/* private.c: a module in SPIR's terms, rewritten for AMDGPU, except its private memory. */
void facet_compile_private(struct facet_compilation *compilation);

/* shape.c: the names and arguments of the module's kernels. */
enum facet_status facet_compile_shape(struct facet_compilation *compilation, struct facet_error *error);
bool facet_compile_is_kernel(const struct facet_compilation *compilation, const char *name);
LLVMValueRef facet_compile_function(const struct facet_compilation *compilation, uint32_t kernel);

/* library.c: joins the two functions that clang makes of each kernel. */
void facet_compile_join(struct facet_compilation *compilation);

/* rename.c: redirects calls of built-in functions to others where options or the target require it. */
void facet_compile_rename(struct facet_compilation *compilation);

/* library.c: makes every definition except the kernels internal. */
void facet_compile_hide(struct facet_compilation *compilation);

/*
 * library.c: links the built-in functions that the module calls, and hides all functions except kernels. Each missing
 * function is a diagnostic.
 */
enum facet_status facet_compile_library(struct facet_compilation *compilation, struct facet_error *error);

/* mend.c: the step for SPIR-V in place of facet_compile_library(), as SPIR-V needs no library. */
enum facet_status facet_compile_mend(struct facet_compilation *compilation, struct facet_error *error);
/* mend.c: mends SPIR-V's code once more after it is optimized; no later pass undoes that. */
enum facet_status facet_compile_mend_code(struct facet_compilation *compilation, struct facet_error *error);
/* mend.c: a builder for the body of a function that had none, and is inlined. */
LLVMBuilderRef facet_compile_begin_body(struct facet_compilation *compilation, LLVMValueRef function);
/* mend_calls.c: gives a built-in function a body that calls another one. */
void facet_compile_mend_call(struct facet_compilation *compilation, LLVMValueRef function);
/* mend_calls.c: gives a call of async_work_group_copy() and its kin pointers to the type that it copies. */
void facet_compile_mend_pointers(LLVMBuilderRef builder, LLVMValueRef call);
/* mend_calls.c: the type of an image's channels, as OpenCL C numbers it. */
void facet_compile_mend_format(LLVMBuilderRef builder, LLVMValueRef call);
/* unfold.c, widths.c: parts of mend_code(): LLVM's functions and edges that SPIR-V lacks; integers of odd widths. */
void facet_compile_unfold(struct facet_compilation *compilation);
void facet_compile_widths(struct facet_compilation *compilation);

struct facet_builtins; /* kernel/builtins/library.h */
enum facet_status facet_compile_open_library(const struct facet_compilation *compilation,
                                             struct facet_builtins **ret_library, struct facet_error *error);

/*
 * libcalls.c: the next of the symbols that lld reports as undefined and that no process provides; false at the end.
 */
bool facet_compile_next_missing(const char **linker_message, char *ret_name, size_t size);
/* Makes an object with all these functions. FACET_INTERNAL names a function that does not exist. */
enum facet_status facet_compile_libcalls(struct facet_compilation *compilation, const char *linker_message,
                                         LLVMMemoryBufferRef *ret_object, struct facet_error *error);

/* description.c: writes the image's description, in JSON, to the result. */
enum facet_status facet_compile_describe(struct facet_compilation *compilation, struct facet_error *error);

/* portable.c, host.c; device.c: from the module to the image in the result. */
enum facet_status facet_compile_portable(struct facet_compilation *compilation, struct facet_error *error);
enum facet_status facet_compile_host(struct facet_compilation *compilation, struct facet_error *error);
enum facet_status facet_compile_device(struct facet_compilation *compilation, struct facet_error *error);

/* emit.c: makes machine code, and a linked object of it. */
enum facet_status facet_compile_emit(struct facet_compilation *compilation, LLVMModuleRef module,
                                     LLVMCodeGenFileType kind, LLVMMemoryBufferRef *ret_code,
                                     struct facet_error *error);
enum facet_status facet_compile_link(struct facet_compilation *compilation, LLVMMemoryBufferRef object,
                                     struct facet_error *error);
enum facet_status facet_compile_passes(struct facet_compilation *compilation, const char *passes,
                                       struct facet_error *error);
/* Puts the description into the module, for the section that facet_image_parse() looks for. */
void facet_compile_attach(struct facet_compilation *compilation);

/* apart.c: a compile in a copy of this process. A copy may be started only while no thread of Facet is in LLVM. */
struct facet_compile_copy {
    const struct facet_backend_request *request;
    enum facet_status (*compile)(const struct facet_backend_request *request, struct facet_backend_result *ret_result,
                                 struct facet_error *error);
    pid_t process;
    int fd;
};
enum facet_status facet_compile_copy_start(struct facet_compile_copy *copy, struct facet_error *error);
/* Waits for the copy and returns its result, or the error of a copy that made none: FACET_OUT_OF_RANGE when it ran out
 * of stack. The caller must clear `ret_result` after an error, too. */
enum facet_status facet_compile_copy_finish(struct facet_compile_copy *copy, struct facet_backend_result *ret_result,
                                            struct facet_error *error);

/*
 * In a copy: notes how many bytes of the source the compiler has read, for the report of a crash; 0: it is not reading
 * the source.
 */
void facet_compile_copy_progress(void *context, size_t bytes);
/* In a copy: notes the folder to remove if the copy crashes; NULL: there is none. */
void facet_compile_copy_folder(const struct facet_folder *folder);

/* remark.c: adds a diagnostic; an error makes the compile fail at the step's end. `context` is the compilation. */
void facet_compile_remark(void *context, uint32_t severity, uint32_t line, uint32_t column, const char *file,
                          const char *text);
void facet_compile_remark_clear(struct facet_backend_result *result);
enum facet_status facet_compile_verdict(const struct facet_compilation *compilation, struct facet_error *error);

/* place.c: errors found after the front end, with their places in the source if these can be found. */
/* Reports each call of the function called `symbol`. */
void facet_compile_refuse_calls(struct facet_compilation *compilation, const char *symbol, const char *text);
/* Refuses assembly, except for PTX: no other target has an assembler here. */
enum facet_status facet_compile_refuse_assembly(struct facet_compilation *compilation, struct facet_error *error);
/* Reports recursion in functions that kernels call. Returns false, and adds nothing, when there is none. */
bool facet_compile_refuse_recursion(struct facet_compilation *compilation);
/* The name that a symbol has in the source, without types: "_Z3sinf" is "sin". */
void facet_compile_plain_name(const char *symbol, char *ret_name, size_t size);

/* read.c: adds the compile's questions to the file system to the result. `context` is the compilation. */
struct facet_shim_read;
void facet_compile_read_clear(struct facet_backend_result *result);
void facet_compile_read(void *context, const char *path, const struct facet_shim_read *read);

/* The time in nanoseconds, for measuring the stages. */
uint64_t facet_compile_now(void);

#endif
