/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays a trace's requests. Each request gets its memory at once and in one range of addresses, or is refused.
 *
 * Owns: the order of arrivals and ends, and the count of requests that were refused although enough bytes were free.
 * Never: touches the memory.
 *
 * Prints {"allocator","pool_gib","rate","requests","refused","refused_free","peak_payload","peak_reserved",
 * "mappings","allocate_ns","free_ns"}. refused_free: refusals of requests for which the pool less the bytes of live
 * requests would have sufficed, so that an allocator's rounding counts as its waste. peak_payload: the highest payload.
 * peak_reserved: memory that no other request could get at that moment: whole pages, whole blocks, or the range up to
 * the last taken byte.
 */
#include <inttypes.h>
#include <string.h>

#include "buddy.h"
#include "common.h"
#include "scan.h"
#include "trace.h"

#define BUDDY_LEAST    (64 * KIB)
#define MAPPINGS_EVERY 256u

struct pool {
    const char *name;
    uint64_t page_bytes; /* the page size of a Facet pool; 0: another allocator */
    bool best;
    uint64_t bytes, taken_bytes;
    struct facet_memory *memory;
    struct facet_space *space;
    struct scan *scan;
    struct buddy *buddy;
    enum facet_status refusal; /* why the Facet pool refused a request for the first time */
    char refusal_text[512];
};

struct live {
    double end_s;
    uint64_t address, bytes;
};

/* A heap of the live requests; the next one to end is at the root. */
struct heap {
    struct live *live;
    uint32_t count;
};

struct tally {
    uint64_t refused, refused_free, payload, peak_payload, peak_reserved, mappings;
    uint64_t allocate_ns, free_ns, frees;
};

/* --- pools -------------------------------------------------------------------------------------------------------- */

static void open_pool(struct pool *pool, const char *name, uint64_t bytes)
{
    *pool = (struct pool){.name = name, .bytes = bytes};
    if (strcmp(name, "facet-64k") == 0)
        pool->page_bytes = 64 * KIB;
    else if (strcmp(name, "facet-2m") == 0)
        pool->page_bytes = 2 * MIB;
    else if (strcmp(name, "buddy") == 0)
        pool->buddy = buddy_create(bytes, BUDDY_LEAST);
    else if (strcmp(name, "first-fit") == 0 || strcmp(name, "best-fit") == 0)
        pool->scan = scan_create(bytes);
    else
        die(name, "no such allocator");
    pool->best = strcmp(name, "best-fit") == 0;
    if (!pool->page_bytes)
        return;
    const struct facet_memory_config config = {
        .size = sizeof config, .memory_bytes = bytes, .page_bytes = pool->page_bytes};
    pool->memory = open_memory(&config);
    pool->space = open_space(pool->memory, 1, bytes);
}

static bool take_ours(struct pool *pool, uint64_t bytes, uint64_t *ret_address)
{
    struct facet_error error;
    enum facet_status status = facet_space_allocate(pool->space, bytes, NULL, ret_address, &error);

    if (status == FACET_OK)
        return true;
    if (status != FACET_QUOTA && status != FACET_NO_SPACE)
        die("facet_space_allocate", error.message);
    if (status == FACET_NO_SPACE && pool->refusal == FACET_OK) {
        pool->refusal = status;
        snprintf(pool->refusal_text, sizeof pool->refusal_text, "%s", error.message);
    }
    return false;
}

static bool take_block(struct pool *pool, uint64_t bytes, uint64_t *ret_address)
{
    if (pool->space)
        return take_ours(pool, bytes, ret_address);
    *ret_address = pool->scan ? scan_take(pool->scan, bytes, pool->best) : buddy_take(pool->buddy, bytes);
    return *ret_address != SCAN_NONE;
}

static void give_block(struct pool *pool, uint64_t address)
{
    struct facet_error error;

    if (pool->space)
        check(facet_space_free(pool->space, address, &error), &error, "facet_space_free");
    else if (pool->scan)
        scan_give(pool->scan, address);
    else
        pool->taken_bytes -= buddy_give(pool->buddy, address);
}

static uint64_t reserved_bytes(const struct pool *pool)
{
    struct facet_space_usage usage = {.size = sizeof usage};
    struct facet_error error;

    if (!pool->space)
        return pool->scan ? scan_end(pool->scan) : pool->taken_bytes;
    check(facet_space_get_usage(pool->space, &usage, &error), &error, "facet_space_get_usage");
    return usage.reserved_bytes;
}

