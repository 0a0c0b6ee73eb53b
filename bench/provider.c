/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of one provider operation, by each way to call it, and of one check of the limiter: run by
 * bench/provider.py, which compares.
 *
 * Owns: the timed loops, and the count of bytes that describe a machine.
 * Never: compares.
 *
 * usage: bench_provider CASE WAY WHERE THREADS MILLISECONDS [CALLS]
 *        bench_provider bytes PROVIDER
 *
 * WAY: how an operation is called: direct, by the plug-in's own table; in-process or child, through a session. WHERE is
 * then the provider's file. For the limiter's cases, WAY is library (facet/limiter.h) or tenant (the inline calls of
 * interposers), and WHERE a folder for workers. CALLS: how many calls each thread makes, whatever time they take, for
 * counting instructions.
 * Prints {"case","way","threads","calls","ns_per_call"}: the mean over all threads, counting only the time inside the
 * calls.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <facet/limiter.h>
#include <facet/session.h>

#include "accelerator_abi.h"
#include "limiter/tenant.h"

#define MAX_THREADS   16u
#define SLICES        7u       /* of the simulated GPU, an H100: one for each partition of TEMPLATE */
#define SMALL         4096u    /* bytes of a small write, and of an allocation */
#define LARGE         1048576u /* bytes of a large write */
#define TEMPLATE      "1g.10gb"
#define WORKER        "bench"
#define CAPPED_MILLI  990u /* a cap, so that every launch is checked; launches of a nanosecond never reach it */
#define TEXT_CAPACITY 65536u

enum way {
    DIRECT,
    IN_PROCESS,
    CHILD,
    LIBRARY,
    TENANT,
};

static const char *const ways[] = {"direct", "in-process", "child", "library", "tenant"};

/* What the calls use: a provider or a limiter. */
struct target {
    const char *where;
    enum way way;
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    struct facet_session *session; /* NULL when direct */
    struct facet_limiter *limiter;
    struct facet_tenant tenant;
};

struct worker {
    struct target *target;
    const struct test *test;
    pthread_barrier_t *barrier;
    uint64_t duration_ns, most_calls;
    unsigned number;
    int32_t pid;
    uint64_t context, address;
    unsigned char *data; /* LARGE bytes */
    uint64_t calls, spent_ns;
};

struct test {
    const char *name;
    unsigned batch; /* calls between two readings of the clock */
    bool of_limiter, capped;
    void (*call)(struct worker *worker);
    void (*prepare)(struct worker *worker); /* called for each worker in turn, not timed; may be NULL */
};

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_provider: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

/* Inline, so that the check takes little of the measured time. */
static inline void check(enum facet_status status, const struct facet_error *error, const char *what)
{
    if (__builtin_expect(status != FACET_OK, 0))
        die(what, error->message);
}

static inline void expect(bool condition, const char *what, const char *why)
{
    if (__builtin_expect(!condition, 0))
        die(what, why);
}

/* ---- ways ---- */

static void open_direct(struct target *target)
{
    struct facet_error error = {0};
    const struct facet_provider_host host = {.size = sizeof host,
                                             .abi_major = FACET_PROVIDER_ABI_MAJOR,
                                             .abi_minor = FACET_PROVIDER_ABI_MINOR,
                                             .error = &error};
    void *object = dlopen(target->where, RTLD_NOW | RTLD_LOCAL);

    if (!object)
        die(target->where, dlerror());
    facet_provider_entry_func entry = (facet_provider_entry_func)dlsym(object, FACET_PROVIDER_ENTRY_NAME);
    expect(entry, target->where, "not a provider");
    check(entry(&host, &target->provider), &error, target->where);
    check(target->provider->device->open(&target->instance, &error), &error, target->where);
}

static void open_provider(struct target *target)
{
    struct facet_session_options options = {
        .size = sizeof options, .place = target->way == CHILD ? FACET_SESSION_CHILD : FACET_SESSION_IN_PROCESS};
    struct facet_error error;

    if (target->way == DIRECT) {
        open_direct(target);
        return;
    }
    check(facet_session_open(target->where, &options, &target->session, &error), &error, target->where);
    target->provider = facet_session_provider(target->session);
    target->instance = facet_session_instance(target->session);
}

static void close_provider(struct target *target)
{
    if (target->session)
        facet_session_close(target->session);
    else
        target->provider->device->close(target->instance);
}

