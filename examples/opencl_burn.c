/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain OpenCL 1.2 program that keeps a device busy: the tenant of the demo, the tests and the benches.
 *
 * Owns: launching kernels of a chosen length in a chosen pattern, and the check that each of them ran exactly once.
 * Never: includes a header of Facet: it is the "unmodified program" of the documents.
 *
 * Each launch advances every work-item's state by a fixed number of steps of a linear congruential generator. The
 * steps depend on each other, so a launch takes time in proportion to their number. Any number of steps can be computed
 * at once in closed form, so the host knows the expected state after any number of launches. The final check therefore
 * finds a single lost or repeated launch.
 *
 * Prints JSON lines: "start", "grab", "window" (aligned to CLOCK_MONOTONIC, hence comparable between processes),
 * "device" (when each kernel ran on the device), "done".
 */
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "burn_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB        ((size_t)1 << 20)
#define FILL_VALUE 0x5eedf00du

#define STEP_FACTOR 1664525u
#define STEP_ADDEND 1013904223u

static const char kernel_source[] = "__kernel void burn(__global uint *state, uint factor, uint addend, uint steps)\n"
                                    "{\n"
                                    "    uint x = state[get_global_id(0)];\n"
                                    "    for (uint step = 0; step < steps; step++)\n"
                                    "        x = x * factor + addend;\n"
                                    "    state[get_global_id(0)] = x;\n"
                                    "}\n";

/* One in-order queue with a state of its own; `events` is a ring of the launches in flight. */
struct stream {
    cl_command_queue queue;
    cl_kernel kernel;
    cl_mem state;
    cl_event events[MAX_DEPTH];
    unsigned first, inflight;
    uint64_t launches;
};

/* The time that a kernel was on the device; `end` is after `start`. */
struct span {
    uint64_t start, end;
};

struct burn {
    struct burn_options options;
    cl_device_id device;
    cl_context context;
    cl_program program;
    struct stream streams[MAX_QUEUES];
    cl_mem *held_buffers; /* buffers of --memory and --grab; the streams' states are not among them */
    size_t held_count, held_bytes;

    uint64_t kernels, begin_ns;
    uint64_t window_index, window_kernels;
    uint64_t device_ns, window_device_ns; /* time of completed kernels on the device, with --device-time */
    struct span *spans;                   /* beginning and end of each completed kernel, by the device's clock */
    uint64_t *stamps;                     /* completion time of each completed kernel */
    size_t stamp_count, stamp_capacity;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec remaining = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

    while (nanosleep(&remaining, &remaining) && errno == EINTR)
        ;
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("opencl_burn: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_FAILURE);
}

static void check(cl_int code, const char *call)
{
    if (code != CL_SUCCESS)
        die("%s failed with %d", call, code);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (!memory)
        die("out of host memory");
    return memory;
}

/* ---- the closed form ---- */

/* x -> factor * x + addend, modulo 2^32. */
struct affine {
    uint32_t factor, addend;
};

static struct affine affine_power(struct affine step, uint64_t exponent)
{
    struct affine result = {1, 0};

    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            result = (struct affine){result.factor * step.factor, step.factor * result.addend + step.addend};
        step = (struct affine){step.factor * step.factor, step.factor * step.addend + step.addend};
    }
    return result;
}

static void stream_verify(const struct burn *burn, const struct stream *stream)
{
    size_t items = burn->options.items;
    uint32_t *state = allocate(items, sizeof(*state));
    struct affine all_steps =
        affine_power((struct affine){STEP_FACTOR, STEP_ADDEND}, burn->options.steps * stream->launches);

    check(clEnqueueReadBuffer(stream->queue, stream->state, CL_TRUE, 0, items * sizeof(*state), state, 0, NULL, NULL),
          "clEnqueueReadBuffer");
    for (size_t i = 0; i < items; i++) {
        uint32_t expected = all_steps.factor * (uint32_t)i + all_steps.addend;

        if (state[i] != expected)
            die("wrong result: item %zu is %" PRIu32 " after %" PRIu64 " launches, expected %" PRIu32, i, state[i],
                stream->launches, expected);
    }
    free(state);
}

