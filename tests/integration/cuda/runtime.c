/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with the CUDA runtime linked into it. It prints the runtime's answers in one line.
 *
 * Owns: the calls with which most programs begin. Never: names the driver: the runtime finds it.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    int devices = -1, version = -1;
    cudaError_t counted = cudaGetDeviceCount(&devices);
    void *memory = NULL;
    cudaError_t allocated = cudaMalloc(&memory, 1 << 20);
    cudaError_t asked = cudaDriverGetVersion(&version);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    printf("count %s %d, malloc %s, version %s %d; %s\n", cudaGetErrorName(counted), devices,
           cudaGetErrorName(allocated), cudaGetErrorName(asked), version, visible ? visible : "all");
    return 0;
}
