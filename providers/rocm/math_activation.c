/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: activations and softmax of f32 through MIOpen, and gelu in both forms, which MIOpen lacks, composed of MIOpen's
 * operations.
 * Never: keeps intermediate results after the operation.
 *
 * silu is x * sigmoid(x). gelu by tanh is x * sigmoid(2u), with u = sqrt(2 / pi) * (x + 0.044715 x^3), because (1 +
 * tanh(u)) / 2 is sigmoid(2u). gelu by erf is relu(x) - |x| / 2 * erfc(|x| / sqrt(2)), and for z >= 0
 *
 *     erfc(z) = (a1 t + a2 t^2 + .. + a5 t^5) * exp(-z^2), t = 1 / (1 + p z), to 1.5e-7
 *
 * (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26), which is far more exact than the ABI requires.
 * No difference of two large numbers is taken. exp(s) for s <= 0 is elu(s) + 1.
 */
#include "math_library.h"

#define BUFFERS 4 /* the most buffers that an activation needs for intermediate results */

/* Tensors of one shape, and the result of the first call that failed; later calls are skipped. */
struct work {
    const struct rocm_math_call *call;
    miopenTensorDescriptor_t tensor;
    miopenActivationDescriptor_t activation;
    uint64_t bytes;
    void *memory[BUFFERS];
    miopenStatus_t result;
};

static const float one = 1, zero = 0;

/* to = mode(from) */
static void apply_mode(struct work *work, int mode, double alpha, double beta, double gamma, const void *from, void *to)
{
    const struct rocm_math *math = work->call->math;

    if (work->result == miopenStatusSuccess)
        work->result = math->miopenSetActivationDescriptor(work->activation, mode, alpha, beta, gamma);
    if (work->result == miopenStatusSuccess)
        work->result = math->miopenActivationForward(work->call->dnn, work->activation, &one, work->tensor, from, &zero,
                                                     work->tensor, to);
}

static void combine_tensors(struct work *work, int operation, float a_factor, const void *a, float b_factor,
                            const void *b, void *to)
{
    if (work->result == miopenStatusSuccess)
        work->result = work->call->math->miopenOpTensor(work->call->dnn, operation, &a_factor, work->tensor, a,
                                                        &b_factor, work->tensor, b, &zero, work->tensor, to);
}

/* to = factor * a * b */
static void multiply_tensors(struct work *work, float factor, const void *a, const void *b, void *to)
{
    combine_tensors(work, miopenTensorOpMul, factor, a, 1, b, to);
}

/* to = a + factor * b */
static void add_tensors(struct work *work, const void *a, float factor, const void *b, void *to)
{
    combine_tensors(work, miopenTensorOpAdd, 1, a, factor, b, to);
}

static void run_softmax(struct work *work, const void *input, void *output)
{
    const struct rocm_math_call *call = work->call;
    const void *from = input;

    if (input == output) { /* MIOpen does not document whether softmax works in place */
        if (call->runtime->hipMemcpyDtoDAsync(work->memory[0], output, work->bytes, call->stream) != hipSuccess)
            work->result = miopenStatusInternalError;
        from = work->memory[0];
    }
    if (work->result == miopenStatusSuccess)
        work->result = rocm_math_softmax(call, work->tensor, from, output);
}

static void run_silu(struct work *work, const void *input, void *output)
{
    void *gate = work->memory[0];

    apply_mode(work, miopenActivationLOGISTIC, 0, 0, 0, input, gate);
    multiply_tensors(work, 1, input, gate, output);
}

static void run_gelu_tanh(struct work *work, const void *input, void *output)
{
    const float slope = 1.5957691216F; /* 2 * sqrt(2 / pi) */
    void *gate = work->memory[0];

    multiply_tensors(work, 0.044715F * slope, input, input, gate);
    multiply_tensors(work, 1, gate, input, gate);
    add_tensors(work, gate, slope, input, gate);
    apply_mode(work, miopenActivationLOGISTIC, 0, 0, 0, gate, gate);
    multiply_tensors(work, 1, input, gate, output);
}

