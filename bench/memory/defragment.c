/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live data that moves while a thread keeps writing to it.
 *
 * Owns: memory of which every other chunk is half empty, a thread that writes counters in it, as a kernel would, the
 * time that moving takes beside memcpy() of as many bytes, and sums over the data before and after.
 * Never: stops the thread.
 *
 * Prints this, where all_gib_s includes planning, and giving back empty memory:
 * {"live_mib","run_kib","page_kib","moved_mib","move_gib_s","all_gib_s","copy_gib_s","steps","longest_step_us",
 * "returned_mib","commit","on","huge_milli","fragmentation_before","fragmentation_after","right","idle":{..},
 * "copying":{..},"moving":{..}}. The last three are the thread's measurements while an empty loop, memcpy() and the
 * defragmenter ran beside it: {"writes","longest_us","over_ms","own_us","taken","switched"}. longest_us: the longest
 * gap between two writes. over_ms: how many gaps were over 1 ms. taken: how many of these fell mostly into a time in
 * which one of the two threads waited for a processor that another program had. own_us: the longest gap except these.
 * switched: how often the thread was preempted.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

#include <facet/session.h>

#include "common.h"

#define PAGE       4096u
#define PAGE_WORDS (PAGE / sizeof(uint64_t))
#define IDLE_NS    500000000u

struct data {
    struct facet_session *session; /* NULL: host memory */
    struct facet_memory *memory;
    struct facet_space *space;
    uint64_t run_bytes, count;
    uint64_t *runs; /* addresses */
};

/* Each page of 4 KiB begins with a counter, which only the writer's thread writes. Sums cover the other words. */

/* What runs beside the writer's thread: an empty loop, memcpy(), the defragmenter. OVER: the thread ends. */
enum phase {
    IDLE = 0,
    COPYING = 1,
    MOVING = 2,
    PHASES = 3,
    OVER = 4,
};

/* The writer's measurements in one phase; gaps are in ticks. */
struct gap_counts {
    uint64_t writes, longest_gap, gaps_over_ms, own_longest, waited_gaps, switches;
};

struct writer {
    pthread_t thread;
    const struct data *data;
    _Atomic int phase;
    double per_ns;
    struct gap_counts gap_counts[PHASES];
    uint64_t writes;
};

static uint64_t context_switches(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nivcsw;
}

/* How long the main thread and this one were ready to run without running (schedstat); 0: unknown. */
static uint64_t waited_ns(void)
{
    static const char *const accounts[] = {"/proc/self/schedstat", "/proc/thread-self/schedstat"};
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof accounts / sizeof accounts[0]; i++) {
        FILE *file = fopen(accounts[i], "re");
        uint64_t waited = 0;

        if (file && fscanf(file, "%*u %" SCNu64, &waited) == 1)
            sum += waited;
        if (file)
            fclose(file);
    }
    return sum;
}

static void count_gap(struct gap_counts *gap_counts, uint64_t gap, bool has_waited)
{
    gap_counts->longest_gap = gap > gap_counts->longest_gap ? gap : gap_counts->longest_gap;
    gap_counts->own_longest = gap > gap_counts->own_longest && !has_waited ? gap : gap_counts->own_longest;
    gap_counts->waited_gaps += has_waited;
}

static void write_one(const struct data *data, uint64_t *random)
{
    uint64_t value = random_next(random), run = value % data->count;
    uint64_t page = (value >> 32) % (data->run_bytes / PAGE);
    volatile uint64_t *counter = pointer(data->runs[run] + page * PAGE);

    *counter += 1;
}

