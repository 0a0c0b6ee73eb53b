/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: cuInit. Never: initialises the driver without the vGPU's limits. */
#include "hooks.h"
#include "process.h"

CUresult facet_cuInit(unsigned flags)
{
    CUresult result = facet_cuda_attach_to_init();

    return result == CUDA_SUCCESS ? facet_cuda_driver.cuInit(flags) : result;
}
