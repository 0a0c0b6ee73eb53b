/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: convolution by strips, a strip of output rows and a block of output channels at a time, which suits oneDNN
 * best. The input is packed first: channels last, and with the padding's zeros, so that all strips are alike. The
 * filter is brought into oneDNN's order.
 * Never: takes convolutions that would be slow or large by strips. It answers FACET_UNSUPPORTED, and convolution.c
 * computes them as a product of windows.
 */
#include "math/strips.h"

#include <stdlib.h>
#include <string.h>

#include "provider_kit.h"

/* A strip of output rows of a plane, which is a group of an image. */
struct tile {
    const struct cpu_math_strips_step *step;
    uint64_t plane, block, first; /* first row, of the output */
    uint64_t rows, channels;
    char *scratch;
};

static uint64_t channels_of(const struct cpu_math_strips *plan, uint64_t block)
{
    return cpu_math_min(plan->block, plan->out_channels - block * plan->block);
}

static char *filter_of(const struct cpu_math_strips *plan, uint64_t group, uint64_t block)
{
    return plan->prepared.memory + (group * plan->blocks + block) * plan->filter_bytes;
}

static char *packed_row(const struct cpu_math_strips *plan, const struct cpu_math_strips_step *step, uint64_t plane,
                        uint64_t row)
{
    return plan->prepared.memory + plan->input_offset + (plane - step->plane) * plan->plane_bytes +
           row * plan->row_bytes;
}

/* ---- packing ---- */

static enum facet_status pack_filter(const struct cpu_math_strips *plan, uint64_t index, char *scratch)
{
    uint64_t group = index / plan->blocks, block = index % plan->blocks, channels = channels_of(plan, block);
    const void *from = (const void *)(plan->convolution.filter + (group * plan->out_channels + block * plan->block) *
                                                                     plan->depth * plan->type_bytes);

    if (plan->converts_operands) {
        cpu_math_convert(plan->prepared.engine, scratch, from, channels * plan->depth, plan->type, plan->product_type);
        from = scratch;
    }
    return cpu_math_execute(plan->prepared.engine, plan->filter_order[channels != plan->block], from, NULL,
                            filter_of(plan, group, block), scratch + plan->primitive_offset);
}

/* Packs `count` positions of all channels, from row y of the input on. */
static void pack_positions(const struct cpu_math_strips *plan, uint64_t plane, uint64_t y, uint64_t count, char *to)
{
    const struct facet_convolution *convolution = &plan->convolution;
    const struct cpu_math_gather gather = {
        .from = convolution->input +
                (plane * plan->in_channels * convolution->height + y) * convolution->width * plan->type_bytes,
        .row = 1,
        .column = convolution->height * convolution->width,
        .rows = count,
        .columns = plan->in_channels,
        .type = plan->type,
        .product_type = plan->product_type,
    };

    cpu_math_gather(plan->prepared.engine, &gather, to);
}

/* Packs rows inside of the image, with zeros on both sides. Without padding several rows are packed at a time. */
static void pack_inside(const struct cpu_math_strips *plan, uint64_t plane, uint64_t y, uint64_t rows, char *to)
{
    const struct facet_convolution *convolution = &plan->convolution;
    uint64_t position = plan->in_channels * plan->product_type_bytes, left = convolution->padding[1] * position;
    uint64_t inside = cpu_math_min(convolution->width, plan->packed_width - convolution->padding[1]),
             end = left + inside * position;

    if (plan->packed_width == convolution->width && left == 0) {
        pack_positions(plan, plane, y, rows * convolution->width, to);
        return;
    }
    for (uint64_t i = 0; i < rows; i++, to += plan->row_bytes) {
        memset(to, 0, left);
        pack_positions(plan, plane, y + i, inside, to + left);
        memset(to + end, 0, plan->row_bytes - end);
    }
}

/* Packs `rows` rows from row y of the padded image on. Rows beyond the image are zeros. */
static void pack_rows(const struct cpu_math_strips *plan, uint64_t plane, uint64_t y, uint64_t rows, char *to)
{
    uint64_t above = plan->convolution.padding[0], bottom = above + plan->convolution.height;
    uint64_t before = cpu_math_min(above - cpu_math_min(above, y), rows);
    uint64_t inside = cpu_math_min(rows - before, bottom - cpu_math_min(bottom, y + before));

    memset(to, 0, before * plan->row_bytes);
    to += before * plan->row_bytes;
    if (inside > 0)
        pack_inside(plan, plane, y + before - above, inside, to);
    memset(to + inside * plan->row_bytes, 0, (rows - before - inside) * plan->row_bytes);
}

