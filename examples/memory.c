/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two virtual GPUs share a device's memory. They allocate, free every other piece of the first half, defragment, and
 * print the effect: first by calls, then with a memory that defragments by itself.
 * (This follows Example 3 of the CUDA virtualization guide step by step; here pages really move.)
 *
 * usage: memory        runs on host memory; needs no device
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <facet/memory.h>

#define KIB        UINT64_C(1024)
#define MIB        (1024 * KIB)
#define GIB        (1024 * MIB)
#define MAX_PIECES 10
#define TENANTS    2
#define THRESHOLD  300  /* thousandths; above, a memory defragments by itself if it is configured to */
#define MAX_WAITS  3000 /* of 10 ms each, far more than defragmenting takes */

static void must(enum facet_status status, const struct facet_error *error)
{
    if (status == FACET_OK)
        return;
    fprintf(stderr, "memory: %s\n", error->message);
    exit(EXIT_FAILURE);
}

struct tenant {
    struct facet_space *space;
    uint64_t piece_bytes;
    uint32_t pieces;
    uint64_t address[MAX_PIECES];
};

/* Creates the tenant's space and allocates its pieces; all bytes of a piece hold the piece's number, from 1. */
static void allocate(struct facet_memory *memory, struct tenant *tenant, uint32_t id, const char *name, uint64_t limit)
{
    const struct facet_space_config config = {.size = sizeof config, .id = id, .name = name, .limit_bytes = limit};
    const struct facet_allocation_options options = {.size = sizeof options, .align = 4096, .tag = id};
    struct facet_error error;

    must(facet_space_create(memory, &config, &tenant->space, &error), &error);
    for (uint32_t i = 0; i < tenant->pieces; i++) {
        must(facet_space_allocate(tenant->space, tenant->piece_bytes, &options, &tenant->address[i], &error), &error);
        must(facet_space_fill(tenant->space, tenant->address[i], (uint8_t)(i + 1), tenant->piece_bytes, &error),
             &error);
    }
}

static void free_piece(struct tenant *tenant, uint32_t piece)
{
    struct facet_error error;

    must(facet_space_free(tenant->space, tenant->address[piece], &error), &error); /* 0: it is free already */
    tenant->address[piece] = 0;
}

static void free_every_other(struct tenant *tenant)
{
    for (uint32_t i = 0; i < tenant->pieces / 2; i += 2)
        free_piece(tenant, i);
}

static struct facet_memory_usage usage_of(struct facet_memory *memory)
{
    struct facet_memory_usage usage = {.size = sizeof usage};
    struct facet_error error;

    must(facet_memory_get_usage(memory, &usage, &error), &error);
    return usage;
}

static void print_fragmentation(struct facet_memory *memory, const char *when)
{
    const struct facet_memory_usage usage = usage_of(memory);

    printf("%-7s %5.1f%% fragmented, %3" PRIu64 " MiB in use, %3" PRIu64 " MiB taken from the device in %" PRIu64
           " chunks\n",
           when, usage.fragmentation_milli / 10.0, usage.used_bytes / MIB, usage.reserved_bytes / MIB,
           usage.chunk_count);
}

static uint64_t defragment(struct tenant *tenant)
{
    struct facet_defragment_report report = {.size = sizeof report};
    struct facet_error error;

    must(facet_space_defragment(tenant->space, NULL, &report, &error), &error);
    return report.moved_bytes;
}

/* Counts the bytes that changed at the addresses that the allocations returned. */
static uint64_t count_wrong(const struct tenant *tenant)
{
    uint8_t *copy = malloc(tenant->piece_bytes);
    uint64_t wrong = 0;
    struct facet_error error;

    for (uint32_t i = 0; copy && i < tenant->pieces; i++) {
        if (!tenant->address[i])
            continue;
        must(facet_space_copy(tenant->space, (uintptr_t)copy, tenant->address[i], tenant->piece_bytes,
                              FACET_COPY_TO_HOST, &error),
             &error);
        for (uint64_t byte = 0; byte < tenant->piece_bytes; byte++)
            wrong += copy[byte] != i + 1;
    }
    free(copy);
    return wrong;
}

static void print_usage(const struct tenant *tenant)
{
    struct facet_space_usage usage = {.size = sizeof usage};
    struct facet_error error;

    must(facet_space_get_usage(tenant->space, &usage, &error), &error);
    printf("vGPU %u '%s': %" PRIu64 " allocations of %" PRIu64 " KiB in all, %" PRIu64 " pages, %" PRIu64
           " of them moved, %" PRIu64 " bytes wrong\n",
           usage.id, usage.name, usage.allocations, usage.allocated_bytes / KIB, usage.pages_valid,
           usage.pages_moved_total, count_wrong(tenant));
}

/*
 * Above its threshold the memory defragments in a thread of its own, without a call. Returns whether its fragmentation
 * fell to the threshold.
 */
static bool wait_until_defragmented(struct facet_memory *memory)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    int waits = 0;

    while (usage_of(memory).fragmentation_milli > THRESHOLD && ++waits < MAX_WAITS)
        nanosleep(&pause, NULL);
    return waits < MAX_WAITS;
}

static void end(struct tenant *tenant)
{
    struct facet_error error;

    for (uint32_t i = 0; i < tenant->pieces; i++)
        free_piece(tenant, i);
    must(facet_space_destroy(tenant->space, &error), &error);
}

/* Creates a memory with both tenants' pieces, and frees every other piece of the first half. */
static struct facet_memory *prepare(struct tenant *tenants, bool automatic)
{
    const struct facet_memory_config config = {.size = sizeof config,
                                               .memory_bytes = 6 * GIB,
                                               .chunk_bytes = 2 * MIB,
                                               .defragment_milli = THRESHOLD,
                                               .automatic = automatic,
                                               .interval_ns = 100000000};
    struct facet_memory *memory = NULL;
    struct facet_error error;

    must(facet_memory_open_host(&config, &memory, &error), &error);
    tenants[0] = (struct tenant){.piece_bytes = 1 * MIB, .pieces = 10};
    tenants[1] = (struct tenant){.piece_bytes = 512 * KIB, .pieces = 5};
    allocate(memory, &tenants[0], 1, "training", 4 * GIB);
    allocate(memory, &tenants[1], 2, "inference", 2 * GIB);
    for (size_t i = 0; i < TENANTS; i++)
        free_every_other(&tenants[i]);
    return memory;
}

static void finish(struct facet_memory *memory, struct tenant *tenants)
{
    for (size_t i = 0; i < TENANTS; i++) {
        print_usage(&tenants[i]);
        end(&tenants[i]);
    }
    print_fragmentation(memory, "end");
    facet_memory_close(memory);
}

int main(void)
{
    struct tenant tenants[TENANTS];
    uint64_t moved_bytes = 0;

    struct facet_memory *memory = prepare(tenants, false);
    print_fragmentation(memory, "before");
    for (size_t i = 0; i < TENANTS; i++)
        moved_bytes += defragment(&tenants[i]);
    print_fragmentation(memory, "after");
    printf("moved %" PRIu64 " KiB; no address changed\n", moved_bytes / KIB);
    finish(memory, tenants);

    memory = prepare(tenants, true);
    if (!wait_until_defragmented(memory)) {
        fprintf(stderr, "memory: a memory with `automatic` did not defragment by itself within 30 s\n");
        return EXIT_FAILURE;
    }
    print_fragmentation(memory, "itself");
    finish(memory, tenants);
    return EXIT_SUCCESS;
}
