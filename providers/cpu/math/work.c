/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: prepared operations, and those and the memory that are kept for later operations. Never: computes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "math/engine.h"
#include "provider_kit.h"

#define SPARE_BYTES_MOST (UINT64_C(128) << 20) /* of memory that is kept for the next operation */
#define PHASES_MOST      64u                   /* of an operation that is kept, so that it takes little memory */
#define BYTES_STEP       (UINT64_C(2) << 20)   /* memory comes in multiples of a huge page */

/* ---- memory ---- */

/* With the lock held. Kept memory has its pages already: fresh pages cost as much as a small product. */
static void *take_spare(struct cpu_math_engine *engine, uint64_t bytes, uint64_t *ret_capacity)
{
    for (unsigned i = 0; i < CPU_MATH_SPARE_MEMORIES; i++) {
        void *memory = engine->spare_memories[i].memory;

        if (engine->spare_memories[i].bytes < bytes)
            continue;
        *ret_capacity = engine->spare_memories[i].bytes;
        engine->spare_memories[i].memory = NULL;
        engine->spare_memories[i].bytes = 0;
        return memory;
    }
    return NULL;
}

/* With the lock held. */
static void take_memory(struct cpu_math_prepared *prepared)
{
    uint64_t bytes = cpu_math_round(prepared->memory_bytes, BYTES_STEP);
    char *memory = take_spare(prepared->engine, bytes, &prepared->memory_capacity);

    if (!memory && (memory = aligned_alloc(BYTES_STEP, bytes))) {
        prepared->memory_capacity = bytes;
        madvise(memory, bytes, MADV_HUGEPAGE);
    }
    atomic_store(&prepared->memory, memory);
}

bool cpu_math_prepared_ready(struct cpu_math_prepared *prepared)
{
    if (prepared->memory_bytes == 0 || atomic_load_explicit(&prepared->memory, memory_order_acquire))
        return true;
    pthread_mutex_lock(&prepared->engine->lock);
    if (!atomic_load(&prepared->memory))
        take_memory(prepared);
    pthread_mutex_unlock(&prepared->engine->lock);
    if (!atomic_load(&prepared->memory))
        cpu_math_prepared_fail(prepared, FACET_NO_MEMORY);
    return atomic_load(&prepared->memory) != NULL;
}

static void keep_or_free_memory(struct cpu_math_engine *engine, void *memory, uint64_t bytes)
{
    void *unwanted = memory;
    uint64_t spare_bytes = engine->spare_memories[0].bytes;
    unsigned least = 0;

    if (!memory)
        return;
    pthread_mutex_lock(&engine->lock);
    for (unsigned i = 1; i < CPU_MATH_SPARE_MEMORIES; i++) {
        spare_bytes += engine->spare_memories[i].bytes;
        if (engine->spare_memories[i].bytes < engine->spare_memories[least].bytes)
            least = i;
    }
    spare_bytes -= engine->spare_memories[least].bytes;
    if (bytes > engine->spare_memories[least].bytes && spare_bytes <= SPARE_BYTES_MOST &&
        bytes <= SPARE_BYTES_MOST - spare_bytes) {
        unwanted = engine->spare_memories[least].memory;
        engine->spare_memories[least].memory = memory;
        engine->spare_memories[least].bytes = bytes;
    }
    pthread_mutex_unlock(&engine->lock);
    free(unwanted);
}

/* ---- prepared operations ---- */

enum facet_status cpu_math_prepared_new(struct cpu_math_engine *engine, uint64_t bytes, facet_host_run_func run,
                                        void (*release)(struct cpu_math_prepared *prepared),
                                        struct cpu_math_prepared **ret_prepared, struct facet_error *error)
{
    struct cpu_math_prepared *prepared = calloc(1, bytes);

    if (!prepared)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an operation");
    prepared->engine = engine;
    prepared->release = release;
    prepared->work.kernel.run = run;
    prepared->work.kernel.argument_bytes = sizeof prepared;
    prepared->work.kernel.name = prepared->work.name;
    *ret_prepared = prepared;
    return FACET_OK;
}

