/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many spaces on one device.
 *
 * Owns: creating many spaces, allocating one block in each, reading the usage of all, and destroying them.
 * Never: measures the memory of the blocks themselves: nothing writes to them, so they are never resident.
 *
 * Prints {"count","create_us","allocate_us","usage_all_us","usage_memory_us","destroy_us","resident_empty_bytes",
 * "resident_bytes"}. Each value is per space, except usage_all_us and usage_memory_us. Resident bytes are the growth of
 * the process since before the first space: resident_empty_bytes with empty spaces, resident_bytes with one allocation
 * of 4 KiB in each.
 */
#include <inttypes.h>
#include <unistd.h>

#include "common.h"

#define LIMIT_BYTES (64 * MIB)

static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long pages = 0;

    if (!file || fscanf(file, "%*u %llu", &pages) != 1)
        die("/proc/self/statm", "cannot be read");
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double us_each(uint64_t start, uint32_t count)
{
    return (double)(now_ns() - start) / 1e3 / count;
}

static double create_all(struct facet_memory *memory, struct facet_space **spaces, uint32_t count)
{
    uint64_t start = now_ns();

    for (uint32_t i = 0; i < count; i++)
        spaces[i] = open_space(memory, i + 1, LIMIT_BYTES);
    return us_each(start, count);
}

static double allocate_all(struct facet_space **spaces, uint32_t count)
{
    uint64_t start = now_ns(), address;
    struct facet_error error;

    for (uint32_t i = 0; i < count; i++)
        check(facet_space_allocate(spaces[i], 4 * KIB, NULL, &address, &error), &error, "facet_space_allocate");
    return us_each(start, count);
}

static double ask_all(struct facet_space **spaces, uint32_t count)
{
    uint64_t start = now_ns(), live = 0;
    struct facet_space_usage usage = {.size = sizeof usage};
    struct facet_error error;

    for (uint32_t i = 0; i < count; i++) {
        check(facet_space_get_usage(spaces[i], &usage, &error), &error, "facet_space_get_usage");
        live += usage.allocations;
    }
    if (live != count)
        die("facet_space_get_usage", "spaces do not hold what was allocated");
    return us_each(start, 1);
}

static double read_memory_usage(struct facet_memory *memory)
{
    uint64_t start = now_ns();
    struct facet_memory_usage usage = {.size = sizeof usage};
    struct facet_error error;

    check(facet_memory_get_usage(memory, &usage, &error), &error, "facet_memory_get_usage");
    return us_each(start, 1);
}

static double destroy_all(struct facet_space **spaces, uint32_t count)
{
    struct facet_error error;
    uint64_t start = now_ns();

    for (uint32_t i = 0; i < count; i++)
        check(facet_space_destroy(spaces[i], &error), &error, "facet_space_destroy");
    return us_each(start, count);
}

int many_main(char **arguments)
{
    uint32_t count = (uint32_t)strtoul(arguments[0], NULL, 10);
    const struct facet_memory_config config = {.size = sizeof config, .memory_bytes = 16 * GIB};
    struct facet_memory *memory = open_memory(&config);
    struct facet_space **spaces = get_memory(count, sizeof *spaces);

    /* Warm-up: the process's own memory grows with the first spaces. */
    create_all(memory, spaces, count < 8 ? count : 8);
    destroy_all(spaces, count < 8 ? count : 8);
    uint64_t before = resident_bytes();
    double create = create_all(memory, spaces, count);
    uint64_t empty = resident_bytes();
    double allocate = allocate_all(spaces, count);
    uint64_t full = resident_bytes();
    double ask = ask_all(spaces, count), ask_one = read_memory_usage(memory);
    double destroy = destroy_all(spaces, count);
    printf("{\"count\":%u,\"create_us\":%.2f,\"allocate_us\":%.2f,\"usage_all_us\":%.1f,\"usage_memory_us\":%.1f"
           ",\"destroy_us\":%.2f,\"resident_empty_bytes\":%" PRIu64 ",\"resident_bytes\":%" PRIu64 "}\n",
           count, create, allocate, ask, ask_one, destroy, (empty - before) / count, (full - before) / count);
    free(spaces);
    facet_memory_close(memory);
    return EXIT_SUCCESS;
}