/* The library makes the worker on both of the limiter's paths; they differ only in the caller that admits. */
static void open_limiter(struct target *target, bool capped)
{
    struct facet_limiter_worker worker = {
        .size = sizeof worker, .id = WORKER, .device_id = "bench:0", .device_memory_bytes = UINT64_C(1) << 34};
    struct facet_error error;
    char path[4096];

    facet_limits_init(&worker.limits);
    worker.limits.memory_bytes = UINT64_C(1) << 30;
    if (capped)
        worker.limits.compute_limit_milli = CAPPED_MILLI;
    check(facet_limiter_open(target->where, &target->limiter, &error), &error, target->where);
    check(facet_limiter_worker_create(target->limiter, &worker, &error), &error, "worker");
    check(facet_limiter_worker_heartbeat(target->limiter, WORKER, &error), &error, "heartbeat");
    if (target->way == LIBRARY) {
        check(facet_limiter_process_register(target->limiter, WORKER, getpid(), &error), &error, "register");
        return;
    }
    expect((size_t)snprintf(path, sizeof path, "%s/%s", target->where, WORKER) < sizeof path, "folder", "too long");
    check(facet_tenant_attach(path, &target->tenant, &error), &error, "attach");
}

static void close_limiter(struct target *target)
{
    struct facet_error error;

    if (target->way == TENANT)
        facet_tenant_detach(&target->tenant);
    check(facet_limiter_worker_remove(target->limiter, WORKER, true, &error), &error, "remove");
    facet_limiter_close(target->limiter);
}

/* ---- the calls ---- */

static void call_open(struct worker *worker)
{
    struct target target = {.where = worker->target->where, .way = worker->target->way};

    open_provider(&target);
    close_provider(&target);
}

static void call_health(struct worker *worker)
{
    const struct target *target = worker->target;
    struct facet_error error;
    uint32_t health;

    check(target->provider->device->health(target->instance, 0, &health, &error), &error, "device.health");
}

static void call_metrics(struct worker *worker)
{
    const struct target *target = worker->target;
    struct facet_device_metrics metrics = {.size = sizeof metrics};
    struct facet_error error;

    check(target->provider->metrics->device(target->instance, 0, &metrics, &error), &error, "metrics.device");
}

static inline void list_devices(const struct worker *worker, uint32_t expected)
{
    const struct target *target = worker->target;
    struct facet_partition_info items[SLICES];
    struct facet_error error;
    uint32_t count;

    check(target->provider->partition->list(target->instance, 0, items, sizeof *items, SLICES, &count, &error), &error,
          "partition.list");
    expect(count == expected, "partition.list", "not as many partitions as were made");
}

static void call_list_none(struct worker *worker)
{
    list_devices(worker, 0);
}

static void call_list_all(struct worker *worker)
{
    list_devices(worker, SLICES);
}

static void call_placements(struct worker *worker)
{
    const struct target *target = worker->target;
    struct facet_partition_placement items[SLICES];
    struct facet_error error;
    uint32_t count;

    check(target->provider->partition->placements(target->instance, 0, TEMPLATE, items, sizeof *items, SLICES, &count,
                                                  &error),
          &error, "partition.placements");
    expect(count == SLICES, "partition.placements", "not as many as there are slices");
}

static void call_partition(struct worker *worker)
{
    const struct target *target = worker->target;
    const struct facet_partition_ops *partition = target->provider->partition;
    struct facet_partition_info info = {.size = sizeof info};
    struct facet_error error;

    check(partition->create(target->instance, 0, TEMPLATE, FACET_PLACEMENT_ANY, &info, &error), &error,
          "partition.create");
    check(partition->destroy(target->instance, 0, info.uuid, &error), &error, "partition.destroy");
}

static inline void write_bytes(const struct worker *worker, uint64_t bytes)
{
    const struct target *target = worker->target;
    struct facet_error error;

    check(target->provider->memory->write(target->instance, worker->context, worker->address, worker->data, bytes,
                                          &error),
          &error, "memory.write");
}

static void call_write_small(struct worker *worker)
{
    write_bytes(worker, SMALL);
}

static void call_write_large(struct worker *worker)
{
    write_bytes(worker, LARGE);
}

/* Takes memory, and gives it back. */
static void call_memory_check(struct worker *worker)
{
    struct target *target = worker->target;
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};
    struct facet_error error;

    if (target->way == TENANT) {
        expect(facet_tenant_reserve(&target->tenant, SMALL), "reserve", "refused");
        facet_tenant_release(&target->tenant, SMALL);
        return;
    }
    check(facet_limiter_memory_check(target->limiter, WORKER, worker->pid, SMALL, &verdict, &error), &error, "memory");
    expect(verdict.admitted, "memory", "refused");
    check(facet_limiter_memory_check(target->limiter, WORKER, worker->pid, -(int64_t)SMALL, &verdict, &error), &error,
          "memory");
}

