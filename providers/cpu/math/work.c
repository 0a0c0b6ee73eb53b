/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: pieces of work and memory between operations. Never: computes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "math/engine.h"
#include "provider_kit.h"

#define SPARE_BYTES_MOST (UINT64_C(128) << 20) /* of memory that is kept for the next operation */
#define PHASES_MOST      64u                   /* of a piece that is kept, which so takes little memory */
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
static void take_memory(struct cpu_math_piece *piece)
{
    uint64_t bytes = cpu_math_round(piece->memory_bytes, BYTES_STEP);
    char *memory = take_spare(piece->engine, bytes, &piece->memory_capacity);

    if (!memory && (memory = aligned_alloc(BYTES_STEP, bytes))) {
        piece->memory_capacity = bytes;
        madvise(memory, bytes, MADV_HUGEPAGE);
    }
    atomic_store(&piece->memory, memory);
}

bool cpu_math_piece_ready(struct cpu_math_piece *piece)
{
    if (piece->memory_bytes == 0 || atomic_load_explicit(&piece->memory, memory_order_acquire))
        return true;
    pthread_mutex_lock(&piece->engine->lock);
    if (!atomic_load(&piece->memory))
        take_memory(piece);
    pthread_mutex_unlock(&piece->engine->lock);
    if (!atomic_load(&piece->memory))
        cpu_math_piece_fail(piece, FACET_NO_MEMORY);
    return atomic_load(&piece->memory) != NULL;
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

/* ---- pieces ---- */

enum facet_status cpu_math_piece_new(struct cpu_math_engine *engine, uint64_t bytes, facet_host_run_func run,
                                     void (*release)(struct cpu_math_piece *piece), struct cpu_math_piece **ret_piece,
                                     struct facet_error *error)
{
    struct cpu_math_piece *piece = calloc(1, bytes);

    if (!piece)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an operation");
    piece->engine = engine;
    piece->release = release;
    piece->work.kernel.run = run;
    piece->work.kernel.argument_bytes = sizeof piece;
    piece->work.kernel.name = piece->work.name;
    *ret_piece = piece;
    return FACET_OK;
}

void cpu_math_piece_free(struct cpu_math_piece *piece)
{
    if (!piece)
        return;
    if (piece->release)
        piece->release(piece);
    keep_or_free_memory(piece->engine, atomic_load(&piece->memory), piece->memory_capacity);
    free((void *)piece->work.phase_ends);
    free(piece);
}

/* Compares bit by bit: an operation that differs only in the sign of a zero is prepared anew. */
static bool is_same(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(struct facet_math)) == 0;
}

struct cpu_math_piece *cpu_math_piece_take(struct cpu_math_engine *engine, const struct facet_math *operation)
{
    struct cpu_math_piece *piece;

    pthread_mutex_lock(&engine->lock);
    TAILQ_FOREACH (piece, &engine->pieces, link)
        if (is_same(&piece->operation, operation))
            break;
    if (piece) {
        TAILQ_REMOVE(&engine->pieces, piece, link);
        engine->piece_count--;
    }
    pthread_mutex_unlock(&engine->lock);
    return piece;
}

bool cpu_math_piece_keep(struct cpu_math_piece *piece)
{
    struct cpu_math_engine *engine = piece->engine;
    struct cpu_math_piece *last = NULL;

    if (!piece->is_repeatable || piece->work.phases > PHASES_MOST || atomic_load(&piece->work.status) != FACET_OK)
        return false;
    keep_or_free_memory(engine, atomic_load(&piece->memory), piece->memory_capacity);
    atomic_store(&piece->memory, NULL);
    pthread_mutex_lock(&engine->lock);
    TAILQ_INSERT_HEAD(&engine->pieces, piece, link);
    if (++engine->piece_count > CPU_MATH_PIECES) {
        last = TAILQ_LAST(&engine->pieces, cpu_math_pieces);
        TAILQ_REMOVE(&engine->pieces, last, link);
        engine->piece_count--;
    }
    pthread_mutex_unlock(&engine->lock);
    cpu_math_piece_free(last);
    return true;
}

/* Frees all kept pieces. Call it when no work is left. */
void cpu_math_pieces_forget(struct cpu_math_engine *engine)
{
    struct cpu_math_piece *piece;

    while ((piece = TAILQ_FIRST(&engine->pieces))) {
        TAILQ_REMOVE(&engine->pieces, piece, link);
        cpu_math_piece_free(piece);
    }
}

enum facet_status cpu_math_piece_finish(struct cpu_math_piece *piece, const char *name, uint64_t scratch_bytes,
                                        uint32_t phases, const uint64_t *ends, struct facet_error *error)
{
    if (ends[phases - 1] > UINT32_MAX || scratch_bytes > UINT32_MAX)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "the operation has %" PRIu64 " parts that need %" PRIu64
                              " bytes of scratch memory: expected less than 2^32 of both",
                              ends[phases - 1], scratch_bytes);
    uint64_t *copy = calloc(phases, sizeof *copy);
    if (!copy)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " phases of an operation", phases);
    memcpy(copy, ends, phases * sizeof *copy);
    piece->work.phase_ends = copy;
    piece->work.phases = phases;
    piece->work.groups = (uint32_t)ends[phases - 1];
    piece->work.kernel.scratch_fixed_bytes = (uint32_t)scratch_bytes;
    snprintf(piece->work.name, sizeof piece->work.name, "%s", name);
    return FACET_OK;
}

/* The first failure counts. */
void cpu_math_piece_fail(struct cpu_math_piece *piece, enum facet_status status)
{
    int none = FACET_OK;

    if (status != FACET_OK)
        atomic_compare_exchange_strong(&piece->work.status, &none, (int)status);
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
