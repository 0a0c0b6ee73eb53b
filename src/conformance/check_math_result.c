/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: running the variants of each operation in every type that the provider claims. Never: computes an
 * expected result; math_reference.c does. */
#include <stdio.h>

#include "conformance/trial.h"

#define VARIANTS(list) list, (uint32_t)(sizeof(list) / sizeof(list)[0])

/* Runs the operation, and compares the memory with the expected image. */
static void check_result(struct facet_check_trial *trial, const char *about)
{
    static unsigned char got[FACET_CHECK_AREA_BYTES];
    struct facet_check *check = trial->check;
    char text[200];

    facet_check_begin(check, "math.run: %s of %s, %s", facet_check_math_name(trial->math.operation),
                      facet_check_type_name(trial->math.type), about);
    enum facet_status status = facet_check_trial_run(trial, got);
    if (status != FACET_OK) {
        facet_check_status(check, FACET_OK, status);
        return;
    }
    const char *fault = facet_check_trial_fault(trial, got, text, sizeof text);
    facet_check_judge(check, !fault, "%s", fault);
}

static void try_all_variants(struct facet_check_trial *trial, const struct facet_math_support *support,
                             uint32_t operation, const struct facet_check_variant *variants, uint32_t count,
                             void (*make)(struct facet_check_trial *trial, const struct facet_check_variant *variant))
{
    for (uint32_t type = 0; type < FACET_MATH_TYPES; type++)
        for (uint32_t i = 0; (support->types[operation] & (1u << type)) && i < count; i++) {
            if (operation == FACET_MATH_ACTIVATION && type == FACET_MATH_INT8 &&
                variants[i].activation != FACET_ACTIVATION_RELU)
                continue;
            facet_check_trial_begin(trial, operation, type, variants[i].flags);
            make(trial, &variants[i]);
            check_result(trial, variants[i].about);
        }
}

static const struct facet_check_variant gemms[] = {
    {.about = "row-major"},
    {.about = "a transposed", .flags = FACET_MATH_TRANSPOSE_A},
    {.about = "b transposed", .flags = FACET_MATH_TRANSPOSE_B},
    {.about = "column-major", .flags = FACET_MATH_COLUMN_MAJOR},
    {.about = "a batch with leading dimensions, added to c", .full_shape = true},
    {.about = "column-major with leading dimensions, both transposed",
     .flags = FACET_MATH_COLUMN_MAJOR | FACET_MATH_TRANSPOSE_A | FACET_MATH_TRANSPOSE_B,
     .full_shape = true},
    {.about = "without tensor units", .flags = FACET_MATH_NO_TENSOR},
    {.about = "without tensor units, both transposed",
     .flags = FACET_MATH_NO_TENSOR | FACET_MATH_TRANSPOSE_A | FACET_MATH_TRANSPOSE_B,
     .full_shape = true},
    {.about = "mixed", .flags = FACET_MATH_MIXED},
};

static const struct facet_check_variant convolutions[] = {
    {.about = "plain"},
    {.about = "with bias, groups, padding, strides and dilation", .full_shape = true},
    {.about = "without tensor units", .flags = FACET_MATH_NO_TENSOR, .full_shape = true},
    {.about = "mixed", .flags = FACET_MATH_MIXED},
};

static const struct facet_check_variant activations[] = {
    {.about = "relu", .activation = FACET_ACTIVATION_RELU},
    {.about = "relu in place", .activation = FACET_ACTIVATION_RELU, .full_shape = true},
    {.about = "sigmoid", .activation = FACET_ACTIVATION_SIGMOID},
    {.about = "tanh in place", .activation = FACET_ACTIVATION_TANH, .full_shape = true},
    {.about = "gelu", .activation = FACET_ACTIVATION_GELU},
    {.about = "gelu by tanh", .activation = FACET_ACTIVATION_GELU_TANH},
    {.about = "silu", .activation = FACET_ACTIVATION_SILU},
    {.about = "leaky relu", .activation = FACET_ACTIVATION_LEAKY_RELU},
    {.about = "elu", .activation = FACET_ACTIVATION_ELU},
    {.about = "softmax", .activation = FACET_ACTIVATION_SOFTMAX},
    {.about = "softmax in place", .activation = FACET_ACTIVATION_SOFTMAX, .full_shape = true},
    {.about = "relu without tensor units", .flags = FACET_MATH_NO_TENSOR, .activation = FACET_ACTIVATION_RELU},
};

static const struct facet_check_variant normalizations[] = {
    {.about = "by mean and variance alone"},
    {.about = "with scale and bias, in place", .full_shape = true, .in_place = true},
    {.about = "training", .flags = FACET_MATH_TRAINING},
    {.about = "training with scale and bias, in place",
     .flags = FACET_MATH_TRAINING,
     .full_shape = true,
     .in_place = true},
    {.about = "without tensor units", .flags = FACET_MATH_NO_TENSOR, .full_shape = true},
};

static const struct facet_check_variant attentions[] = {
    {.about = "scaled by the dimension"},
    {.about = "of a scale", .full_shape = true},
    {.about = "causal", .flags = FACET_MATH_CAUSAL},
    {.about = "without tensor units", .flags = FACET_MATH_NO_TENSOR | FACET_MATH_CAUSAL, .full_shape = true},
    {.about = "mixed", .flags = FACET_MATH_MIXED},
};

void facet_check_math_results(struct facet_check_trial *trial, const struct facet_math_support *support)
{
    try_all_variants(trial, support, FACET_MATH_GEMM, VARIANTS(gemms), facet_check_make_gemm);
    try_all_variants(trial, support, FACET_MATH_CONVOLUTION, VARIANTS(convolutions), facet_check_make_convolution);
    try_all_variants(trial, support, FACET_MATH_ACTIVATION, VARIANTS(activations), facet_check_make_activation);
    try_all_variants(trial, support, FACET_MATH_NORMALIZATION, VARIANTS(normalizations),
                     facet_check_make_normalization);
    try_all_variants(trial, support, FACET_MATH_ATTENTION, VARIANTS(attentions), facet_check_make_attention);
}
