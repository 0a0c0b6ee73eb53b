/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: compiled once, run anywhere.
 *
 * Owns: the compiler (OpenCL C, LLVM IR or SPIR-V in; code for `host`, `ptx`, `amdgcn`, `spirv` out), its cache, images
 * and their descriptions, and typed launches on a session.
 * Never: loads LLVM before it has to compile an image that is not in the cache; prints; runs a kernel itself, which a
 * provider does; ignores a construct that cannot be compiled or launched: it is refused by name.
 *
 *     facet_compiler_create(NULL, &compiler, &error);
 *     facet_compile(compiler, source, strlen(source), &(struct facet_compile_options){
 *         .size = sizeof(struct facet_compile_options), .target = "host", .name = "saxpy.cl"}, &image, &error);
 *     facet_kernel_load(session, context, image, "saxpy", &kernel, &error);
 *     facet_kernel_set_value(kernel, 0, &a, sizeof a, &error);
 *     facet_kernel_set_memory(kernel, 1, x, &error);
 *     facet_kernel_launch(kernel, stream, &range, &error);
 *
 * Thread rule: any number of threads may use one compiler or one image at once; one thread at a time may use a kernel.
 */
#ifndef FACET_KERNEL_H
#define FACET_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>
#include <facet/host_kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_session;
struct facet_compiler;
struct facet_image;
struct facet_kernel;

/* --- compiling --- */

/* Zeroed members mean the default. */
struct facet_compiler_options {
    uint32_t size;
    uint32_t cache_mode;   /* enum facet_cache_mode */
    const char *cache_dir; /* default: $FACET_CACHE_DIR, else $XDG_CACHE_HOME/facet, else ~/.cache/facet. The directory
                              is made with mode 0700; a directory that other users may write to is not used */
    uint64_t cache_bytes;  /* the most the cache holds; default $FACET_CACHE_SIZE, else 1 GiB. The least recently used
                              images are evicted */
};

enum facet_cache_mode {
    FACET_CACHE_USE = 0,       /* look images up, and keep compiled images */
    FACET_CACHE_READ_ONLY = 1, /* look images up; keep nothing that is compiled */
    FACET_CACHE_REFRESH = 2,   /* always compile, and keep the image */
    FACET_CACHE_BYPASS = 3,    /* always compile, and keep nothing */
};

enum facet_source_kind {
    FACET_SOURCE_DETECT = 0, /* by the first bytes: bitcode, SPIR-V, "; ModuleID" or "target triple" text, else C */
    FACET_SOURCE_OPENCL_C = 1,
    FACET_SOURCE_LLVM_IR = 2, /* text or bitcode, in SPIR's conventions (spir64) */
    FACET_SOURCE_SPIRV = 3,
};

#define FACET_OPTIMIZE_DEFAULT 0u
#define FACET_OPTIMIZE(level)  ((level) + 1u) /* level 0 to 3 */

struct facet_compile_options {
    uint32_t size;
    uint32_t source;    /* enum facet_source_kind */
    uint32_t optimize;  /* FACET_OPTIMIZE(0) .. FACET_OPTIMIZE(3); default: the level that `arguments` give
                           (-cl-opt-disable),  else 3 */
    uint32_t check;     /* 1: a checked image (host_kernel.h); only for `host` */
    const char *target; /* "host", "host:CPU", "ptx:sm_90", "amdgcn:gfx90a" or "gfx90a", "spirv" or "spirv:1.2";
                           default "host" */
    const char *name;   /* the source's name in diagnostics; default "kernel.cl" */
    const char *const *arguments; /* options of clang and clBuildProgram: -DN=4, -I DIR, -cl-std=CL1.2,
                                     -cl-fast-relaxed-math, -Werror, ...; NULL-terminated, or NULL */
    uint32_t seconds;             /* the most that compiling may take, up to FACET_COMPILE_SECONDS_MOST; default 600 */
    uint32_t reserved;            /* 0 */
};
#define FACET_COMPILE_SECONDS_MOST UINT32_C(604800)    /* a week */
#define FACET_COMPILE_BYTES_MOST   (UINT64_C(1) << 30) /* of a source, and of an image that is parsed */

