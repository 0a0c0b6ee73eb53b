/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the provider and facet-cpu-math.so. The object is opened at the first operation, so that
 * listing devices does not pay for the library that it is linked to.
 *
 * Owns: the one symbol that it exports, and the form of an operation that can be queued.
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

/* Primitives that were made, to be used again. */
struct cpu_math_engine;

/*
 * An operation as work-groups: `kernel` runs one by its group_id[0]. Its argument is the address of this struct. It has
 * memory of its own, so only one run of it may be under way.
 */
struct cpu_math_work {
    struct facet_host_kernel kernel;
    char name[64]; /* for the record */
    uint32_t groups;
    uint32_t phases;            /* at least 1 */
    const uint64_t *phase_ends; /* as struct cpu_phases has them */
    atomic_int status;          /* enum facet_status: how a work-group failed */
};

struct cpu_math_library {
    uint32_t abi; /* CPU_MATH_ABI */
    uint32_t reserved;
    /* `features`: of the processor, as in struct facet_provider_instance. FACET_NO_MEMORY, FACET_UNSUPPORTED. */
    enum facet_status (*open)(const char *features, uint32_t units, struct cpu_math_engine **ret_engine,
                              struct facet_error *error);
    /* When no work is left. */
    void (*close)(struct cpu_math_engine *engine);
    void (*support)(const struct cpu_math_engine *engine, struct facet_math_support *ret_support);
    /*
     * The operation was checked, and its zeros were replaced by the defaults that they stand for (math_check.c). Any
     * thread.
     */
    enum facet_status (*prepare)(struct cpu_math_engine *engine, const struct facet_math *operation,
                                 struct cpu_math_work **ret_work, struct facet_error *error);
    void (*release)(struct cpu_math_work *work);
};

typedef const struct cpu_math_library *(*cpu_math_entry_func)(void);

#endif
