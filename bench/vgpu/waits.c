/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the time for which threads of the device, whose process is the provider's, were ready to run, but other threads
 * had the processors. Never: counts waits for each other's work.
 */
#include "common.h"

#include <dirent.h>

static unsigned long number_of(const struct dirent *entry)
{
    return strtoul(entry->d_name, NULL, 10);
}

/* Whether the thread is a unit of the device, by its name. */
static bool is_unit(unsigned long process, unsigned long task)
{
    char path[PATH_ROOM];
    unsigned unit;

    snprintf(path, sizeof path, "/proc/%lu/task/%lu/comm", process, task);
    FILE *file = fopen(path, "re");
    bool found = file && fscanf(file, "facet-cpu-%u", &unit) == 1;
    if (file)
        fclose(file);
    return found;
}

static void add_units(unsigned long process, struct processor_waits *processor_waits)
{
    char path[PATH_ROOM];

    snprintf(path, sizeof path, "/proc/%lu/task", process);
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder)) && processor_waits->count < UNITS_MOST;)
        if (number_of(entry) && is_unit(process, number_of(entry)))
            snprintf(processor_waits->paths[processor_waits->count++], PATH_ROOM, "/proc/%lu/task/%lu/schedstat",
                     process, number_of(entry));
    if (folder)
        closedir(folder);
}

void processor_waits_open(struct processor_waits *ret_waits)
{
    DIR *folder = opendir("/proc");

    *ret_waits = (struct processor_waits){0};
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (number_of(entry) && provider_is_ours(entry->d_name))
            add_units(number_of(entry), ret_waits);
    if (folder)
        closedir(folder);
    if (ret_waits->count == 0)
        die("waits", "this process's provider has no thread named facet-cpu-N; expected one for each unit");
}

uint64_t processor_waits_ns(const struct processor_waits *processor_waits)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < processor_waits->count; i++) {
        FILE *file = fopen(processor_waits->paths[i], "re");
        uint64_t waited = 0;

        if (file && fscanf(file, "%*u %" SCNu64, &waited) == 1)
            sum += waited;
        if (file)
            fclose(file);
    }
    return sum;
}
