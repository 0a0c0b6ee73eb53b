/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen-client BYTES: a program that is not linked with OpenCL. Like many programs, it opens the loader by name. It
 * allocates a buffer, runs a kernel, and closes the loader again while the buffer lives.
 *
 * Owns: these steps. The exit status is 0 if every step succeeded; otherwise its number tells which step failed.
 */
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOK_UP(name) __typeof__(name) *p_##name = (__typeof__(name) *)(uintptr_t)dlsym(loader, #name)

static int use_loader(void *loader, size_t bytes)
{
    static const char *source = "__kernel void noop(uint n) {}\n";
    LOOK_UP(clGetPlatformIDs);
    LOOK_UP(clGetDeviceIDs);
    LOOK_UP(clCreateContext);
    LOOK_UP(clCreateBuffer);
    LOOK_UP(clCreateCommandQueueWithProperties);
    LOOK_UP(clCreateProgramWithSource);
    LOOK_UP(clBuildProgram);
    LOOK_UP(clCreateKernel);
    LOOK_UP(clSetKernelArg);
    LOOK_UP(clEnqueueNDRangeKernel);
    LOOK_UP(clFinish);
    cl_platform_id platform;
    cl_device_id device;
    size_t one = 1;
    cl_uint zero = 0;

    if (p_clGetPlatformIDs(1, &platform, NULL) || p_clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 2;
    cl_context context = p_clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    if (!context || !p_clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, NULL))
        return 3;
    cl_command_queue queue = p_clCreateCommandQueueWithProperties(context, device, NULL, NULL);
    cl_program program = p_clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    if (!queue || !program || p_clBuildProgram(program, 0, NULL, NULL, NULL, NULL))
        return 4;
    cl_kernel kernel = p_clCreateKernel(program, "noop", NULL);
    if (!kernel || p_clSetKernelArg(kernel, 0, sizeof zero, &zero))
        return 5;
    if (p_clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL) || p_clFinish(queue))
        return 6;
    return 0;
}

int main(int argc, char **argv)
{
    void *loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);

    if (argc != 2 || !loader)
        return 1;
    int status = use_loader(loader, strtoull(argv[1], NULL, 10));
    dlclose(loader);
    usleep(20000); /* the layer's helper thread runs once more */
    return status;
}
