/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that the files of facet-cpu-math.so share.
 *
 * Owns: the engine, which keeps primitives of oneDNN and memory for the next operations.
 * Never: lets oneDNN start threads: the executor's units call it, each with one thread.
 *
 * Thread rule: any thread. A prepared operation is run by units, and then released by one thread. A primitive may run
 * in several threads at a time, because each thread brings its own scratch memory.
 */
#ifndef CPU_MATH_ENGINE_H
#define CPU_MATH_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <oneapi/dnnl/dnnl.h>

#include "math/loops.h"
#include "math/microkernels.h"
#include "math_library.h"

#define CPU_MATH_ALIGN           128u /* alignment of the parts of scratch memory and of shared memory, in bytes */
#define CPU_MATH_KEY             12u
#define CPU_MATH_SPARE_MEMORIES  4u
#define CPU_MATH_CACHED_MEMORIES 8u
#define CPU_MATH_PREPARED_MOST   16u

/* The type in which numbers are multiplied. */
enum cpu_math_product_type {
    CPU_MATH_PRODUCT_TYPE_F32,
    CPU_MATH_PRODUCT_TYPE_BF16,  /* added up in f32 */
    CPU_MATH_PRODUCT_TYPE_INT8,  /* added up in int32 */
    CPU_MATH_PRODUCT_TYPE_INT16, /* int8, by microkernels: added up in int32 */
};

/*
 * oneDNN's memory objects for one run; each run sets their addresses. Making and freeing them would take a tenth of the
 * time of a small product.
 */
struct cpu_math_memories;

/* A primitive of oneDNN, which computes `to` out of `from` and `weights`. */
struct cpu_math_primitive {
    TAILQ_ENTRY(cpu_math_primitive) link;
    uint32_t references;
    uint64_t key[CPU_MATH_KEY];
    dnnl_primitive_t handle;
    dnnl_memory_desc_t from, weights, to, scratch;
    uint64_t scratch_bytes;
    char name[40];
    /* Memory objects for the next runs; NULL: they are in use, or were never made. */
    _Atomic(struct cpu_math_memories *) cached_memories[CPU_MATH_CACHED_MEMORIES];
};

struct cpu_math_engine {
    dnnl_engine_t dnnl;
    dnnl_stream_t stream; /* all units use it at once: primitives that run in one thread do not change it */
    const struct cpu_math_loops *loops;
    const struct cpu_math_microkernels *microkernels; /* NULL: oneDNN takes packed operands */
    uint32_t units;
    uint32_t lanes;                /* f32 in a vector, where vectors that are not full are slow; 0: they are not */
    bool tensor_bf16, tensor_int8; /* units that multiply in less than 32 bits */

    pthread_mutex_t lock;
    TAILQ_HEAD(cpu_math_primitives, cpu_math_primitive) primitives; /* the one that was used last is first */
    uint32_t primitive_count;
    TAILQ_HEAD(cpu_math_prepared_list, cpu_math_prepared) prepared_list; /* to be run again, in the same order */
    uint32_t prepared_count;
    struct {
        void *memory;
        uint64_t bytes;
    } spare_memories[CPU_MATH_SPARE_MEMORIES];
};

/* --- onednn.c --- */

/* C = A * B of one tile. a_row to c_row: elements from one row, or column, to the next. */
struct cpu_math_matmul {
    uint64_t m, n, k;
    enum cpu_math_product_type product_type;
    uint64_t a_row, a_column, b_row, b_column;
    uint64_t c_row; /* 0: rows follow each other */
    bool rounds_c;  /* C is bf16, rounded once; else C is the sums themselves */
    /*
     * B is in the order of cpu_math_gather_ordered(): k a multiple of CPU_MATH_ORDER_ROWS, n of CPU_MATH_ORDER_COLUMNS.
     * FACET_UNSUPPORTED: the library does not take B in that order. An unordered B would be ordered anew for each tile.
     */
    bool orders_b;
};
#define CPU_MATH_ORDER_ROWS    32u
#define CPU_MATH_ORDER_COLUMNS 64u
enum facet_status cpu_math_matmul(struct cpu_math_engine *engine, const struct cpu_math_matmul *matmul,
                                  struct cpu_math_primitive **ret_primitive, struct facet_error *error);

