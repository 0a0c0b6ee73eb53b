/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: cuDNN's graphs, of one pointwise operation each: descriptors with attributes, and their execution.
 * Never: takes a descriptor that is not finalized, or changes a finalized descriptor.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cudnn_fake.h"

#define ATTRIBUTES 8            /* the most of a descriptor */
#define BYTES      64           /* the most of an attribute */
#define WORKSPACE  INT64_C(512) /* bytes that a plan asks for */

/* Attributes of an engine's configuration: the graph that it was found for, and whether it refuses to make a plan. */
enum { ENGINE_GRAPH = 10000, ENGINE_REFUSES };

struct attribute {
    int name, type;
    int64_t count;
    _Alignas(8) unsigned char bytes[BYTES];
};

struct descriptor {
    int kind, used;
    bool final;
    struct attribute attributes[ATTRIBUTES];
};

static size_t size_of(int type)
{
    return type == CUDNN_TYPE_DATA_TYPE || type == CUDNN_TYPE_HEUR_MODE || type == CUDNN_TYPE_POINTWISE_MODE ? 4 : 8;
}

static const struct attribute *find_attribute(const struct descriptor *descriptor, int name)
{
    for (int i = 0; descriptor && i < descriptor->used; i++) {
        if (descriptor->attributes[i].name == name)
            return &descriptor->attributes[i];
    }
    return NULL;
}

static int64_t number_attribute(const struct descriptor *descriptor, int name, int64_t fallback)
{
    const struct attribute *found = find_attribute(descriptor, name);
    int64_t wide = fallback;
    int narrow;

    if (found && size_of(found->type) == sizeof wide)
        memcpy(&wide, found->bytes, sizeof wide);
    if (found && size_of(found->type) == sizeof narrow) {
        memcpy(&narrow, found->bytes, sizeof narrow);
        wide = narrow;
    }
    return wide;
}

/* The descriptor in an attribute, if it is finalized; else NULL. */
static struct descriptor *descriptor_attribute(const struct descriptor *descriptor, int name)
{
    const struct attribute *found = find_attribute(descriptor, name);
    struct descriptor *to = NULL;

