/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: attention, a block of queries at a time over blocks of keys. The sums and largest scores of the softmax are
 * updated with each block, so that no more than one block of products is in memory.
 * Never: keeps more of K and V packed than PACK_BYTES. Partial sums are kept in memory while the next keys are packed.
 */
#include <stdlib.h>
#include <string.h>

#include "math/engine.h"
#include "provider_kit.h"

#define TILE       (UINT64_C(32) << 20) /* multiplications of a work-group, in both products */
#define PACK_BYTES (UINT64_C(32) << 20)
#define QUERIES    UINT64_C(128)
#define KEYS       UINT64_C(256)
#define STEPS_MOST (UINT64_C(1) << 20)

/* The heads, counted over the whole batch, and the keys that are packed at a time. */
struct step {
    uint64_t h0, heads, k0, keys;
    bool packs;
};

struct attention {
    struct cpu_math_prepared prepared;
    struct facet_attention attention;
    uint32_t type;
    bool causal;
    enum cpu_math_product_type product_type;
    uint64_t type_bytes, product_type_bytes;
    uint64_t heads;                                         /* counted over the whole batch */
    uint64_t block_q, block_k, step_h, step_k;              /* step_k: a multiple of block_k, or all */
    struct cpu_math_primitive *scores[2][2], *values[2][2]; /* [queries of an edge block][keys of an edge block] */
    bool packs;
    struct step *steps;
    uint32_t step_count;
    /* In the prepared operation's memory: packed K and V by block, then the carried values: sums, largest, outputs. */
    uint64_t k_bytes, v_bytes, carried_offset;
    uint64_t scratch_offsets[6]; /* queries, scores, weights, products, carried, of primitives */
};

enum { SCRATCH_QUERIES, SCRATCH_SCORES, SCRATCH_WEIGHTS, SCRATCH_PRODUCTS, SCRATCH_CARRIED, SCRATCH_PRIMITIVES };

/* The values of a block of queries over the keys so far. */
struct carried {
    float *sums, *largest, *output;
};

static uint64_t blocks_of(const struct attention *plan, uint64_t keys)
{
    return cpu_math_parts(keys, plan->block_k);
}

static char *packed_block(const struct attention *plan, uint64_t head, uint64_t block)
{
    return plan->prepared.memory + (head * blocks_of(plan, plan->step_k) + block) * (plan->k_bytes + plan->v_bytes);
}

/* ---- packing: only operands that are multiplied as another type ---- */

static uint64_t row_of(const struct attention *plan, const struct step *step, uint64_t head, uint64_t block)
{
    return ((step->h0 + head) * plan->attention.keys + step->k0 + block * plan->block_k) * plan->attention.dimension;
}

static enum facet_status pack_block(const struct attention *plan, const struct step *step, uint64_t index)
{
    uint64_t blocks = blocks_of(plan, step->keys);

    if (blocks == 0) /* without keys there is nothing to pack */
        return FACET_OK;
    uint64_t block = index % blocks, head = index / blocks;
    uint64_t keys = cpu_math_min(plan->block_k, step->keys - block * plan->block_k);
    uint64_t at = row_of(plan, step, head, block) * plan->type_bytes, count = keys * plan->attention.dimension;
    char *to = packed_block(plan, head, block);

    cpu_math_convert(plan->prepared.engine, to, (const void *)(plan->attention.k + at), count, plan->type,
                     plan->product_type);
    cpu_math_convert(plan->prepared.engine, to + plan->k_bytes, (const void *)(plan->attention.v + at), count,
                     plan->type, plan->product_type);
    return FACET_OK;
}

/* ---- a block of queries ---- */

struct block {
    const struct attention *plan;
    const struct step *step;
    uint64_t head, q0, queries; /* head: of the step */
    const void *q;
    struct carried carried;
    char *scratch;
};

static void *scratch_of(const struct block *block, int what)
{
    return block->scratch + block->plan->scratch_offsets[what];
}