/* ---- set-up ---- */

static void stream_reset(const struct burn *burn, struct stream *stream)
{
    size_t items = burn->options.items;
    uint32_t *state = allocate(items, sizeof(*state));

    for (size_t i = 0; i < items; i++)
        state[i] = (uint32_t)i;
    check(clEnqueueWriteBuffer(stream->queue, stream->state, CL_TRUE, 0, items * sizeof(*state), state, 0, NULL, NULL),
          "clEnqueueWriteBuffer");
    free(state);
    stream->launches = 0;
}

static void stream_open(struct burn *burn, struct stream *stream, cl_command_queue_properties properties)
{
    const cl_uint factor = STEP_FACTOR, addend = STEP_ADDEND;
    cl_int code;

    stream->queue = clCreateCommandQueue(burn->context, burn->device, properties, &code);
    check(code, "clCreateCommandQueue");
    stream->kernel = clCreateKernel(burn->program, "burn", &code);
    check(code, "clCreateKernel");
    stream->state =
        clCreateBuffer(burn->context, CL_MEM_READ_WRITE, burn->options.items * sizeof(uint32_t), NULL, &code);
    check(code, "clCreateBuffer");
    check(clSetKernelArg(stream->kernel, 0, sizeof(stream->state), &stream->state), "clSetKernelArg");
    check(clSetKernelArg(stream->kernel, 1, sizeof(factor), &factor), "clSetKernelArg");
    check(clSetKernelArg(stream->kernel, 2, sizeof(addend), &addend), "clSetKernelArg");
    stream_reset(burn, stream);
}

static void stream_close(struct stream *stream)
{
    clReleaseKernel(stream->kernel);
    clReleaseMemObject(stream->state);
    clReleaseCommandQueue(stream->queue);
}

static void stream_launch(const struct burn *burn, struct stream *stream, uint64_t steps, cl_event *ret_event)
{
    size_t items = burn->options.items, group = GROUP_ITEMS;
    cl_uint argument = (cl_uint)steps;

    check(clSetKernelArg(stream->kernel, 3, sizeof(argument), &argument), "clSetKernelArg");
    check(clEnqueueNDRangeKernel(stream->queue, stream->kernel, 1, NULL, &items, &group, 0, NULL, ret_event),
          "clEnqueueNDRangeKernel");
    check(clFlush(stream->queue), "clFlush");
}

static void burn_open(struct burn *burn)
{
    const char *source = kernel_source;
    cl_platform_id platform;
    cl_int code;

    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &burn->device, NULL), "clGetDeviceIDs");
    burn->context = clCreateContext(NULL, 1, &burn->device, NULL, NULL, &code);
    check(code, "clCreateContext");
    burn->program = clCreateProgramWithSource(burn->context, 1, &source, NULL, &code);
    check(code, "clCreateProgramWithSource");
    check(clBuildProgram(burn->program, 1, &burn->device, "", NULL, NULL), "clBuildProgram");
}

static void burn_close(struct burn *burn)
{
    for (unsigned i = 0; i < burn->options.queues; i++)
        stream_close(&burn->streams[i]);
    for (size_t i = 0; i < burn->held_count; i++)
        clReleaseMemObject(burn->held_buffers[i]);
    clReleaseProgram(burn->program);
    clReleaseContext(burn->context);
    free(burn->held_buffers);
    free(burn->stamps);
    free(burn->spans);
}

/* The time of one launch by the device's own clock, so without waiting for other tenants. */
static struct span event_span(cl_event event)
{
    cl_ulong start, end;

