/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the cases of the bench math by name: gemm-f32-512, conv-3x3, conv-1x1, attention-512. Never: computes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define HEADS     8u
#define DIMENSION 64u

static const char *const types[] = {"f32", "bf16", "f16", "int8"};
static const uint64_t type_bytes[] = {4, 2, 2, 1};

static bool find_gemm(const char *rest, struct bench_case *bench_case)
{
    for (uint32_t type = 0; type < FACET_MATH_TYPES; type++) {
        size_t length = strlen(types[type]);
        uint64_t n =
            strncmp(rest, types[type], length) == 0 && rest[length] == '-' ? strtoull(rest + length + 1, NULL, 10) : 0;

        if (n == 0)
            continue;
        bench_case->operation.operation = FACET_MATH_GEMM;
        bench_case->operation.type = type;
        bench_case->operation.of.gemm = (struct facet_gemm){.m = n, .n = n, .k = n, .alpha = 1};
        bench_case->bytes[0] = bench_case->bytes[1] = n * n * type_bytes[type];
        bench_case->bytes[3] = n * n * (type == FACET_MATH_INT8 ? 4 : type_bytes[type]);
        bench_case->multiplications = (double)n * (double)n * (double)n;
        return true;
    }
    return false;
}

/* Convolutions of ResNet-50 over eight images: the 3 x 3 of conv2_x, and the first 1 x 1 of conv4_x. */
static bool find_convolution(const char *rest, struct bench_case *bench_case)
{
    bool three = strcmp(rest, "3x3") == 0;
    uint64_t in = three ? 64 : 1024, out = three ? 64 : 256, size = three ? 56 : 14, kernel = three ? 3 : 1, batch = 8;

    if (!three && strcmp(rest, "1x1") != 0)
        return false;
    bench_case->operation.operation = FACET_MATH_CONVOLUTION;
    bench_case->operation.of.convolution = (struct facet_convolution){.batch = batch,
                                                                      .in_channels = in,
                                                                      .out_channels = out,
                                                                      .height = size,
                                                                      .width = size,
                                                                      .kernel = {kernel, kernel},
                                                                      .stride = {1, 1},
                                                                      .padding = {kernel / 2, kernel / 2}};
    bench_case->bytes[0] = batch * in * size * size * 4;
    bench_case->bytes[1] = out * in * kernel * kernel * 4;
    bench_case->bytes[3] = batch * out * size * size * 4;
    bench_case->multiplications = (double)(batch * out * size * size) * (double)(in * kernel * kernel);
    return true;
}

static bool find_attention(const char *rest, struct bench_case *bench_case)
{
    uint64_t n = strtoull(rest, NULL, 10);

    if (n == 0)
        return false;
    bench_case->operation.operation = FACET_MATH_ATTENTION;
    bench_case->operation.of.attention =
        (struct facet_attention){.batch = 1, .heads = HEADS, .queries = n, .keys = n, .dimension = DIMENSION};
    for (int i = 0; i < 4; i++)
        bench_case->bytes[i] = HEADS * n * DIMENSION * 4;
    bench_case->multiplications = 2.0 * HEADS * (double)n * (double)n * DIMENSION;
    return true;
}

bool bench_case_find(const char *name, struct bench_case *ret_case)
{
    *ret_case = (struct bench_case){.name = name, .operation.size = sizeof ret_case->operation};
    if (strncmp(name, "gemm-", 5) == 0)
        return find_gemm(name + 5, ret_case);
    if (strncmp(name, "conv-", 5) == 0)
        return find_convolution(name + 5, ret_case);
    return strncmp(name, "attention-", 10) == 0 && find_attention(name + 10, ret_case);
}
