/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of calls for memory: run over the bare driver and in a vGPU by bench/cuda_memory.py, which compares.
 *
 * Owns: the timed loops, the processes that run them, and a vGPU's segment for those that run in a vGPU.
 * Never: knows the interposer; it opens the libcuda.so.1 that LIBRARY names.
 *
 * usage: bench_cuda_memory LIBRARY bare|vgpu CASE LIVE THREADS PROCESSES MILLISECONDS
 * CASE: pair (allocate and free 4 KiB) or info (cuMemGetInfo). LIVE: how many allocations each thread has meanwhile.
 * Prints {"ns_per_call"}: the mean, over threads and processes, of the median of a caller's batches. Batches during
 * which another caller made no progress are left out.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "limiter/owner.h"
#include "limiter/tenant.h"
#include "vendor/cuda/memory.h"

#define CALLERS_MOST 16u
#define BATCH        64u
#define SAMPLES_MOST 65536u
#define WARM_UP      200u                                       /* batches */
#define ADDRESS      "GPU-66616b65-2d67-7075-0000-000000000001" /* of the fake driver's first device */

static struct {
    __typeof__(&cuInit) cuInit;
    __typeof__(&cuDevicePrimaryCtxRetain) cuDevicePrimaryCtxRetain;
    __typeof__(&cuCtxSetCurrent) cuCtxSetCurrent;
    __typeof__(&cuMemAlloc_v2) cuMemAlloc_v2;
    __typeof__(&cuMemFree_v2) cuMemFree_v2;
    __typeof__(&cuMemGetInfo_v2) cuMemGetInfo_v2;
} cuda;

struct options {
    const char *library;
    void (*call)(void);
    unsigned live, threads, processes, milliseconds;
};

/* Shared by all processes, whose threads begin to measure together. */
struct shared {
    pthread_barrier_t barrier;
    double ns[CALLERS_MOST * CALLERS_MOST];
    struct {
        _Alignas(64) _Atomic uint32_t batches; /* how many a caller has done */
    } progress[CALLERS_MOST * CALLERS_MOST];
};
static struct shared *shared;

struct worker {
    const struct options *options;
    CUcontext context;
    unsigned index, count;
    uint32_t seen_batches[CALLERS_MOST * CALLERS_MOST]; /* the other callers' `batches` at the last check */
    uint32_t batches_ns[SAMPLES_MOST];
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void check_call(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "bench_cuda_memory: %s failed with CUresult %d\n", call, result);
    exit(EXIT_FAILURE);
}

static void call_pair(void)
{
    CUdeviceptr pointer;

    check_call(cuda.cuMemAlloc_v2(&pointer, 4096), "cuMemAlloc");
    check_call(cuda.cuMemFree_v2(pointer), "cuMemFree");
}

static void call_info(void)
{
    size_t is_free, total;

    check_call(cuda.cuMemGetInfo_v2(&is_free, &total), "cuMemGetInfo");
}

static uint64_t run_batch(void (*call)(void))
{
    uint64_t begun = now_ns();

    for (unsigned i = 0; i < BATCH; i++)
        call();
    return now_ns() - begun;
}

/* Whether every other caller has done a batch since the last check. */
static bool all_made_progress(struct worker *worker)
{
    unsigned callers = worker->options->threads * worker->options->processes;
    bool all = true;

    atomic_fetch_add(&shared->progress[worker->index].batches, 1);
    for (unsigned i = 0; i < callers; i++) {
        uint32_t now = atomic_load_explicit(&shared->progress[i].batches, memory_order_relaxed);

        all = all && now != worker->seen_batches[i];
        worker->seen_batches[i] = now;
    }
    return all;
}

static int compare_times(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return a < b ? -1 : a > b;
}

/* Pins a caller to a processor of its own, if there are enough: two on one processor would never run at once. */
static void pin_thread(unsigned index)
{
    cpu_set_t allowed, one;
    unsigned count = 0;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || !CPU_COUNT(&allowed))
        return;
    index %= (unsigned)CPU_COUNT(&allowed);
    CPU_ZERO(&one);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && count++ == index)
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void *allocate_repeatedly(void *argument)
{
    struct worker *worker = argument;
    CUdeviceptr pointer;

    pin_thread(worker->index);
    check_call(cuda.cuCtxSetCurrent(worker->context), "cuCtxSetCurrent");
    for (unsigned i = 0; i < worker->options->live; i++)
        check_call(cuda.cuMemAlloc_v2(&pointer, 4096), "cuMemAlloc");
    for (unsigned i = 0; i < WARM_UP; i++)
        run_batch(worker->options->call);
    pthread_barrier_wait(&shared->barrier);
    uint64_t end = now_ns() + worker->options->milliseconds * UINT64_C(1000000);
    while (worker->count < SAMPLES_MOST && now_ns() < end) {
        uint32_t batch_ns = (uint32_t)run_batch(worker->options->call);

        if (all_made_progress(worker))
            worker->batches_ns[worker->count++] = batch_ns;
    }
    if (!worker->count) {
        fputs("bench_cuda_memory: the callers never ran at the same time\n", stderr);
        exit(EXIT_FAILURE);
    }
    qsort(worker->batches_ns, worker->count, sizeof worker->batches_ns[0], compare_times);
    uint32_t median_ns = worker->batches_ns[worker->count / 2];
    shared->ns[worker->index] = (double)median_ns / BATCH;
    return NULL;
}

