/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening a vendor's libraries, and the checks before an operation. Never: queues work: call.c does. */
#include "math.h"

#include <dlfcn.h>

#include "library_kit.h"
#include "machine.h"
#include "provider_kit.h"

bool gpu_math_find(void *library, const struct gpu_math_function *functions, void *ret_table)
{
    bool all = library != NULL;

    for (const struct gpu_math_function *function = functions; library && function->name; function++) {
        void *found = dlsym(library, function->name);

        memcpy((char *)ret_table + function->at, &found, sizeof found);
        all = all && found;
    }
    return all;
}

void *gpu_math_open(const char *variable, const char *const *places, const struct gpu_math_function *functions,
                    void *ret_table)
{
    void *library = NULL;

    if (facet_kit_library_open(variable, places, &library, NULL) != FACET_OK)
        return NULL;
    return gpu_math_find(library, functions, ret_table) ? library : NULL;
}

static enum facet_status check_context(struct gpu_machine *machine, uint64_t number, gpu_math_refuse_func refuse,
                                       struct facet_error *error)
{
    struct gpu_context *context;
    enum facet_status status = gpu_execution_enter(machine, number, &context, error);

    if (status != FACET_OK)
        return status;
    status = refuse(machine, context, error);
    if (status == FACET_OK)
        status = gpu_device_check(machine, context->device, FACET_CAN_MATH, error);
    gpu_context_leave(machine, context);
    return status;
}

enum facet_status gpu_math_check_call(struct gpu_machine *machine, uint64_t context, gpu_math_refuse_func refuse,
                                      const struct facet_math *given, struct facet_math *ret_operation,
                                      struct kit_math_operands *ret_operands, struct facet_error *error)
{
    enum facet_status status = check_context(machine, context, refuse, error);

    if (status == FACET_OK && !given)
        status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "operation: expected an address, not NULL");
    return status == FACET_OK ? kit_math_check(given, ret_operation, ret_operands, error) : status;
}

enum facet_status gpu_math_not_offered(const struct facet_math *operation, const struct gpu_math_libraries *libraries,
                                       struct facet_error *error)
{
    static const char *const names[FACET_MATH_KINDS] = {"gemm", "convolution", "activation", "normalization",
                                                        "attention"};
    static const char *const types[FACET_MATH_TYPES] = {"f32", "bf16", "f16", "int8"};
    bool products = operation->operation == FACET_MATH_GEMM || operation->operation == FACET_MATH_ATTENTION;
    const char *lacking = products && !libraries->has_blas                                 ? libraries->blas
                          : operation->operation != FACET_MATH_GEMM && !libraries->has_dnn ? libraries->dnn
                                                                                           : NULL;

    if (lacking)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "%s: expected the library %s", names[operation->operation],
                              lacking);
    return facet_kit_fail(error, FACET_UNSUPPORTED, "%s of %s: not offered here by %s and %s",
                          names[operation->operation], types[operation->type], libraries->blas, libraries->dnn);
}

/* Checks values that the sizes of the operands do not bound: a stride may be large if there is only one step. */
static enum facet_status check_steps(const struct facet_convolution *convolution, const char *library,
                                     struct facet_error *error)
{
    const struct {
        const char *name;
        const uint64_t *values;
    } steps[] = {
        {"stride", convolution->stride}, {"padding", convolution->padding}, {"dilation", convolution->dilation}};

    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            if (steps[i].values[j] > INT32_MAX)
                return facet_kit_fail(error, FACET_UNSUPPORTED, "%s[%d] %" PRIu64 ": %s expects at most %d",
                                      steps[i].name, j, steps[i].values[j], library, INT32_MAX);
    return FACET_OK;
}

enum facet_status gpu_math_check_sizes(const struct facet_math *operation, const struct kit_math_operands *operands,
                                       const char *library, struct facet_error *error)
{
    const uint64_t most = UINT64_C(1) << 32;

    for (uint32_t i = 0; i < operands->count; i++)
        if (operands->list[i].bytes > most)
            return facet_kit_fail(error, FACET_UNSUPPORTED, "%s: %" PRIu64 " bytes: %s expects at most 2^32",
                                  operands->list[i].name, operands->list[i].bytes, library);
    return operation->operation == FACET_MATH_CONVOLUTION ? check_steps(&operation->of.convolution, library, error)
                                                          : FACET_OK;
}
