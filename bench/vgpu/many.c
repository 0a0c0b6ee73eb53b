/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many vGPUs of one driver: creating, listing and destroying them.
 *
 * Prints {"count","create_us","list_us","destroy_us","per_second","resident_bytes","device_bytes"}: each per vGPU,
 * except list_us. resident_bytes: of this process. device_bytes: of the provider's process.
 */
#include <unistd.h>

#include "common.h"

/* The memory of a process's resident pages that it does not share. */
static uint64_t resident_bytes(const char *process)
{
    char path[64];
    unsigned long long pages = 0, shared = 0;

    snprintf(path, sizeof path, "/proc/%s/statm", process);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*u %llu %llu", &pages, &shared) != 2)
        die(path, "cannot be read");
    fclose(file);
    return (pages - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double us_each(uint64_t start, uint32_t count)
{
    return (double)(now_ns() - start) / 1e3 / count;
}

int many_main(char **arguments)
{
    uint32_t count = (uint32_t)strtoul(arguments[0], NULL, 10), found = 0;
    const struct facet_driver_config config = {.size = sizeof config, .vgpus = count, .streams = 4 * count};
    const struct facet_vgpu_config vgpu = {.size = sizeof vgpu, .memory_bytes = 64 * MIB, .streams = 4};
    struct facet_vgpu_info *infos = calloc(count, sizeof *infos);
    struct facet_driver *driver = NULL;
    struct facet_error error;
    char child[32];

    if (!infos)
        die("many", "no memory");
    for (uint32_t i = 0; i < count; i++)
        infos[i].size = sizeof infos[i];
    must(facet_driver_open(&config, &driver, &error), &error, "driver");
    provider_find(child, sizeof child);
    uint64_t before = resident_bytes("self"), device_before = resident_bytes(child), start = now_ns();
    for (uint32_t i = 0; i < count; i++)
        must(facet_vgpu_create(driver, &vgpu, NULL, &error), &error, "create");
    double create = us_each(start, count);
    uint64_t resident = resident_bytes("self") - before, device = resident_bytes(child) - device_before;
    start = now_ns();
    must(facet_vgpu_list(driver, infos, count, &found, &error), &error, "list");
    double list = us_each(start, 1);
    start = now_ns();
    for (uint32_t i = 0; i < count; i++)
        must(facet_vgpu_destroy(driver, infos[i].id, &error), &error, "destroy");
    double destroy = us_each(start, count);
    printf("{\"count\":%u,\"create_us\":%.2f,\"list_us\":%.1f,\"destroy_us\":%.2f,\"per_second\":%.0f,\"resident_"
           "bytes\":%" PRIu64 ",\"device_bytes\":%" PRIu64 "}\n",
           found, create, list, destroy, 1e6 / (create + destroy), resident / count, device / count);
    facet_driver_close(driver);
    free(infos);
    return EXIT_SUCCESS;
}
