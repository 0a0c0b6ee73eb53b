/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening the driver for the suite's programs. Never: handles a refusal that a test expects: the caller
 * does. */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct gpu gpu;

static const char store_text[] =
    ".visible .entry store_words(.param .u64 words, .param .u64 count, .param .u64 value) {\n"
    "  .reg .pred %p; .reg .u32 %b, %d, %g, %t; .reg .u64 %a, %i, %n, %o, %s, %v;\n"
    "  ld.param.u64 %a, [words]; ld.param.u64 %n, [count]; ld.param.u64 %v, [value]; cvta.to.global.u64 %a, %a;\n"
    "  mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mov.u32 %g, %nctaid.x; mov.u32 %t, %tid.x;\n"
    "  mad.lo.u32 %t, %b, %d, %t; cvt.u64.u32 %i, %t; mul.wide.u32 %s, %g, %d;\n"
    "next: setp.ge.u64 %p, %i, %n; @%p ret;\n"
    "  shl.b64 %o, %i, 3; add.u64 %o, %a, %o; st.global.u64 [%o], %v; add.u64 %i, %i, %s; bra next;\n"
    "}\n"
    ".visible .entry empty_0us() { ret; }\n";

static const char spin_text[] =
    ".visible .entry spin_%uus(.param .u64 out, .param .u64 steps) {\n"
    "  .reg .pred %%p; .reg .u32 %%b, %%d, %%t; .reg .u64 %%a, %%n, %%o, %%x;\n"
    "  ld.param.u64 %%a, [out]; ld.param.u64 %%n, [steps]; cvta.to.global.u64 %%a, %%a;\n"
    "  mov.u32 %%b, %%ctaid.x; mov.u32 %%d, %%ntid.x; mov.u32 %%t, %%tid.x; mad.lo.u32 %%t, %%b, %%d, %%t;\n"
    "  mul.wide.u32 %%o, %%t, 8; add.u64 %%a, %%a, %%o; mov.u64 %%x, 1;\n"
    "next: setp.eq.u64 %%p, %%n, 0; @%%p bra done;\n"
    "  mad.lo.u64 %%x, %%x, %llu, %llu; sub.u64 %%n, %%n, 1; bra next;\n"
    "done: st.global.u64 [%%a], %%x; ret;\n"
    "}\n";

void gpu_check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", call, result);
    exit(EXIT_FAILURE);
}

bool gpu_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
#define OPEN(name)                                                                                                     \
    gpu.name = (__typeof__(gpu.name))dlsym(library, #name);                                                            \
    if (!gpu.name) {                                                                                                   \
        fprintf(stderr, "libcuda.so.1 has no %s; the suite needs the driver of CUDA 11.4 or later\n", #name);          \
        return false;                                                                                                  \
    }
    GPU_FUNCTIONS(OPEN)
#undef OPEN
    CUresult result = gpu.cuInit(0);
    if (result != CUDA_SUCCESS)
        fprintf(stderr, "cuInit: %d\n", result);
    return result == CUDA_SUCCESS;
}

void gpu_enter(void)
{
    GPU(gpu.cuDeviceGet(&gpu.device, 0));
    GPU(gpu.cuDeviceGetAttribute(&gpu.units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device));
    GPU(gpu.cuDevicePrimaryCtxRetain(&gpu.context, gpu.device));
    GPU(gpu.cuCtxSetCurrent(gpu.context));
}

static CUfunction load_function(const char *entries, const char *name)
{
    char text[4096];
    CUmodule module;
    CUfunction function;

    snprintf(text, sizeof text, ".version 7.0\n.target sm_52\n.address_size 64\n%s", entries);
    GPU(gpu.cuModuleLoadData(&module, text));
    GPU(gpu.cuModuleGetFunction(&function, module, name));
    return function;
}

CUfunction gpu_spin(uint32_t microseconds)
{
    char entry[sizeof spin_text + 64], name[32];

    snprintf(entry, sizeof entry, spin_text, microseconds, (unsigned long long)GPU_SPIN_FACTOR,
             (unsigned long long)GPU_SPIN_ADDEND);
    snprintf(name, sizeof name, "spin_%uus", microseconds);
    return load_function(entry, name);
}

CUfunction gpu_store(void)
{
    return load_function(store_text, "store_words");
}

CUfunction gpu_empty(void)
{
    return load_function(store_text, "empty_0us");
}

uint64_t gpu_spin_result(uint64_t steps)
{
    uint64_t value = 1;

    while (steps--)
        value = value * GPU_SPIN_FACTOR + GPU_SPIN_ADDEND;
    return value;
}

static unsigned spin_blocks(void)
{
    return (unsigned)gpu.units * GPU_BLOCKS_A_SM;
}

uint64_t gpu_spin_words(void)
{
    return (uint64_t)spin_blocks() * GPU_BLOCK;
}

void gpu_launch_spin(CUfunction spin, CUdeviceptr out, uint64_t steps, CUstream stream)
{
    void *arguments[] = {&out, &steps};

    GPU(gpu.cuLaunchKernel(spin, spin_blocks(), 1, 1, GPU_BLOCK, 1, 1, 0, stream, arguments, NULL));
}

uint64_t gpu_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