/*
 * A convolution of one image without padding, with channels last in its input and output. The filter is in oneDNN's own
 * order, into which cpu_math_filter_order() brings it. Writes the sums. FACET_UNSUPPORTED: oneDNN has no primitive.
 */
struct cpu_math_convolve {
    uint64_t in_channels, out_channels, input_height, input_width;
    uint64_t kernel[2], stride[2], dilation[2];
    enum cpu_math_product_type product_type;
};
enum facet_status cpu_math_convolution(struct cpu_math_engine *engine, const struct cpu_math_convolve *convolve,
                                       struct cpu_math_primitive **ret_primitive, struct facet_error *error);
enum facet_status cpu_math_filter_order(struct cpu_math_engine *engine, const struct cpu_math_convolve *convolve,
                                        const struct cpu_math_primitive *convolution,
                                        struct cpu_math_primitive **ret_primitive, struct facet_error *error);
uint64_t cpu_math_filter_bytes(const struct cpu_math_primitive *convolution);
bool cpu_math_same_filter(const struct cpu_math_primitive *left, const struct cpu_math_primitive *right);

/* Runs a primitive in this thread alone. */
enum facet_status cpu_math_execute(struct cpu_math_engine *engine, struct cpu_math_primitive *primitive,
                                   const void *from, const void *weights, void *to, void *scratch);

/* Drops the references to an array of primitives; NULLs are allowed. */
void cpu_math_primitives_drop(struct cpu_math_engine *engine, struct cpu_math_primitive *const *primitives,
                              uint32_t count);
void cpu_math_primitives_forget(struct cpu_math_engine *engine);

/* --- gather.c --- */

/* Converts numbers of a type to the type in which they are multiplied. */
void cpu_math_convert(const struct cpu_math_engine *engine, void *to, const void *from, uint64_t count, uint32_t type,
                      enum cpu_math_product_type product_type);
/* rows x columns with these strides, one of which is 1, copied row by row as the type in which they are multiplied. */
struct cpu_math_gather {
    uint64_t from, row, column, rows, columns;
    uint32_t type; /* enum facet_math_type */
    enum cpu_math_product_type product_type;
};
void cpu_math_gather(const struct cpu_math_engine *engine, const struct cpu_math_gather *gather, void *to);
/*
 * Like cpu_math_gather(), for rows of an ordered B, which has `depth` rows. It lies in panels of CPU_MATH_ORDER_COLUMNS
 * columns, one behind the other; rows of bf16 are in pairs. `to` is where the first row of the first panel goes.
 */
void cpu_math_gather_ordered(const struct cpu_math_engine *engine, const struct cpu_math_gather *gather, uint64_t depth,
                             void *to);

/*
 * Like cpu_math_gather_ordered(), in panels for the microkernels, which take f32 and int16. int16 has an even number of
 * rows.
 * `to` is where the first row of the first panel goes.
 */
void cpu_math_gather_panels(const struct cpu_math_engine *engine, const struct cpu_math_gather *gather, uint64_t depth,
                            void *to);

/* --- work.c --- */

/* A prepared operation. The plan of each kind of operation begins with this struct. */
struct cpu_math_prepared {
    struct cpu_math_work work;
    TAILQ_ENTRY(cpu_math_prepared) link;
    struct facet_math operation;
    bool is_repeatable; /* its work-groups do not change it, so it may be run again */
    struct cpu_math_engine *engine;
    void (*release)(struct cpu_math_prepared *prepared); /* releases what the plan owns, before the plan is freed */
    /* Memory that its work-groups share. The first work-group takes it, so that queued operations have none. */
    uint64_t memory_bytes, memory_capacity;
    _Atomic(char *) memory;
};
/* `bytes`: the size of the plan, which begins with struct cpu_math_prepared; its other members are zero. */
enum facet_status cpu_math_prepared_new(struct cpu_math_engine *engine, uint64_t bytes, facet_host_run_func run,
                                        void (*release)(struct cpu_math_prepared *prepared),
                                        struct cpu_math_prepared **ret_prepared, struct facet_error *error);