static void pack_part(const struct cpu_math_strips *plan, const struct cpu_math_strips_step *step, uint64_t index)
{
    uint64_t count = cpu_math_strips_reach(plan, step->rows),
             parts = cpu_math_max(1, cpu_math_parts(count, plan->pack_rows));
    uint64_t plane = step->plane + index / parts, row = index % parts * plan->pack_rows;

    pack_rows(plan, plane, step->row * plan->convolution.stride[0] + row, cpu_math_min(plan->pack_rows, count - row),
              packed_row(plan, step, plane, row));
}

static enum facet_status run_pack(const struct cpu_math_strips *plan, const struct cpu_math_strips_step *step,
                                  uint64_t index, char *scratch)
{
    if (index < step->filters)
        return pack_filter(plan, index, scratch);
    pack_part(plan, step, index - step->filters);
    return FACET_OK;
}

/* ---- multiplying ---- */

/* Transposes the products from positions x channels to channels x positions, and stores them. */
static void store_tile(const struct cpu_math_strips *plan, const struct tile *tile, const char *products)
{
    const struct facet_convolution *convolution = &plan->convolution;
    const struct cpu_math_loops *loops = plan->prepared.engine->loops;
    uint64_t positions = tile->rows * plan->columns, all = plan->rows * plan->columns;
    uint64_t first = tile->block * plan->block, out = tile->plane * plan->out_channels + first;
    uint64_t to = convolution->output + (out * all + tile->first * plan->columns) * plan->out_bytes;
    struct cpu_math_store store = {
        .type = plan->type, .integers = plan->product_type == CPU_MATH_PRODUCT_TYPE_INT8, .alpha = 1.0f};
    char *transposed = tile->scratch + plan->transposed_offset;

    if (!convolution->bias && plan->out_bytes == 4) {
        loops->transpose((void *)to, all, products, tile->channels, tile->channels, positions, 4);
        return;
    }
    loops->transpose(transposed, positions, products, tile->channels, tile->channels, positions, 4);
    for (uint64_t i = 0; i < tile->channels; i++) {
        uint64_t channel = tile->plane % convolution->groups * plan->out_channels + first + i;

        store.bias = convolution->bias ? (const void *)(convolution->bias + channel * 4) : NULL;
        loops->store((void *)(to + i * all * plan->out_bytes), transposed + i * positions * 4, positions, &store);
    }
}

/* The packed rows that the tile reads. A tile that packs its own input does so here. */
static const char *input_of(const struct cpu_math_strips *plan, const struct tile *tile)
{
    char *to = tile->scratch + plan->strip_offset;

    if (!plan->packs_own_input)
        return packed_row(plan, tile->step, tile->plane, (tile->first - tile->step->row) * plan->convolution.stride[0]);
    pack_rows(plan, tile->plane, tile->first * plan->convolution.stride[0], cpu_math_strips_reach(plan, tile->rows),
              to);
    return to;
}

static enum facet_status run_tile(const struct cpu_math_strips *plan, const struct cpu_math_strips_step *step,
                                  uint64_t index, char *scratch)
{
    uint64_t strips = cpu_math_max(1, cpu_math_parts(step->rows, plan->strip)), strip = index % strips;
    struct tile tile = {.step = step,
                        .plane = step->plane + index / strips / plan->blocks,
                        .block = index / strips % plan->blocks,
                        .first = step->row + strip * plan->strip,
                        .scratch = scratch};

    tile.rows = cpu_math_min(plan->strip, step->rows - strip * plan->strip);
    tile.channels = channels_of(plan, tile.block);
    struct cpu_math_primitive *primitive = plan->convolve[tile.rows != plan->strip][tile.channels != plan->block];
    enum facet_status status = cpu_math_execute(plan->prepared.engine, primitive, input_of(plan, &tile),
                                                filter_of(plan, tile.plane % plan->convolution.groups, tile.block),
                                                scratch + plan->products_offset, scratch + plan->primitive_offset);
    if (status == FACET_OK)
        store_tile(plan, &tile, scratch + plan->products_offset);
    return status;
}

