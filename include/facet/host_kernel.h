/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel image compiled for the target `host`: a shared object that runs one work-group per call.
 *
 * Owns: the layout between compiled code and its executor (the provider `cpu`).
 * Never: lets compiled code allocate memory or call the process that runs it, except the functions of struct
 * facet_host_check: all memory that a work-group uses is passed to it.
 *
 * The object exports one symbol, FACET_HOST_IMAGE_NAME, a struct facet_host_image of constant data. It needs no library
 * beyond the C library of the process that opens it: no DT_NEEDED. So that opening it runs nothing, it has no
 * constructors, no IFUNC, no thread-local data and no DT_RELR; it has a GNU hash table, and names of at most 63 bytes.
 * One call of a kernel's `run` executes one work-group from its first instruction to its last, on the calling thread:
 * between two calls its launch can be preempted, resumed on another thread, or cancelled. Calls for different groups of
 * a launch may run at the same time. When a call returns, its stores may not be visible to other threads yet: the
 * calling thread passes a locked instruction, such as a mutex, before it reports the call as done.
 *
 * A call may be ended at any instruction together with its thread (pthread_cancel). So the object holds no lock that
 * other threads wait for.
 *
 * Rows. A kernel with FACET_HOST_ROWS has no barriers, no loops, no local memory, no scratch memory for each item and
 * no required size, and uses no other id of its items in x than the global id. Groups that follow each other in x may
 * therefore run in one call, as one wide group: group_size[0] is the sum of their sizes, group_id[0] is 0, and
 * offset[0] is the global id of the first item. No launch is preempted within a call, so a row has at most
 * FACET_HOST_GROUP_MOST items.
 *
 * The argument block. Arguments lie in the order of the kernel's declaration, each at the next multiple of its own
 * alignment, little-endian, as clang lays out a C struct of them; struct facet_host_argument says where:
 *     value     the bytes
 *     global    a 64-bit address of device memory (`__global` and `__constant` pointers)
 *     local     a 32-bit offset, in bytes, of this argument's memory in the launch's dynamic local memory, which begins
 *               at the kernel's own local_bytes; FACET_HOST_LOCAL_ALIGN-aligned. An argument of
 *               FACET_HOST_LOCAL_CHECKED bytes, as checked images have, is followed by 32 bits: how long its memory is
 *     image     a 64-bit address of a struct facet_host_image_object in device memory
 *     sampler   32 bits: FACET_SAMPLER_*
 */
#ifndef FACET_HOST_KERNEL_H
#define FACET_HOST_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FACET_HOST_IMAGE_NAME  "facet_host_image"
#define FACET_HOST_IMAGE_MAGIC UINT32_C(0x4b544346) /* "FCTK" */
#define FACET_HOST_IMAGE_ABI   3u

/* The section that holds the image's description as JSON (kernel_image.schema.json), readable without loading. */
#define FACET_HOST_IMAGE_SECTION ".facet.kernels"

/* Bytes of an image, at most. */
#define FACET_HOST_IMAGE_MOST UINT64_C(268435456)

/* Alignment of each local argument, and of the argument block. */
#define FACET_HOST_LOCAL_ALIGN 128u

/* Alignment of local memory and of scratch memory; so it is the largest that a kernel's own variables can have. */
#define FACET_HOST_VARIABLE_ALIGN 4096u

/* Bytes of local memory, at most: the most that stays below 2^31 when it is rounded up to the alignment. */
#define FACET_HOST_LOCAL_MOST 2147483520u

/* Bytes of a local argument in the argument block of a checked image; in other images it has 4. */
#define FACET_HOST_LOCAL_CHECKED 8u

/* Work-items of a group, at most; and the step of work-items in which scratch memory is counted. */
#define FACET_HOST_GROUP_MOST   4096u
#define FACET_HOST_SCRATCH_STEP 64u

/*
 * One work-group, and the launch that it belongs to. All fields are the same for all calls of a launch, except
 * `group_id`, `local` and `scratch`, and the fields that a row changes.
 */
struct facet_host_group {
    uint32_t group_id[3];   /* the group's place in the grid */
    uint32_t grid[3];       /* work-groups */
    uint32_t group_size[3]; /* work-items */
    uint32_t offset[3];     /* of the first work-item's global id */
    uint32_t dimensions;    /* 1, 2 or 3: the value of get_work_dim() */
    uint32_t global_size_x; /* the value of get_global_size(0): work-items of the launch in x */
    void *local;   /* the kernel's local_bytes, and behind them the launch's dynamic local memory; contents undefined */
    void *scratch; /* facet_host_scratch_bytes() of memory, of its own for each calling thread; contents undefined */
    void *check; /* of an image whose `check` is not NULL: the first argument of struct facet_host_check's functions */
};
FACET_STATIC_ASSERT(sizeof(struct facet_host_group) == 80, "ABI: facet_host_group");

typedef void (*facet_host_run_func)(const void *arguments, const struct facet_host_group *group);

enum facet_argument_kind {
    FACET_ARGUMENT_VALUE = 1,
    FACET_ARGUMENT_GLOBAL = 2,
    FACET_ARGUMENT_LOCAL = 3,
    FACET_ARGUMENT_IMAGE = 4,
    FACET_ARGUMENT_SAMPLER = 5,
};

struct facet_host_argument {
    const char *name; /* the name in the source; "" when it is not known */
    const char *type; /* the type in the source: "float4*" */
    uint32_t kind;    /* enum facet_argument_kind */
    uint32_t offset;  /* where the argument begins in the argument block */
    uint32_t bytes;   /* how much of the argument block it takes */
    uint32_t access;  /* FACET_ARGUMENT_READS | FACET_ARGUMENT_WRITES; both when not known */
};
#define FACET_ARGUMENT_READS  1u
#define FACET_ARGUMENT_WRITES 2u
FACET_STATIC_ASSERT(sizeof(struct facet_host_argument) == 32, "ABI: facet_host_argument");

