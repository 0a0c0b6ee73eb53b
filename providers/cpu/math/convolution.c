/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: choosing how a convolution is computed: by strips (strips.c) where they suit it, else as a product of the
 * filter and the windows of the input. Never: multiplies.
 */
#include "math/product.h"
#include "math/strips.h"
#include "math_check.h"

#define CHANNELS  UINT64_C(64) /* with fewer channels, writing outputs takes longer than multiplying */
#define POSITIONS UINT64_C(64) /* with fewer positions, a product's rows are too short for full vectors */

/* Whether the matrix of windows is the input itself. */
static bool is_pointwise(const struct facet_convolution *convolution)
{
    for (int i = 0; i < 2; i++)
        if (convolution->kernel[i] != 1 || convolution->stride[i] != 1 || convolution->padding[i] != 0)
            return false;
    return true;
}

/* Each group of each image is one product: (out_channels x filter elements) * (filter elements x positions). */
static enum facet_status prepare_product(struct cpu_math_engine *engine, const struct facet_math *operation,
                                         struct cpu_math_prepared **ret_prepared, struct facet_error *error)
{
    const struct facet_convolution *convolution = &operation->of.convolution;
    uint64_t in = convolution->in_channels / convolution->groups, out = convolution->out_channels / convolution->groups;
    uint64_t k = in * convolution->kernel[0] * convolution->kernel[1],
             positions = kit_math_outputs(convolution, 0) * kit_math_outputs(convolution, 1);
    const struct cpu_math_product product = {
        .operation = "convolution",
        .a = {convolution->filter, k, 1, out * k},
        .b = {convolution->input, positions, 1, in * convolution->height * convolution->width},
        .c = {convolution->output, positions, 1, out * positions},
        .m = out,
        .n = positions,
        .k = k,
        .batch = convolution->batch * convolution->groups,
        .type = operation->type,
        .flags = operation->flags,
        .alpha = 1.0f,
        .bias = convolution->bias,
        .period = convolution->groups,
        .windows = !is_pointwise(convolution),
        .convolution = *convolution,
    };

    return cpu_math_product_prepare(engine, &product, ret_prepared, error);
}

/*
 * Whether the convolution is computed as a product that reads its operands as they are: it has no bias, nothing is
 * packed, and outputs are written in place. Strips would have to transpose inputs and outputs, which takes a tenth of
 * the time of a 1 x 1 filter of hundreds of channels.
 */
static bool is_product(const struct cpu_math_engine *engine, const struct facet_math *operation)
{
    const struct facet_convolution *convolution = &operation->of.convolution;
    enum cpu_math_product_type product_type = cpu_math_product_type_of(engine, operation->type, operation->flags);
    bool keeps_type = (operation->type == FACET_MATH_F32 && product_type == CPU_MATH_PRODUCT_TYPE_F32) ||
                      (operation->type == FACET_MATH_BF16 && product_type == CPU_MATH_PRODUCT_TYPE_BF16);

    return keeps_type && is_pointwise(convolution) && convolution->bias == 0 &&
           convolution->in_channels / convolution->groups >= CHANNELS &&
           convolution->height * convolution->width >= POSITIONS;
}

enum facet_status cpu_math_prepare_convolution(struct cpu_math_engine *engine, const struct facet_math *operation,
                                               struct cpu_math_prepared **ret_prepared, struct facet_error *error)
{
    if (is_product(engine, operation))
        return prepare_product(engine, operation, ret_prepared, error);
    enum facet_status status = cpu_math_prepare_strips(engine, operation, ret_prepared, error);
    return status == FACET_UNSUPPORTED ? prepare_product(engine, operation, ret_prepared, error) : status;
}
