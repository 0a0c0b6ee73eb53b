/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product of two bf16 matrices through cuBLASLt, which is opened when the program runs: gpu-gemm N MILLISECONDS
 *
 * Owns: the timed loop, and the declarations of the functions that it calls. Prints {"tflops": ..., "right": ...}.
 * Without cuBLASLt it ends with 77, and the reason on stderr.
 * Never: chooses an algorithm: the library does; or calls a function of Facet.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define SKIP            77 /* test runners take this status as "skipped" */
#define BF16            14 /* CUDA_R_16BF */
#define F32             0  /* CUDA_R_32F */
#define COMPUTE         68 /* CUBLAS_COMPUTE_32F */
#define BF16_ONE        0x3f80u
#define CALLS_PER_BATCH 8u
#define BATCH_US        20000.0 /* the least duration of a batch, beside which the launches' time does not matter */

/* Handles are declared as pointers, types as numbers, and a status of 0 is success. */
struct cublaslt {
    int (*cublasLtCreate)(void **handle);
    int (*cublasLtMatmulDescCreate)(void **operation, int compute, int scale);
    int (*cublasLtMatrixLayoutCreate)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
    int (*cublasLtMatmul)(void *handle, void *operation, const void *alpha, const void *a, void *a_layout,
                          const void *b, void *b_layout, const void *beta, const void *c, void *c_layout, void *d,
                          void *d_layout, const void *algorithm, void *workspace, size_t bytes, CUstream stream);
};
static struct cublaslt lt;

struct product {
    void *handle, *operation, *layout, *result_layout;
    CUdeviceptr a, b, c;
    uint64_t n;
};

static void check_call(int status, const char *call)
{
    if (status == 0)
        return;
    fprintf(stderr, "%s failed with cuBLAS status %d\n", call, status);
    exit(EXIT_FAILURE);
}
#define CHECK_LT(call) check_call(lt.call, #call)

static bool open_library(void)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11",
                                        "libcublasLt.so"};
    void *library = NULL;

    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "no cuBLASLt: %s\n", dlerror());
        return false;
    }
#define OPEN(name) lt.name = (__typeof__(lt.name))dlsym(library, #name)
    OPEN(cublasLtCreate);
    OPEN(cublasLtMatmulDescCreate);
    OPEN(cublasLtMatrixLayoutCreate);
    OPEN(cublasLtMatmul);
#undef OPEN
    bool whole = lt.cublasLtCreate && lt.cublasLtMatmulDescCreate && lt.cublasLtMatrixLayoutCreate && lt.cublasLtMatmul;
    if (!whole)
        fputs("cuBLASLt lacks one of the functions that gpu-gemm calls\n", stderr);
    return whole;
}

/* All elements of the factors are 1, so each element of the product is n. */
static void prepare_product(struct product *product)
{
    uint64_t count = product->n * product->n;
    uint16_t *ones = malloc(count * sizeof *ones);

    if (!ones)
        exit(EXIT_FAILURE);
    for (uint64_t i = 0; i < count; i++)
        ones[i] = BF16_ONE;
    GPU(gpu.cuMemAlloc_v2(&product->a, count * sizeof *ones));
    GPU(gpu.cuMemAlloc_v2(&product->b, count * sizeof *ones));
    GPU(gpu.cuMemAlloc_v2(&product->c, count * sizeof(float)));
    GPU(gpu.cuMemcpyHtoD_v2(product->a, ones, count * sizeof *ones));
    GPU(gpu.cuMemcpyHtoD_v2(product->b, ones, count * sizeof *ones));
    free(ones);
    CHECK_LT(cublasLtCreate(&product->handle));
    CHECK_LT(cublasLtMatmulDescCreate(&product->operation, COMPUTE, F32));
    CHECK_LT(cublasLtMatrixLayoutCreate(&product->layout, BF16, product->n, product->n, (int64_t)product->n));
    CHECK_LT(cublasLtMatrixLayoutCreate(&product->result_layout, F32, product->n, product->n, (int64_t)product->n));
}

static void *pointer_of(CUdeviceptr pointer)
{
    return (void *)(uintptr_t)pointer; /* NOLINT: an address is a number */
}

static void multiply_once(const struct product *p)
{
    float one = 1, zero = 0;

    CHECK_LT(cublasLtMatmul(p->handle, p->operation, &one, pointer_of(p->a), p->layout, pointer_of(p->b), p->layout,
                            &zero, pointer_of(p->c), p->result_layout, pointer_of(p->c), p->result_layout, NULL, NULL,
                            0, NULL));
}

static double time_us(const struct product *product, unsigned count)
{
    CUevent begin, end;
    float milliseconds;

    GPU(gpu.cuEventCreate(&begin, 0));
    GPU(gpu.cuEventCreate(&end, 0));
    GPU(gpu.cuEventRecord(begin, NULL));
    for (unsigned i = 0; i < count; i++)
        multiply_once(product);
    GPU(gpu.cuEventRecord(end, NULL));
    GPU(gpu.cuEventSynchronize(end));
    GPU(gpu.cuEventElapsedTime(&milliseconds, begin, end));
    return (double)milliseconds * 1000.0;
}

/* The median time of a product over batches, each of which has enough products to take BATCH_US. */
static double measure_us(const struct product *product, uint64_t milliseconds)
{
    unsigned count = CALLS_PER_BATCH, batch_count = 0;
    double batches_us[1024]; /* ascending */

    while (time_us(product, count) < BATCH_US && count < 1u << 20)
        count *= 2;
    for (uint64_t end = gpu_now_ns() + milliseconds * 1000000u;
         !batch_count || (batch_count < 1024 && gpu_now_ns() < end); batch_count++) {
        double product_us = time_us(product, count) / count;
        unsigned at = batch_count;
        for (; at > 0 && batches_us[at - 1] > product_us; at--)
            batches_us[at] = batches_us[at - 1];
        batches_us[at] = product_us;
    }
    return batches_us[batch_count / 2];
}

/* Whether the first and the last element of the product are right. */
static bool is_right(const struct product *product)
{
    float corners[2];

    GPU(gpu.cuMemcpyDtoH_v2(&corners[0], product->c, sizeof corners[0]));
    GPU(gpu.cuMemcpyDtoH_v2(&corners[1], product->c + (product->n * product->n - 1) * sizeof corners[1],
                            sizeof corners[1]));
    return fabsf(corners[0] - (float)product->n) < 0.5f && fabsf(corners[1] - (float)product->n) < 0.5f;
}

int main(int argc, char **argv)
{
    struct product product = {.n = argc == 3 ? strtoull(argv[1], NULL, 10) : 0};

    if (!product.n) {
        fputs("usage: gpu-gemm N MILLISECONDS\n", stderr);
        return 2;
    }
    if (!gpu_open())
        return EXIT_FAILURE;
    if (!open_library())
        return SKIP;
    gpu_enter();
    prepare_product(&product);
    multiply_once(&product);
    GPU(gpu.cuCtxSynchronize());
    double n = (double)product.n, us = measure_us(&product, strtoull(argv[2], NULL, 10));
    printf("{\"tflops\": %.3f, \"right\": %s}\n", 2 * n * n * n / us / 1e6, is_right(&product) ? "true" : "false");
    return EXIT_SUCCESS;
}
