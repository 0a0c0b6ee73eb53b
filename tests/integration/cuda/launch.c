/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of one launch for the thread that makes it: cuda-launch MILLISECONDS THREADS [KERNELS]. The program
 * hip-launch is the same code, compiled with HIP's client.
 *
 * bench/launch.py runs it with the bare driver and in a vGPU, and compares. The kernel takes no device time, so no
 * launch waits; every thread has a stream of its own. KERNELS is the number of kernels that are launched in turn: 1, 2,
 * 4 or 8. Prints ns_per_call, the median over batches, so that a few batches that other programs disturbed do not
 * count.
 *
 * Owns: the timed loop. Never: calls a vendor's library except through its client.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <client.h> /* of the vendor for which this is compiled */

#define MAX_THREADS 16u
#define MAX_KERNELS 8u
#define BATCH       256u /* launches that are timed together */
#define MAX_BATCHES 65536u
#define WARM_UP     200u /* untimed batches, in which the driver and the limiter see the kernels for the first time */

struct worker {
    client_function_t functions[MAX_KERNELS];
    unsigned kernels;
    uint64_t duration_ns;
    pthread_barrier_t *barrier;
    unsigned count; /* of timed batches */
    uint64_t batches_ns[MAX_BATCHES];
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void check_call(int result, const char *call)
{
    if (result == 0)
        return;
    fprintf(stderr, "launch: %s failed with error %d\n", call, result);
    exit(EXIT_FAILURE);
}

static uint64_t run_batch(const struct worker *worker, client_stream_t stream)
{
    unsigned mask = worker->kernels - 1; /* the number of kernels is a power of two */
    uint64_t begun = now_ns();

    for (unsigned i = 0; i < BATCH; i++)
        check_call(client_launch(worker->functions[i & mask], 8, stream), "a launch");
    return now_ns() - begun;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    client_stream_t stream;

    check_call(client_enter(&stream), "a stream");
    for (unsigned i = 0; i < WARM_UP; i++)
        run_batch(worker, stream);
    pthread_barrier_wait(worker->barrier);
    for (uint64_t end = now_ns() + worker->duration_ns; worker->count < MAX_BATCHES && now_ns() < end; worker->count++)
        worker->batches_ns[worker->count] = run_batch(worker, stream);
    return NULL;
}

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

static double median_ns(struct worker *worker)
{
    qsort(worker->batches_ns, worker->count, sizeof *worker->batches_ns, compare_times);

    uint64_t middle_ns = worker->batches_ns[worker->count / 2];

    return (double)middle_ns / BATCH;
}

int main(int argc, char **argv)
{
    static struct worker workers[MAX_THREADS];
    unsigned threads = argc >= 3 ? (unsigned)atoi(argv[2]) : 0, kernels = argc == 4 ? (unsigned)atoi(argv[3]) : 1;
    pthread_t ids[MAX_THREADS];
    pthread_barrier_t barrier;
    double sum_ns = 0;

    if (!threads || threads > MAX_THREADS || !kernels || kernels > MAX_KERNELS || kernels & (kernels - 1) ||
        !client_open()) {
        fprintf(stderr, "usage: launch MILLISECONDS THREADS [KERNELS]\n");
        return 2;
    }
    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        workers[i].kernels = kernels;
        for (unsigned k = 0; k < kernels; k++) /* na_0ns, nb_0ns ...: kernels that take no time */
            workers[i].functions[k] = client_function((char[]){'n', (char)('a' + k), '_', '0', 'n', 's', 0});
        workers[i].duration_ns = (uint64_t)atoi(argv[1]) * 1000000u;
        workers[i].barrier = &barrier;
        if (pthread_create(&ids[i], NULL, worker_main, &workers[i]) != 0)
            return 1;
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum_ns += median_ns(&workers[i]);
    }
    printf("{\"ns_per_call\": %.2f}\n", sum_ns / threads);
    return 0;
}
