/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tenant processes for tests. Never: leaves a tenant running. */
#include "tenant.h"

#include <facet/opencl_address.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address.h"
#include "limiter/tenant.h"

static const char *program;
static char device_address[FACET_OPENCL_ADDRESS_SIZE];

static cl_uint units_of_first_device(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_uint units = 0;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS ||
        clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL) != CL_SUCCESS)
        return 0;
    return units;
}

/* A child counts the units. Its exit status is the number, which is at most 255; tests need fewer. */
static cl_uint units_of_first_device_in_child(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        cl_uint units = units_of_first_device();

        _exit(units < 255 ? (int)units : 255);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? (cl_uint)WEXITSTATUS(status) : 0;
}

bool tenant_begin(const char *self, const char *driver, uint32_t least_units, uint32_t *ret_units)
{
    program = self;
    fixture.fake = strcmp(driver, "fake") == 0;
    if (fixture.fake)
        setenv("OCL_ICD_VENDORS", getenv("FACET_TEST_FAKE_VENDORS"), 1);
    uint32_t units = units_of_first_device_in_child();
    if (units < least_units || !test_device_address_apart(0, device_address)) {
        printf("1..0 # SKIP needs an OpenCL device of %u units, the first device here has %u\n", least_units, units);
        return false;
    }
    *ret_units = units;
    return true;
}

const char *tenant_address(uint32_t start, uint32_t count)
{
    static char address[FACET_OPENCL_ADDRESS_SIZE];

    if (!count)
        return device_address;
    facet_opencl_address_part(device_address, start, count, address);
    return address;
}

static void enter_segment(const struct tenant *tenant, const char *role, int out, int in)
{
    /* The pipes are moved first, because they may have the numbers TENANT_OUT and TENANT_IN. */
    out = fcntl(out, F_DUPFD, 10);
    in = fcntl(in, F_DUPFD, 10);
    dup2(out, TENANT_OUT);
    dup2(in, TENANT_IN);
    setenv(FACET_ENV_VGPU_DIR, tenant->segment.dir, 1);
    setenv("OPENCL_LAYERS", getenv("FACET_TEST_LAYER"), 1);
    execl(program, program, fixture.fake ? "fake" : "pocl", role, (char *)NULL);
    _exit(127);
}

void tenant_start(struct tenant *tenant, const char *address, const char *role)
{
    int up[2], down[2];

    assert_true(test_segment_make(&tenant->segment, address, FIXTURE_MEMORY));
    assert_int_equal(pipe2(up, O_CLOEXEC), 0);
    assert_int_equal(pipe2(down, O_CLOEXEC), 0);
    tenant->pid = fork();
    if (tenant->pid == 0)
        enter_segment(tenant, role, up[1], down[0]);
    assert_true(tenant->pid > 0);
    close(up[1]);
    close(down[0]);
    tenant->from = up[0];
    tenant->to = down[1];
}

int tenant_end(struct tenant *tenant)
{
    int status = 0;

    while (waitpid(tenant->pid, &status, WNOHANG) == 0) {
        test_segment_beat(&tenant->segment);
        usleep(5000);
    }
    close(tenant->from);
    close(tenant->to);
    test_segment_remove(&tenant->segment);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* The wait ends even if the tenant fails: a tenant that dies closes its end of the pipe, and an alarm ends a tenant
 * that hangs. */
uint64_t tenant_read(struct tenant *tenant)
{
    struct pollfd ready = {.fd = tenant->from, .events = POLLIN};
    uint64_t word = 0;

    while (poll(&ready, 1, 20) == 0)
        test_segment_beat(&tenant->segment);
    assert_int_equal(read(tenant->from, &word, sizeof word), sizeof word);
    return word;
}

void tenant_go(struct tenant *tenant)
{
    assert_int_equal(write(tenant->to, "g", 1), 1);
}

int tenant_run(const char *address, const char *role)
{
    struct tenant tenant;

    tenant_start(&tenant, address, role);
    return tenant_end(&tenant);
}