static void run_group(const void *arguments, const struct facet_host_group *group)
{
    struct cpu_math_strips *plan = *(struct cpu_math_strips *const *)arguments;
    uint64_t first = 0;
    uint32_t phase = cpu_math_phase_of(&plan->prepared.work, group->group_id[0], &first);
    const struct cpu_math_strips_step *step = &plan->steps[phase / 2];
    uint64_t index = group->group_id[0] - first;

    if (!cpu_math_prepared_ready(&plan->prepared))
        return;
    cpu_math_prepared_fail(&plan->prepared, phase % 2 == 0 ? run_pack(plan, step, index, group->scratch)
                                                           : run_tile(plan, step, index, group->scratch));
}

/* ---- steps: one phase packs, the next multiplies ---- */

static void add_step(struct cpu_math_strips *plan, uint64_t *ends, const struct cpu_math_strips_step *step)
{
    uint32_t phase = 2 * plan->step_count;
    uint64_t parts =
        plan->packs_own_input ? 0 : cpu_math_parts(cpu_math_strips_reach(plan, step->rows), plan->pack_rows);

    ends[phase] = (phase > 0 ? ends[phase - 1] : 0) + step->filters + step->planes * parts;
    ends[phase + 1] = ends[phase] + step->planes * plan->blocks * cpu_math_parts(step->rows, plan->strip);
    plan->steps[plan->step_count++] = *step;
}

static enum facet_status make_steps(struct cpu_math_strips *plan, struct facet_error *error)
{
    uint64_t count = cpu_math_parts(plan->planes, plan->step_planes) * cpu_math_parts(plan->rows, plan->step_rows);
    enum facet_status status = FACET_NO_MEMORY;

    count = cpu_math_max(1, count);
    char name[64];

    uint64_t *ends = calloc(2 * count, sizeof *ends);
    plan->steps = calloc(count, sizeof *plan->steps);
    if (ends && plan->steps) {
        for (uint64_t i = 0; i < plan->planes; i += plan->step_planes)
            for (uint64_t row = 0; row < plan->rows; row += plan->step_rows)
                add_step(plan, ends,
                         &(struct cpu_math_strips_step){i, cpu_math_min(plan->step_planes, plan->planes - i), row,
                                                        cpu_math_min(plan->step_rows, plan->rows - row),
                                                        i + row == 0 ? plan->convolution.groups * plan->blocks : 0});
        snprintf(name, sizeof name, "convolution %.36s %s", plan->convolve[0][0]->name,
                 cpu_math_product_type_name(plan->product_type));
        status = cpu_math_prepared_finish(&plan->prepared, name, plan->primitive_offset + plan->primitive_bytes,
                                          2 * plan->step_count, ends, error);
    } else {
        facet_kit_fail(error, status, "no memory for %" PRIu64 " steps of a convolution", count);
    }
    free(ends);
    return status;
}

static void release_plan(struct cpu_math_prepared *prepared)
{
    struct cpu_math_strips *plan = (struct cpu_math_strips *)prepared;

    cpu_math_primitives_drop(prepared->engine, &plan->convolve[0][0], 4);
    cpu_math_primitives_drop(prepared->engine, plan->filter_order, 2);
    free(plan->steps);
}

enum facet_status cpu_math_prepare_strips(struct cpu_math_engine *engine, const struct facet_math *operation,
                                          struct cpu_math_prepared **ret_prepared, struct facet_error *error)
{
    struct cpu_math_prepared *prepared = NULL;
    enum facet_status status =
        cpu_math_prepared_new(engine, sizeof(struct cpu_math_strips), run_group, release_plan, &prepared, error);

    if (status != FACET_OK)
        return status;
    struct cpu_math_strips *plan = (struct cpu_math_strips *)prepared;
    prepared->is_repeatable = true;
    plan->convolution = operation->of.convolution;
    plan->type = operation->type;
    plan->product_type = cpu_math_product_type_of(engine, operation->type, operation->flags);
    status = cpu_math_strips_plan(plan, error);
    if (status == FACET_OK)
        status = make_steps(plan, error);
    if (status != FACET_OK)
        cpu_math_prepared_free(prepared);
    else
        *ret_prepared = prepared;
    return status;
}