static void open_driver(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        fprintf(stderr, "bench_cuda_memory: %s\n", dlerror());
        exit(EXIT_FAILURE);
    }
#define LOOK_UP(name) cuda.name = (__typeof__(cuda.name))dlsym(library, #name)
    LOOK_UP(cuInit);
    LOOK_UP(cuDevicePrimaryCtxRetain);
    LOOK_UP(cuCtxSetCurrent);
    LOOK_UP(cuMemAlloc_v2);
    LOOK_UP(cuMemFree_v2);
    LOOK_UP(cuMemGetInfo_v2);
#undef LOOK_UP
    check_call(cuda.cuInit(0), "cuInit");
}

static void run_process(const struct options *options, unsigned process)
{
    struct worker *workers = calloc(options->threads, sizeof *workers);
    pthread_t ids[CALLERS_MOST];
    CUcontext context;

    open_driver(options->library);
    check_call(cuda.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    for (unsigned i = 0; workers && i < options->threads; i++) {
        workers[i].options = options;
        workers[i].context = context;
        workers[i].index = process * options->threads + i;
        if (pthread_create(&ids[i], NULL, allocate_repeatedly, &workers[i]) != 0)
            exit(EXIT_FAILURE);
    }
    for (unsigned i = 0; workers && i < options->threads; i++)
        pthread_join(ids[i], NULL);
    free(workers);
}

static bool run_all(const struct options *options)
{
    pid_t pids[CALLERS_MOST];
    int status, failed = 0;

    for (unsigned i = 0; i < options->processes; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            run_process(options, i);
            exit(EXIT_SUCCESS);
        }
    }
    for (unsigned i = 0; i < options->processes; i++)
        failed |= waitpid(pids[i], &status, 0) != pids[i] || status;
    return !failed;
}

static bool make_shared(const struct options *options)
{
    pthread_barrierattr_t attributes;

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    return shared != MAP_FAILED &&
           pthread_barrier_init(&shared->barrier, &attributes, options->threads * options->processes) == 0;
}

/* Runs all processes in a vGPU, with a quota that they do not reach. */
static bool run_in_vgpu(const struct options *options)
{
    struct facet_owner_spec spec = {.vgpu_id = "bench", .vgpu_name = "bench"};
    struct facet_error error = {0};
    struct facet_owner *owner;
    char root[] = "/dev/shm/facet-bench-XXXXXX", dir[64], lock_path[64];

    if (!mkdtemp(root))
        return false;
    snprintf(dir, sizeof dir, "%s/vgpu", root);
    snprintf(lock_path, sizeof lock_path, "%s/device.lock", root);
    facet_limits_init(&spec.limits);
    spec.limits.memory_bytes = spec.device.memory_bytes = UINT64_C(7) << 30;
    snprintf(spec.device.address, sizeof spec.device.address, "%s", ADDRESS);
    bool made = facet_device_lock_make(lock_path, &error) == FACET_OK &&
                facet_owner_create(dir, &spec, lock_path, &owner, &error) == FACET_OK;
    if (!made) {
        fprintf(stderr, "bench_cuda_memory: %s\n", error.message);
        return false;
    }
    facet_owner_set_gate(owner, FACET_GATE_OPEN);
    setenv(FACET_ENV_VGPU_DIR, dir, 1);
    bool done = run_all(options);
    facet_owner_close(owner);
    facet_owner_remove(dir, &error);
    unlink(lock_path);
    rmdir(root);
    return done;
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fputs("usage: bench_cuda_memory LIBRARY bare|vgpu pair|info LIVE THREADS PROCESSES MILLISECONDS\n", stderr);
        return 2;
    }
    struct options options = {.library = argv[1],
                              .call = strcmp(argv[3], "info") == 0 ? call_info : call_pair,
                              .live = (unsigned)atoi(argv[4]),
                              .threads = (unsigned)atoi(argv[5]),
                              .processes = (unsigned)atoi(argv[6]),
                              .milliseconds = (unsigned)atoi(argv[7])};
    unsigned callers = options.threads * options.processes;
    double sum = 0;

    if (!callers || options.threads > CALLERS_MOST || options.processes > CALLERS_MOST || !make_shared(&options))
        return 2;
    if (!(strcmp(argv[2], "vgpu") == 0 ? run_in_vgpu(&options) : run_all(&options)))
        return 1;
    for (unsigned i = 0; i < callers; i++)
        sum += shared->ns[i];
    printf("{\"ns_per_call\": %.2f}\n", sum / callers);
    return 0;
}
