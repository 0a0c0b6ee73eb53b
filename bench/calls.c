/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of one OpenCL call: run bare and inside a vGPU by bench/calls.py, which compares.
 *
 * Owns: the timed loops. Never: includes anything of Facet.
 *
 * usage: bench_calls CASE THREADS MILLISECONDS [LIVE]     LIVE: how many buffers exist during the measurement
 * Prints {"case","threads","calls","ns_per_call"}: the mean over all threads, counting only the time inside the calls.
 */
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_THREADS 16u
#define BATCH       64u

struct worker {
    cl_context context;
    cl_device_id device;
    cl_command_queue queue;
    cl_kernel kernel;
    uint64_t duration_ns;
    pthread_barrier_t *barrier;
    void (*call)(struct worker *worker);
    void (*settle)(struct worker *worker); /* after each batch, not timed; may be NULL */
    uint64_t calls, spent_ns;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void check_call(cl_int code, const char *call)
{
    if (code == CL_SUCCESS)
        return;
    fprintf(stderr, "bench_calls: %s failed with %d\n", call, code);
    exit(EXIT_FAILURE);
}

/* ---- the calls ---- */

static void call_buffer(struct worker *worker)
{
    cl_int code;
    cl_mem memory = clCreateBuffer(worker->context, CL_MEM_READ_WRITE, 4096, NULL, &code);

    check_call(code, "clCreateBuffer");
    check_call(clReleaseMemObject(memory), "clReleaseMemObject");
}

static void call_launch(struct worker *worker)
{
    size_t items = 1;

    check_call(clEnqueueNDRangeKernel(worker->queue, worker->kernel, 1, NULL, &items, NULL, 0, NULL, NULL),
               "clEnqueueNDRangeKernel");
}

static void settle_launch(struct worker *worker)
{
    check_call(clFinish(worker->queue), "clFinish");
}

static void call_info(struct worker *worker)
{
    cl_ulong bytes;

    check_call(clGetDeviceInfo(worker->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(bytes), &bytes, NULL),
               "clGetDeviceInfo");
}

/* A call that a limiter only passes on. */
static void call_passthrough(struct worker *worker)
{
    cl_uint value = 1;

    check_call(clSetKernelArg(worker->kernel, 0, sizeof(value), &value), "clSetKernelArg");
}

static const struct call {
    const char *name;
    void (*call)(struct worker *worker);
    void (*settle)(struct worker *worker);
} calls[] = {
    {"buffer", call_buffer, NULL},
    {"launch", call_launch, settle_launch},
    {"info", call_info, NULL},
    {"passthrough", call_passthrough, NULL},
};

/* ---- the loop ---- */

static void *worker_run(void *argument)
{
    struct worker *worker = argument;
    uint64_t end;

    for (unsigned i = 0; i < BATCH; i++)
        worker->call(worker);
    if (worker->settle)
        worker->settle(worker);
    pthread_barrier_wait(worker->barrier);
    end = now_ns() + worker->duration_ns;
    for (uint64_t start = now_ns(); start < end; start = now_ns()) {
        for (unsigned i = 0; i < BATCH; i++)
            worker->call(worker);
        worker->spent_ns += now_ns() - start;
        worker->calls += BATCH;
        if (worker->settle)
            worker->settle(worker);
    }
    return NULL;
}

static cl_program build_program(cl_context context, cl_device_id device)
{
    const char *source = "__kernel void noop(uint value) {}"; /* the no-op driver has a kernel of this name, too */
    cl_int code;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);

    check_call(code, "clCreateProgramWithSource");
    check_call(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    return program;
}

static void worker_open(struct worker *worker, cl_program program)
{
    cl_uint value = 1;
    cl_int code;

    worker->queue = clCreateCommandQueue(worker->context, worker->device, 0, &code);
    check_call(code, "clCreateCommandQueue");
    worker->kernel = clCreateKernel(program, "noop", &code);
    check_call(code, "clCreateKernel");
    check_call(clSetKernelArg(worker->kernel, 0, sizeof(value), &value), "clSetKernelArg");
}

static void open_device(struct worker *first)
{
    cl_platform_id platform;
    cl_int code;

    check_call(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check_call(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &first->device, NULL), "clGetDeviceIDs");
    first->context = clCreateContext(NULL, 1, &first->device, NULL, NULL, &code);
    check_call(code, "clCreateContext");
}

static void hold_live(cl_context context, uint64_t live)
{
    cl_int code;

    for (uint64_t i = 0; i < live; i++) {
        clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &code);
        check_call(code, "clCreateBuffer");
    }
}

static void measure_call(const struct call *call, unsigned threads, uint64_t duration_ns, uint64_t live)
{
    struct worker workers[MAX_THREADS] = {0};
    pthread_t ids[MAX_THREADS];
    pthread_barrier_t barrier;
    uint64_t count = 0, spent_ns = 0;

    open_device(&workers[0]);
    cl_program program = build_program(workers[0].context, workers[0].device);
    hold_live(workers[0].context, live);
    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        workers[i].context = workers[0].context;
        workers[i].device = workers[0].device;
        workers[i].duration_ns = duration_ns;
        workers[i].barrier = &barrier;
        workers[i].call = call->call;
        workers[i].settle = call->settle;
        worker_open(&workers[i], program);
    }
    for (unsigned i = 0; i < threads; i++)
        check_call(pthread_create(&ids[i], NULL, worker_run, &workers[i]), "pthread_create");
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        count += workers[i].calls;
        spent_ns += workers[i].spent_ns;
    }
    printf("{\"case\":\"%s\",\"threads\":%u,\"calls\":%" PRIu64 ",\"ns_per_call\":%.2f}\n", call->name, threads, count,
           count ? (double)spent_ns / (double)count : 0.0);
}

static uint64_t parse_number(const char *text, uint64_t low, uint64_t high)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high) {
        fprintf(stderr, "bench_calls: '%s': expected a number from %" PRIu64 " to %" PRIu64 "\n", text, low, high);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) {
        fputs("usage: bench_calls buffer|launch|info|passthrough THREADS MILLISECONDS [LIVE]\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        if (strcmp(argv[1], calls[i].name) != 0)
            continue;
        measure_call(&calls[i], (unsigned)parse_number(argv[2], 1, MAX_THREADS),
                     parse_number(argv[3], 1, 60000) * 1000000u, argc > 4 ? parse_number(argv[4], 0, 1000000) : 0);
        return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    fprintf(stderr, "bench_calls: unknown case '%s'\n", argv[1]);
    return 2;
}