static void write_while(struct writer *writer, int phase, uint64_t *random)
{
    struct gap_counts *gap_counts = &writer->gap_counts[phase];
    uint64_t over = (uint64_t)(1e6 * writer->per_ns), before = context_switches(), waited = waited_ns(),
             last = ticks_now();

    while (atomic_load_explicit(&writer->phase, memory_order_relaxed) == phase) {
        write_one(writer->data, random);
        uint64_t now = ticks_now(), gap = now - last;

        last = now;
        gap_counts->writes++;
        if (gap <= over) {
            count_gap(gap_counts, gap, false);
            continue;
        }
        uint64_t until = waited_ns();
        gap_counts->gaps_over_ms++;
        count_gap(gap_counts, gap, (double)(until - waited) * writer->per_ns > (double)gap / 2);
        waited = until;
        last = ticks_now();
    }
    gap_counts->switches += context_switches() - before;
}

static void *writer_main(void *data)
{
    struct writer *writer = data;
    uint64_t random = 4711;
    int phase;

    while ((phase = atomic_load(&writer->phase)) != OVER)
        write_while(writer, phase, &random);
    for (int i = 0; i < PHASES; i++)
        writer->writes += writer->gap_counts[i].writes;
    return NULL;
}

/* --- the data ----------------------------------------------------------------------------------------------------- */

static void allocate_all(struct data *data, uint64_t bytes)
{
    struct facet_error error;

    data->count = bytes / data->run_bytes;
    data->runs = get_memory(data->count, sizeof *data->runs);
    for (uint64_t i = 0; i < data->count; i++)
        check(facet_space_allocate(data->space, data->run_bytes, NULL, &data->runs[i], &error), &error,
              "facet_space_allocate");
}

static void write_all(const struct data *data)
{
    uint64_t random = 1;

    for (uint64_t i = 0; i < data->count; i++) {
        uint64_t *words = pointer(data->runs[i]);

        for (uint64_t word = 0; word < data->run_bytes / sizeof *words; word++)
            words[word] = word % PAGE_WORDS ? random_next(&random) : 0;
    }
}

/* The sum of the words that the thread does not write. *ret_writes: the sum of its counters. */
static uint64_t sum_all(const struct data *data, uint64_t *ret_writes)
{
    uint64_t sum = 0, writes = 0;

    for (uint64_t i = 0; i < data->count; i++) {
        const uint64_t *words = pointer(data->runs[i]);

        for (uint64_t word = 0; word < data->run_bytes / sizeof *words; word++)
            if (word % PAGE_WORDS)
                sum = (sum << 1 | sum >> 63) ^ words[word];
            else
                writes += words[word];
    }
    *ret_writes = writes;
    return sum;
}

static uint64_t chunk_of(const struct data *data, uint64_t address, uint64_t chunk_bytes)
{
    struct facet_page page = {.size = sizeof page};
    struct facet_error error;

    check(facet_space_page(data->space, address, &page, &error), &error, "facet_space_page");
    return page.physical_bytes / chunk_bytes;
}

/* Frees every other run of every other chunk. */
static void free_alternate_runs(struct data *data, uint64_t chunk_bytes)
{
    struct facet_error error;
    uint64_t kept = 0;

    for (uint64_t i = 0; i < data->count; i++) {
        if (i % 2 && chunk_of(data, data->runs[i], chunk_bytes) % 2)
            check(facet_space_free(data->space, data->runs[i], &error), &error, "facet_space_free");
        else
            data->runs[kept++] = data->runs[i];
    }
    data->count = kept;
}

static struct facet_memory_usage usage_of(const struct data *data)
{
    struct facet_memory_usage usage = {.size = sizeof usage};
    struct facet_error error;

    check(facet_memory_get_usage(data->memory, &usage, &error), &error, "facet_memory_get_usage");
    return usage;
}

/* Opens a context: one owns the memory, another one is for the space. */
static uint64_t open_context(struct facet_session *session, const char *worker)
{
    struct facet_error error;
    uint64_t context;

    check(facet_session_provider(session)->memory->create_context(facet_session_instance(session), 0, NULL, worker,
                                                                  &context, &error),
          &error, "create_context");
    return context;
}