/* A tenant asks before the launch and reports its cost afterwards; the library does both in one call. */
static void call_compute_check(struct worker *worker)
{
    struct target *target = worker->target;
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};
    struct facet_error error;

    if (target->way == TENANT) {
        uint64_t charged_ns = facet_tenant_launch(&target->tenant, 1);

        expect(charged_ns != FACET_TENANT_LOST, "launch", "refused");
        facet_tenant_complete(&target->tenant, 1, charged_ns, 1, now_ns());
        return;
    }
    check(facet_limiter_compute_check(target->limiter, WORKER, worker->pid, 1, &verdict, &error), &error, "compute");
    expect(verdict.admitted, "compute", "refused");
}

/* ---- preparation ---- */

static void prepare_partitions(struct worker *worker)
{
    const struct target *target = worker->target;
    struct facet_partition_info info = {.size = sizeof info};
    struct facet_error error;

    for (uint32_t i = 0; worker->number == 0 && i < SLICES; i++)
        check(target->provider->partition->create(target->instance, 0, TEMPLATE, i, &info, &error), &error,
              "partition.create");
}

static void prepare_memory(struct worker *worker)
{
    const struct target *target = worker->target;
    const struct facet_memory_ops *memory = target->provider->memory;
    struct facet_error error;
    char name[32];

    snprintf(name, sizeof name, WORKER "-%u", worker->number);
    worker->data = malloc(LARGE);
    expect(worker->data, "memory", "none left");
    memset(worker->data, (int)worker->number, LARGE);
    check(memory->create_context(target->instance, 0, NULL, name, &worker->context, &error), &error, "create_context");
    check(memory->alloc(target->instance, worker->context, LARGE, &worker->address, &error), &error, "alloc");
}

static const struct test tests[] = {
    {.name = "open", .batch = 1, .call = call_open},
    {.name = "device.health", .batch = 64, .call = call_health},
    {.name = "metrics.device", .batch = 64, .call = call_metrics},
    {.name = "partition.list-0", .batch = 64, .call = call_list_none},
    {.name = "partition.list-7", .batch = 64, .call = call_list_all, .prepare = prepare_partitions},
    {.name = "partition.placements", .batch = 64, .call = call_placements},
    {.name = "partition.create-destroy", .batch = 8, .call = call_partition},
    {.name = "memory.write-4KiB", .batch = 64, .call = call_write_small, .prepare = prepare_memory},
    {.name = "memory.write-1MiB", .batch = 1, .call = call_write_large, .prepare = prepare_memory},
    {.name = "limiter.memory", .batch = 64, .of_limiter = true, .call = call_memory_check},
    {.name = "limiter.compute", .batch = 64, .of_limiter = true, .call = call_compute_check},
    {.name = "limiter.compute-capped", .batch = 64, .of_limiter = true, .capped = true, .call = call_compute_check},
};

/* ---- the loop ---- */

static uint64_t run_batch(struct worker *worker)
{
    uint64_t start = now_ns();

    for (unsigned i = 0; i < worker->test->batch; i++)
        worker->test->call(worker);
    return now_ns() - start;
}

static void *worker_run(void *argument)
{
    struct worker *worker = argument;

    run_batch(worker);
    pthread_barrier_wait(worker->barrier);
    uint64_t end = now_ns() + worker->duration_ns;
    while (worker->most_calls ? worker->calls < worker->most_calls : now_ns() < end) {
        worker->spent_ns += run_batch(worker);
        worker->calls += worker->test->batch;
    }
    return NULL;
}

static void measure_calls(const struct worker *like, unsigned threads)
{
    struct worker workers[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    pthread_barrier_t barrier;
    uint64_t calls = 0, spent_ns = 0;

    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = *like;
        workers[i].number = i;
        workers[i].barrier = &barrier;
        if (like->test->prepare)
            like->test->prepare(&workers[i]);
    }
    for (unsigned i = 0; i < threads; i++)
        expect(pthread_create(&ids[i], NULL, worker_run, &workers[i]) == 0, "thread", "cannot be started");
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        calls += workers[i].calls;
        spent_ns += workers[i].spent_ns;
        free(workers[i].data);
    }
    pthread_barrier_destroy(&barrier);
    printf("{\"case\":\"%s\",\"way\":\"%s\",\"threads\":%u,\"calls\":%" PRIu64 ",\"ns_per_call\":%.2f}\n",
           like->test->name, ways[like->target->way], threads, calls, calls ? (double)spent_ns / (double)calls : 0.0);
}

