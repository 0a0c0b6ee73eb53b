/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: loading the runtime's functions for test programs, and printing why that fails. Never: ends the process. */
#include "client.h"

#include <dlfcn.h>
#include <stdio.h>

#define TEXT(name) #name

/* The beginning of an ELF file. The fake runtime does not read such a file and finds every requested function in it. */
static const char image[64] = "\177ELF";

struct client client;
const char client_symbol;

static bool open_functions(void)
{
    client.library = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_LOCAL);
    if (!client.library) {
        fprintf(stderr, "client: %s\n", dlerror());
        return false;
    }
#define CLIENT_OPEN(name)                                                                                              \
    client.name = (__typeof__(client.name))dlsym(client.library, TEXT(name));                                          \
    if (!client.name) {                                                                                                \
        fprintf(stderr, "client: libamdhip64.so.6 has no function %s\n", TEXT(name));                                  \
        return false;                                                                                                  \
    }
    CLIENT_FUNCTIONS(CLIENT_OPEN)
#undef CLIENT_OPEN
    return true;
}

static void register_symbol(void)
{
    static const struct vendor_hip_fat_binary wrapper = {.magic = VENDOR_HIP_FAT_BINARY, .version = 1, .binary = image};
    static char name[] = "work_20us";

    void **modules = client.__hipRegisterFatBinary(&wrapper);
    client.__hipRegisterFunction(modules, &client_symbol, name, name, 0, NULL, NULL, NULL, NULL, NULL);
}

bool client_load(void)
{
    hipError_t result = client.hipModuleLoadData(&client.module, image);

    if (result != hipSuccess)
        fprintf(stderr, "client: loading the image failed with HIP error %d\n", result);
    return result == hipSuccess;
}

bool client_open(void)
{
    if (!open_functions())
        return false;
    register_symbol();
    return client.hipInit(0) == hipSuccess && client.hipSetDevice(0) == hipSuccess && client_load();
}

hipFunction_t client_function(const char *name)
{
    hipFunction_t function = NULL;

    return client.hipModuleGetFunction(&function, client.module, name) == hipSuccess ? function : NULL;
}

hipError_t client_launch(hipFunction_t function, unsigned blocks, hipStream_t stream)
{
    return client.hipModuleLaunchKernel(function, blocks, 1, 1, 128, 1, 1, 0, stream, NULL, NULL);
}

int client_enter(client_stream_t *ret_stream)
{
    return client.hipStreamCreateWithFlags(ret_stream, hipStreamNonBlocking);
}