enum facet_severity {
    FACET_SEVERITY_NOTE = 1,
    FACET_SEVERITY_WARNING = 2,
    FACET_SEVERITY_ERROR = 3,
};

/* One remark of the compiler. Texts are borrowed from the image or log that it came from. */
struct facet_diagnostic {
    uint32_t severity;
    uint32_t line, column; /* from 1; 0: unknown */
    const char *file;
    const char *text;
};

/* Statistics of a compile. Fields whose bit in `valid` is clear were not measured. */
#define FACET_COMPILE_HAS_STAGES (UINT32_C(1) << 0) /* frontend_ns .. link_ns: clear after a cache hit */
#define FACET_COMPILE_HAS_PEAK   (UINT32_C(1) << 1)
struct facet_compile_statistics {
    uint32_t size;
    uint32_t valid;
    uint32_t cache_hit;
    int32_t cache_status; /* enum facet_status: why the cache was not used or the image not kept. FACET_OK: no obstacle;
                             FACET_PERMISSION: another user could change the directory; FACET_NO_SPACE, FACET_IO, ... */
    uint64_t total_ns;
    uint64_t load_ns; /* opening the compiler's own libraries; 0 when they were open already */
    uint64_t frontend_ns, library_ns, optimize_ns, generate_ns, link_ns;
    uint64_t image_bytes;
    uint64_t peak_bytes; /* the peak resident memory (ru_maxrss) of the forked process that compiled, or of this process
                            so far when that is more */
};
FACET_STATIC_ASSERT(sizeof(struct facet_compile_statistics) == 88, "ABI: facet_compile_statistics");

/* `options` may be NULL. A cache that cannot be used is no error: each compile's `cache_status` says so. Opens no
 * library. */
FACET_API enum facet_status facet_compiler_create(const struct facet_compiler_options *options,
                                                  struct facet_compiler **ret_compiler, struct facet_error *error);
/* Call it after all compiles have returned. NULL is allowed. Images stay valid. */
FACET_API void facet_compiler_destroy(struct facet_compiler *compiler);

/*
 * Compiles a source, or takes its image from the cache. Each entry of the cache is checked: a damaged entry is a miss.
 * Two processes that ask for the same image at once compile it once. A source that includes files is a hit while these
 * files are unchanged (docs/kernels.md). The image belongs to the caller. A miss is compiled in a forked process, so
 * that a source that crashes the compiler does not crash this process.
 * Errors: FACET_INVALID_ARGUMENT (an unknown argument or target; the message names it), FACET_UNSUPPORTED (a known
 * target that this build cannot compile for: npu; or Facet was built without the compiler: the message says what to
 * install), FACET_CORRUPT (the source has errors: `error` has the first, *ret_image is an image without code that has
 * all of them as diagnostics), FACET_OUT_OF_RANGE (the source nests deeper than 1 GiB of stack, or has more than
 * FACET_COMPILE_BYTES_MOST), FACET_TIMEOUT (compiling took longer than `seconds`, and was ended), FACET_NO_MEMORY,
 * FACET_IO, FACET_INTERNAL (the compiler gave up, with its reason, or crashed, with the signal).
 */
FACET_API enum facet_status facet_compile(struct facet_compiler *compiler, const void *source, size_t bytes,
                                          const struct facet_compile_options *options, struct facet_image **ret_image,
                                          struct facet_error *error);

/* --- targets --- */

/* The name of a target that this build knows, by index: "ptx:sm_90"; NULL past the end. */
FACET_API const char *facet_target_name(uint32_t index);
/*
 * Checks and completes a target's name: "gfx90a" gives "amdgcn:gfx90a". Errors as of facet_compile(); the message names
 * the known target that is most like `text`.
 */
FACET_API enum facet_status facet_target_parse(const char *text, char *ret_name, size_t size,
                                               struct facet_error *error);