/* --- live requests ------------------------------------------------------------------------------------------------ */

static void heap_add(struct heap *heap, struct live live)
{
    uint32_t at = heap->count++;

    for (; at && heap->live[(at - 1) / 2].end_s > live.end_s; at = (at - 1) / 2)
        heap->live[at] = heap->live[(at - 1) / 2];
    heap->live[at] = live;
}

static struct live heap_take(struct heap *heap)
{
    const struct live first = heap->live[0], last = heap->live[--heap->count];
    uint32_t at = 0;

    for (uint32_t child = 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count && heap->live[child + 1].end_s < heap->live[child].end_s)
            child++;
        if (heap->live[child].end_s >= last.end_s)
            break;
        heap->live[at] = heap->live[child];
        at = child;
    }
    heap->live[at] = last;
    return first;
}

/* --- the replay --------------------------------------------------------------------------------------------------- */

/* The number of this process's mappings, which vm.max_map_count limits. */
static uint64_t count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    uint64_t lines = 0;
    int read;

    if (!file)
        return 0;
    while ((read = getc(file)) != EOF)
        lines += read == '\n';
    fclose(file);
    return lines;
}

static void end_requests(struct pool *pool, struct heap *heap, double time_s, struct tally *tally)
{
    while (heap->count && heap->live[0].end_s <= time_s) {
        const struct live live = heap_take(heap);
        uint64_t start = now_ns();

        give_block(pool, live.address);
        tally->free_ns += now_ns() - start;
        tally->frees++;
        tally->payload -= live.bytes;
    }
}

static void handle_arrival(struct pool *pool, struct heap *heap, const struct request *request, struct tally *tally)
{
    struct live live = {.end_s = request->arrival_s + request->lifetime_s, .bytes = request->bytes};
    uint64_t start = now_ns();
    bool fits = take_block(pool, request->bytes, &live.address);

    tally->allocate_ns += now_ns() - start;
    if (!fits) {
        tally->refused++;
        tally->refused_free += pool->bytes - tally->payload >= request->bytes;
        return;
    }
    heap_add(heap, live);
    tally->payload += live.bytes;
    if (pool->buddy)
        pool->taken_bytes += BUDDY_LEAST << buddy_order(pool->buddy, live.address);
    if (tally->payload <= tally->peak_payload)
        return;
    tally->peak_payload = tally->payload;
    tally->peak_reserved = reserved_bytes(pool);
}

static void replay_trace(struct pool *pool, const struct trace *trace, struct tally *tally)
{
    struct heap heap = {.live = get_memory(trace->count, sizeof(struct live))};

    for (uint32_t i = 0; i < trace->count; i++) {
        end_requests(pool, &heap, trace->requests[i].arrival_s, tally);
        handle_arrival(pool, &heap, &trace->requests[i], tally);
        if (i % MAPPINGS_EVERY || !pool->space)
            continue;
        uint64_t mappings = count_mappings();
        tally->mappings = mappings > tally->mappings ? mappings : tally->mappings;
    }
    free(heap.live);
}

int replay_main(char **arguments)
{
    uint64_t gib = strtoull(arguments[2], NULL, 10);
    double rate = strtod(arguments[3], NULL);
    struct trace trace = trace_read(arguments[0], rate);
    struct tally tally = {0};
    struct pool pool;

    open_pool(&pool, arguments[1], gib * GIB);
    replay_trace(&pool, &trace, &tally);
    printf("{\"allocator\":\"%s\",\"pool_gib\":%" PRIu64 ",\"rate\":%g,\"requests\":%u,\"refused\":%" PRIu64
           ",\"refused_free\":%" PRIu64 ",\"peak_payload\":%" PRIu64 ",\"peak_reserved\":%" PRIu64
           ",\"mappings\":%" PRIu64 ",\"allocate_ns\":%.0f,\"free_ns\":%.0f,\"refusal\":\"%s\"}\n",
           pool.name, gib, rate, trace.count, tally.refused, tally.refused_free, tally.peak_payload,
           tally.peak_reserved, tally.mappings, (double)tally.allocate_ns / trace.count,
           tally.frees ? (double)tally.free_ns / (double)tally.frees : 0.0, pool.refusal_text);
    return EXIT_SUCCESS;
}
