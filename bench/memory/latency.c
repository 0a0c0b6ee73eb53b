/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of one allocation and one free among a number of live blocks.
 *
 * Owns: threads that put a new block of 256 bytes to 4 KiB into a place chosen at random and free the block that was
 * there, be it their own or another thread's (as in Larson and Krishnan, 1998).
 * Never: touches the blocks, since the host cannot touch a device's memory; but malloc keeps its records in its blocks.
 *
 * Prints {"allocator","library","live","threads","allocate":{"median_ns","p99_ns"},"free":{..},"pair_ns","timer_ns"}.
 * Each call is timed alone, between fences, less the cost of the clock. pair_ns: a free and an allocation without a
 * clock between them.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "buddy.h"
#include "common.h"
#include "scan.h"

#define BYTES_LEAST 256u
#define BYTES_MOST  4096u
#define RANGE       (8 * GIB)
#define FINE        1024u /* each tick count below has a bucket of its own; above, there are 512 buckets per doubling */
#define BUCKETS     (FINE + 54u * 512u)
#define MAX_THREADS 16u

struct allocator {
    const char *name;
    void *(*open)(void);
    uint64_t (*allocate)(void *data, uint64_t bytes);
    void (*free)(void *data, uint64_t address);
};

/* --- the allocators ----------------------------------------------------------------------------------------------- */

static void *open_facet(void)
{
    const struct facet_memory_config config = {.size = sizeof config, .memory_bytes = RANGE};

    return open_space(open_memory(&config), 1, RANGE);
}

static uint64_t allocate_facet(void *data, uint64_t bytes)
{
    struct facet_error error;
    uint64_t address;

    check(facet_space_allocate(data, bytes, NULL, &address, &error), &error, "facet_space_allocate");
    return address;
}

static void free_facet(void *data, uint64_t address)
{
    struct facet_error error;

    check(facet_space_free(data, address, &error), &error, "facet_space_free");
}

static void *open_malloc(void)
{
    return NULL;
}

static uint64_t allocate_malloc(void *data, uint64_t bytes)
{
    return (uintptr_t)malloc(bytes);
}

static void free_malloc(void *data, uint64_t address)
{
    free(pointer(address));
}

/* A lock around buddy and scan, which are not thread-safe. Addresses are their numbers plus 1, so that none is 0. */
struct locked {
    pthread_mutex_t lock;
    void *inner;
};

static struct locked *with_lock(void *inner)
{
    struct locked *locked = get_memory(1, sizeof *locked);

    pthread_mutex_init(&locked->lock, NULL);
    locked->inner = inner;
    return locked;
}

static void *open_buddy(void)
{
    return with_lock(buddy_create(RANGE, BYTES_LEAST));
}

static uint64_t allocate_buddy(void *data, uint64_t bytes)
{
    struct locked *locked = data;

    pthread_mutex_lock(&locked->lock);
    uint64_t at = buddy_take(locked->inner, bytes);
    pthread_mutex_unlock(&locked->lock);
    return at + 1;
}

static void free_buddy(void *data, uint64_t address)
{
    struct locked *locked = data;

    pthread_mutex_lock(&locked->lock);
    buddy_give(locked->inner, address - 1);
    pthread_mutex_unlock(&locked->lock);
}

static void *open_scan(void)
{
    return with_lock(scan_create(RANGE));
}

static uint64_t allocate_scan(void *data, uint64_t bytes)
{
    struct locked *locked = data;

    pthread_mutex_lock(&locked->lock);
    uint64_t at = scan_take(locked->inner, bytes, false);
    pthread_mutex_unlock(&locked->lock);
    return at + 1;
}

static void free_scan(void *data, uint64_t address)
{
    struct locked *locked = data;

    pthread_mutex_lock(&locked->lock);
    scan_give(locked->inner, address - 1);
    pthread_mutex_unlock(&locked->lock);
}