/* Opens the memory of the provider `cpu` in this process, in which its addresses are valid. */
static void open_on_cpu(struct data *data, const struct facet_memory_config *config, const char *path)
{
    const struct facet_session_options options = {.size = sizeof options, .place = FACET_SESSION_IN_PROCESS};
    struct facet_error error;
    char bytes[32];

    snprintf(bytes, sizeof bytes, "%" PRIu64, config->memory_bytes);
    setenv("FACET_CPU_MEMORY", bytes, 1);
    if (config->commit)
        setenv("FACET_CPU_COMMIT", "1", 1);
    check(facet_session_open(path, &options, &data->session, &error), &error, path);
    check(
        facet_memory_open_device(data->session, 0, open_context(data->session, "owner"), config, &data->memory, &error),
        &error, "facet_memory_open_device");
    const struct facet_space_config space = {.size = sizeof space,
                                             .id = 1,
                                             .limit_bytes = config->memory_bytes,
                                             .context = open_context(data->session, "tenant")};
    check(facet_space_create(data->memory, &space, &data->space, &error), &error, "facet_space_create");
}

static void open_data(struct data *data, uint64_t live_bytes, const struct facet_memory_config *how,
                      const char *provider)
{
    uint64_t bytes = live_bytes / 3 * 4 / (64 * MIB) * (64 * MIB);
    struct facet_memory_config config = *how;

    config.size = sizeof config;
    config.memory_bytes = bytes + 64 * MIB;
    if (*provider) {
        open_on_cpu(data, &config, provider);
    } else {
        data->memory = open_memory(&config);
        data->space = open_space(data->memory, 1, bytes + 64 * MIB);
    }
    allocate_all(data, bytes);
    write_all(data);
    free_alternate_runs(data, usage_of(data).chunk_bytes);
}

/* Pins a thread to a core. Otherwise Linux could put a thread that wakes on its waker's core, and the bench would
 * measure how the two share that core; a device's kernels use no core of the host. */
static void pin_thread(pthread_t thread, unsigned number)
{
    cpu_set_t all, one;

    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2)
        return;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && number-- == 0)
            CPU_SET(cpu, &one);
    pthread_setaffinity_np(thread, sizeof one, &one);
}

/* --- the phases --------------------------------------------------------------------------------------------------- */

/* Copies `bytes` with one memcpy(), between memory that was touched before. */
static uint64_t copy_as_much(char *to, const char *from, uint64_t bytes)
{
    uint64_t start = now_ns();

    memcpy(to, from, bytes);
    uint64_t took = now_ns() - start;
    if (to[bytes / 2] != from[bytes / 2])
        die("memcpy", "did not copy");
    return took;
}

static void sleep_ns(uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

    nanosleep(&time, NULL);
}

/* Spins instead of sleeping: on a shared machine, another program would get an idle processor. */
static void spin_ns(uint64_t ns)
{
    for (uint64_t start = now_ns(); now_ns() - start < ns;)
        ;
}

static void enter_phase(struct writer *writer, int phase)
{
    atomic_store(&writer->phase, phase);
    sleep_ns(1000000);
}

static void print_gap_counts(const char *name, const struct gap_counts *gap_counts, double per_ns)
{
    printf(",\"%s\":{\"writes\":%" PRIu64 ",\"longest_us\":%.1f,\"over_ms\":%" PRIu64
           ",\"own_us\":%.1f,\"taken\":%" PRIu64 ",\"switched\":%" PRIu64 "}",
           name, gap_counts->writes, (double)gap_counts->longest_gap / per_ns / 1e3, gap_counts->gaps_over_ms,
           (double)gap_counts->own_longest / per_ns / 1e3, gap_counts->waited_gaps, gap_counts->switches);
}

static double gib_per_s(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes / (double)GIB / ((double)ns / 1e9) : 0;
}