/* The block's queries in the type in which they are multiplied. */
static const void *load_queries(const struct block *block)
{
    const struct attention *plan = block->plan;
    uint64_t count = block->queries * plan->attention.dimension;
    const void *from =
        (const void *)(plan->attention.q + ((block->step->h0 + block->head) * plan->attention.queries + block->q0) *
                                               plan->attention.dimension * plan->type_bytes);
    void *to = scratch_of(block, SCRATCH_QUERIES);

    if (!plan->packs)
        return from;
    cpu_math_convert(plan->prepared.engine, to, from, count, plan->type, plan->product_type);
    return to;
}

static void mask_scores(const struct block *block, float *scores, uint64_t key, uint64_t keys)
{
    for (uint64_t i = 0; i < block->queries; i++) {
        uint64_t seen = block->q0 + i + 1 > key ? block->q0 + i + 1 - key : 0;

        for (uint64_t j = seen; j < keys; j++)
            scores[i * keys + j] = -__builtin_inff();
    }
}

/* Turns scores into weights, and rescales the sums so far to the new largest score. */
static void weigh_scores(const struct block *block, float *scores, uint64_t keys)
{
    const struct attention *plan = block->plan;
    const struct cpu_math_loops *loops = plan->prepared.engine->loops;
    float scale = plan->attention.scale;
    uint64_t dimension = plan->attention.dimension;

    for (uint64_t i = 0; i < block->queries; i++) {
        float *row = scores + i * keys, *largest = &block->carried.largest[i];

        if (scale < 0.0f)
            loops->scale(row, keys, scale);
        float factor = scale < 0.0f ? 1.0f : scale, most = loops->largest(row, keys) * factor;
        if (!(most > *largest))
            most = *largest;
        if (most > *largest && *largest != -__builtin_inff()) {
            float less = loops->exponential(*largest - most);

            block->carried.sums[i] *= less;
            loops->scale(block->carried.output + i * dimension, dimension, less);
        }
        *largest = most;
        block->carried.sums[i] += loops->exponentials(row, keys, factor, most);
    }
}

/* Subtracts from the weights their values in bf16, which leaves what the rounding lost. */
static void subtract_rounded(const struct cpu_math_loops *loops, float *weights, const uint16_t *rounded,
                             uint64_t count)
{
    float values[256];

    for (uint64_t i = 0, part; i < count; i += part) {
        part = cpu_math_min(count - i, 256);
        loops->load(values, rounded + i, part, FACET_MATH_BF16);
        for (uint64_t j = 0; j < part; j++)
            weights[i + j] -= values[j];
    }
}

/*
 * Adds the product of the weights and V. Where bf16 is multiplied, weights have two parts: the second part has the
 * digits that rounding the first part lost, so that only outputs are rounded. Operations of FACET_MATH_MIXED use the
 * first part alone.
 */
static enum facet_status add_values(const struct block *block, float *weights, const void *v, uint64_t keys)
{
    const struct attention *plan = block->plan;
    struct cpu_math_engine *engine = plan->prepared.engine;
    struct cpu_math_primitive *matmul = plan->values[block->queries != plan->block_q][keys != plan->block_k];
    float *products = scratch_of(block, SCRATCH_PRODUCTS);
    uint16_t *rounded = scratch_of(block, SCRATCH_WEIGHTS);
    uint64_t count = block->queries * keys;
    bool rounds = plan->product_type == CPU_MATH_PRODUCT_TYPE_BF16;
    int parts = rounds && plan->type == FACET_MATH_BF16 ? 2 : 1;
    enum facet_status status = FACET_OK;

    for (int part = 0; part < parts && status == FACET_OK; part++) {
        if (part > 0)
            subtract_rounded(engine->loops, weights, rounded, count);
        if (rounds)
            engine->loops->save(rounded, weights, count, FACET_MATH_BF16);
        status = cpu_math_execute(engine, matmul, rounds ? (const void *)rounded : weights, v, products,
                                  scratch_of(block, SCRATCH_PRIMITIVES));
        if (status == FACET_OK)
            engine->loops->add(block->carried.output, products, block->queries * plan->attention.dimension);
    }
    return status;
}

