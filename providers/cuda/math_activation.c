/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: activations through cuDNN, as graphs of one pointwise operation, and softmax.
 * Never: approximates one function by another.
 */
#include "math_library.h"

#define ENGINES 8 /* the most engines that are requested from each of two heuristics */
/* Descriptors of a graph: two tensors, the function, its operation, the graph; heuristics and engines, twice; two for
 * running it: the plan and its variant pack. */
#define PARTS (5 + 2 * (1 + ENGINES) + 2)

static cudnnDataType_t type_of(uint32_t type)
{
    return type == FACET_MATH_F32 ? CUDNN_DATA_FLOAT : type == FACET_MATH_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* --- softmax --- */

static cudnnStatus_t run_softmax(const struct cuda_math_call *call, cudnnTensorDescriptor_t tensor,
                                 cudnnDataType_t type, CUdeviceptr input, CUdeviceptr output, const uint64_t sizes[4])
{
    const struct cuda_math *math = call->math;
    const float one = 1, zero = 0;
    cudnnStatus_t result = math->cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, type, (int)sizes[0],
                                                            (int)sizes[1], (int)sizes[2], (int)sizes[3]);

    if (result != CUDNN_STATUS_SUCCESS)
        return result;
    /* NOLINTNEXTLINE: the device's addresses are pointers to the library */
    return math->cudnnSoftmaxForward(call->dnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, tensor,
                                     (const void *)input, &zero, tensor, (void *)output);
}

enum facet_status cuda_math_softmax(const struct cuda_math_call *call, cudnnDataType_t type, CUdeviceptr input,
                                    CUdeviceptr output, const uint64_t sizes[4])
{
    cudnnTensorDescriptor_t tensor = NULL;
    cudnnStatus_t result = call->math->cudnnCreateTensorDescriptor(&tensor);

    if (result != CUDNN_STATUS_SUCCESS)
        return cuda_dnn_status(result);
    result = run_softmax(call, tensor, type, input, output, sizes);
    call->math->cudnnDestroyTensorDescriptor(tensor);
    return cuda_dnn_status(result);
}

/* --- pointwise --- */

struct graph {
    const struct cuda_math *math;
    cudnnBackendDescriptor_t parts[PARTS];
    int count;
    cudnnStatus_t result; /* of the first call that failed; later calls are skipped */
};

static cudnnBackendDescriptor_t add_descriptor(struct graph *graph, int kind)
{
    cudnnBackendDescriptor_t made = NULL;

    if (graph->result == CUDNN_STATUS_SUCCESS)
        graph->result = graph->math->cudnnBackendCreateDescriptor(kind, &made);
    if (graph->result == CUDNN_STATUS_SUCCESS)
        graph->parts[graph->count++] = made;
    return made;
}

static void set_attribute(struct graph *graph, cudnnBackendDescriptor_t part, int attribute, int type, int64_t count,
                          const void *elements)
{
    if (graph->result == CUDNN_STATUS_SUCCESS)
        graph->result = graph->math->cudnnBackendSetAttribute(part, attribute, type, count, elements);
}

static void finalize_descriptor(struct graph *graph, cudnnBackendDescriptor_t part)
{
    if (graph->result == CUDNN_STATUS_SUCCESS)
        graph->result = graph->math->cudnnBackendFinalize(part);
}