    check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(start), &start, NULL),
          "clGetEventProfilingInfo");
    check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL), "clGetEventProfilingInfo");
    return (struct span){start, end > start ? end : start + 1};
}

static uint64_t timed_launch_ns(const struct burn *burn, struct stream *stream, uint64_t steps)
{
    cl_event event;

    stream_launch(burn, stream, steps, &event);
    check(clWaitForEvents(1, &event), "clWaitForEvents");
    struct span span = event_span(event);
    clReleaseEvent(event);
    return span.end - span.start;
}

/* The shortest of a few launches, since noise and other tenants only add time. Short launches are repeated more. */
static uint64_t best_launch_ns(const struct burn *burn, struct stream *stream, uint64_t steps)
{
    uint64_t best = UINT64_MAX, spent = 0;

    for (int round = 0; round < 3 || (round < 30 && spent < 20 * NS_PER_MS); round++) {
        uint64_t ns = timed_launch_ns(burn, stream, steps);

        best = ns < best ? ns : best;
        spent += ns;
    }
    return best;
}

/* How many steps take kernel_us: doubles the steps until they take at least as long, then interpolates between the last
 * two measurements. */
static uint64_t calibrate(struct burn *burn)
{
    uint64_t target = burn->options.kernel_us * NS_PER_US, steps = 1, half, ns, before = 0;
    struct stream stream = {0};

    stream_open(burn, &stream, CL_QUEUE_PROFILING_ENABLE);
    while ((ns = best_launch_ns(burn, &stream, steps)) < target && steps < UINT32_MAX / 2) {
        before = ns;
        steps *= 2;
    }
    stream_close(&stream);
    if (steps == 1 || ns < target || ns <= before || before >= target)
        return steps;
    half = steps / 2;
    return half + (uint64_t)((double)(target - before) / (double)(ns - before) * (double)half);
}

/* ---- memory ---- */

static bool hold(struct burn *burn, size_t bytes, cl_int *ret_code)
{
    cl_mem memory = clCreateBuffer(burn->context, CL_MEM_READ_WRITE, bytes, NULL, ret_code);

    if (*ret_code != CL_SUCCESS)
        return false;
    burn->held_buffers = realloc(burn->held_buffers, (burn->held_count + 1) * sizeof(*burn->held_buffers));
    if (!burn->held_buffers)
        die("out of host memory");
    burn->held_buffers[burn->held_count++] = memory;
    burn->held_bytes += bytes;
    return true;
}

static void hold_memory(struct burn *burn)
{
    const cl_uint pattern = FILL_VALUE;
    cl_command_queue queue = burn->streams[0].queue;
    cl_int code;

    for (uint64_t bytes_left = burn->options.memory_bytes; bytes_left;) {
        size_t bytes = bytes_left < 16 * MIB ? (size_t)bytes_left : 16 * MIB;

        if (!hold(burn, bytes, &code))
            die("clCreateBuffer of %zu bytes failed with %d while holding %zu", bytes, code, burn->held_bytes);
        check(clEnqueueFillBuffer(queue, burn->held_buffers[burn->held_count - 1], &pattern, sizeof(pattern), 0,
                                  bytes & ~(sizeof(pattern) - 1), 0, NULL, NULL),
              "clEnqueueFillBuffer");
        bytes_left -= bytes;
    }
    check(clFinish(queue), "clFinish");
}

/* Ends the program unless the first word of each held buffer is still the one that hold_memory() wrote. */
static void verify_memory(const struct burn *burn, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cl_uint first = 0;

        check(clEnqueueReadBuffer(burn->streams[0].queue, burn->held_buffers[i], CL_TRUE, 0, sizeof(first), &first, 0,
                                  NULL, NULL),
              "clEnqueueReadBuffer");
        if (first != FILL_VALUE)
            die("wrong result: held buffer %zu was overwritten", i);
    }
}

