/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the checks of the table `math` (since ABI 1.4): the support that a device claims, and the memory of the trials.
 * Never: expects a type that is not claimed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/kernel.h"
#include "conformance/trial.h"

enum { ALL_TYPES = (1 << FACET_MATH_TYPES) - 1 };

static enum facet_status fill_support(struct facet_check *check, const void *subject, void *out)
{
    return check->math_ops.support(check->instance, check->device, out, &check->error);
}

static void check_support(struct facet_check *check, const struct facet_math_support *support)
{
    uint32_t all = 0, any_int8;

    for (int i = 0; i < FACET_MATH_KINDS; i++)
        all |= support->types[i];
    any_int8 =
        (support->types[FACET_MATH_NORMALIZATION] | support->types[FACET_MATH_ATTENTION]) & (1u << FACET_MATH_INT8);
    EXPECT_TRUE(check, "math.support: known types, for at least one operation", all && all <= ALL_TYPES,
                "expected: bits of 0x%x\ngot: 0x%" PRIx32, (unsigned)ALL_TYPES, all);
    EXPECT_TRUE(check, "math.support: int8 is not claimed for an operation without it", !any_int8,
                "expected: neither normalization nor attention of int8\ngot: 0x%" PRIx32 " and 0x%" PRIx32,
                support->types[FACET_MATH_NORMALIZATION], support->types[FACET_MATH_ATTENTION]);
    EXPECT_TRUE(check, "math.support: tensor units only for types that the device claims",
                !(support->tensor_types & ~all), "expected: bits of 0x%" PRIx32 "\ngot: 0x%" PRIx32, all,
                support->tensor_types);
    EXPECT_TRUE(check, "math.support: mixed is 0 or 1", support->mixed <= 1, "expected: 0 or 1\ngot: %" PRIu32,
                support->mixed);
    EXPECT_TRUE(check, "math.support: the library's name is printable and terminated",
                facet_check_is_text(support->library, sizeof support->library),
                "expected: printable ASCII with an end\ngot: something else");
}

static void check_all_support(struct facet_check *check)
{
    struct facet_math_support given = {.size = sizeof given};

    facet_check_absent_device(check, "math");
    facet_check_struct_rules(check, "math.support", sizeof given, fill_support, NULL);
    if (EXPECT_OK(check, "math.support: of a device",
                  check->math_ops.support(check->instance, check->device, &given, &check->error)))
        check_support(check, &given);
}

uint32_t facet_check_first_type(const struct facet_math_support *support, uint32_t operation)
{
    uint32_t types = support->types[operation] & ALL_TYPES;

    return types ? (uint32_t)__builtin_ctz(types) : FACET_MATH_TYPES;
}

enum facet_status facet_check_trial_run(struct facet_check_trial *trial, unsigned char *ret_area)
{
    struct facet_check *check = trial->check;
    enum facet_status status = check->memory_ops.write(check->instance, trial->context, trial->address, trial->image,
                                                       sizeof trial->image, &check->error);

    if (status == FACET_OK)
        status = check->math_ops.run(check->instance, trial->context, trial->stream, &trial->math, &check->error);
    if (status == FACET_OK)
        status = check->execution_ops.synchronize(check->instance, trial->context, trial->stream, FACET_CHECK_KERNEL_NS,
                                                  &check->error);
    if (status == FACET_OK)
        status = check->memory_ops.read(check->instance, trial->context, trial->address, sizeof trial->image, ret_area,
                                        &check->error);
    return status;
}

static bool prepare_trial(struct facet_check_trial *trial)
{
    struct facet_check *check = trial->check;

    return EXPECT_OK(
               check, "execution.create_stream: for mathematics",
               check->execution_ops.create_stream(check->instance, trial->context, &trial->stream, &check->error)) &&
           EXPECT_OK(check, "memory.alloc: an area for mathematics",
                     check->memory_ops.alloc(check->instance, trial->context, FACET_CHECK_AREA_BYTES, &trial->address,
                                             &check->error));
}

static void check_operations(struct facet_check *check)
{
    struct facet_math_support given = {.size = sizeof given};
    FACET_CLEANUP_FREE struct facet_check_trial *trial = calloc(1, sizeof *trial);

    if (!trial)
        _exit(EXIT_FAILURE);
    trial->check = check;
    if (check->math_ops.support(check->instance, check->device, &given, &check->error) != FACET_OK ||
        !facet_check_context(check, FACET_CHECK_WORKER, &trial->context))
        return;
    if (prepare_trial(trial)) {
        facet_check_math_refusals(trial, &given);
        facet_check_math_results(trial, &given);
        facet_check_math_order(trial, &given);
    }
    facet_check_drop_context(check, trial->context);
}

static const struct facet_check_case cases[] = {
    {check_all_support, FACET_CAN_MATH},
    {check_operations, FACET_CAN_MEMORY | FACET_CAN_EXECUTE | FACET_CAN_MATH},
    {NULL, 0}};

const struct facet_check_group facet_check_math = {
    .name = "math", .about = "matrices, convolution, activation, normalization, attention", .cases = cases};