    if (found && found->type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        memcpy(&to, found->bytes, sizeof to);
    return to && to->final ? to : NULL;
}

cudnnStatus_t cudnnBackendCreateDescriptor(int kind, cudnnBackendDescriptor_t *descriptor)
{
    struct descriptor *made = fake_cudnn_make(sizeof *made);

    made->kind = kind;
    *descriptor = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    return fake_cudnn_drop(descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, int attribute, int type, int64_t count,
                                       const void *elements)
{
    struct descriptor *to = descriptor;

    if (!to || to->final || to->used == ATTRIBUTES || count < 1 || (size_t)count * size_of(type) > BYTES || !elements)
        return CUDNN_STATUS_BAD_PARAM;
    struct attribute *added = &to->attributes[to->used++];
    *added = (struct attribute){.name = attribute, .type = type, .count = count};
    memcpy(added->bytes, elements, (size_t)count * size_of(type));
    return CUDNN_STATUS_SUCCESS;
}

/* Whether a descriptor has the attributes that its kind needs. */
static bool has_required_attributes(const struct descriptor *descriptor)
{
    switch (descriptor->kind) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return find_attribute(descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE) &&
               find_attribute(descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS) &&
               find_attribute(descriptor, CUDNN_ATTR_TENSOR_STRIDES) &&
               find_attribute(descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID) &&
               find_attribute(descriptor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        return find_attribute(descriptor, CUDNN_ATTR_POINTWISE_MODE) &&
               find_attribute(descriptor, CUDNN_ATTR_POINTWISE_MATH_PREC);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return descriptor_attribute(descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR) &&
               descriptor_attribute(descriptor, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) &&
               descriptor_attribute(descriptor, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return find_attribute(descriptor, CUDNN_ATTR_OPERATIONGRAPH_HANDLE) &&
               descriptor_attribute(descriptor, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return descriptor_attribute(descriptor, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) &&
               find_attribute(descriptor, CUDNN_ATTR_ENGINEHEUR_MODE);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return find_attribute(descriptor, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) &&
               descriptor_attribute(descriptor, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return find_attribute(descriptor, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) &&
               find_attribute(descriptor, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) &&
               number_attribute(descriptor, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0);
    default:
        return false;
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    struct descriptor *object = descriptor;

    if (!object || object->final || !has_required_attributes(object))
        return CUDNN_STATUS_BAD_PARAM;
    if (object->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
        find_attribute(descriptor_attribute(object, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), ENGINE_REFUSES))
        return CUDNN_STATUS_NOT_SUPPORTED;
    object->final = true;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t answer_engine(struct descriptor *engine, struct descriptor *graph, bool refuses)
{
    const int64_t yes = 1;

    if (!engine || engine->kind != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM;
    cudnnStatus_t result = cudnnBackendSetAttribute(engine, ENGINE_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    if (result == CUDNN_STATUS_SUCCESS && refuses)
        result = cudnnBackendSetAttribute(engine, ENGINE_REFUSES, CUDNN_TYPE_INT64, 1, &yes);
    engine->final = true;
    return result;
}

/*
 * The engines for a graph. The engine that the heuristics rank first refuses the graph. For a hyperbolic tangent they
 * return no other engine, but the fallback mode does.
 */
static cudnnStatus_t answer_engines(const struct descriptor *heuristics, int64_t wanted, int64_t *count,
                                    cudnnBackendDescriptor_t *engines)
{
    struct descriptor *graph = descriptor_attribute(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    const struct descriptor *node = descriptor_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    bool is_tanh = number_attribute(descriptor_attribute(node, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
                                    CUDNN_ATTR_POINTWISE_MODE, -1) == CUDNN_POINTWISE_TANH_FWD;
    bool is_fallback = number_attribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, -1) == CUDNN_HEUR_MODE_FALLBACK;
    cudnnStatus_t result = CUDNN_STATUS_SUCCESS;

    *count = is_fallback || is_tanh || wanted < 2 ? 1 : 2;
    for (int64_t i = 0; i < *count && result == CUDNN_STATUS_SUCCESS; i++)
        result = answer_engine(engines[i], graph, i == 0 && !is_fallback);
    return result;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, int attribute, int type, int64_t wanted,
                                       int64_t *count, void *elements)
{
    struct descriptor *object = descriptor;

    if (!object || !object->final || wanted < 1)
        return CUDNN_STATUS_BAD_PARAM;
    *count = 1;
    if (attribute == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64) {
        *(int64_t *)elements = WORKSPACE;
        return CUDNN_STATUS_SUCCESS;
    }
    if (attribute != CUDNN_ATTR_ENGINEHEUR_RESULTS || object->kind != CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM;
    return answer_engines(object, wanted, count, elements);
}

/* ---- executing ---- */

static double real_attribute(const struct descriptor *descriptor, int name)
{
    const struct attribute *found = find_attribute(descriptor, name);
    double value = 0;

    if (found)
        memcpy(&value, found->bytes, sizeof value);
    return value;
}

static float apply_pointwise(const struct descriptor *pointwise, float x)
{
    double v = (double)x;

    switch (number_attribute(pointwise, CUDNN_ATTR_POINTWISE_MODE, -1)) {
    case CUDNN_POINTWISE_RELU_FWD:
        return x > 0 ? x : (float)(v * real_attribute(pointwise, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE));
    case CUDNN_POINTWISE_TANH_FWD:
        return (float)tanh(v);
    case CUDNN_POINTWISE_SIGMOID_FWD:
        return (float)(1 / (1 + exp(-v)));
    case CUDNN_POINTWISE_ELU_FWD:
        return x > 0 ? x : (float)(real_attribute(pointwise, CUDNN_ATTR_POINTWISE_ELU_ALPHA) * expm1(v));
    case CUDNN_POINTWISE_GELU_FWD:
        return (float)(v / 2 * (1 + erf(v * M_SQRT1_2)));
    case CUDNN_POINTWISE_SWISH_FWD:
        return (float)(v / (1 + exp(-v)));
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
        return (float)(v / 2 * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (v + 0.044715 * v * v * v))));
    default:
        return NAN;
    }
}

static void *data_of(const struct descriptor *pack, const struct descriptor *tensor)
{
    const struct attribute *ids = find_attribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attribute *pointers = find_attribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);

    for (int64_t i = 0; i < ids->count && i < pointers->count; i++) {
        if (((const int64_t *)(const void *)ids->bytes)[i] == number_attribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, -1))
            return ((void *const *)(const void *)pointers->bytes)[i];
    }
    return NULL;
}

static uint64_t elements_of(const struct descriptor *tensor)
{
    const struct attribute *sizes = find_attribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS);
    uint64_t count = 1;

    for (int64_t i = 0; i < sizes->count; i++)
        count *= (uint64_t)((const int64_t *)(const void *)sizes->bytes)[i];
    return count;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    const struct descriptor *engine = descriptor_attribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const struct descriptor *node =
        descriptor_attribute(descriptor_attribute(engine, ENGINE_GRAPH), CUDNN_ATTR_OPERATIONGRAPH_OPS);

    if (!handle || !node || !((const struct descriptor *)pack)->final)
        return CUDNN_STATUS_BAD_PARAM;
    const struct descriptor *pointwise = descriptor_attribute(node, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const struct descriptor *x = descriptor_attribute(node, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const struct descriptor *y = descriptor_attribute(node, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const void *from = data_of(pack, x);
    void *to = data_of(pack, y);
    enum fake_type type = fake_cudnn_type((cudnnDataType_t)number_attribute(x, CUDNN_ATTR_TENSOR_DATA_TYPE, -1));
    uint64_t count = elements_of(x);

    if (!from || !to || count != elements_of(y) ||
        (uintptr_t)from % (uint64_t)number_attribute(x, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1))
        return CUDNN_STATUS_BAD_PARAM;
    for (uint64_t i = 0; i < count; i++)
        fake_put(type, to, i, apply_pointwise(pointwise, fake_get(type, from, i)));
    return CUDNN_STATUS_SUCCESS;
}
