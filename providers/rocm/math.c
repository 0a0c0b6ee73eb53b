/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table `math`: the libraries, their capabilities, queueing. Never: knows the calls of which an operation
 * consists.
 */
#include "gpu/math.h"

#include "gpu/call.h"
#include "rocm.h"

#define TYPE(name)  (UINT32_C(1) << FACET_MATH_##name)
#define OLDEST_BLAS 700 /* 0.7.0: the oldest hipBLASLt that is used */

/* --- the libraries --- */

static const char *const blas_places[] = {
    "libhipblaslt.so.1",
    "libhipblaslt.so.0",
    "/opt/rocm/lib/libhipblaslt.so.1",
    "/opt/rocm/lib/libhipblaslt.so.0",
    NULL,
};

static const char *const dnn_places[] = {"libMIOpen.so.1", "/opt/rocm/lib/libMIOpen.so.1", NULL};

#define FUNCTION(name) {#name, offsetof(struct rocm_math, name)},
static const struct gpu_math_function blas_functions[] = {ROCM_BLAS(FUNCTION){NULL, 0}};
static const struct gpu_math_function dnn_functions[] = {ROCM_DNN(FUNCTION){NULL, 0}};

void rocm_math_open(struct rocm_math *ret_math)
{
    *ret_math = (struct rocm_math){0};
    ret_math->blas_library = gpu_math_open("FACET_ROCM_HIPBLASLT", blas_places, blas_functions, ret_math);
    ret_math->dnn_library = gpu_math_open("FACET_ROCM_MIOPEN", dnn_places, dnn_functions, ret_math);
}

static void drop_blas(struct rocm_math *math, uint32_t device)
{
    if (math->blas[device])
        math->hipblasLtDestroy(math->blas[device]);
    math->blas[device] = NULL;
}

void rocm_math_leave(struct rocm_math *math, uint32_t device)
{
    drop_blas(math, device);
    if (math->dnn[device])
        math->miopenDestroy(math->dnn[device]);
    math->dnn[device] = NULL;
}

enum facet_status rocm_blas_status(hipblasStatus_t result)
{
    switch (result) {
    case HIPBLAS_STATUS_SUCCESS:
        return FACET_OK;
    case HIPBLAS_STATUS_ALLOC_FAILED:
        return FACET_NO_SPACE;
    case HIPBLAS_STATUS_NOT_SUPPORTED:
    case HIPBLAS_STATUS_ARCH_MISMATCH:
        return FACET_UNSUPPORTED;
    default:
        return FACET_IO;
    }
}

enum facet_status rocm_dnn_status(miopenStatus_t result)
{
    switch (result) {
    case miopenStatusSuccess:
        return FACET_OK;
    case miopenStatusAllocFailed:
        return FACET_NO_SPACE;
    case miopenStatusNotImplemented:
    case miopenStatusUnsupportedOp:
        return FACET_UNSUPPORTED;
    default:
        return FACET_IO;
    }
}

enum facet_status rocm_scratch_take(const struct rocm_math_call *call, uint64_t bytes, void **ret_memory)
{
    *ret_memory = NULL;
    if (bytes == 0)
        return FACET_OK;
    if (!call->runtime->hipMallocAsync || !call->runtime->hipFreeAsync)
        return FACET_UNSUPPORTED;
    hipError_t result = call->runtime->hipMallocAsync(ret_memory, bytes, call->stream);
    return result == hipSuccess ? FACET_OK : rocm_runtime_fail(call->runtime, NULL, "", result);
}

void rocm_scratch_give(const struct rocm_math_call *call, void *memory)
{
    if (memory)
        call->runtime->hipFreeAsync(memory, call->stream);
}

/* --- capabilities --- */

static bool uses_blas(uint32_t operation)
{
    return operation == FACET_MATH_GEMM || operation == FACET_MATH_ATTENTION;
}

static bool uses_dnn(uint32_t operation)
{
    return operation != FACET_MATH_GEMM;
}

static uint32_t types_of(const struct rocm_math *math, uint32_t operation)
{
    static const uint32_t types[FACET_MATH_KINDS] = {
        [FACET_MATH_GEMM] = TYPE(F32) | TYPE(BF16) | TYPE(F16) | TYPE(INT8),
        [FACET_MATH_CONVOLUTION] = TYPE(F32),
        [FACET_MATH_ACTIVATION] = TYPE(F32),
        [FACET_MATH_NORMALIZATION] = TYPE(F32),
        [FACET_MATH_ATTENTION] = TYPE(F32),
    };

    if ((uses_blas(operation) && !math->blas_library) || (uses_dnn(operation) && !math->dnn_library))
        return 0;
    return types[operation];
}

static void name_libraries(const struct rocm_math *math, char *text, size_t size)
{
    size_t major = 0, minor = 0, patch = 0;
    int length = math->blas_library ? snprintf(text, size, "hipBLASLt%s", math->dnn_library ? ", " : "") : 0;

    if (math->dnn_library && math->miopenGetVersion(&major, &minor, &patch) == miopenStatusSuccess)
        snprintf(text + length, size - (size_t)length, "MIOpen %zu.%zu.%zu", major, minor, patch);
}

