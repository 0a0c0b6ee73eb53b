/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: convolution by strips where those are made for it, else as a product of the filter and the windows of the
 * input. Never: multiplies.
 */
#include "math/product.h"
#include "math/strips.h"
#include "math_check.h"

#define CHANNELS  UINT64_C(64) /* below them there is more to write than to multiply */
#define POSITIONS UINT64_C(64) /* below them a product's rows are short of vectors */

/* Whether the windows are the input as it lies. */
static bool is_pointwise(const struct facet_convolution *it)
{
    for (int i = 0; i < 2; i++)
        if (it->kernel[i] != 1 || it->stride[i] != 1 || it->padding[i] != 0)
            return false;
    return true;
}

/* Each group of each image is one product: out_channels by the filter's elements, times those by positions. */
static enum facet_status prepare_product(struct cpu_math_engine *engine, const struct facet_math *operation,
                                         struct cpu_math_piece **ret_piece, struct facet_error *error)
{
    const struct facet_convolution *it = &operation->of.convolution;
    uint64_t in = it->in_channels / it->groups, out = it->out_channels / it->groups;
    uint64_t k = in * it->kernel[0] * it->kernel[1], positions = kit_math_outputs(it, 0) * kit_math_outputs(it, 1);
    const struct cpu_math_product product = {
        .operation = "convolution",
        .a = {it->filter, k, 1, out * k},
        .b = {it->input, positions, 1, in * it->height * it->width},
        .c = {it->output, positions, 1, out * positions},
        .m = out,
        .n = positions,
        .k = k,
        .batch = it->batch * it->groups,
        .type = operation->type,
        .flags = operation->flags,
        .alpha = 1.0f,
        .bias = it->bias,
        .period = it->groups,
        .windows = !is_pointwise(it),
        .convolution = *it,
    };

    return cpu_math_product_prepare(engine, &product, ret_piece, error);
}

/*
 * Whether it is a product of operands that lie there already, without a bias: nothing is packed, and outputs are
 * written in place. Bringing channels together and apart again costs a tenth of the time of a 1 x 1 filter of hundreds
 * of channels.
 */
static bool is_product(const struct cpu_math_engine *engine, const struct facet_math *operation)
{
    const struct facet_convolution *it = &operation->of.convolution;
    enum cpu_math_as as = cpu_math_as_of(engine, operation->type, operation->flags);
    bool same = (operation->type == FACET_MATH_F32 && as == CPU_MATH_AS_F32) ||
                (operation->type == FACET_MATH_BF16 && as == CPU_MATH_AS_BF16);

    return same && is_pointwise(it) && it->bias == 0 && it->in_channels / it->groups >= CHANNELS &&
           it->height * it->width >= POSITIONS;
}

enum facet_status cpu_math_prepare_convolution(struct cpu_math_engine *engine, const struct facet_math *operation,
                                               struct cpu_math_piece **ret_piece, struct facet_error *error)
{
    if (is_product(engine, operation))
        return prepare_product(engine, operation, ret_piece, error);
    enum facet_status status = cpu_math_prepare_strips(engine, operation, ret_piece, error);
    return status == FACET_UNSUPPORTED ? prepare_product(engine, operation, ret_piece, error) : status;
}