static void run_gelu(struct work *work, const void *input, void *output)
{
    static const float factors[] = {1.061405429F, -1.453152027F, 1.421413741F, -0.284496736F, 0.254829592F};
    const double p = 0.3275911 * 0.70710678118654752; /* a factor of |x|, so it includes 1 / sqrt(2) */
    void *magnitude = work->memory[0], *t = work->memory[1], *sum = work->memory[2], *decay = work->memory[3];

    apply_mode(work, miopenActivationABS, 0, 0, 0, input, magnitude);
    apply_mode(work, miopenActivationPOWER, 1, p, -1, magnitude, t);
    multiply_tensors(work, factors[0], t, t, sum);
    add_tensors(work, sum, factors[1], t, sum);
    for (int i = 2; i < 5; i++) {
        multiply_tensors(work, 1, sum, t, sum);
        add_tensors(work, sum, factors[i], t, sum);
    }
    multiply_tensors(work, -0.5F, magnitude, magnitude, decay);
    apply_mode(work, miopenActivationELU, 1, 0, 0, decay, decay); /* exp(-x^2 / 2) - 1 */
    multiply_tensors(work, 1, decay, sum, decay);
    add_tensors(work, decay, 1, sum, decay); /* erfc */
    multiply_tensors(work, 1, magnitude, decay, decay);
    apply_mode(work, miopenActivationRELU, 0, 0, 0, input, output);
    add_tensors(work, output, -0.5F, decay, output);
}

static void run_activation(struct work *work, const struct facet_activation *activation)
{
    /* NOLINTBEGIN: the device's addresses are pointers to the library */
    const void *input = (const void *)activation->input;
    void *output = (void *)activation->output;
    /* NOLINTEND */

    switch (activation->kind) {
    case FACET_ACTIVATION_RELU:
        return apply_mode(work, miopenActivationRELU, 0, 0, 0, input, output);
    case FACET_ACTIVATION_SIGMOID:
        return apply_mode(work, miopenActivationLOGISTIC, 0, 0, 0, input, output);
    case FACET_ACTIVATION_TANH:
        return apply_mode(work, miopenActivationTANH, 1, 1, 0, input, output);
    case FACET_ACTIVATION_GELU:
        return run_gelu(work, input, output);
    case FACET_ACTIVATION_GELU_TANH:
        return run_gelu_tanh(work, input, output);
    case FACET_ACTIVATION_SILU:
        return run_silu(work, input, output);
    case FACET_ACTIVATION_LEAKY_RELU:
        return apply_mode(work, miopenActivationLEAKYRELU, (double)activation->alpha, 0, 0, input, output);
    case FACET_ACTIVATION_ELU:
        return apply_mode(work, miopenActivationELU, (double)activation->alpha, 0, 0, input, output);
    default:
        return run_softmax(work, input, output);
    }
}

static int buffers_of(const struct facet_activation *activation)
{
    switch (activation->kind) {
    case FACET_ACTIVATION_GELU:
        return BUFFERS;
    case FACET_ACTIVATION_GELU_TANH:
    case FACET_ACTIVATION_SILU:
        return 1;
    case FACET_ACTIVATION_SOFTMAX:
        return activation->input == activation->output;
    default:
        return 0;
    }
}

enum facet_status rocm_math_activation(const struct rocm_math_call *call)
{
    const struct facet_activation *activation = &call->operation->of.activation;
    struct work work = {.call = call,
                        .bytes = activation->batch * activation->channels * activation->height * activation->width *
                                 sizeof(float)};
    enum facet_status status = FACET_OK;

    work.result = rocm_math_tensor(call->math, activation->batch, activation->channels, activation->height,
                                   activation->width, &work.tensor);
    if (work.result == miopenStatusSuccess)
        work.result = call->math->miopenCreateActivationDescriptor(&work.activation);
    for (int i = 0; i < buffers_of(activation) && status == FACET_OK; i++)
        status = rocm_scratch_take(call, work.bytes, &work.memory[i]);
    if (status == FACET_OK && work.result == miopenStatusSuccess)
        run_activation(&work, activation);
    for (int i = 0; i < BUFFERS; i++)
        rocm_scratch_give(call, work.memory[i]);
    if (work.activation)
        call->math->miopenDestroyActivationDescriptor(work.activation);
    if (work.tensor)
        call->math->miopenDestroyTensorDescriptor(work.tensor);
    return status == FACET_OK ? rocm_dnn_status(work.result) : status;
}

miopenStatus_t rocm_math_softmax(const struct rocm_math_call *call, miopenTensorDescriptor_t tensor, const void *input,
                                 void *output)
{
    return call->math->miopenSoftmaxForward_V2(call->dnn, &one, tensor, input, &zero, tensor, output,
                                               MIOPEN_SOFTMAX_ACCURATE, MIOPEN_SOFTMAX_MODE_CHANNEL);
}
