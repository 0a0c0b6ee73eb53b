/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: batch normalization. In training a first phase computes the sums. Never: keeps a copy of the input. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "math/engine.h"
#include "provider_kit.h"

#define ELEMENTS UINT64_C(65536) /* of a work-group, about */

struct moments {
    double sum, squares;
};

struct normalization {
    struct cpu_math_prepared prepared;
    struct facet_normalization normalization;
    uint32_t type, type_bytes;
    uint64_t count, positions;
    uint64_t parts;    /* of a channel's elements, for the sums */
    uint64_t channels; /* of a work-group; 1, where there are several parts */
    struct moments *moments;
};

static const char *plane_of(const struct normalization *plan, uint64_t image, uint64_t channel)
{
    return (const char *)(plan->normalization.input +
                          (image * plan->normalization.channels + channel) * plan->positions * plan->type_bytes);
}

/* Numbers are summed as differences from the first number, so that little precision is lost far from zero. */
static float shift_of(const struct normalization *plan, uint64_t channel)
{
    float shift;

    plan->prepared.engine->loops->load(&shift, plane_of(plan, 0, channel), 1, plan->type);
    return isfinite(shift) ? shift : 0.0f;
}

/* ---- training ---- */

/* Elements [first, end) of a channel, counted over all images. */
static void sum_part(const struct normalization *plan, uint64_t channel, uint64_t first, uint64_t end,
                     struct moments *moments)
{
    float shift = shift_of(plan, channel);

    for (uint64_t i = first, count; i < end; i += count) {
        uint64_t image = i / plan->positions, position = i % plan->positions;

        count = cpu_math_min(plan->positions - position, end - i);
        plan->prepared.engine->loops->moments(plane_of(plan, image, channel) + position * plan->type_bytes, count,
                                              plan->type, shift, &moments->sum, &moments->squares);
    }
}

static void sum_channels(const struct normalization *plan, uint64_t index)
{
    uint64_t all = plan->normalization.batch * plan->positions, part = index % plan->parts;
    uint64_t first = index / plan->parts * plan->channels;
    uint64_t end = cpu_math_min(first + plan->channels, plan->normalization.channels),
             size = cpu_math_parts(all, plan->parts);

    for (uint64_t channel = first; channel < end; channel++)
        sum_part(plan, channel, cpu_math_min(part * size, all), cpu_math_min((part + 1) * size, all),
                 &plan->moments[channel * plan->parts + part]);
}

static void put_value(uint64_t address, uint64_t index, double value)
{
    ((float *)address)[index] = (float)value;
}

static void conclude_moments(const struct normalization *plan, uint64_t index)
{
    uint64_t end = cpu_math_min((index + 1) * ELEMENTS, plan->normalization.channels);
    double all = (double)(plan->normalization.batch * plan->positions);

    for (uint64_t channel = index * ELEMENTS; channel < end; channel++) {
        struct moments total = {0};

        for (uint64_t part = 0; part < plan->parts; part++) {
            total.sum += plan->moments[channel * plan->parts + part].sum;
            total.squares += plan->moments[channel * plan->parts + part].squares;
        }
        double distance = total.sum / all, variance = total.squares / all - distance * distance;

        put_value(plan->normalization.mean, channel, (double)shift_of(plan, channel) + distance);
        put_value(plan->normalization.variance, channel, variance < 0.0 ? 0.0 : variance);
    }
}

/* ---- applying ---- */

static float value_or(uint64_t address, uint64_t index, float otherwise)
{
    return address ? ((const float *)address)[index] : otherwise;
}

static void normalize_elements(const struct normalization *plan, uint64_t index)
{
    const struct facet_normalization *normalization = &plan->normalization;
    uint64_t end = cpu_math_min((index + 1) * ELEMENTS, plan->count);

    for (uint64_t i = index * ELEMENTS, count; i < end; i += count) {
        uint64_t channel = i / plan->positions % normalization->channels;

        count = cpu_math_min(plan->positions - i % plan->positions, end - i);
        float factor = value_or(normalization->scale, channel, 1.0f) /
                       sqrtf(value_or(normalization->variance, channel, 0.0f) + normalization->epsilon);
        plan->prepared.engine->loops->linear((void *)(normalization->output + i * plan->type_bytes),
                                             (const void *)(normalization->input + i * plan->type_bytes), count,
                                             plan->type, value_or(normalization->mean, channel, 0.0f), factor,
                                             value_or(normalization->bias, channel, 0.0f));
    }
}

static void run_group(const void *arguments, const struct facet_host_group *group)
{
    const struct normalization *plan = *(struct normalization *const *)arguments;
    uint64_t first = 0;
    uint32_t phase = cpu_math_phase_of(&plan->prepared.work, group->group_id[0], &first);
    uint64_t index = group->group_id[0] - first;

    if (plan->prepared.work.phases == 1 || phase == 2)
        normalize_elements(plan, index);
    else if (phase == 0)
        sum_channels(plan, index);
    else
        conclude_moments(plan, index);
}

/* ---- preparing ---- */

static void release_plan(struct cpu_math_prepared *prepared)
{
    free(((struct normalization *)prepared)->moments);
}

static enum facet_status divide_training(struct normalization *plan, uint64_t *ends, struct facet_error *error)
{
    uint64_t elements = plan->normalization.batch * plan->positions, channels = plan->normalization.channels;

    plan->parts = cpu_math_parts(elements, ELEMENTS);
    plan->channels = plan->parts > 1 ? 1 : cpu_math_max(ELEMENTS / elements, 1);
    plan->moments = calloc(channels * plan->parts, sizeof *plan->moments);
    if (!plan->moments)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the sums of %" PRIu64 " channels", channels);
    ends[0] = cpu_math_parts(channels, plan->channels) * plan->parts;
    ends[1] = ends[0] + cpu_math_parts(channels, ELEMENTS);
    ends[2] = ends[1] + cpu_math_parts(plan->count, ELEMENTS);
    return FACET_OK;
}

enum facet_status cpu_math_prepare_normalization(struct cpu_math_engine *engine, const struct facet_math *operation,
                                                 struct cpu_math_prepared **ret_prepared, struct facet_error *error)
{
    struct cpu_math_prepared *prepared = NULL;
    uint64_t ends[3];
    char name[64];
    enum facet_status status =
        cpu_math_prepared_new(engine, sizeof(struct normalization), run_group, release_plan, &prepared, error);

    if (status != FACET_OK)
        return status;
    struct normalization *plan = (struct normalization *)prepared;
    plan->normalization = operation->of.normalization;
    plan->type = operation->type;
    plan->type_bytes = plan->type == FACET_MATH_F32 ? 4 : 2;
    plan->positions = plan->normalization.height * plan->normalization.width;
    plan->count = plan->normalization.batch * plan->normalization.channels * plan->positions;
    ends[0] = cpu_math_parts(plan->count, ELEMENTS);
    bool training = operation->flags & FACET_MATH_TRAINING;
    if (training)
        status = divide_training(plan, ends, error);
    snprintf(name, sizeof name, "normalization facet:x86-64-%s f32", engine->loops->name);
    if (status == FACET_OK)
        status = cpu_math_prepared_finish(prepared, name, 0, training ? 3 : 1, ends, error);
    if (status != FACET_OK)
        cpu_math_prepared_free(prepared);
    else
        *ret_prepared = prepared;
    return status;
}
