/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: asking OpenCL for a device's address. Never: keeps an OpenCL object. */
#include "address.h"

#include <CL/cl.h>
#include <facet/opencl_address.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The number of earlier devices with the same stem (platform and name): the ordinal in the address, which the layer
 * counts in the same way. */
static unsigned count_same_name_before(char stems[][FACET_OPENCL_ADDRESS_SIZE], unsigned count)
{
    unsigned same = 0;

    for (unsigned i = 0; i < count; i++)
        same += strcmp(stems[i], stems[count]) == 0;
    return same;
}

bool test_device_address(unsigned index, char address[256])
{
    char stems[64][FACET_OPENCL_ADDRESS_SIZE], platform_name[1024], name[1024];
    cl_platform_id platforms[16];
    cl_device_id devices[16];
    cl_uint platform_count = 0, device_count;
    unsigned seen = 0;

    if (clGetPlatformIDs(16, platforms, &platform_count) != CL_SUCCESS)
        return false;
    for (cl_uint p = 0; p < platform_count; p++) {
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &device_count) != CL_SUCCESS)
            continue;
        for (cl_uint d = 0; d < device_count && seen < 64; d++, seen++) {
            clGetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof platform_name, platform_name, NULL);
            clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof name, name, NULL);
            facet_opencl_address_stem(platform_name, name, stems[seen]);
            if (seen == index) {
                facet_opencl_address(platform_name, name, count_same_name_before(stems, seen), address);
                return true;
            }
        }
    }
    return false;
}

bool test_device_address_apart(unsigned index, char address[256])
{
    int pipe_fds[2], status = 0;

    if (pipe(pipe_fds) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        char text[256] = "";
        bool found = test_device_address(index, text);

        _exit(found && write(pipe_fds[1], text, sizeof text) == (ssize_t)sizeof text ? 0 : 1);
    }
    close(pipe_fds[1]);
    bool got = pid > 0 && read(pipe_fds[0], address, 256) == 256;
    close(pipe_fds[0]);
    return waitpid(pid, &status, 0) == pid && got && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