void cpu_math_prepared_free(struct cpu_math_prepared *prepared);
/*
 * Takes a kept preparation of the same operation; NULL: there is none. Some are kept after they have run, because
 * preparing a small operation takes as long as running it.
 */
struct cpu_math_prepared *cpu_math_prepared_take(struct cpu_math_engine *engine, const struct facet_math *operation);
/* Keeps the prepared operation instead of freeing it. False: it cannot be run again, or is too large to keep. */
bool cpu_math_prepared_keep(struct cpu_math_prepared *prepared);
void cpu_math_prepared_forget(struct cpu_math_engine *engine);
/* FACET_OUT_OF_RANGE: more than 2^32 work-groups, or bytes of scratch memory. */
enum facet_status cpu_math_prepared_finish(struct cpu_math_prepared *prepared, const char *name, uint64_t scratch_bytes,
                                           uint32_t phases, const uint64_t *ends, struct facet_error *error);
/*
 * Makes the prepared operation's memory, if it needs any, available to its work-groups. False: no memory, and the
 * operation has failed.
 */
bool cpu_math_prepared_ready(struct cpu_math_prepared *prepared);
void cpu_math_prepared_fail(struct cpu_math_prepared *prepared, enum facet_status status);
/* The phase of a work-group. *ret_first: the first work-group of that phase. */
uint32_t cpu_math_phase_of(const struct cpu_math_work *work, uint64_t group, uint64_t *ret_first);

/* --- arithmetic --- */

static inline uint64_t cpu_math_min(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

static inline uint64_t cpu_math_max(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

static inline uint64_t cpu_math_parts(uint64_t whole, uint64_t part)
{
    return part > 0 ? (whole + part - 1) / part : 0;
}

static inline uint64_t cpu_math_round(uint64_t value, uint64_t step)
{
    return cpu_math_parts(value, step) * step;
}

static inline uint64_t cpu_math_product_type_bytes(enum cpu_math_product_type product_type)
{
    return product_type == CPU_MATH_PRODUCT_TYPE_F32 ? 4 : product_type == CPU_MATH_PRODUCT_TYPE_INT8 ? 1 : 2;
}

/* The type in which the operation's numbers are multiplied. */
enum cpu_math_product_type cpu_math_product_type_of(const struct cpu_math_engine *engine, uint32_t type,
                                                    uint32_t flags);
const char *cpu_math_product_type_name(enum cpu_math_product_type product_type);

/* --- the operations --- */

typedef enum facet_status (*cpu_math_prepare_func)(struct cpu_math_engine *engine, const struct facet_math *operation,
                                                   struct cpu_math_prepared **ret_prepared, struct facet_error *error);
enum facet_status cpu_math_prepare_gemm(struct cpu_math_engine *engine, const struct facet_math *operation,
                                        struct cpu_math_prepared **ret_prepared, struct facet_error *error);
enum facet_status cpu_math_prepare_convolution(struct cpu_math_engine *engine, const struct facet_math *operation,
                                               struct cpu_math_prepared **ret_prepared, struct facet_error *error);
enum facet_status cpu_math_prepare_activation(struct cpu_math_engine *engine, const struct facet_math *operation,
                                              struct cpu_math_prepared **ret_prepared, struct facet_error *error);
enum facet_status cpu_math_prepare_normalization(struct cpu_math_engine *engine, const struct facet_math *operation,
                                                 struct cpu_math_prepared **ret_prepared, struct facet_error *error);
enum facet_status cpu_math_prepare_attention(struct cpu_math_engine *engine, const struct facet_math *operation,
                                             struct cpu_math_prepared **ret_prepared, struct facet_error *error);

#endif