static void run_threads(struct worker *like, unsigned threads)
{
    struct target *target = like->target;
    bool opens = like->test->call == call_open; /* each call opens a session */

    if (like->test->of_limiter)
        open_limiter(target, like->test->capped);
    else if (!opens)
        open_provider(target);
    measure_calls(like, threads);
    if (like->test->of_limiter)
        close_limiter(target);
    else if (!opens)
        close_provider(target);
}

/* ---- how many bytes describe a machine ---- */

/* A function that lists items of all devices. */
typedef enum facet_status (*list_func)(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                       uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

/* Asks for the number of items first, as every caller does. */
static uint32_t count_items(const struct target *target, list_func items_of, uint32_t item_size)
{
    struct facet_error error;
    uint32_t count = 0;

    enum facet_status status = items_of(target->instance, NULL, item_size, 0, &count, &error);
    if (status == FACET_OK)
        return 0;
    expect(status == FACET_TOO_SMALL, "list", error.message);
    void *items = calloc(count, item_size);
    expect(items, "list", "no memory left");
    check(items_of(target->instance, items, item_size, count, &count, &error), &error, "list");
    free(items);
    return count;
}

static uint64_t count_properties(const struct target *target, uint32_t devices)
{
    char *text = malloc(TEXT_CAPACITY);
    struct facet_error error;
    uint64_t bytes = 0;

    expect(text, "properties", "no memory left");
    for (uint32_t i = 0; i < devices; i++) {
        uint32_t size;

        check(target->provider->device->properties(target->instance, i, text, TEXT_CAPACITY, &size, &error), &error,
              "device.properties");
        bytes += size;
    }
    free(text);
    return bytes;
}

static int print_bytes(const char *path)
{
    struct target target = {.where = path, .way = DIRECT};

    open_provider(&target);
    const struct facet_device_ops *device = target.provider->device;
    uint32_t devices = count_items(&target, device->list, sizeof(struct facet_device_info));
    uint32_t nodes = count_items(&target, device->nodes, sizeof(struct facet_topology_node));
    uint32_t links = count_items(&target, device->links, sizeof(struct facet_topology_link));
    uint64_t properties = count_properties(&target, devices);
    close_provider(&target);
    printf("{\"devices\":%u,\"nodes\":%u,\"links\":%u,\"device_bytes\":%" PRIu64 ",\"topology_bytes\":%" PRIu64
           ",\"peer_device_bytes\":%zu,\"peer_topology_bytes\":%zu}\n",
           devices, nodes, links, devices * sizeof(struct facet_device_info) + properties,
           nodes * sizeof(struct facet_topology_node) + links * sizeof(struct facet_topology_link),
           devices * sizeof(ExtendedDeviceInfo), sizeof(ExtendedDeviceTopology));
    return EXIT_SUCCESS;
}

/* ---- the command line ---- */

static uint64_t parse_number(const char *text, uint64_t low, uint64_t high)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high) {
        fprintf(stderr, "bench_provider: '%s': expected a number from %" PRIu64 " to %" PRIu64 "\n", text, low, high);
        exit(2);
    }
    return value;
}

static const struct test *find_test(const char *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (strcmp(tests[i].name, name) == 0)
            return &tests[i];
    }
    die(name, "unknown case");
    return NULL;
}

/* The way of this name, which must suit the case. */
static enum way find_way(const char *name, const struct test *test)
{
    enum way last = test->of_limiter ? TENANT : CHILD;

    for (enum way way = test->of_limiter ? LIBRARY : DIRECT; way <= last; way++) {
        if (strcmp(ways[way], name) == 0)
            return way;
    }
    die(name, "the case cannot be called this way");
    return DIRECT;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "bytes") == 0)
        return print_bytes(argv[2]);
    if (argc < 6 || argc > 7) {
        fputs("usage: bench_provider CASE WAY WHERE THREADS MILLISECONDS [CALLS]\n"
              "       bench_provider bytes PROVIDER\n",
              stderr);
        return 2;
    }
    const struct test *test = find_test(argv[1]);
    struct target target = {.way = find_way(argv[2], test), .where = argv[3]};
    struct worker like = {.target = &target,
                          .test = test,
                          .pid = getpid(),
                          .duration_ns = parse_number(argv[5], 1, 60000) * 1000000u,
                          .most_calls = argc > 6 ? parse_number(argv[6], 1, 1000000) : 0};
    run_threads(&like, (unsigned)parse_number(argv[4], 1, MAX_THREADS));
    return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