static const struct allocator allocators[] = {
    {"facet", open_facet, allocate_facet, free_facet},
    {"malloc", open_malloc, allocate_malloc, free_malloc},
    {"buddy", open_buddy, allocate_buddy, free_buddy},
    {"scan", open_scan, allocate_scan, free_scan},
};

/* The library whose malloc this process uses. */
static const char *malloc_library(const struct allocator *allocator)
{
    if (allocator->open != open_malloc)
        return "";
    return dlsym(RTLD_DEFAULT, "mallctl") ? "jemalloc" : dlsym(RTLD_DEFAULT, "mi_version") ? "mimalloc" : "libc";
}

/* --- counting ----------------------------------------------------------------------------------------------------- */

struct counts {
    uint64_t of[BUCKETS], all;
};

static uint32_t bucket_of(uint64_t ticks)
{
    if (ticks < FINE)
        return (uint32_t)ticks;
    uint32_t top = 63 - (uint32_t)__builtin_clzll(ticks);
    return FINE + (top - 10) * 512 + (uint32_t)(ticks >> (top - 9) & 511);
}

static uint64_t ticks_of(uint32_t bucket)
{
    if (bucket < FINE)
        return bucket;
    uint32_t top = (bucket - FINE) / 512 + 10;
    return (UINT64_C(512) + (bucket - FINE) % 512) << (top - 9);
}

static void count_ticks(struct counts *counts, uint64_t ticks)
{
    counts->of[bucket_of(ticks)]++;
    counts->all++;
}

static uint64_t percentile_ticks(const struct counts *counts, uint64_t milli)
{
    uint64_t left = counts->all * milli / 1000;
    uint32_t bucket = 0;

    while (bucket < BUCKETS - 1 && left >= counts->of[bucket])
        left -= counts->of[bucket++];
    return ticks_of(bucket);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

struct worker {
    pthread_t thread;
    const struct allocator *allocator;
    void *data;
    _Atomic uint64_t *slots;
    uint64_t live, duration_ns, random;
    pthread_barrier_t *barrier;
    struct counts *allocate, *free;
    uint64_t pairs, pairs_ns;
};

static uint64_t random_size(uint64_t *random)
{
    return BYTES_LEAST + random_next(random) % (BYTES_MOST - BYTES_LEAST + 1);
}

static void replace_timed(struct worker *worker)
{
    uint64_t index = random_next(&worker->random) % worker->live, bytes = random_size(&worker->random);
    uint64_t old = atomic_exchange(&worker->slots[index], 0);
    uint64_t start = ticks_fenced();

    if (old)
        worker->allocator->free(worker->data, old);
    uint64_t middle = ticks_fenced();
    uint64_t new = worker->allocator->allocate(worker->data, bytes);
    uint64_t end = ticks_fenced();
    if (old)
        count_ticks(worker->free, middle - start);
    count_ticks(worker->allocate, end - middle);
    old = atomic_exchange(&worker->slots[index], new);
    if (old)
        worker->allocator->free(worker->data, old);
}

static void replace_pair(struct worker *worker)
{
    uint64_t index = random_next(&worker->random) % worker->live, bytes = random_size(&worker->random);
    uint64_t new = worker->allocator->allocate(worker->data, bytes);
    uint64_t old = atomic_exchange(&worker->slots[index], new);

    if (old)
        worker->allocator->free(worker->data, old);
}

static uint64_t repeat_step(struct worker *worker, void (*one)(struct worker *worker), uint64_t *ret_ns)
{
    uint64_t done = 0, start, now;

    pthread_barrier_wait(worker->barrier);
    start = now = now_ns();
    for (; now < start + worker->duration_ns; now = now_ns())
        for (unsigned i = 0; i < 64; i++, done++)
            one(worker);
    *ret_ns = now - start;
    return done;
}

static void *worker_main(void *data)
{
    struct worker *worker = data;
    uint64_t warm_ns;

    repeat_step(worker, replace_pair, &warm_ns);
    repeat_step(worker, replace_timed, &warm_ns);
    worker->pairs = repeat_step(worker, replace_pair, &worker->pairs_ns);
    return NULL;
}

static void measure_timer(struct counts *counts)
{
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t start = ticks_fenced();

        count_ticks(counts, ticks_fenced() - start);
    }
}

