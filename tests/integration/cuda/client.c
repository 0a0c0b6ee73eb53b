/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: loading the driver's functions for test programs, and printing why that fails. Never: ends the process. */
#include "client.h"

#include <dlfcn.h>
#include <stdio.h>

struct client client;

static bool open_functions(void)
{
    client.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!client.library) {
        fprintf(stderr, "client: %s\n", dlerror());
        return false;
    }
#define CLIENT_OPEN(name)                                                                                              \
    client.name = (__typeof__(client.name))dlsym(client.library, #name);                                               \
    if (!client.name) {                                                                                                \
        fprintf(stderr, "client: libcuda.so.1 has no function %s\n", #name);                                           \
        return false;                                                                                                  \
    }
    CLIENT_FUNCTIONS(CLIENT_OPEN)
#undef CLIENT_OPEN
    return true;
}

bool client_open(void)
{
    CUdevice device;

    if (!open_functions())
        return false;
    CUresult result = client.cuInit(0);
    if (result == CUDA_SUCCESS)
        result = client.cuDeviceGet(&device, 0);
    if (result == CUDA_SUCCESS)
        result = client.cuDevicePrimaryCtxRetain(&client.context, device);
    if (result == CUDA_SUCCESS)
        result = client.cuCtxSetCurrent(client.context);
    if (result == CUDA_SUCCESS)
        result = client.cuModuleLoadData(&client.module, CLIENT_IMAGE);
    if (result != CUDA_SUCCESS)
        fprintf(stderr, "client: beginning device 0 failed with CUDA error %d\n", result);
    return result == CUDA_SUCCESS;
}

CUfunction client_function(const char *name)
{
    CUfunction function = NULL;
    CUresult result = client.cuModuleGetFunction(&function, client.module, name);

    if (result != CUDA_SUCCESS)
        fprintf(stderr, "client: looking up kernel %s failed with CUDA error %d\n", name, result);
    return result == CUDA_SUCCESS ? function : NULL;
}

CUresult client_launch(CUfunction function, unsigned blocks, CUstream stream)
{
    return client.cuLaunchKernel(function, blocks, 1, 1, 128, 1, 1, 0, stream, NULL, NULL);
}

int client_enter(client_stream_t *ret_stream)
{
    CUresult result = client.cuCtxSetCurrent(client.context);

    return result == CUDA_SUCCESS ? client.cuStreamCreate(ret_stream, CU_STREAM_NON_BLOCKING) : result;
}
