/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the CUDA runtime, which is linked into it: prints the runtime's answers in one line.
 *
 * Owns: the first calls of most programs. Never: names the driver, which the runtime finds.
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
