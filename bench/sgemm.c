/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A matrix product through CLBlast, to see how much a program that uses a library of kernels loses inside a vGPU.
 *
 * Owns: the timed products and the check of their result. Never: includes anything of Facet.
 *
 * usage: bench_sgemm SIZE SECONDS      prints {"size","products","gflops"}
 */
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#include <clblast_c.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct product {
    cl_command_queue queue;
    cl_context context;
    cl_mem left, right, result;
    float *left_values, *right_values;
    size_t size;
};

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void check(int code, const char *call)
{
    if (code == CL_SUCCESS)
        return;
    fprintf(stderr, "bench_sgemm: %s failed with %d\n", call, code);
    exit(EXIT_FAILURE);
}

/* Small integers: their products and sums are exact in float, in any order. */
static cl_mem make_matrix(const struct product *product, unsigned seed, float **ret_values)
{
    size_t count = product->size * product->size;
    float *values = malloc(count * sizeof(*values));
    cl_int code;

    check(values ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "malloc");
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 29);
    }
    cl_mem memory = clCreateBuffer(product->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, count * sizeof(*values),
                                   values, &code);
    check(code, "clCreateBuffer");
    *ret_values = values;
    return memory;
}

static void product_open(struct product *product)
{
    cl_platform_id platform;
    cl_device_id device;
    float *unused;
    cl_int code;

    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    product->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check(code, "clCreateContext");
    product->queue = clCreateCommandQueue(product->context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    product->left = make_matrix(product, 1, &product->left_values);
    product->right = make_matrix(product, 2, &product->right_values);
    product->result = make_matrix(product, 3, &unused);
    free(unused);
}

static void product_run(struct product *product)
{
    size_t n = product->size;

    check((int)CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, n, n, n, 1.0f, product->left,
                            0, n, product->right, 0, n, 0.0f, product->result, 0, n, &product->queue, NULL),
          "CLBlastSgemm");
    check(clFinish(product->queue), "clFinish");
}

/* Checks a sample of the result against the definition. */
static void product_verify(const struct product *product)
{
    size_t n = product->size, count = n * n;
    float *values = malloc(count * sizeof(*values));

    check(values ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "malloc");
    check(clEnqueueReadBuffer(product->queue, product->result, CL_TRUE, 0, count * sizeof(*values), values, 0, NULL,
                              NULL),
          "clEnqueueReadBuffer");
    for (size_t at = 0; at < count; at += count / 97 + 1) {
        float expected = 0;

        for (size_t k = 0; k < n; k++)
            expected += product->left_values[at / n * n + k] * product->right_values[k * n + at % n];
        if (fabsf(values[at] - expected) > 0.5f) {
            fprintf(stderr, "bench_sgemm: element %zu is %g, expected %g\n", at, (double)values[at], (double)expected);
            exit(EXIT_FAILURE);
        }
    }
    free(values);
}

static double parse(const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= low && value <= high)) {
        fprintf(stderr, "bench_sgemm: '%s': expected a number from %g to %g\n", text, low, high);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    struct product product = {0};
    unsigned long products = 0;
    double start, spent, seconds;

    if (argc != 3) {
        fputs("usage: bench_sgemm SIZE SECONDS\n", stderr);
        return 2;
    }
    product.size = (size_t)parse(argv[1], 16, 8192);
    seconds = parse(argv[2], 0.001, 3600);
    product_open(&product);
    product_run(&product); /* builds the kernels */
    product_verify(&product);
    start = now_s();
    do {
        product_run(&product);
        products++;
    } while ((spent = now_s() - start) < seconds);
    product_verify(&product);
    double cube = (double)product.size * (double)product.size * (double)product.size;
    printf("{\"size\":%zu,\"products\":%lu,\"gflops\":%.4f}\n", product.size, products,
           2e-9 * cube * (double)products / spent);
    return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