/* Puts each live block into a random slot, so that neighbours in memory are not neighbours among the slots. */
static void fill_slots(struct worker *worker)
{
    for (uint64_t i = 0; i < worker->live; i++)
        worker->slots[i] = worker->allocator->allocate(worker->data, random_size(&worker->random));
    for (uint64_t i = worker->live; i-- > 1;) {
        uint64_t other = random_next(&worker->random) % (i + 1), address = worker->slots[i];

        worker->slots[i] = worker->slots[other];
        worker->slots[other] = address;
    }
}

static void run_threads(struct worker *first, unsigned threads)
{
    struct worker workers[MAX_THREADS];
    pthread_barrier_t barrier;

    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = *first;
        workers[i].barrier = &barrier;
        workers[i].random = i * 7919 + 17;
        workers[i].allocate = get_memory(1, sizeof(struct counts));
        workers[i].free = get_memory(1, sizeof(struct counts));
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0)
            die("latency", "no thread");
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        first->pairs += workers[i].pairs;
        first->pairs_ns += workers[i].pairs_ns;
        for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
            first->allocate->of[bucket] += workers[i].allocate->of[bucket];
            first->free->of[bucket] += workers[i].free->of[bucket];
        }
        first->allocate->all += workers[i].allocate->all;
        first->free->all += workers[i].free->all;
    }
}

static void print_counts(const char *name, const struct counts *counts, uint64_t timer, double per_ns)
{
    uint64_t median = percentile_ticks(counts, 500), most = percentile_ticks(counts, 990);

    printf(",\"%s\":{\"median_ns\":%.1f,\"p99_ns\":%.1f}", name, (double)(median > timer ? median - timer : 0) / per_ns,
           (double)(most > timer ? most - timer : 0) / per_ns);
}

int latency_main(char **arguments)
{
    const struct allocator *allocator = NULL;
    unsigned threads = (unsigned)strtoul(arguments[2], NULL, 10);

    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++)
        if (strcmp(arguments[0], allocators[i].name) == 0)
            allocator = &allocators[i];
    if (!allocator || threads < 1 || threads > MAX_THREADS)
        die("latency", "expected the allocator facet, malloc, buddy or scan, and 1 to 16 threads");
    struct worker worker = {
        .allocator = allocator,
        .data = allocator->open(),
        .live = strtoull(arguments[1], NULL, 10),
        .duration_ns = strtoull(arguments[3], NULL, 10) * 1000000u,
        .random = 42,
        .allocate = get_memory(1, sizeof(struct counts)),
        .free = get_memory(1, sizeof(struct counts)),
    };
    worker.slots = get_memory(worker.live, sizeof *worker.slots);
    struct counts *timer = get_memory(1, sizeof *timer);
    double per_ns = ticks_per_ns();
    fill_slots(&worker);
    measure_timer(timer);
    run_threads(&worker, threads);
    printf("{\"allocator\":\"%s\",\"library\":\"%s\",\"live\":%" PRIu64 ",\"threads\":%u", allocator->name,
           malloc_library(allocator), worker.live, threads);
    print_counts("allocate", worker.allocate, percentile_ticks(timer, 500), per_ns);
    print_counts("free", worker.free, percentile_ticks(timer, 500), per_ns);
    printf(",\"pair_ns\":%.1f,\"timer_ns\":%.1f}\n", (double)worker.pairs_ns / (double)worker.pairs,
           (double)percentile_ticks(timer, 500) / per_ns);
    return EXIT_SUCCESS;
}
