/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the machine of HIP's tests of memory: fake GPUs, vGPUs, and the roles in them. Never: runs a test. */
#include "machine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../../scratch.h"
#include "limiter/tenant.h"

struct machine machine;
struct hip hip;

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

void machine_digits(uint32_t device, char digits[17])
{
    snprintf(digits, 17, "fa%014x", 0xcade00u + device);
}

void machine_make(uint32_t count, const uint64_t *limits, const char *begin)
{
    char text[64], digits[17];

    machine.file = scratch_file(machine.state, sizeof machine.state);
    assert_true(machine.file >= 0);
    snprintf(text, sizeof text, "%u", count);
    setenv("FAKE_HIP_STATE", machine.state, 1);
    setenv("FAKE_HIP_DEVICES", text, 1);
    setenv("FAKE_HIP_MEMORY", "8G", 1);
    setenv("FAKE_HIP_CONTEXT", begin, 1);
    machine.count = count;
    for (uint32_t i = 0; i < count; i++) {
        machine_digits(i, digits);
        snprintf(text, sizeof text, VENDOR_HIP_ADDRESS "%s", digits);
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

void machine_environment(bool in_vgpu)
{
    char dirs[256] = "", path[4096];

    for (uint32_t i = 0; i < machine.count; i++)
        snprintf(dirs + strlen(dirs), sizeof dirs - strlen(dirs), "%s%s", i ? ":" : "", machine.segments[i].dir);
    snprintf(path, sizeof path, "%s/libamdhip64.so.6", getenv("FACET_TEST_HIP_FAKE"));
    setenv("FACET_REAL_HIP", path, 1);
    unsetenv("ROCR_VISIBLE_DEVICES");
    unsetenv("HIP_VISIBLE_DEVICES");
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
        machine_environment(in_vgpu);
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

    snprintf(path, sizeof path, "%s/libamdhip64.so", getenv("FACET_TEST_HIP_OURS"));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
#define OPEN(name) CHECK((hip.name = (__typeof__(hip.name))dlsym(library, #name)));
    MACHINE_FUNCTIONS(OPEN)
#undef OPEN
}
