/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table `math`: the libraries, their capabilities, queueing, and the dispatch of an operation. Never: knows
 * the calls of which an operation consists.
 */
#include "math_library.h"

#include "cuda.h"
#include "gpu/call.h"
#include "gpu/math.h"

#define TYPE(name) (UINT32_C(1) << FACET_MATH_##name)

/* --- the libraries --- */

static const char *const blas_places[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", NULL};
static const char *const dnn_places[] = {"libcudnn.so.9", "libcudnn.so.8", NULL};

#define FUNCTION(name) {#name, offsetof(struct cuda_math, name)},
static const struct gpu_math_function blas_functions[] = {CUDA_BLAS(FUNCTION){NULL, 0}};
static const struct gpu_math_function dnn_functions[] = {CUDA_DNN(FUNCTION){NULL, 0}};
static const struct gpu_math_function normalization_functions[] = {CUDA_DNN_NORMALIZATION(FUNCTION){NULL, 0}};

void cuda_math_open(struct cuda_math *ret_math)
{
    *ret_math = (struct cuda_math){0};
    ret_math->blas_library = gpu_math_open("FACET_CUDA_CUBLASLT", blas_places, blas_functions, ret_math);
    ret_math->dnn_library = gpu_math_open("FACET_CUDA_CUDNN", dnn_places, dnn_functions, ret_math);
    ret_math->normalizes = gpu_math_find(ret_math->dnn_library, normalization_functions, ret_math);
}

void cuda_math_leave(struct cuda_math *math, uint32_t device)
{
    if (math->blas[device])
        math->cublasLtDestroy(math->blas[device]);
    if (math->dnn[device])
        math->cudnnDestroy(math->dnn[device]);
    math->blas[device] = NULL;
    math->dnn[device] = NULL;
}

enum facet_status cuda_blas_status(cublasStatus_t result)
{
    switch (result) {
    case CUBLAS_STATUS_SUCCESS:
        return FACET_OK;
    case CUBLAS_STATUS_ALLOC_FAILED:
        return FACET_NO_SPACE;
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return FACET_UNSUPPORTED;
    default:
        return FACET_IO;
    }
}

/* Since cuDNN 9, codes are grouped in thousands. Before, every failure is treated alike. */
enum facet_status cuda_dnn_status(cudnnStatus_t result)
{
    if (result == CUDNN_STATUS_SUCCESS)
        return FACET_OK;
    return result / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000 ? FACET_UNSUPPORTED : FACET_IO;
}

enum facet_status cuda_scratch_take(const struct cuda_math_call *call, uint64_t bytes, CUdeviceptr *ret_address)
{
    *ret_address = 0;
    if (bytes == 0)
        return FACET_OK;
    if (!call->driver->cuMemAllocAsync || !call->driver->cuMemFreeAsync)
        return FACET_UNSUPPORTED;
    CUresult result = call->driver->cuMemAllocAsync(ret_address, bytes, call->stream);
    return result == CUDA_SUCCESS ? FACET_OK : cuda_driver_fail(call->driver, NULL, "", result);
}

void cuda_scratch_give(const struct cuda_math_call *call, CUdeviceptr address)
{
    if (address)
        call->driver->cuMemFreeAsync(address, call->stream);
}

/* --- capabilities --- */

static void list_types(const struct cuda_math *math, uint32_t types[FACET_MATH_KINDS])
{
    uint32_t all = TYPE(F32) | TYPE(BF16) | TYPE(F16);

    types[FACET_MATH_GEMM] = math->blas_library ? all : 0;
    types[FACET_MATH_CONVOLUTION] = math->dnn_library ? TYPE(F32) : 0;
    types[FACET_MATH_ACTIVATION] = math->dnn_library ? all : 0;
    types[FACET_MATH_NORMALIZATION] = math->normalizes ? all : 0;
    types[FACET_MATH_ATTENTION] = math->blas_library && math->dnn_library ? TYPE(F32) : 0;
}

static void name_libraries(const struct cuda_math *math, char *text, size_t size)
{
    size_t blas = math->blas_library ? math->cublasLtGetVersion() : 0,
           dnn = math->dnn_library ? math->cudnnGetVersion() : 0;
    size_t step = dnn < 10000 ? 1000 : 10000; /* cuDNN 8 has 8900 for 8.9.0, cuDNN 9 has 90100 for 9.1.0 */
    int length = 0;

    if (blas)
        length =
            snprintf(text, size, "cuBLASLt %zu.%zu.%zu%s", blas / 10000, blas / 100 % 100, blas % 100, dnn ? ", " : "");
    if (dnn)
        snprintf(text + length, size - (size_t)length, "cuDNN %zu.%zu.%zu", dnn / step, dnn % step / 100, dnn % 100);
}

static enum facet_status math_support(struct facet_provider_instance *instance, uint32_t device,
                                      struct facet_math_support *ret_support, struct facet_error *error)
{
    struct facet_math_support support = {.size = sizeof support, .mixed = 1};
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_MATH, error);

    if (status != FACET_OK)
        return status;
    list_types(&instance->math, support.types);
    support.tensor_types = support.types[FACET_MATH_GEMM] | support.types[FACET_MATH_CONVOLUTION];
    name_libraries(&instance->math, support.library, sizeof support.library);
    return facet_kit_struct(&support, sizeof support, ret_support, error);
}

