/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: activation: functions of single numbers, and softmax over channels.
 * Never: calls oneDNN, whose eltwise has no f16, and whose softmax over strided channels uses no vectors.
 */
#include <string.h>

#include "math/engine.h"
#include "provider_kit.h"

#define ELEMENTS      UINT64_C(65536) /* elements of a work-group, about */
#define CACHED_VALUES UINT64_C(16384) /* the most elements that are f32 in scratch memory at a time */

struct activation {
    struct cpu_math_prepared prepared;
    struct facet_activation activation;
    uint32_t type, type_bytes;
    uint64_t count;     /* elements */
    uint64_t positions; /* of one image, and elements from one channel to the next */
    uint64_t width;     /* positions of a work-group */
    uint64_t depth;     /* channels that are in scratch memory at a time */
    uint64_t images;    /* of a work-group, when positions is 1 */
};

static void run_each(const void *arguments, const struct facet_host_group *group)
{
    const struct activation *plan = *(struct activation *const *)arguments;
    uint64_t first = group->group_id[0] * ELEMENTS, at = first * plan->type_bytes;

    plan->prepared.engine->loops->activate(
        (void *)(plan->activation.output + at), (const void *)(plan->activation.input + at),
        cpu_math_min(ELEMENTS, plan->count - first), plan->type, plan->activation.kind, plan->activation.alpha);
}

/* ---- softmax: all channels of some positions ---- */

/*
 * A line has one channel of some positions. Channels that do not fit into scratch memory are read in three passes: for
 * the largest number, the sum, and the quotients.
 */
struct lines {
    const struct activation *plan;
    uint64_t at, width; /* first element, positions */
    float *values, *largest, *sums;
};

static void load_lines(const struct lines *lines, uint64_t channel, uint64_t channels)
{
    const struct activation *plan = lines->plan;

    for (uint64_t i = 0; i < channels; i++)
        plan->prepared.engine->loops->load(
            lines->values + i * lines->width,
            (const void *)(plan->activation.input + (lines->at + (channel + i) * plan->positions) * plan->type_bytes),
            lines->width, plan->type);
}

static void save_lines(const struct lines *lines, uint64_t channel, uint64_t channels)
{
    const struct cpu_math_loops *loops = lines->plan->prepared.engine->loops;
    const struct activation *plan = lines->plan;

    for (uint64_t i = 0; i < channels; i++) {
        float *line = lines->values + i * lines->width;

        loops->lanes_divide(line, lines->sums, lines->width);
        loops->save(
            (void *)(plan->activation.output + (lines->at + (channel + i) * plan->positions) * plan->type_bytes), line,
            lines->width, plan->type);
    }
}

static void exp_of_lines(const struct lines *lines, uint64_t channels, float *sums)
{
    for (uint64_t i = 0; i < channels; i++)
        lines->plan->prepared.engine->loops->lanes_exponentials(lines->values + i * lines->width, lines->largest, sums,
                                                                lines->width);
}

static void find_largest(const struct lines *lines)
{
    const struct activation *plan = lines->plan;

    for (uint64_t i = 0; i < lines->width; i++)
        lines->largest[i] = -__builtin_inff();
    for (uint64_t channel = 0, count; channel < plan->activation.channels; channel += count) {
        count = cpu_math_min(plan->depth, plan->activation.channels - channel);
        load_lines(lines, channel, count);
        for (uint64_t i = 0; i < count; i++)
            plan->prepared.engine->loops->lanes_largest(lines->largest, lines->values + i * lines->width, lines->width);
    }
}

static void softmax_lines(const struct lines *lines)
{
    const struct activation *plan = lines->plan;
    float unused[CACHED_VALUES];
    bool fits = plan->depth >= plan->activation.channels;

    find_largest(lines);
    memset(lines->sums, 0, lines->width * sizeof(float));
    for (uint64_t channel = 0, count; channel < plan->activation.channels; channel += count) {
        count = cpu_math_min(plan->depth, plan->activation.channels - channel);
        if (!fits)
            load_lines(lines, channel, count);
        exp_of_lines(lines, count, lines->sums);
    }
    if (fits) {
        save_lines(lines, 0, plan->activation.channels);
        return;
    }
    for (uint64_t channel = 0, count; channel < plan->activation.channels; channel += count) {
        count = cpu_math_min(plan->depth, plan->activation.channels - channel);
        load_lines(lines, channel, count);
        memset(unused, 0, lines->width * sizeof unused[0]);
        exp_of_lines(lines, count, unused);
        save_lines(lines, channel, count);
    }
}