static enum facet_status add_keys(const struct block *block, uint64_t index, uint64_t keys)
{
    const struct attention *plan = block->plan;
    int edge_q = block->queries != plan->block_q, edge_k = keys != plan->block_k;
    uint64_t at = row_of(plan, block->step, block->head, index) * plan->type_bytes;
    const char *k = plan->packs ? packed_block(plan, block->head, index) : (const char *)(plan->attention.k + at);
    const char *v = plan->packs ? k + plan->k_bytes : (const char *)(plan->attention.v + at);
    float *scores = scratch_of(block, SCRATCH_SCORES);
    uint64_t key = block->step->k0 + index * plan->block_k;
    enum facet_status status = cpu_math_execute(plan->prepared.engine, plan->scores[edge_q][edge_k], block->q, k,
                                                scores, scratch_of(block, SCRATCH_PRIMITIVES));

    if (status != FACET_OK)
        return status;
    if (plan->causal && key + keys > block->q0)
        mask_scores(block, scores, key, keys);
    weigh_scores(block, scores, keys);
    return add_values(block, scores, v, keys);
}

static void begin_block(const struct block *block)
{
    for (uint64_t i = 0; i < block->queries; i++)
        block->carried.largest[i] = -__builtin_inff();
    memset(block->carried.sums, 0, block->queries * sizeof(float));
    memset(block->carried.output, 0, block->queries * block->plan->attention.dimension * sizeof(float));
}

static void end_block(const struct block *block)
{
    const struct attention *plan = block->plan;
    const struct cpu_math_loops *loops = plan->prepared.engine->loops;
    uint64_t dimension = plan->attention.dimension;

    for (uint64_t i = 0; i < block->queries; i++) {
        uint64_t row = (block->step->h0 + block->head) * plan->attention.queries + block->q0 + i;
        float *output = block->carried.output + i * dimension;

        loops->scale(output, dimension, 1.0f / block->carried.sums[i]);
        loops->save((void *)(plan->attention.output + row * dimension * plan->type_bytes), output, dimension,
                    plan->type);
    }
}

/* The block's carried values: in scratch memory if one step has all keys, else in the prepared operation's memory. */
static struct carried carried_of(const struct attention *plan, const struct block *block)
{
    float *place = scratch_of(block, SCRATCH_CARRIED);
    uint64_t blocks = cpu_math_parts(plan->attention.queries, plan->block_q);

    if (plan->prepared.memory_bytes > plan->carried_offset)
        place = (float *)(plan->prepared.memory + plan->carried_offset) +
                (block->head * blocks + block->q0 / plan->block_q) * plan->block_q * (plan->attention.dimension + 2);
    return (struct carried){place, place + plan->block_q, place + 2 * plan->block_q};
}

static enum facet_status attend_block(const struct attention *plan, const struct step *step, uint64_t index,
                                      char *scratch)
{
    uint64_t blocks = cpu_math_parts(plan->attention.queries, plan->block_q);

    if (blocks == 0) /* without queries there is no output */
        return FACET_OK;
    struct block block = {.plan = plan, .step = step, .head = index / blocks, .scratch = scratch};
    enum facet_status status = FACET_OK;

    block.q0 = index % blocks * plan->block_q;
    block.queries = cpu_math_min(plan->block_q, plan->attention.queries - block.q0);
    block.carried = carried_of(plan, &block);
    block.q = load_queries(&block);
    if (step->k0 == 0)
        begin_block(&block);
    for (uint64_t i = 0; i < blocks_of(plan, step->keys) && status == FACET_OK; i++) {
        uint64_t key = i * plan->block_k;

        if (plan->causal && step->k0 + key >= block.q0 + block.queries)
            break;
        status = add_keys(&block, i, cpu_math_min(plan->block_k, step->keys - key));
    }
    if (status == FACET_OK && step->k0 + step->keys == plan->attention.keys)
        end_block(&block);
    return status;
}

