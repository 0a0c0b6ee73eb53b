/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tenants and monitors for the tests of NVML's twin. Never: leaves a monitor behind. */
#include "nvml_twin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limiter/tenant.h"

struct test_nvml nvml;

static void run_tenant(void *context, int ready)
{
    const struct test_tenant *wanted = context;
    struct facet_tenant tenant = {0};
    struct facet_error error = {0};

    if (facet_tenant_attach(wanted->vgpu->dir, &tenant, &error) != FACET_OK) {
        fprintf(stderr, "tenant: %s\n", error.message);
        return;
    }
    if (wanted->counted_bytes && !facet_tenant_reserve(&tenant, wanted->counted_bytes))
        return;
    if (wanted->machine_bytes && !fake_device_reserve(wanted->device, FAKE_PLAIN, wanted->machine_bytes))
        return;
    if (write(ready, "", 1) != 1)
        return;
    for (;; usleep(10000))
        if (wanted->works)
            fake_run(wanted->device, 0, 10000000); /* 10 ms of device time */
}

pid_t test_tenant(struct test_tenant tenant)
{
    return test_machine_child(run_tenant, &tenant);
}

void *test_nvml_open(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!handle) {
        fprintf(stderr, "opening NVML: %s\n", dlerror());
        return NULL;
    }
#define FILL(symbol) nvml.symbol = (__typeof__(nvml.symbol))dlsym(handle, #symbol);
    TEST_NVML(FILL)
#undef FILL
    return handle;
}

void test_check(bool holds, const char *text, const char *file, int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, text);
    _exit(1);
}

nvmlDevice_t test_device(unsigned index)
{
    nvmlDevice_t device = NULL;

    CHECK(nvml.nvmlDeviceGetHandleByIndex_v2(index, &device) == NVML_SUCCESS);
    return device;
}

bool test_monitor(const char *real, const char *dirs, void (*body)(void *context), void *context)
{
    int status = 0;

    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("FACET_REAL_NVML", real, 1);
        if (dirs)
            setenv(FACET_ENV_VGPU_DIR, dirs, 1);
        else
            unsetenv(FACET_ENV_VGPU_DIR);
        CHECK(test_nvml_open(getenv("FACET_TEST_NVML")) != NULL);
        body(context);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