static enum facet_status check_libraries(const struct rocm_math *math, struct facet_error *error)
{
    if (math->blas_library || math->dnn_library)
        return FACET_OK;
    return facet_kit_fail(error, FACET_UNSUPPORTED,
                          "mathematics: expected the libraries hipBLASLt (libhipblaslt.so) or MIOpen (libMIOpen.so)");
}

static enum facet_status refuse_context(const struct gpu_machine *machine, const struct gpu_context *context,
                                        struct facet_error *error)
{
    (void)context;
    return check_libraries(&((const struct facet_provider_instance *)machine)->math, error);
}

static enum facet_status math_support(struct facet_provider_instance *instance, uint32_t device,
                                      struct facet_math_support *ret_support, struct facet_error *error)
{
    struct facet_math_support support = {.size = sizeof support};
    enum facet_status status = facet_kit_check_device(device, instance->gpu.count, error);

    if (status == FACET_OK)
        status = check_libraries(&instance->math, error);
    if (status == FACET_OK)
        status = gpu_device_check(&instance->gpu, device, FACET_CAN_MATH, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < FACET_MATH_KINDS; i++)
        support.types[i] = types_of(&instance->math, i);
    name_libraries(&instance->math, support.library, sizeof support.library);
    return facet_kit_struct(&support, sizeof support, ret_support, error);
}

/* --- running --- */

/* Makes the library's handle of the device, which is entered, if there is none yet. */
static enum facet_status take_blas(struct rocm_math *math, uint32_t device)
{
    int version = 0;

    if (math->blas[device])
        return FACET_OK;
    hipblasStatus_t result = math->hipblasLtCreate(&math->blas[device]);
    if (result == HIPBLAS_STATUS_SUCCESS)
        result = math->hipblasLtGetVersion(math->blas[device], &version);
    if (result == HIPBLAS_STATUS_SUCCESS && version < OLDEST_BLAS)
        result = HIPBLAS_STATUS_NOT_SUPPORTED;
    if (result != HIPBLAS_STATUS_SUCCESS)
        drop_blas(math, device);
    return rocm_blas_status(result);
}

static enum facet_status take_dnn(struct rocm_math *math, uint32_t device, hipStream_t stream)
{
    miopenStatus_t result = miopenStatusSuccess;

    if (!math->dnn[device])
        result = math->miopenCreate(&math->dnn[device]);
    if (result == miopenStatusSuccess)
        result = math->miopenSetStream(math->dnn[device], stream);
    return rocm_dnn_status(result);
}

static enum facet_status run_operation(struct gpu_machine *machine, uint32_t device, gpu_stream_handle stream,
                                       const void *data)
{
    struct facet_provider_instance *instance = (struct facet_provider_instance *)machine;
    const struct facet_math *operation = data;
    struct rocm_math *math = &instance->math;
    enum facet_status status = FACET_OK;

    if (uses_blas(operation->operation))
        status = take_blas(math, device);
    if (status == FACET_OK && uses_dnn(operation->operation))
        status = take_dnn(math, device, stream);
    if (status != FACET_OK)
        return status;
    const struct rocm_math_call call = {
        &instance->runtime, math, math->blas[device], math->dnn[device], stream, operation,
    };
    switch (operation->operation) {
    case FACET_MATH_GEMM:
        return rocm_math_gemm(&call, &operation->of.gemm, operation->flags, NULL);
    case FACET_MATH_CONVOLUTION:
        return rocm_math_convolution(&call);
    case FACET_MATH_ACTIVATION:
        return rocm_math_activation(&call);
    case FACET_MATH_NORMALIZATION:
        return rocm_math_normalization(&call);
    default:
        return rocm_math_attention(&call);
    }
}

static enum facet_status math_run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                  const struct facet_math *given, struct facet_error *error)
{
    static const char *const implementations[FACET_MATH_KINDS] = {
        [FACET_MATH_GEMM] = "gemm hipblasLtMatmul",
        [FACET_MATH_CONVOLUTION] = "convolution miopenConvolutionForwardImmediate",
        [FACET_MATH_ACTIVATION] = "activation miopenActivationForward",
        [FACET_MATH_NORMALIZATION] = "normalization miopenBatchNormalizationForwardInference",
        [FACET_MATH_ATTENTION] = "attention hipblasLtMatmul, miopenSoftmaxForward_V2",
    };
    const struct rocm_math *math = &instance->math;
    struct kit_math_operands operands;
    struct facet_math operation;
    enum facet_status status =
        gpu_math_check_call(&instance->gpu, context, refuse_context, given, &operation, &operands, error);

    if (status != FACET_OK)
        return status;
    if (!(types_of(math, operation.operation) >> operation.type & 1))
        return gpu_math_not_offered(
            &operation, &(struct gpu_math_libraries){"hipBLASLt", "MIOpen", math->blas_library, math->dnn_library},
            error);
    if (uses_dnn(operation.operation))
        status = gpu_math_check_sizes(&operation, &operands, "MIOpen", error);
    return status == FACET_OK
               ? gpu_call_queue(&instance->gpu, context, stream, run_operation, implementations[operation.operation],
                                &operation, sizeof operation, &operands, error)
               : status;
}

const struct facet_math_ops rocm_math_ops = {
    .size = sizeof rocm_math_ops,
    .support = math_support,
    .run = math_run,
};