/* --- images --- */

/*
 * Makes an image from the bytes of facet_image_bytes(), by reading its description; loads and runs nothing.
 * FACET_CORRUPT; FACET_OUT_OF_RANGE beyond FACET_COMPILE_BYTES_MOST.
 */
FACET_API enum facet_status facet_image_parse(const void *bytes, size_t size, struct facet_image **ret_image,
                                              struct facet_error *error);
FACET_API void facet_image_destroy(struct facet_image *image);

/*
 * All that these functions return is borrowed from the image. The bytes have the form that the target's own tools read:
 * an ELF object, PTX text, a code object, SPIR-V.
 */
FACET_API const void *facet_image_bytes(const struct facet_image *image, size_t *ret_size);
FACET_API const char *facet_image_target(const struct facet_image *image);
FACET_API void facet_image_statistics(const struct facet_image *image, struct facet_compile_statistics *ret_statistics);
/* False past the last diagnostic. */
FACET_API int facet_image_diagnostic(const struct facet_image *image, uint32_t index,
                                     struct facet_diagnostic *ret_diagnostic);

/*
 * An image's description of one kernel, in which `run` is NULL. NULL past the last kernel, or when no kernel has that
 * name.
 */
FACET_API const struct facet_host_kernel *facet_image_kernel(const struct facet_image *image, uint32_t index);
FACET_API const struct facet_host_kernel *facet_image_find(const struct facet_image *image, const char *name);

/* --- launching --- */

/*
 * A launch's extent. A zero in `group` lets the library choose that dimension: a divisor of `global`, so that the group
 * has about 256 work-items, most of them in x. A `group` that is not zero must divide `global`. Elements beyond
 * `dimensions` are ignored. `global` and the last global id are at most 2^31 - 1, and there are at most 2^48 groups.
 */
struct facet_range {
    uint32_t size;
    uint32_t dimensions; /* 1 to 3 */
    uint64_t global[3];  /* work-items */
    uint32_t group[3];   /* work-items of one group */
    uint32_t offset[3];  /* the first global id */
};
FACET_STATIC_ASSERT(sizeof(struct facet_range) == 56, "ABI: facet_range");

/*
 * Loads one kernel of an image for a context of a session, as a provider's module of its own. The image must be for the
 * context's device. The image may be destroyed afterwards; session and context must outlive the kernel.
 * FACET_NOT_FOUND: `error` lists the kernels that there are. An image that does not describe its kernels (SPIR-V read
 * from bytes) has no kernel to load.
 */
FACET_API enum facet_status facet_kernel_load(struct facet_session *session, uint64_t context,
                                              const struct facet_image *image, const char *name,
                                              struct facet_kernel **ret_kernel, struct facet_error *error);
/* If a launch of the kernel is still running, its module stays loaded until the context is destroyed. NULL is
 * allowed. */
FACET_API void facet_kernel_destroy(struct facet_kernel *kernel);

/* Sets argument `index`. FACET_INVALID_ARGUMENT: the kernel's argument is not of that kind or size; the message has its
 * name in the source. */
FACET_API enum facet_status facet_kernel_set_value(struct facet_kernel *kernel, uint32_t index, const void *value,
                                                   size_t bytes, struct facet_error *error);
FACET_API enum facet_status facet_kernel_set_memory(struct facet_kernel *kernel, uint32_t index, uint64_t address,
                                                    struct facet_error *error);
FACET_API enum facet_status facet_kernel_set_local(struct facet_kernel *kernel, uint32_t index, uint32_t bytes,
                                                   struct facet_error *error);

/* Queues a launch. Everything is checked before: unset arguments (FACET_BAD_STATE), sizes of grid, group and local
 * memory (FACET_OUT_OF_RANGE), and by the provider whether each address is the context's. */
FACET_API enum facet_status facet_kernel_launch(struct facet_kernel *kernel, uint64_t stream,
                                                const struct facet_range *range, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