/* --- running --- */

/* Handles belong to a device's primary context. Called with the device entered. */
static enum facet_status take_handles(struct cuda_math *math, uint32_t device)
{
    if (math->blas_library && !math->blas[device]) {
        cublasStatus_t result = math->cublasLtCreate(&math->blas[device]);
        if (result != CUBLAS_STATUS_SUCCESS)
            return cuda_blas_status(result);
    }
    if (math->dnn_library && !math->dnn[device])
        return cuda_dnn_status(math->cudnnCreate(&math->dnn[device]));
    return FACET_OK;
}

static enum facet_status run_operation(struct gpu_machine *machine, uint32_t device, gpu_stream_handle stream,
                                       const void *data)
{
    struct facet_provider_instance *instance = (struct facet_provider_instance *)machine;
    struct cuda_math *math = &instance->math;
    const struct facet_math *operation = data;
    enum facet_status status = take_handles(math, device);

    if (status != FACET_OK)
        return status;
    const struct cuda_math_call call = {
        &instance->driver, math, math->blas[device], math->dnn[device], stream, operation,
    };
    if (operation->operation == FACET_MATH_GEMM)
        return cuda_math_gemm(&call, &operation->of.gemm, operation->flags, 0);
    status = cuda_dnn_status(math->cudnnSetStream(call.dnn, stream));
    if (status != FACET_OK)
        return status;
    if (operation->operation == FACET_MATH_CONVOLUTION)
        return cuda_math_convolution(&call);
    if (operation->operation == FACET_MATH_ACTIVATION)
        return cuda_math_activation(&call);
    if (operation->operation == FACET_MATH_NORMALIZATION)
        return cuda_math_normalization(&call);
    return cuda_math_attention(&call);
}

static enum facet_status check_sizes(const struct facet_math *operation, const struct kit_math_operands *operands,
                                     struct facet_error *error)
{
    const struct facet_normalization *normalization = &operation->of.normalization;

    if (operation->operation == FACET_MATH_NORMALIZATION && operation->flags & FACET_MATH_TRAINING &&
        normalization->batch * normalization->height * normalization->width == 1)
        return facet_kit_fail(error, FACET_UNSUPPORTED,
                              "normalization in training: cuDNN expects channels of more than one element");
    return operation->operation == FACET_MATH_GEMM ? FACET_OK
                                                   : gpu_math_check_sizes(operation, operands, "cuDNN", error);
}

static const char *implementation_of(const struct facet_math *operation)
{
    switch (operation->operation) {
    case FACET_MATH_GEMM:
        return "gemm cublasLtMatmul";
    case FACET_MATH_CONVOLUTION:
        return "convolution cudnnConvolutionForward";
    case FACET_MATH_ACTIVATION:
        return operation->of.activation.kind == FACET_ACTIVATION_SOFTMAX ? "activation cudnnSoftmaxForward"
                                                                         : "activation cudnnBackendExecute";
    case FACET_MATH_NORMALIZATION:
        return operation->flags & FACET_MATH_TRAINING ? "normalization cudnnBatchNormalizationForwardTraining"
                                                      : "normalization cudnnBatchNormalizationForwardInference";
    default:
        return "attention cublasLtMatmul, cudnnSoftmaxForward";
    }
}

/* The libraries' handles belong to the device's primary context, where MPS's limits do not hold. */
static enum facet_status refuse_context(const struct gpu_machine *machine, const struct gpu_context *context,
                                        struct facet_error *error)
{
    const struct facet_provider_instance *instance = (const struct facet_provider_instance *)machine;

    if (!context->worker->slice || instance->groups[context->device].count)
        return FACET_OK;
    return facet_kit_fail(error, FACET_UNSUPPORTED,
                          "mathematics runs in the device's primary context, where limits of MPS do not hold: expected "
                          "a worker without a compute limit");
}

static enum facet_status math_run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                  const struct facet_math *given, struct facet_error *error)
{
    uint32_t types[FACET_MATH_KINDS] = {0};
    struct kit_math_operands operands;
    struct facet_math operation;
    enum facet_status status =
        gpu_math_check_call(&instance->gpu, context, refuse_context, given, &operation, &operands, error);

    if (status != FACET_OK)
        return status;
    list_types(&instance->math, types);
    if (!(types[operation.operation] >> operation.type & 1))
        return gpu_math_not_offered(
            &operation,
            &(struct gpu_math_libraries){"cuBLASLt", "cuDNN", instance->math.blas_library, instance->math.dnn_library},
            error);
    status = check_sizes(&operation, &operands, error);
    return status == FACET_OK
               ? gpu_call_queue(&instance->gpu, context, stream, run_operation, implementation_of(&operation),
                                &operation, sizeof operation, &operands, error)
               : status;
}

const struct facet_math_ops cuda_math_ops = {
    .size = sizeof cuda_math_ops,
    .support = math_support,
    .run = math_run,
};
