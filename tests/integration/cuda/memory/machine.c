/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the machine of the tests of memory: fake GPUs, vGPUs, and the roles in them. Never: runs a test. */
#include "machine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../../../scratch.h"
#include "limiter/tenant.h"

struct machine machine;
struct cuda cuda;

static struct facet_usage *map_usage(const char *dir)
{
    char path[128];

    snprintf(path, sizeof path, "%s/usage", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    void *mapped = mmap(NULL, sizeof(struct facet_usage), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    assert_true(mapped != MAP_FAILED);
    return mapped;
}

void machine_make(uint32_t count, const uint64_t *limits, const char *context)
{
    char text[64];

    machine.file = scratch_file(machine.state, sizeof machine.state);
    assert_true(machine.file >= 0);
    snprintf(text, sizeof text, "%u", count);
    setenv("FAKE_CUDA_STATE", machine.state, 1);
    setenv("FAKE_CUDA_DEVICES", text, 1);
    setenv("FAKE_CUDA_MEMORY", "8G", 1);
    setenv("FAKE_CUDA_CONTEXT", context, 1);
    machine.count = count;
    machine.no_nvml = machine.is_old = machine.lists_other_pids = false;
    for (uint32_t i = 0; i < count; i++) {
        /* like tests/fake/cuda/state.c: "fake-gpu", and the device's number, from 1, at the end */
        snprintf(text, sizeof text, "GPU-66616b65-2d67-7075-0000-%012x", i + 1);
        assert_true(test_segment_make(&machine.segments[i], text, limits[i]));
        machine.usage[i] = map_usage(machine.segments[i].dir);
    }
}

void machine_remove(void)
{
    for (uint32_t i = 0; i < machine.count; i++) {
        munmap(machine.usage[i], sizeof(struct facet_usage));
        test_segment_remove(&machine.segments[i]);
    }
    close(machine.file);
}

static void set_environment(bool in_vgpu)
{
    char dirs[256] = "", path[4096];

    for (uint32_t i = 0; i < machine.count; i++)
        snprintf(dirs + strlen(dirs), sizeof dirs - strlen(dirs), "%s%s", i ? ":" : "", machine.segments[i].dir);
    snprintf(path, sizeof path, "%s/libcuda.so.1",
             getenv(machine.is_old ? "FACET_TEST_CUDA_OLD" : "FACET_TEST_CUDA_FAKE"));
    setenv("FACET_REAL_CUDA", path, 1);
    if (machine.is_old)
        setenv("FAKE_CUDA_VERSION", "12000", 1);
    snprintf(path, sizeof path, "%s/%s", getenv("FACET_TEST_CUDA_FAKE"),
             machine.no_nvml ? "none" : "libnvidia-ml.so.1");
    setenv("FACET_REAL_NVML", path, 1);
    if (machine.lists_other_pids)
        setenv("FAKE_CUDA_PIDS", "100000", 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    if (in_vgpu)
        setenv(FACET_ENV_VGPU_DIR, dirs, 1);
    else
        unsetenv(FACET_ENV_VGPU_DIR);
}

pid_t machine_start(void (*role)(void *argument), void *argument, bool in_vgpu)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no role outlives a test that failed */
        set_environment(in_vgpu);
        role(argument);
        _exit(0);
    }
    assert_true(pid > 0);
    return pid;
}

void machine_wait(pid_t pid)
{
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

void machine_run(void (*role)(void *argument), uint64_t limit)
{
    machine_make(1, &limit, "300M");
    machine_wait(machine_start(role, NULL, true));
    machine_remove();
}

uint64_t machine_charged(uint32_t device)
{
    return facet_usage_memory(machine.usage[device]);
}

uint64_t machine_charged_to_self(uint32_t device)
{
    struct facet_usage *usage = machine.usage[device];

    for (uint32_t i = 0; i < FACET_SEGMENT_SLOTS; i++)
        if (atomic_load(&usage->slots[i].pid) == (uint32_t)getpid())
            return atomic_load(&usage->slots[i].memory_bytes);
    return 0;
}

void role_open(void)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/libcuda.so.1", getenv("FACET_TEST_CUDA_OURS"));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
#define OPEN(name) CHECK((cuda.name = (__typeof__(cuda.name))dlsym(library, #name)));
    MACHINE_FUNCTIONS(OPEN)
#undef OPEN
    CHECK_EQUAL(cuda.cuInit(0), CUDA_SUCCESS);
}

CUcontext role_enter(CUdevice device)
{
    CUcontext context;

    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSetCurrent(context), CUDA_SUCCESS);
    return context;
}
