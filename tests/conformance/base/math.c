/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table `math` of the base device: reading operands and writing results. Never: computes; compute.c does. */
#include <stdlib.h>

#include "base.h"

const char *base_math_name(uint32_t operation)
{
    static const char *const names[] = {"gemm", "convolution", "activation", "normalization", "attention"};

    return names[operation];
}

static enum facet_status check_operands(struct facet_provider_instance *instance, uint64_t context,
                                        const struct base_math_work *work, struct facet_error *error)
{
    for (uint32_t i = 0; i < work->count; i++) {
        const struct base_operand *one = &work->operands[i];
        if (base_check_memory(instance, context, one->address, one->count * base_bytes_of(one->type), NULL) != FACET_OK)
            return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                                  "%s at 0x%" PRIx64 ": expected memory for %" PRIu64 " elements", one->name,
                                  one->address, one->count);
    }
    return FACET_OK;
}

/* Operands may be the same memory, so all are read before the first is written. */
enum facet_status base_math_perform(struct facet_provider_instance *instance, uint64_t context,
                                    const struct facet_math *math)
{
    struct base_math_work work = {0};
    enum facet_status status = base_math_check(math, &work, NULL);

    for (uint32_t i = 0; status == FACET_OK && i < work.count; i++) {
        struct base_operand *one = &work.operands[i];
        uint64_t bytes = one->count * base_bytes_of(one->type);

        one->bytes = malloc(bytes + 1);
        status = one->bytes ? base_access_memory(instance, context, one->address, one->bytes, NULL, bytes, NULL)
                            : FACET_NO_MEMORY;
    }
    if (status == FACET_OK)
        base_compute[math->operation](&work);
    for (uint32_t i = 0; i < work.count; i++) {
        struct base_operand *one = &work.operands[i];

        if (status == FACET_OK && one->written)
            status = base_access_memory(instance, context, one->address, NULL, one->bytes,
                                        one->count * base_bytes_of(one->type), NULL);
        free(one->bytes);
    }
    return status;
}

static enum facet_status base_support(struct facet_provider_instance *instance, uint32_t device,
                                      struct facet_math_support *ret_support, struct facet_error *error)
{
    /* By operation, a bit for each type: normalization and attention have all but int8. */
    const struct facet_math_support support = {.types = {15, 15, 15, 7, 7}};
    enum facet_status status = facet_kit_check_device(device, 1, error);

    return status == FACET_OK ? facet_kit_struct(&support, sizeof support, ret_support, error) : status;
}

static enum facet_status base_math_run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                       const struct facet_math *operation, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    struct base_queued_work launch = {.kind = BASE_MATH, .groups = 1};
    struct base_math_work work;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    if (status != FACET_OK)
        return status;
    if (!operation || operation->size < sizeof *operation)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "operation: expected one of at least %zu bytes",
                              sizeof *operation);
    launch.data.math = *operation;
    status = base_math_check(operation, &work, error);
    if (status == FACET_OK)
        status = check_operands(instance, context, &work, error);
    return status == FACET_OK ? base_enqueue(instance, one, &launch, error) : status;
}

const struct facet_math_ops base_math = {.size = sizeof base_math, .support = base_support, .run = base_math_run};