/* Allocates 1 MiB at a time until refused; without a quota, at most the memory that the device reports. */
static void grab_memory(struct burn *burn)
{
    cl_ulong device_bytes;
    cl_int code = CL_SUCCESS;
    size_t count = 0;

    check(clGetDeviceInfo(burn->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(device_bytes), &device_bytes, NULL),
          "clGetDeviceInfo");
    while (count <= device_bytes / MIB && hold(burn, MIB, &code))
        count++;
    printf("{\"event\":\"grab\",\"mib\":%zu,\"device_mib\":%" PRIu64 ",\"refused\":%s,\"code\":%d}\n", count,
           (uint64_t)(device_bytes / MIB), code ? "true" : "false", code);
    fflush(stdout);
}

/* ---- the run ---- */

static void print_device_time(const struct burn *burn, uint64_t ns)
{
    if (burn->options.device_time)
        printf(",\"device_ns\":%" PRIu64, ns);
}

static void windows_close(struct burn *burn, uint64_t index)
{
    uint64_t length = burn->options.window_ns;

    for (; burn->window_index < index; burn->window_index++) {
        printf("{\"event\":\"window\",\"start_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64 ",\"kernels\":%" PRIu64,
               burn->window_index * length, (burn->window_index + 1) * length, burn->window_kernels);
        print_device_time(burn, burn->window_device_ns);
        puts("}");
        burn->window_kernels = 0;
        burn->window_device_ns = 0;
    }
    fflush(stdout);
}

static void count_completion(struct burn *burn, cl_event event)
{
    struct span span = burn->options.device_time ? event_span(event) : (struct span){0};
    uint64_t now = now_ns();

    if (burn->options.window_ns && now / burn->options.window_ns != burn->window_index)
        windows_close(burn, now / burn->options.window_ns);
    if (burn->stamp_count == burn->stamp_capacity) {
        burn->stamp_capacity = burn->stamp_capacity ? 2 * burn->stamp_capacity : 4096;
        burn->stamps = realloc(burn->stamps, burn->stamp_capacity * sizeof(*burn->stamps));
        burn->spans = realloc(burn->spans, burn->stamp_capacity * sizeof(*burn->spans));
        if (!burn->stamps || !burn->spans)
            die("out of host memory");
    }
    burn->spans[burn->stamp_count] = span;
    burn->stamps[burn->stamp_count++] = now;
    burn->window_kernels++;
    burn->window_device_ns += span.end - span.start;
    burn->kernels++;
    burn->device_ns += span.end - span.start;
}

static void stream_retire(struct burn *burn, struct stream *stream)
{
    cl_event *event = &stream->events[stream->first];

    check(clWaitForEvents(1, event), "clWaitForEvents");
    stream->first = (stream->first + 1) % MAX_DEPTH;
    stream->inflight--;
    count_completion(burn, *event);
    clReleaseEvent(*event);
}

static void stream_submit(struct burn *burn, struct stream *stream)
{
    while (stream->inflight >= burn->options.depth)
        stream_retire(burn, stream);
    stream_launch(burn, stream, burn->options.steps, &stream->events[(stream->first + stream->inflight) % MAX_DEPTH]);
    stream->inflight++;
    stream->launches++;
    if (burn->options.sync) {
        check(clFinish(stream->queue), "clFinish");
        stream_retire(burn, stream);
    }
}

static void finish_launches(struct burn *burn)
{
    for (unsigned i = 0; i < burn->options.queues; i++)
        while (burn->streams[i].inflight)
            stream_retire(burn, &burn->streams[i]);
}

/* How long to rest when `elapsed` ns of the run have passed; 0: launch now. */
static uint64_t rest_ns(const struct burn_options *options, uint64_t elapsed)
{
    uint64_t period = options->busy_ns + options->idle_ns;

    if (options->idle_after_ns && elapsed >= options->idle_after_ns)
        return options->seconds_ns > elapsed ? options->seconds_ns - elapsed : 0;
    if (options->idle_ns && elapsed % period >= options->busy_ns)
        return period - elapsed % period;
    return 0;
}