static void run_group(const void *arguments, const struct facet_host_group *group)
{
    struct attention *plan = *(struct attention *const *)arguments;
    uint64_t first = 0;
    const struct step *step = &plan->steps[cpu_math_phase_of(&plan->prepared.work, group->group_id[0], &first)];
    uint64_t index = group->group_id[0] - first;

    if (!cpu_math_prepared_ready(&plan->prepared))
        return;
    cpu_math_prepared_fail(&plan->prepared, step->packs ? pack_block(plan, step, index)
                                                        : attend_block(plan, step, index, group->scratch));
}

/* ---- preparing ---- */

static void choose_blocks(struct attention *plan)
{
    const struct facet_attention *attention = &plan->attention;

    plan->block_k = cpu_math_min(attention->keys, KEYS);
    plan->block_q = cpu_math_min(
        attention->queries,
        cpu_math_min(QUERIES, cpu_math_max(TILE / 2 / plan->block_k / attention->dimension / 16 * 16, 16)));
    uint64_t keys = TILE / 2 / plan->block_q / attention->dimension / plan->block_k;
    uint64_t fit = PACK_BYTES / 2 / plan->product_type_bytes / attention->dimension / plan->block_k;
    plan->step_k = cpu_math_min(attention->keys, cpu_math_max(cpu_math_min(keys, fit), 1) * plan->block_k);
    plan->step_h = !plan->packs && plan->step_k == attention->keys
                       ? plan->heads
                       : cpu_math_min(plan->heads, cpu_math_max(PACK_BYTES / 2 / plan->product_type_bytes /
                                                                    attention->dimension / plan->step_k,
                                                                1));
}

static enum facet_status get_pair(struct attention *plan, int edge_q, int edge_k, struct facet_error *error)
{
    const struct facet_attention *attention = &plan->attention;
    uint64_t queries = edge_q ? attention->queries % plan->block_q : plan->block_q;
    uint64_t keys = edge_k ? attention->keys % plan->block_k : plan->block_k;

    if (queries == 0 || keys == 0)
        return FACET_OK;
    const struct cpu_math_matmul scores = {.m = queries,
                                           .n = keys,
                                           .k = attention->dimension,
                                           .product_type = plan->product_type,
                                           .a_row = attention->dimension,
                                           .a_column = 1,
                                           .b_row = 1,
                                           .b_column = attention->dimension};
    const struct cpu_math_matmul values = {.m = queries,
                                           .n = attention->dimension,
                                           .k = keys,
                                           .product_type = plan->product_type,
                                           .a_row = keys,
                                           .a_column = 1,
                                           .b_row = attention->dimension,
                                           .b_column = 1};
    enum facet_status status = cpu_math_matmul(plan->prepared.engine, &scores, &plan->scores[edge_q][edge_k], error);
    if (status == FACET_OK)
        status = cpu_math_matmul(plan->prepared.engine, &values, &plan->values[edge_q][edge_k], error);
    return status;
}

static enum facet_status get_primitives(struct attention *plan, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (int i = 0; i < 4 && status == FACET_OK; i++)
        status = get_pair(plan, i & 1, i >> 1, error);
    return status;
}

static uint64_t scratch_most(const struct attention *plan)
{
    struct cpu_math_primitive *const all[] = {plan->scores[0][0], plan->scores[0][1], plan->scores[1][0],
                                              plan->scores[1][1], plan->values[0][0], plan->values[0][1],
                                              plan->values[1][0], plan->values[1][1]};
    uint64_t most = 0;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            most = cpu_math_max(most, all[i]->scratch_bytes);
    return most;
}

static void place_scratch(struct attention *plan)
{
    uint64_t q = plan->block_q, k = plan->block_k, d = plan->attention.dimension;
    const uint64_t sizes[] = {cpu_math_max(q * d, k * d) * 4, q * k * 4, q * k * 2, q * d * 4, q * (d + 2) * 4};
    uint64_t blocks = cpu_math_parts(plan->attention.queries, q);

    for (int i = 0; i < 5; i++)
        plan->scratch_offsets[i + 1] = plan->scratch_offsets[i] + cpu_math_round(sizes[i], CPU_MATH_ALIGN);
    plan->k_bytes = plan->v_bytes = plan->packs ? cpu_math_round(k * d * plan->product_type_bytes, CPU_MATH_ALIGN) : 0;
    plan->carried_offset = plan->step_h * blocks_of(plan, plan->step_k) * (plan->k_bytes + plan->v_bytes);
    plan->prepared.memory_bytes = plan->carried_offset;
    if (plan->step_k < plan->attention.keys)
        plan->prepared.memory_bytes += plan->step_h * blocks * q * (d + 2) * 4;
}