void cpu_math_prepared_free(struct cpu_math_prepared *prepared)
{
    if (!prepared)
        return;
    if (prepared->release)
        prepared->release(prepared);
    keep_or_free_memory(prepared->engine, atomic_load(&prepared->memory), prepared->memory_capacity);
    free((void *)prepared->work.phase_ends);
    free(prepared);
}

/* Compares bit by bit: an operation that differs only in the sign of a zero is prepared anew. */
static bool is_same_operation(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(struct facet_math)) == 0;
}

struct cpu_math_prepared *cpu_math_prepared_take(struct cpu_math_engine *engine, const struct facet_math *operation)
{
    struct cpu_math_prepared *prepared;

    pthread_mutex_lock(&engine->lock);
    TAILQ_FOREACH (prepared, &engine->prepared_list, link)
        if (is_same_operation(&prepared->operation, operation))
            break;
    if (prepared) {
        TAILQ_REMOVE(&engine->prepared_list, prepared, link);
        engine->prepared_count--;
    }
    pthread_mutex_unlock(&engine->lock);
    return prepared;
}

bool cpu_math_prepared_keep(struct cpu_math_prepared *prepared)
{
    struct cpu_math_engine *engine = prepared->engine;
    struct cpu_math_prepared *last = NULL;

    if (!prepared->is_repeatable || prepared->work.phases > PHASES_MOST ||
        atomic_load(&prepared->work.status) != FACET_OK)
        return false;
    keep_or_free_memory(engine, atomic_load(&prepared->memory), prepared->memory_capacity);
    atomic_store(&prepared->memory, NULL);
    pthread_mutex_lock(&engine->lock);
    TAILQ_INSERT_HEAD(&engine->prepared_list, prepared, link);
    if (++engine->prepared_count > CPU_MATH_PREPARED_MOST) {
        last = TAILQ_LAST(&engine->prepared_list, cpu_math_prepared_list);
        TAILQ_REMOVE(&engine->prepared_list, last, link);
        engine->prepared_count--;
    }
    pthread_mutex_unlock(&engine->lock);
    cpu_math_prepared_free(last);
    return true;
}

/* Frees all prepared operations that are kept. Called when no work is left. */
void cpu_math_prepared_forget(struct cpu_math_engine *engine)
{
    struct cpu_math_prepared *prepared;

    while ((prepared = TAILQ_FIRST(&engine->prepared_list))) {
        TAILQ_REMOVE(&engine->prepared_list, prepared, link);
        cpu_math_prepared_free(prepared);
    }
}

enum facet_status cpu_math_prepared_finish(struct cpu_math_prepared *prepared, const char *name, uint64_t scratch_bytes,
                                           uint32_t phases, const uint64_t *ends, struct facet_error *error)
{
    if (ends[phases - 1] > UINT32_MAX || scratch_bytes > UINT32_MAX)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "the operation has %" PRIu64 " work-groups that need %" PRIu64
                              " bytes of scratch memory each: expected less than 2^32 of both",
                              ends[phases - 1], scratch_bytes);
    uint64_t *copy = calloc(phases, sizeof *copy);
    if (!copy)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " phases of an operation", phases);
    memcpy(copy, ends, phases * sizeof *copy);
    prepared->work.phase_ends = copy;
    prepared->work.phases = phases;
    prepared->work.groups = (uint32_t)ends[phases - 1];
    prepared->work.kernel.scratch_fixed_bytes = (uint32_t)scratch_bytes;
    snprintf(prepared->work.name, sizeof prepared->work.name, "%s", name);
    return FACET_OK;
}

/* Only the first failure is recorded. */
void cpu_math_prepared_fail(struct cpu_math_prepared *prepared, enum facet_status status)
{
    int none = FACET_OK;

    if (status != FACET_OK)
        atomic_compare_exchange_strong(&prepared->work.status, &none, (int)status);
}

uint32_t cpu_math_phase_of(const struct cpu_math_work *work, uint64_t group, uint64_t *ret_first)
{
    uint32_t low = 0, high = work->phases - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (group < work->phase_ends[middle])
            high = middle;
        else
            low = middle + 1;
    }
    *ret_first = low > 0 ? work->phase_ends[low - 1] : 0;
    return low;
}
