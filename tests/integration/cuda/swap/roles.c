/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose device memory may be swapped out: cuda-swap-roles ROLE
 *
 * Most roles fill a working set of 48 MiB. Many of them then wait for SIGTERM. Meanwhile the test starts another
 * process, which takes the device's memory.
 *
 * Owns: the roles. Never: calls a function of Facet, or decides by time.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/cuda/client.h"

#define MIB               ((uint64_t)1 << 20)
#define WORKING_SET_BYTES (48 * MIB)
#define WORD_VALUE        77 /* of each word of the working set */

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

static CUdeviceptr working_set;

static CUdeviceptr allocate(uint64_t bytes)
{
    CUdeviceptr pointer = 0;

    OK(client.cuMemAlloc_v2(&pointer, bytes));
    return pointer;
}

static void launch_on_words(const char *name, uint64_t address, uint64_t words, uint64_t value)
{
    void *parameters[] = {&address, &words, &value};

    OK(client.cuLaunchKernel(client_function(name), 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
}

static void fill_working_set(void)
{
    working_set = allocate(WORKING_SET_BYTES);
    launch_on_words("store_words_100us", working_set, WORKING_SET_BYTES / 8, WORD_VALUE);
    OK(client.cuCtxSynchronize());
}

/* Reads the working set back with the function `copy`, one piece at a time, and checks every word. */
static void check_working_set(__typeof__(&cuMemcpyDtoH_v2) copy, uint64_t value)
{
    static uint64_t words[1 << 18]; /* 2 MiB */

    for (uint64_t offset = 0; offset < WORKING_SET_BYTES; offset += sizeof words) {
        OK(copy(words, working_set + offset, sizeof words));
        for (size_t i = 0; i < sizeof words / 8; i++)
            CHECK(words[i] == value);
    }
}

static void wait_for_signal(void)
{
    sigset_t awaited;
    int signal;

    sigemptyset(&awaited);
    sigaddset(&awaited, SIGTERM);
    CHECK(sigwait(&awaited, &signal) == 0);
}

/* A swappable allocation consists of several parts, but every query reports one allocation. */
static void role_facts(void)
{
    CUdeviceptr pointer = allocate(40 * MIB), base = 0, pitched;
    CUdeviceptr small = allocate(4096);
    size_t bytes = 0, pitch = 0, free_bytes = 0, total = 0;
    int device = -1;
    CUipcMemHandle handle;
    CUmemGenericAllocationHandle memory_handle;

    OK(client.cuMemGetAddressRange_v2(&base, &bytes, pointer + 39 * MIB));
    CHECK(base == pointer && bytes == 40 * MIB);
    bytes = 0;
    OK(client.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer + 1));
    CHECK(bytes == 40 * MIB);
    base = 0;
    bytes = 0;
    OK(client.cuPointerGetAttributes(3,
                                     (CUpointer_attribute[]){CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                                             CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                                             CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
                                     (void *[]){&base, &bytes, &device}, pointer + 39 * MIB));
    CHECK(base == pointer && bytes == 40 * MIB && device == 0);
    CHECK(client.cuIpcGetMemHandle(&handle, pointer) != CUDA_SUCCESS);
    CHECK(client.cuMemRetainAllocationHandle(&memory_handle, (void *)(uintptr_t)pointer) == CUDA_ERROR_INVALID_VALUE);
    CHECK(client.cuMemUnmap(pointer, 32 * MIB) == CUDA_ERROR_INVALID_VALUE);
    OK(client.cuMemAllocPitch_v2(&pitched, &pitch, 1000, 2048, 4));
    CHECK(pitch == 1024);
    OK(client.cuMemsetD8Async(pitched, 1, pitch * 2048, NULL));
    OK(client.cuMemGetInfo_v2(&free_bytes, &total));
    CHECK(total == 64 * MIB /* the device's memory */ && free_bytes <= total);
    CHECK(client.cuMemAlloc_v2(&base, 2048 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(client.cuMemFree_v2(pitched));
    OK(client.cuMemFree_v2(pointer));
    OK(client.cuMemFree_v2(small));
    CHECK(client.cuMemFree_v2(pointer) == CUDA_ERROR_INVALID_VALUE);
}

/* Resets the context while its memory is swapped out. The new context must have none of that memory. */
static void role_reset(void)
{
    fill_working_set();
    wait_for_signal();
    OK(client.cuDevicePrimaryCtxReset_v2(0));
    OK(client.cuDevicePrimaryCtxRetain(&client.context, 0));
    OK(client.cuCtxSetCurrent(client.context));
    CHECK(client.cuMemFree_v2(working_set) == CUDA_ERROR_INVALID_VALUE);
    OK(client.cuMemFree_v2(allocate(16 * MIB)));
}

/* Frees memory that is swapped out; freeing must not swap it in. */
static void role_free(void)
{
    fill_working_set();
    wait_for_signal();
    OK(client.cuMemFree_v2(working_set));
}

/* Forks between launches, while the memory may be swapped out. Each pair of launches adds 1 and subtracts 1. */
static void role_fork(void)
{
    int status = -1;

    fill_working_set();
    for (unsigned i = 0; i < 200; i++) {
        pid_t pid = i % 10 == 0 ? fork() : 0;

        if (i % 10 == 0 && pid == 0)
            _exit(0);
        if (i % 10 == 0)
            CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        launch_on_words("add_words_2000us", working_set, 512, 1);
        launch_on_words("add_words_10us", working_set, 512, UINT64_MAX);
        OK(client.cuCtxSynchronize());
    }
    check_working_set(client.cuMemcpyDtoH_v2, WORD_VALUE);
}

/* After the signal, the launch of a graph is the first use of the memory. */
static void role_graph(void)
{
    CUgraphExec executable;
    CUstream stream;
    CUgraph graph;

    fill_working_set();
    OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(client.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(client_launch(client_function("work_100us"), 8, stream));
    OK(client.cuStreamEndCapture(stream, &graph));
    OK(client.cuGraphInstantiateWithFlags(&executable, graph, 0));
    wait_for_signal();
    OK(client.cuGraphLaunch(executable, stream));
    OK(client.cuStreamSynchronize(stream));
    launch_on_words("store_words_10us", working_set, 512,
                    WORD_VALUE); /* when the test counts this launch, the graph's launch has ended */
    wait_for_signal();
    check_working_set(client.cuMemcpyDtoH_v2, WORD_VALUE);
}

/* No memory may be moved while a capture is open. */
static void role_capture(void)
{
    CUstream stream;
    CUgraph graph;

    fill_working_set();
    OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(client.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_on_words("store_words_10us", working_set, 512,
                    WORD_VALUE); /* when the test counts this launch, the capture is open */
    wait_for_signal();
    OK(client.cuStreamEndCapture(stream, &graph));
    wait_for_signal();
    check_working_set(client.cuMemcpyDtoH_v2, WORD_VALUE);
}

/* A function from cuGetProcAddress(), which the CUDA runtime uses, passes the quiesce gate, too. */
static void role_lookup(void)
{
    __typeof__(&cuMemcpyDtoH_v2) copy = NULL;
    CUdriverProcAddressQueryResult status;
    void *found = NULL;

    OK(client.cuGetProcAddress_v2("cuMemcpyDtoH", &found, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status));
    memcpy(&copy, &found, sizeof copy);
    fill_working_set();
    wait_for_signal();
    check_working_set(copy, WORD_VALUE);
}

static atomic_bool may_go_on;

static void block_until_allowed(void *unused)
{
    while (!atomic_load(&may_go_on))
        usleep(1000);
}

/*
 * The device waits for a host callback, which returns only after cuModuleLoadData(), a call that needs the interposer's
 * accounts. A swap-out that waits for the device must not hold that call up.
 */
static void role_callback(void)
{
    CUstream stream;
    CUmodule module;

    fill_working_set();
    OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(client.cuLaunchHostFunc(stream, block_until_allowed, NULL));
    wait_for_signal();
    OK(client.cuModuleLoadData(&module, CLIENT_IMAGE));
    atomic_store(&may_go_on, true);
    OK(client.cuStreamSynchronize(stream));
    check_working_set(client.cuMemcpyDtoH_v2, WORD_VALUE);
}

static const struct {
    const char *name;
    void (*run)(void);
} roles[] = {
    {"callback", role_callback}, {"facts", role_facts}, {"reset", role_reset},   {"free", role_free},
    {"fork", role_fork},         {"graph", role_graph}, {"lookup", role_lookup}, {"capture", role_capture},
};

int main(int argc, char **argv)
{
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    for (size_t i = 0; argc == 2 && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(roles[i].name, argv[1]) != 0)
            continue;
        CHECK(client_open());
        roles[i].run();
        return 0;
    }
    fprintf(stderr, "usage: cuda-swap-roles ROLE\n");
    return 2;
}
