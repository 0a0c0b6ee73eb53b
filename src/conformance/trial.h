/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation of the table `math` with its data and its expected results.
 *
 * Owns: an image of the area of memory with the operands, and the expected value and margin of each output element.
 * Never: derives an expected value from the provider's results.
 */
#ifndef FACET_CONFORMANCE_TRIAL_H
#define FACET_CONFORMANCE_TRIAL_H

#include "conformance/check.h"

enum { FACET_CHECK_AREA_BYTES = 1 << 16, FACET_CHECK_RESULTS = 4096, FACET_CHECK_INT32 = FACET_MATH_TYPES };

/* Elements of one type in the area. */
struct facet_check_operand {
    uint32_t type; /* enum facet_math_type, or FACET_CHECK_INT32 */
    size_t at;     /* bytes from the start of the area */
    uint64_t count;
};

struct facet_check_result {
    size_t at;
    uint32_t type;
    double value, margin;
};

struct facet_check_trial {
    struct facet_check *check;
    uint64_t context, stream, address;           /* address: where the area begins */
    unsigned char image[FACET_CHECK_AREA_BYTES]; /* the area's content before the operation */
    size_t used_bytes;
    uint32_t seed;
    struct facet_math math;
    struct facet_check_result results[FACET_CHECK_RESULTS];
    uint32_t result_count;
};

/* math_numbers.c: begins a trial with an empty area. */
void facet_check_trial_begin(struct facet_check_trial *trial, uint32_t operation, uint32_t type, uint32_t flags);
/* Adds an operand to the area, with numbers that its type holds exactly. */
struct facet_check_operand facet_check_operand_make(struct facet_check_trial *trial, uint32_t type, uint64_t count);
/* Makes an operand filled with values on which no result may depend. */
struct facet_check_operand facet_check_operand_poison(struct facet_check_trial *trial, uint32_t type, uint64_t count);
uint64_t facet_check_operand_address(const struct facet_check_trial *trial, const struct facet_check_operand *operand);
double facet_check_operand_get(const struct facet_check_trial *trial, const struct facet_check_operand *operand,
                               uint64_t index);
void facet_check_operand_set(struct facet_check_trial *trial, const struct facet_check_operand *operand, uint64_t index,
                             double value);
/* Records that an element must be `value`, within `margin` and one rounding to its type. */
void facet_check_operand_expect(struct facet_check_trial *trial, const struct facet_check_operand *operand,
                                uint64_t index, double value, double margin);
const char *facet_check_type_name(uint32_t type);
/* NULL when each result is as expected and nothing else changed; else the difference, in `ret_text`. */
const char *facet_check_trial_fault(struct facet_check_trial *trial, const unsigned char *got, char *ret_text,
                                    size_t size);

/* math_reference.c: each function makes the operands of one operation, and records the expected results. */
struct facet_check_variant {
    const char *about;
    uint32_t flags;
    bool full_shape;     /* with batches, leading dimensions, strides, groups, scale and bias; an activation in place */
    bool in_place;       /* of a normalization: the output is the input */
    uint32_t activation; /* enum facet_activation_kind */
};
void facet_check_make_gemm(struct facet_check_trial *trial, const struct facet_check_variant *variant);
void facet_check_make_convolution(struct facet_check_trial *trial, const struct facet_check_variant *variant);
void facet_check_make_activation(struct facet_check_trial *trial, const struct facet_check_variant *variant);
void facet_check_make_normalization(struct facet_check_trial *trial, const struct facet_check_variant *variant);
void facet_check_make_attention(struct facet_check_trial *trial, const struct facet_check_variant *variant);
/* Makes the plainest variant of `operation`, an enum facet_math_operation. */
void facet_check_make_plainest(struct facet_check_trial *trial, uint32_t operation, uint32_t type);
const char *facet_check_math_name(uint32_t operation);

/* check_math_refuse.c, check_math_result.c, check_math_order.c: parts of the group `math`. */
void facet_check_math_refusals(struct facet_check_trial *trial, const struct facet_math_support *support);
void facet_check_math_results(struct facet_check_trial *trial, const struct facet_math_support *support);
void facet_check_math_order(struct facet_check_trial *trial, const struct facet_math_support *support);

/* check_math.c: writes the area, runs the operation, and reads the area into `ret_area`. */
enum facet_status facet_check_trial_run(struct facet_check_trial *trial, unsigned char *ret_area);
/* The first type that is claimed for the operation; FACET_MATH_TYPES: none. */
uint32_t facet_check_first_type(const struct facet_math_support *support, uint32_t operation);

#endif