static void run_softmax(const void *arguments, const struct facet_host_group *group)
{
    const struct activation *plan = *(struct activation *const *)arguments;
    uint64_t parts = cpu_math_max(cpu_math_parts(plan->positions, plan->width), 1), part = group->group_id[0] % parts;
    float *scratch = group->scratch;
    struct lines lines = {plan,
                          group->group_id[0] / parts * plan->activation.channels * plan->positions + part * plan->width,
                          cpu_math_min(plan->width, plan->positions - part * plan->width),
                          scratch + 2 * CACHED_VALUES,
                          scratch,
                          scratch + CACHED_VALUES};

    softmax_lines(&lines);
}

/* ---- softmax where channels lie together ---- */

static void softmax_row(const struct activation *plan, uint64_t image, float *values)
{
    const struct cpu_math_loops *loops = plan->prepared.engine->loops;
    uint64_t channels = plan->activation.channels, bytes = plan->type_bytes, at = image * channels * bytes, count;
    float largest = -__builtin_inff(), sum = 0.0f;
    bool fits = channels <= CACHED_VALUES;

    for (uint64_t i = 0; i < channels; i += count) {
        count = cpu_math_min(CACHED_VALUES, channels - i);
        loops->load(values, (const void *)(plan->activation.input + at + i * bytes), count, plan->type);
        float most = loops->largest(values, count);
        largest = most > largest ? most : largest;
    }
    for (uint64_t i = 0; i < channels; i += count) {
        count = cpu_math_min(CACHED_VALUES, channels - i);
        if (!fits)
            loops->load(values, (const void *)(plan->activation.input + at + i * bytes), count, plan->type);
        sum += loops->exponentials(values, count, 1.0f, largest);
    }
    for (uint64_t i = 0; i < channels; i += count) {
        count = cpu_math_min(CACHED_VALUES, channels - i);
        if (!fits) {
            loops->load(values, (const void *)(plan->activation.input + at + i * bytes), count, plan->type);
            loops->exponentials(values, count, 1.0f, largest);
        }
        loops->scale(values, count, 1.0f / sum);
        loops->save((void *)(plan->activation.output + at + i * bytes), values, count, plan->type);
    }
}

static void run_rows(const void *arguments, const struct facet_host_group *group)
{
    const struct activation *plan = *(struct activation *const *)arguments;
    uint64_t first = group->group_id[0] * plan->images,
             end = cpu_math_min(first + plan->images, plan->activation.batch);

    for (uint64_t image = first; image < end; image++)
        softmax_row(plan, image, group->scratch);
}

/* ---- preparing ---- */

static uint64_t divide_softmax(struct activation *plan)
{
    const struct facet_activation *activation = &plan->activation;

    if (plan->positions == 1) {
        plan->prepared.work.kernel.run = run_rows;
        plan->images = cpu_math_max(ELEMENTS / activation->channels, 1);
        return cpu_math_parts(activation->batch, plan->images);
    }
    plan->prepared.work.kernel.run = run_softmax;
    plan->width = cpu_math_min(plan->positions, cpu_math_max(CACHED_VALUES / activation->channels / 16 * 16, 16));
    plan->depth = CACHED_VALUES / plan->width;
    return activation->batch * cpu_math_parts(plan->positions, plan->width);
}

enum facet_status cpu_math_prepare_activation(struct cpu_math_engine *engine, const struct facet_math *operation,
                                              struct cpu_math_prepared **ret_prepared, struct facet_error *error)
{
    struct cpu_math_prepared *prepared = NULL;
    char name[64];
    enum facet_status status =
        cpu_math_prepared_new(engine, sizeof(struct activation), run_each, NULL, &prepared, error);

    if (status != FACET_OK)
        return status;
    struct activation *plan = (struct activation *)prepared;
    plan->activation = operation->of.activation;
    plan->type = operation->type;
    plan->type_bytes = plan->type == FACET_MATH_F32 ? 4 : plan->type == FACET_MATH_INT8 ? 1 : 2;
    plan->positions = plan->activation.height * plan->activation.width;
    plan->count = plan->activation.batch * plan->activation.channels * plan->positions;
    bool softmax = plan->activation.kind == FACET_ACTIVATION_SOFTMAX;
    uint64_t groups = softmax ? divide_softmax(plan) : cpu_math_parts(plan->count, ELEMENTS);
    snprintf(name, sizeof name, "activation facet:x86-64-%s f32", engine->loops->name);
    status =
        cpu_math_prepared_finish(prepared, name, softmax ? 3 * CACHED_VALUES * sizeof(float) : 0, 1, &groups, error);
    if (status != FACET_OK)
        cpu_math_prepared_free(prepared);
    else
        *ret_prepared = prepared;
    return status;
}
