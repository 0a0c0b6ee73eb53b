/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The computations that the fake cuDNN and the fake MIOpen share.
 *
 * Owns: convolution, softmax over channels and adding one number to each channel, in plain loops over NCHW.
 * Never: is linked by anything that ships.
 */
#ifndef FAKE_CUDA_DNN_FAKE_H
#define FAKE_CUDA_DNN_FAKE_H

#include <math.h>
#include <stdbool.h>

#include "math_fake.h"

struct fake_window {
    int pad[2], stride[2], dilation[2], groups;
};

struct fake_convolution {
    const struct fake_window *window;
    const int *input, *filter, *output; /* four sizes each */
};

/* The height (0) or width (1) of the output that the other sizes give. */
static inline int fake_outputs(const struct fake_convolution *convolution, int i)
{
    const struct fake_window *w = convolution->window;

    return (convolution->input[2 + i] + 2 * w->pad[i] - w->dilation[i] * (convolution->filter[2 + i] - 1) - 1) /
               w->stride[i] +
           1;
}

static inline bool fake_convolution_fits(const struct fake_convolution *convolution)
{
    return convolution->filter[1] * convolution->window->groups == convolution->input[1] &&
           convolution->filter[0] == convolution->output[1] && convolution->input[0] == convolution->output[0] &&
           fake_outputs(convolution, 0) == convolution->output[2] &&
           fake_outputs(convolution, 1) == convolution->output[3];
}

/* One number of the output, at {image, channel, row, column}. */
static inline float fake_output_at(const struct fake_convolution *convolution, const float *from, const float *weights,
                                   const int at[4])
{
    const int *filter = convolution->filter, *input = convolution->input;
    const struct fake_window *window = convolution->window;
    int first = at[1] / (filter[0] / window->groups) * filter[1];
    float sum = 0;

    for (int c = 0; c < filter[1]; c++)
        for (int i = 0; i < filter[2]; i++)
            for (int j = 0; j < filter[3]; j++) {
                int y = at[2] * window->stride[0] - window->pad[0] + i * window->dilation[0];
                int x = at[3] * window->stride[1] - window->pad[1] + j * window->dilation[1];

                if (y < 0 || x < 0 || y >= input[2] || x >= input[3])
                    continue;
                sum += from[((at[0] * input[1] + first + c) * input[2] + y) * input[3] + x] *
                       weights[((at[1] * filter[1] + c) * filter[2] + i) * filter[3] + j];
            }
    return sum;
}

static inline void fake_convolve(const struct fake_convolution *convolution, const float *from, const float *weights,
                                 float *to)
{
    const int *sizes = convolution->output;

    for (int n = 0; n < sizes[0]; n++)
        for (int k = 0; k < sizes[1]; k++)
            for (int i = 0; i < sizes[2]; i++)
                for (int j = 0; j < sizes[3]; j++)
                    *to++ = fake_output_at(convolution, from, weights, (const int[]){n, k, i, j});
}

static inline void fake_add_channels(const int sizes[4], const float *numbers, float factor, float *to)
{
    for (int n = 0; n < sizes[0]; n++)
        for (int k = 0; k < sizes[1]; k++)
            for (int i = 0; i < sizes[2] * sizes[3]; i++)
                *to++ += factor * numbers[k];
}

/* Softmax over `count` elements, from index `at` on, `step` elements apart. */
static inline void fake_softmax_of(enum fake_type type, const void *x, void *y, uint64_t at, uint64_t step, int count)
{
    float most = -INFINITY, sum = 0;

    for (int i = 0; i < count; i++)
        most = fmaxf(most, fake_get(type, x, at + (uint64_t)i * step));
    for (int i = 0; i < count; i++)
        sum += expf(fake_get(type, x, at + (uint64_t)i * step) - most);
    for (int i = 0; i < count; i++)
        fake_put(type, y, at + (uint64_t)i * step, expf(fake_get(type, x, at + (uint64_t)i * step) - most) / sum);
}

static inline void fake_softmax(enum fake_type type, const int sizes[4], const void *x, void *y)
{
    uint64_t step = (uint64_t)sizes[2] * (uint64_t)sizes[3];

    for (uint64_t n = 0; n < (uint64_t)sizes[0]; n++)
        for (uint64_t i = 0; i < step; i++)
            fake_softmax_of(type, x, y, n * (uint64_t)sizes[1] * step + i, step, sizes[1]);
}

#endif