static void run(struct burn *burn)
{
    const struct burn_options *options = &burn->options;
    unsigned turn = 0;
    uint64_t elapsed;

    burn->begin_ns = now_ns();
    if (options->start_ns > burn->begin_ns) {
        sleep_ns(options->start_ns - burn->begin_ns);
        burn->begin_ns = now_ns();
    }
    if (options->window_ns)
        burn->window_index = burn->begin_ns / options->window_ns;
    while ((elapsed = now_ns() - burn->begin_ns) < options->seconds_ns) {
        uint64_t pause_ns = rest_ns(options, elapsed);

        if (pause_ns) {
            finish_launches(burn);
            sleep_ns(pause_ns);
            continue;
        }
        stream_submit(burn, &burn->streams[turn]);
        turn = turn + 1 < options->queues ? turn + 1 : 0;
    }
    finish_launches(burn);
    if (options->window_ns)
        windows_close(burn, now_ns() / options->window_ns);
}

static int compare_u64(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

/* Prints the gaps between completions, which a user of an interactive program sees as stutter. */
static void print_gaps(const struct burn *burn)
{
    size_t count = burn->stamp_count;

    if (count < 2)
        return;
    for (size_t i = 0; i + 1 < count; i++)
        burn->stamps[i] = burn->stamps[i + 1] - burn->stamps[i];
    qsort(burn->stamps, --count, sizeof(*burn->stamps), compare_u64);
    printf(",\"gap_p50_ns\":%" PRIu64 ",\"gap_p99_ns\":%" PRIu64 ",\"gap_max_ns\":%" PRIu64, burn->stamps[count / 2],
           burn->stamps[count - 1 - count / 100], burn->stamps[count - 1]);
}

/* Prints when each kernel was on the device, by the device's clock: comparable between processes on one device. */
static void print_spans(const struct burn *burn)
{
    printf("{\"event\":\"device\",\"spans\":[");
    for (size_t i = 0; i < burn->stamp_count; i++)
        printf("%s[%" PRIu64 ",%" PRIu64 "]", i ? "," : "", burn->spans[i].start, burn->spans[i].end);
    puts("]}");
}

static void print_done(const struct burn *burn)
{
    size_t held_bytes = burn->held_bytes + burn->options.queues * burn->options.items * sizeof(uint32_t);

    printf("{\"event\":\"done\",\"kernels\":%" PRIu64 ",\"steps\":%" PRIu64 ",\"bytes_held\":%zu,\"begin_ns\":%" PRIu64
           ",\"end_ns\":%" PRIu64,
           burn->kernels, burn->options.steps, held_bytes, burn->begin_ns, now_ns());
    print_device_time(burn, burn->device_ns);
    print_gaps(burn);
    puts("}");
}

int main(int argc, char **argv)
{
    struct burn burn = {0};
    size_t filled;

    burn_options_parse(&burn.options, argc, argv);
    burn_open(&burn);
    if (!burn.options.steps)
        burn.options.steps = calibrate(&burn);
    for (unsigned i = 0; i < burn.options.queues; i++)
        stream_open(&burn, &burn.streams[i], burn.options.device_time ? CL_QUEUE_PROFILING_ENABLE : 0);
    hold_memory(&burn);
    filled = burn.held_count;
    if (burn.options.grab)
        grab_memory(&burn);
    printf("{\"event\":\"start\",\"steps\":%" PRIu64 ",\"now_ns\":%" PRIu64 "}\n", burn.options.steps, now_ns());
    fflush(stdout);

    run(&burn);

    for (unsigned i = 0; i < burn.options.queues; i++)
        stream_verify(&burn, &burn.streams[i]);
    verify_memory(&burn, filled);
    if (burn.options.device_time)
        print_spans(&burn);
    print_done(&burn);
    burn_close(&burn);
    return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