/* A sampler (OpenCL C 1.2, 6.12.14.1), numbered as clang numbers CLK_*: one addressing mode and one filter. */
#define FACET_SAMPLER_NORMALIZED UINT32_C(1)
#define FACET_SAMPLER_EDGE       UINT32_C(2) /* CLK_ADDRESS_CLAMP_TO_EDGE */
#define FACET_SAMPLER_CLAMP      UINT32_C(4)
#define FACET_SAMPLER_REPEAT     UINT32_C(6)
#define FACET_SAMPLER_MIRRORED   UINT32_C(8)
#define FACET_SAMPLER_NEAREST    UINT32_C(0x10)
#define FACET_SAMPLER_LINEAR     UINT32_C(0x20)

#define FACET_HOST_BARRIERS   1u /* has barriers: informative */
#define FACET_HOST_VECTORIZED 2u /* work-items run in vector lanes: informative */
#define FACET_HOST_ROWS       4u /* groups may run as rows: see above */

struct facet_host_kernel {
    const char *name;
    facet_host_run_func run;
    const struct facet_host_argument *arguments;
    uint32_t argument_count;
    uint32_t argument_bytes;         /* the size of the argument block */
    uint32_t local_bytes;            /* local memory that the kernel itself declares */
    uint32_t scratch_fixed_bytes;    /* see facet_host_scratch_bytes() */
    uint32_t scratch_item_bytes;     /* further scratch memory for each work-item */
    uint32_t required_group_size[3]; /* reqd_work_group_size; zeros: any */
    uint32_t flags;                  /* FACET_HOST_BARRIERS, ... */
    uint32_t reserved;
};
FACET_STATIC_ASSERT(sizeof(struct facet_host_kernel) == 64, "ABI: facet_host_kernel");

/* The description of an access that a checked image reports. */
#define FACET_CHECK_WRITE  1u
#define FACET_CHECK_ATOMIC 2u
#define FACET_CHECK_LOCAL  4u /* in local memory; without this and FACET_CHECK_PRIVATE, in global or constant memory */
/* In private memory, and outside of its variable. The image detects this itself, and reports only such accesses. */
#define FACET_CHECK_PRIVATE 8u
/* Outside of a variable or argument: in local memory with FACET_CHECK_LOCAL, else in the image's own constants. The
 * image detects this itself as well. */
#define FACET_CHECK_OUTSIDE 16u

/*
 * Images compiled with the option `check` call these before each access of a kernel to memory that is not private,
 * work-item by work-item, so that the executor can detect accesses out of bounds and races. There is no call before a
 * read of the image's own constants. `site` is an index into the image's sites. `item` is the work-item's linear id in
 * its group. Returns 0 when the access must not be made: it is skipped then (a load yields zeros). An access that the
 * image knows to be wrong (FACET_CHECK_PRIVATE, FACET_CHECK_OUTSIDE) is only reported, and is skipped whatever the
 * return value.
 */
struct facet_host_check {
    uint32_t size;
    uint32_t reserved;
    int (*access)(void *check, const void *address, uint64_t bytes, uint32_t flags, uint32_t item, uint32_t site);
    void (*barrier)(void *check); /* called when all items of the group have passed a barrier */
};

/* A place in the source. */
struct facet_host_site {
    const char *file;
    uint32_t line, column;
};

struct facet_host_image {
    uint32_t magic; /* FACET_HOST_IMAGE_MAGIC */
    uint32_t abi;   /* FACET_HOST_IMAGE_ABI */
    uint32_t size;  /* the size of this struct when the image was compiled */
    uint32_t kernel_count;
    const struct facet_host_kernel *kernels; /* sorted by name */
    const char *target;                      /* "host:znver5" */
    const char *features;                    /* what the processor must have, named as in /proc/cpuinfo: "avx2,fma" */
    const struct facet_host_check **check;   /* NULL: the image is not checked; else the executor stores the address of
                                                the functions here before the first call */
    const struct facet_host_site *sites;
    uint32_t site_count;
    uint32_t reserved;
};
FACET_STATIC_ASSERT(sizeof(struct facet_host_image) == 64, "ABI: facet_host_image");

/* An image (OpenCL C 6.12.14) in device memory. Pixels lie behind `pixels`, row by row. A launch is refused if its
 * image has an order or a type that OpenCL does not number, rows or slices that overlap, or pixels outside of the
 * memory of the launch's context. Formats whose pixel is one number (CL_UNORM_SHORT_565, ...) read as zeros and are not
 * written. */
struct facet_host_image_object {
    uint64_t pixels; /* address */
    uint32_t width, height, depth, array_size;
    uint32_t row_bytes, slice_bytes;
    uint32_t channel_order; /* CL_R, CL_RGBA, ... as OpenCL numbers them */
    uint32_t channel_type;  /* CL_UNORM_INT8, CL_FLOAT, ... */
};
FACET_STATIC_ASSERT(sizeof(struct facet_host_image_object) == 40, "ABI: facet_host_image_object");

/* The scratch memory that one thread needs for groups of `items` work-items. */
static inline uint64_t facet_host_scratch_bytes(const struct facet_host_kernel *kernel, uint32_t items)
{
    uint64_t padded =
        ((uint64_t)items + FACET_HOST_SCRATCH_STEP - 1) / FACET_HOST_SCRATCH_STEP * FACET_HOST_SCRATCH_STEP;

    return kernel->scratch_fixed_bytes + padded * kernel->scratch_item_bytes;
}

#ifdef __cplusplus
}
#endif
#endif
