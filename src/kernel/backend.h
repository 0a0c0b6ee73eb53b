/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the library, which does not link LLVM, and the kernel compiler, which does. The compiler is one
 * shared object, facet-kernel-compiler.so, which is opened only when a source is not in the cache.
 *
 * Owns: the symbol that the compiler exports, its version, a request and a result.
 * Never: passes anything except plain data; between two calls the compiler keeps no state that a caller could see.
 */
#ifndef FACET_KERNEL_BACKEND_H
#define FACET_KERNEL_BACKEND_H

#include <facet/kernel.h>

#define FACET_BACKEND_FILE  "facet-kernel-compiler.so"
#define FACET_BACKEND_ENTRY "facet_kernel_backend"
#define FACET_BACKEND_ABI   4u

/* All pointers are borrowed for the call. */
struct facet_backend_request {
    const void *source;
    size_t bytes;
    const char *target;           /* complete: "host:znver5", "ptx:sm_90", "amdgcn:gfx90a", "spirv:1.2" */
    const char *name;             /* of the source */
    const char *const *arguments; /* NULL-terminated, or NULL */
    uint32_t source_kind;         /* enum facet_source_kind, never DETECT */
    uint32_t optimize;            /* FACET_OPTIMIZE_DEFAULT or FACET_OPTIMIZE(level) */
    uint32_t check;               /* 1: make a checked image */
    uint32_t seconds;             /* the compile may take this long; at least 1 */
};

struct facet_backend_diagnostic {
    uint32_t severity, line, column;
    char *file, *text;
};

/* The file system's answer when a compile asked about a path. */
enum facet_read_kind {
    FACET_READ_MISSING, /* nothing that could be opened */
    FACET_READ_FOLDER,
    FACET_READ_PRESENT, /* a file, and nothing more was asked */
    FACET_READ_WHOLE,   /* a file of these bytes */
};
enum { FACET_READ_KINDS = FACET_READ_WHOLE + 1 };

/* One question of a compile about a path, and its answer. While all questions would get the same answers, the same
 * request compiles to the same image. */
struct facet_backend_read {
    char *path; /* in the form in which it was asked for: absolute, or relative to the working folder */
    uint64_t bytes;
    uint64_t hash[2]; /* XXH3 of 128 bits, low half first; like `bytes`, set for FACET_READ_WHOLE only */
    uint32_t kind;    /* enum facet_read_kind */
    uint32_t reserved;
};

/* The limits of an image's description. The compiler refuses sources, and a reader refuses images, that exceed them. */
enum {
    FACET_IMAGE_KERNELS_MAX = 4096,
    FACET_IMAGE_ARGUMENTS_MAX = 1024, /* of a kernel */
    FACET_IMAGE_BLOCK_MAX = 65536,    /* bytes of a kernel's arguments */
    FACET_IMAGE_LOCAL_MAX = INT32_MAX,
    FACET_IMAGE_TEXT_MAX = 1024, /* bytes of a name */
};

/* The result of a compile; freed with the backend's `clear`. After errors in the source it holds only diagnostics. */
struct facet_backend_result {
    void *image;
    size_t bytes;
    char *description; /* JSON: schemas/kernel_image.schema.json */
    struct facet_backend_diagnostic *diagnostics;
    uint32_t diagnostic_count;
    uint32_t read_count;
    struct facet_backend_read *reads;
    uint32_t unrepeatable; /* 1: the image depends on more than `reads` can express, such as the time or a pipe */
    uint32_t reserved;
    uint64_t frontend_ns, library_ns, optimize_ns, generate_ns, link_ns;
    uint64_t peak_bytes; /* peak resident memory of the process that compiled; 0 when that was the caller's process */
};

struct facet_backend {
    uint32_t abi; /* FACET_BACKEND_ABI */
    uint32_t reserved;
    const char *version; /* of all parts that affect the code; goes into the cache's key */

    /* `ret_result` is filled also when the source has errors (FACET_CORRUPT). Any thread, several at a time. */
    enum facet_status (*compile)(const struct facet_backend_request *request, struct facet_backend_result *ret_result,
                                 struct facet_error *error);
    void (*clear)(struct facet_backend_result *result);

    /* Whether LLVM knows a processor of "ptx", "amdgcn" or "host". LLVM silently ignores a processor that it does not
     * know. */
    int (*knows)(const char *family, const char *processor);
};

/* The type of FACET_BACKEND_ENTRY. */
typedef const struct facet_backend *(*facet_backend_entry_func)(void);

#endif