static void fill_steps(struct attention *plan, uint64_t *ends)
{
    uint64_t blocks = cpu_math_parts(plan->attention.queries, plan->block_q), end = 0;

    for (uint64_t h = 0; h < plan->heads; h += plan->step_h)
        for (uint64_t k = 0; k < plan->attention.keys; k += plan->step_k) {
            struct step step = {h, cpu_math_min(plan->step_h, plan->heads - h), k,
                                cpu_math_min(plan->step_k, plan->attention.keys - k), true};

            if (plan->packs) {
                plan->steps[plan->step_count] = step;
                ends[plan->step_count++] = end += step.heads * blocks_of(plan, step.keys);
            }
            step.packs = false;
            plan->steps[plan->step_count] = step;
            ends[plan->step_count++] = end += step.heads * blocks;
        }
}

static enum facet_status make_steps(struct attention *plan, struct facet_error *error)
{
    uint64_t count = 2 * cpu_math_parts(plan->heads, plan->step_h);
    char name[64];

    if (__builtin_mul_overflow(count, cpu_math_parts(plan->attention.keys, plan->step_k), &count) || count > STEPS_MOST)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "attention is too large to be cut into 2^20 steps");
    uint64_t *ends = calloc(count, sizeof *ends);
    plan->steps = calloc(count, sizeof *plan->steps);
    enum facet_status status = FACET_NO_MEMORY;
    if (ends && plan->steps) {
        fill_steps(plan, ends);
        snprintf(name, sizeof name, "attention %.40s %s", plan->scores[0][0]->name,
                 cpu_math_product_type_name(plan->product_type));
        status = cpu_math_prepared_finish(&plan->prepared, name,
                                          plan->scratch_offsets[SCRATCH_PRIMITIVES] + scratch_most(plan),
                                          plan->step_count, ends, error);
    } else {
        facet_kit_fail(error, status, "no memory for %" PRIu64 " steps of attention", count);
    }
    free(ends);
    return status;
}

static void release_plan(struct cpu_math_prepared *prepared)
{
    struct attention *plan = (struct attention *)prepared;

    cpu_math_primitives_drop(prepared->engine, &plan->scores[0][0], 4);
    cpu_math_primitives_drop(prepared->engine, &plan->values[0][0], 4);
    free(plan->steps);
}

enum facet_status cpu_math_prepare_attention(struct cpu_math_engine *engine, const struct facet_math *operation,
                                             struct cpu_math_prepared **ret_prepared, struct facet_error *error)
{
    struct cpu_math_prepared *prepared = NULL;
    enum facet_status status =
        cpu_math_prepared_new(engine, sizeof(struct attention), run_group, release_plan, &prepared, error);

    if (status != FACET_OK)
        return status;
    struct attention *plan = (struct attention *)prepared;
    prepared->is_repeatable = true;
    plan->attention = operation->of.attention;
    plan->type = operation->type;
    plan->causal = operation->flags & FACET_MATH_CAUSAL;
    plan->product_type = cpu_math_product_type_of(engine, plan->type, operation->flags);
    plan->type_bytes = plan->type == FACET_MATH_F32 ? 4 : 2;
    plan->product_type_bytes = cpu_math_product_type_bytes(plan->product_type);
    plan->packs = plan->type_bytes != plan->product_type_bytes;
    plan->heads = plan->attention.batch * plan->attention.heads;
    choose_blocks(plan);
    status = get_primitives(plan, error);
    if (status == FACET_OK) {
        place_scratch(plan);
        status = make_steps(plan, error);
    }
    if (status != FACET_OK)
        cpu_math_prepared_free(prepared);
    else
        *ret_prepared = prepared;
    return status;
}
