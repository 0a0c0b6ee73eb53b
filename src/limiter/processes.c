/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of a segment's processes, and the test whether a process is one of them. Never: believes a process id
 * alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "limiter/owner_inside.h"
#include "limiter/slot.h"

enum facet_status facet_segment_read_processes(const char *dir, struct facet_segment_process *ret_processes,
                                               uint32_t *ret_count, struct facet_error *error)
{
    const struct facet_usage *usage = NULL;
    FACET_CLEANUP_FD int fd = -1;

    enum facet_status status = facet_usage_open(dir, false, &usage, &fd, error);
    if (status != FACET_OK)
        return status;
    uint32_t count = 0, used = atomic_load(&usage->slots_used);
    for (uint32_t i = 0; i < used && i < FACET_SEGMENT_SLOTS; i++) {
        const struct facet_slot *slot = &usage->slots[i];
        struct facet_segment_process process = {.pid = atomic_load(&slot->pid),
                                                .start_ticks = atomic_load(&slot->start_ticks)};
        if (process.pid)
            ret_processes[count++] = process;
    }
    munmap((void *)(uintptr_t)usage, sizeof *usage);
    *ret_count = count;
    return FACET_OK;
}

/* The process's pid in its innermost pid namespace, the last in "NSpid:\t4711\t12" of its status; 0: unknown. */
static uint32_t innermost_pid(int32_t pid)
{
    char path[32], line[256];
    uint32_t found = 0;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FACET_CLEANUP_FILE FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *last = strncmp(line, "NSpid:", 6) == 0 ? strrchr(line, '\t') : NULL;
        found = last ? (uint32_t)strtoul(last, NULL, 10) : 0;
    }
    return found;
}

bool facet_process_identify(int32_t pid, struct facet_process_identity *ret_identity)
{
    struct facet_slot_identity identity;

    if (pid <= 0)
        return false;
    facet_slot_identify(pid, &identity);
    *ret_identity = (struct facet_process_identity){
        .pid = (uint32_t)pid, .inner_pid = innermost_pid(pid), .start_ticks = identity.start_ticks};
    return identity.start_ticks != 0;
}

bool facet_segment_process_is(const struct facet_segment_process *process,
                              const struct facet_process_identity *identity)
{
    return process->start_ticks == identity->start_ticks &&
           (process->pid == identity->pid || process->pid == identity->inner_pid);
}