/* Copies before and after, so that other load on the machine affects both alike. */
static void run_phases(struct writer *writer, struct facet_defragment_report *ret_report, uint64_t *ret_all_ns,
                       uint64_t *ret_copy_ns, uint64_t *ret_copied)
{
    const struct data *data = writer->data;
    uint64_t bytes = data->count * data->run_bytes / 8;
    char *from = get_memory(bytes, 1), *to = get_memory(bytes, 1);
    struct facet_error error;

    memset(from, 1, bytes);
    memset(to, 2, bytes);
    if (pthread_create(&writer->thread, NULL, writer_main, writer) != 0)
        die("defragment", "no thread");
    pin_thread(writer->thread, 1);
    pin_thread(pthread_self(), 0);
    spin_ns(IDLE_NS);
    enter_phase(writer, COPYING);
    *ret_copy_ns = copy_as_much(to, from, bytes);
    enter_phase(writer, MOVING);
    uint64_t start = now_ns();
    check(facet_memory_defragment(data->memory, NULL, ret_report, &error), &error, "facet_memory_defragment");
    *ret_all_ns = now_ns() - start;
    enter_phase(writer, COPYING);
    *ret_copy_ns += copy_as_much(from, to, bytes);
    *ret_copied = 2 * bytes;
    atomic_store(&writer->phase, OVER);
    pthread_join(writer->thread, NULL);
    free(from);
    free(to);
}

int defragment_main(char **arguments)
{
    struct data data = {0};
    struct writer writer = {.data = &data, .per_ns = ticks_per_ns()};
    struct facet_defragment_report report = {.size = sizeof report};
    uint64_t writes_before, writes_after, all_ns, copy_ns, copied;

    const struct facet_memory_config how = {.page_bytes = strtoull(arguments[2], NULL, 10) * KIB,
                                            .commit = (uint32_t)strtoul(arguments[3], NULL, 10)};
    data.run_bytes = strtoull(arguments[1], NULL, 10) * KIB;
    open_data(&data, strtoull(arguments[0], NULL, 10) * MIB, &how, arguments[4]);
    uint64_t before = sum_all(&data, &writes_before);
    const struct facet_memory_usage fragmented = usage_of(&data);
    run_phases(&writer, &report, &all_ns, &copy_ns, &copied);
    bool right = sum_all(&data, &writes_after) == before && writes_after == writer.writes && writes_before == 0;
    printf("{\"live_mib\":%" PRIu64 ",\"run_kib\":%s,\"page_kib\":%s,\"moved_mib\":%" PRIu64
           ",\"move_gib_s\":%.3f,\"all_gib_s\":%.3f,\"copy_gib_s\":%.3f"
           ",\"steps\":%" PRIu64 ",\"longest_step_us\":%.1f,\"returned_mib\":%" PRIu64
           ",\"commit\":%s,\"on\":\"%s\",\"huge_milli\":%u,\"fragmentation_before\":%u,\"fragmentation_after\":%u,"
           "\"right\":%s",
           data.count * data.run_bytes / MIB, arguments[1], arguments[2], report.moved_bytes / MIB,
           gib_per_s(report.moved_bytes, report.moving_ns), gib_per_s(report.moved_bytes, all_ns),
           gib_per_s(copied, copy_ns), report.steps, (double)report.longest_ns / 1e3, report.returned_bytes / MIB,
           arguments[3], *arguments[4] ? "cpu" : "host", fragmented.huge_milli, fragmented.fragmentation_milli,
           usage_of(&data).fragmentation_milli, right ? "true" : "false");
    print_gap_counts("idle", &writer.gap_counts[IDLE], writer.per_ns);
    print_gap_counts("copying", &writer.gap_counts[COPYING], writer.per_ns);
    print_gap_counts("moving", &writer.gap_counts[MOVING], writer.per_ns);
    printf("}\n");
    facet_memory_close(data.memory);
    facet_session_close(data.session);
    return EXIT_SUCCESS;
}
