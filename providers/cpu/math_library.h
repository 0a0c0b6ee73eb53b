/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the provider and facet-cpu-math.so. The provider opens that object, which links oneDNN, at the
 * first operation, so that listing devices does not load oneDNN.
 *
 * Owns: the one symbol that the object exports, and the form of an operation that can be queued.
 * Never: knows contexts, streams or units.
 */
#ifndef CPU_MATH_LIBRARY_H
#define CPU_MATH_LIBRARY_H

#include <stdatomic.h>
#include <stdint.h>

#include <facet/host_kernel.h>
#include <facet/provider.h>

#define CPU_MATH_FILE  "facet-cpu-math.so"
#define CPU_MATH_ENTRY "facet_cpu_math_entry"
#define CPU_MATH_ABI   1u

/* oneDNN's engine, and primitives that are kept for reuse. */
struct cpu_math_engine;

/*
 * An operation as work-groups: `kernel` runs the one that group_id[0] names. Its argument is the address of this
 * struct, which has memory that its work-groups share: only one launch of it may run at a time.
 */
struct cpu_math_work {
    struct facet_host_kernel kernel;
    char name[64]; /* for the launch record */
    uint32_t groups;
    uint32_t phases;            /* at least 1 */
    const uint64_t *phase_ends; /* as in struct cpu_phases */
    atomic_int status;          /* enum facet_status: the failure of a work-group */
};

struct cpu_math_library {
    uint32_t abi; /* CPU_MATH_ABI */
    uint32_t reserved;
    /* `features` of the processor as in struct facet_provider_instance. Errors: FACET_NO_MEMORY, FACET_UNSUPPORTED. */
    enum facet_status (*open)(const char *features, uint32_t units, struct cpu_math_engine **ret_engine,
                              struct facet_error *error);
    /* To be called when all work was released. */
    void (*close)(struct cpu_math_engine *engine);
    void (*support)(const struct cpu_math_engine *engine, struct facet_math_support *ret_support);
    /*
     * Takes an operation that math_check.c has checked, with defaults in place of zeros. Any thread may call it.
     */
    enum facet_status (*prepare)(struct cpu_math_engine *engine, const struct facet_math *operation,
                                 struct cpu_math_work **ret_work, struct facet_error *error);
    void (*release)(struct cpu_math_work *work);
};

typedef const struct cpu_math_library *(*cpu_math_entry_func)(void);

#endif
