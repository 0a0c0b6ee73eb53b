/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of an operation of the table `math` before it is queued. Never: reads memory of a device. */
#ifndef FACET_KIT_MATH_CHECK_H
#define FACET_KIT_MATH_CHECK_H

#include <facet/provider.h>

#define KIT_MATH_OPERANDS 6u

/* Memory that the operation touches. */
struct kit_math_operand {
    const char *name;
    uint64_t address, bytes;
};

struct kit_math_operands {
    uint32_t count;
    struct kit_math_operand list[KIT_MATH_OPERANDS];
};

/*
 * Checks the host's operation, whose struct may be shorter or longer than ours, and replaces zeros that stand for a
 * default (leading dimensions, strides, batch, groups, dilation, epsilon, scale), so that the provider need not compute
 * defaults.
 */
enum facet_status kit_math_check(const struct facet_math *operation, struct facet_math *ret_operation,
                                 struct kit_math_operands *ret_operands, struct facet_error *error);

/* Rows or columns of a convolution's output. */
static inline uint64_t kit_math_outputs(const struct facet_convolution *convolution, int i)
{
    uint64_t in = i == 0 ? convolution->height : convolution->width;

    return (in + 2 * convolution->padding[i] - convolution->dilation[i] * (convolution->kernel[i] - 1) - 1) /
               convolution->stride[i] +
           1;
}

static inline uint32_t kit_math_type_bytes(uint32_t type)
{
    return type == FACET_MATH_F32 ? 4 : type == FACET_MATH_INT8 ? 1 : 2;
}

#endif