static cudnnBackendDescriptor_t add_tensor(struct graph *graph, const struct facet_math *operation, uint64_t address,
                                           int64_t id)
{
    const struct facet_activation *activation = &operation->of.activation;
    const int64_t sizes[] = {(int64_t)activation->batch, (int64_t)activation->channels, (int64_t)activation->height,
                             (int64_t)activation->width};
    const int64_t strides[] = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
    const int64_t alignment = (int64_t)(address & -address) < 16 ? (int64_t)(address & -address) : 16;
    const cudnnDataType_t type = type_of(operation->type);
    cudnnBackendDescriptor_t tensor = add_descriptor(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    set_attribute(graph, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_attribute(graph, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
    set_attribute(graph, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set_attribute(graph, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set_attribute(graph, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    finalize_descriptor(graph, tensor);
    return tensor;
}

static cudnnBackendDescriptor_t add_pointwise(struct graph *graph, const struct facet_activation *activation)
{
    static const int modes[] = {
        [FACET_ACTIVATION_RELU] = CUDNN_POINTWISE_RELU_FWD,
        [FACET_ACTIVATION_SIGMOID] = CUDNN_POINTWISE_SIGMOID_FWD,
        [FACET_ACTIVATION_TANH] = CUDNN_POINTWISE_TANH_FWD,
        [FACET_ACTIVATION_GELU] = CUDNN_POINTWISE_GELU_FWD,
        [FACET_ACTIVATION_GELU_TANH] = CUDNN_POINTWISE_GELU_APPROX_TANH_FWD,
        [FACET_ACTIVATION_SILU] = CUDNN_POINTWISE_SWISH_FWD,
        [FACET_ACTIVATION_LEAKY_RELU] = CUDNN_POINTWISE_RELU_FWD,
        [FACET_ACTIVATION_ELU] = CUDNN_POINTWISE_ELU_FWD,
    };
    const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    const double alpha = (double)activation->alpha;
    cudnnBackendDescriptor_t pointwise = add_descriptor(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);

    set_attribute(graph, pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &modes[activation->kind]);
    set_attribute(graph, pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    if (activation->kind == FACET_ACTIVATION_LEAKY_RELU)
        set_attribute(graph, pointwise, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1, &alpha);
    if (activation->kind == FACET_ACTIVATION_ELU)
        set_attribute(graph, pointwise, CUDNN_ATTR_POINTWISE_ELU_ALPHA, CUDNN_TYPE_DOUBLE, 1, &alpha);
    finalize_descriptor(graph, pointwise);
    return pointwise;
}

static cudnnBackendDescriptor_t add_operation(struct graph *graph, cudnnHandle_t handle,
                                              const struct facet_math *operation)
{
    cudnnBackendDescriptor_t input = add_tensor(graph, operation, operation->of.activation.input, 'x');
    cudnnBackendDescriptor_t output = add_tensor(graph, operation, operation->of.activation.output, 'y');
    cudnnBackendDescriptor_t pointwise = add_pointwise(graph, &operation->of.activation);
    cudnnBackendDescriptor_t node = add_descriptor(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);

    set_attribute(graph, node, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &pointwise);
    set_attribute(graph, node, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &input);
    set_attribute(graph, node, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &output);
    finalize_descriptor(graph, node);
    cudnnBackendDescriptor_t operation_graph = add_descriptor(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set_attribute(graph, operation_graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_attribute(graph, operation_graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &node);
    finalize_descriptor(graph, operation_graph);
    return operation_graph;
}

/* Adds the engines that the library has for the graph `operation_graph`, the best first; returns their number. */
static int64_t add_engines(struct graph *graph, cudnnBackendDescriptor_t operation_graph, int mode,
                           cudnnBackendDescriptor_t engines[ENGINES])
{
    int64_t found = 0;
    cudnnBackendDescriptor_t heuristics = add_descriptor(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);

    set_attribute(graph, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &operation_graph);
    set_attribute(graph, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize_descriptor(graph, heuristics);
    for (int i = 0; i < ENGINES; i++)
        engines[i] = add_descriptor(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (graph->result == CUDNN_STATUS_SUCCESS)
        graph->result = graph->math->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, ENGINES, &found, engines);
    return graph->result == CUDNN_STATUS_SUCCESS && found <= ENGINES ? found : 0;
}

static cudnnBackendDescriptor_t try_plan(struct graph *graph, cudnnHandle_t handle, cudnnBackendDescriptor_t engine)
{
    cudnnBackendDescriptor_t plan = add_descriptor(graph, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);

    set_attribute(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_attribute(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    finalize_descriptor(graph, plan);
    if (plan && graph->result != CUDNN_STATUS_SUCCESS) {
        graph->math->cudnnBackendDestroyDescriptor(plan);
        graph->count--;
        return NULL;
    }
    return plan;
}

/* The heuristics may rank first an engine that then refuses the graph when its plan is made: the next one is tried. */
static cudnnBackendDescriptor_t add_plan(struct graph *graph, cudnnHandle_t handle,
                                         cudnnBackendDescriptor_t operation_graph)
{
    static const int modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    cudnnBackendDescriptor_t engines[ENGINES], plan = NULL;

    if (graph->result != CUDNN_STATUS_SUCCESS)
        return NULL;
    for (size_t i = 0; !plan && i < sizeof modes / sizeof *modes; i++) {
        graph->result = CUDNN_STATUS_SUCCESS;
        int64_t found = add_engines(graph, operation_graph, modes[i], engines);
        for (int64_t j = 0; !plan && j < found; j++) {
            graph->result = CUDNN_STATUS_SUCCESS;
            plan = try_plan(graph, handle, engines[j]);
        }
    }
    if (!plan && graph->result == CUDNN_STATUS_SUCCESS)
        graph->result = CUDNN_STATUS_NOT_SUPPORTED;
    return plan;
}

static enum facet_status execute_plan(const struct cuda_math_call *call, struct graph *graph,
                                      cudnnBackendDescriptor_t plan)
{
    const struct facet_activation *activation = &call->operation->of.activation;
    const int64_t ids[] = {'x', 'y'};
    const uint64_t addresses[] = {activation->input, activation->output};
    int64_t bytes = 0, count = 0;
    CUdeviceptr workspace = 0;
    cudnnBackendDescriptor_t pack = add_descriptor(graph, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);

    if (graph->result == CUDNN_STATUS_SUCCESS)
        graph->result = graph->math->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                              CUDNN_TYPE_INT64, 1, &count, &bytes);
    if (graph->result != CUDNN_STATUS_SUCCESS)
        return cuda_dnn_status(graph->result);
    enum facet_status status = cuda_scratch_take(call, bytes > 0 ? (uint64_t)bytes : 0, &workspace);
    if (status != FACET_OK)
        return status;
    set_attribute(graph, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 2, ids);
    set_attribute(graph, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 2, addresses);
    set_attribute(graph, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalize_descriptor(graph, pack);
    if (graph->result == CUDNN_STATUS_SUCCESS)
        graph->result = graph->math->cudnnBackendExecute(call->dnn, plan, pack);
    cuda_scratch_give(call, workspace);
    return cuda_dnn_status(graph->result);
}

enum facet_status cuda_math_activation(const struct cuda_math_call *call)
{
    const struct facet_activation *activation = &call->operation->of.activation;
    const uint64_t sizes[4] = {activation->batch, activation->channels, activation->height, activation->width};
    struct graph graph = {.math = call->math};

    if (activation->kind == FACET_ACTIVATION_SOFTMAX)
        return cuda_math_softmax(call, type_of(call->operation->type), activation->input, activation->output, sizes);
    cudnnBackendDescriptor_t operation_graph = add_operation(&graph, call->dnn, call->operation);
    cudnnBackendDescriptor_t plan = add_plan(&graph, call->dnn, operation_graph);
    enum facet_status status = execute_plan(call, &graph, plan);
    while (graph.count > 0)
        call->math->cudnnBackendDestroyDescriptor(graph.parts[--graph.count]);
    return status;
}
