/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading a process's values from /proc. Never: mixes the values of two processes that had the same number. */
#include "monitor/gather/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define METERS 6u
#define KIB    1024

/* Fields of /proc/PID/stat, counted from 1 as proc(5) does. */
enum { STATE = 3, USER_TICKS = 14, SYSTEM_TICKS = 15, THREADS = 20, START = 22 };

struct gather_value process_ticks(struct gather_value ticks)
{
    long per_second = sysconf(_SC_CLK_TCK);

    if (ticks.reason == FACET_MEASURED)
        ticks.reason = per_second > 0 ? gather_multiply((int64_t)(FACET_NS_PER_S / (uint64_t)per_second), &ticks.value)
                                      : FACET_UNMEASURED_ABSENT;
    return ticks;
}

static void set_value(struct gather_value *value, char *word)
{
    *value = (struct gather_value){0};
    value->reason = gather_number(&word, &value->value);
}

static void add_ticks(struct gather_value *sum, char *word)
{
    struct gather_value more;

    set_value(&more, word);
    if (more.reason == FACET_MEASURED)
        more.reason = gather_add(more.value, &sum->value);
    if (sum->reason == FACET_MEASURED)
        sum->reason = more.reason;
}

/* The name is in parentheses and may hold parentheses, blanks and ends of lines: fields count from the last ')'. */
bool process_take_stat(void *context, char *line)
{
    struct process_stat *stat = context;
    char *rest = strrchr(line, ')'), *word;

    *stat = (struct process_stat){.ticks = {.reason = FACET_UNMEASURED_MALFORMED},
                                  .start = {.reason = FACET_UNMEASURED_MALFORMED},
                                  .threads = {.reason = FACET_UNMEASURED_MALFORMED}};
    if (!rest)
        return false;
    rest++;
    for (int field = STATE; field <= START && (word = gather_next_word(&rest)); field++) {
        if (field == USER_TICKS)
            set_value(&stat->ticks, word);
        else if (field == SYSTEM_TICKS)
            add_ticks(&stat->ticks, word);
        else if (field == THREADS)
            set_value(&stat->threads, word);
        else if (field == START)
            set_value(&stat->start, word);
    }
    if (stat->start.reason == FACET_UNMEASURED_MALFORMED &&
        !*rest) /* the line was cut off, perhaps within an earlier field */
        stat->ticks.reason = stat->threads.reason = FACET_UNMEASURED_MALFORMED;
    return false;
}

static struct process_stat read_stat(int process)
{
    struct process_stat stat = {.ticks = GATHER_ABSENT, .start = GATHER_ABSENT, .threads = GATHER_ABSENT};
    enum facet_unmeasured reason = gather_file_whole(process, "stat", process_take_stat, &stat);

    if (reason != FACET_MEASURED)
        stat.ticks.reason = stat.start.reason = stat.threads.reason = reason;
    return stat;
}

static void put_memory(struct gather_output *output, int process)
{
    struct gather_field fields[] = {{"VmRSS:", GATHER_ABSENT}, {"VmSwap:", GATHER_ABSENT}};

    gather_read_fields(process, "status",
                       &(struct gather_fields){.field = fields, .count = 2, .factor = KIB, .unit = "kB"});
    gather_put(output, GATHER_MEMORY_USED, fields[0].value);
    gather_put(output, GATHER_SWAP_USED, fields[1].value);
}

static void put_io(struct gather_output *output, int process)
{
    struct gather_field fields[] = {{"read_bytes:", GATHER_ABSENT}, {"write_bytes:", GATHER_ABSENT}};

    gather_read_fields(process, "io", &(struct gather_fields){.field = fields, .count = 2, .factor = 1});
    gather_put(output, GATHER_IO_READ, fields[0].value);
    gather_put(output, GATHER_IO_WRITE, fields[1].value);
}

static void put_all(struct gather_output *output, int process)
{
    struct process_stat stat = read_stat(process);

    /* A start time that is unknown once does not prove another process: the next sample decides. */
    output->identity = stat.start.reason == FACET_MEASURED ? (uint64_t)stat.start.value : 0;
    gather_put(output, GATHER_CPU_TIME, process_ticks(stat.ticks));
    put_memory(output, process);
    put_io(output, process);
    gather_put(output, GATHER_THREADS, stat.threads);
}

static void put_nothing(struct gather_output *output, enum facet_unmeasured reason)
{
    static const enum gather_meter meters[METERS] = {GATHER_CPU_TIME, GATHER_MEMORY_USED, GATHER_SWAP_USED,
                                                     GATHER_IO_READ,  GATHER_IO_WRITE,    GATHER_THREADS};

    for (uint32_t i = 0; i < METERS; i++)
        gather_put(output, meters[i], (struct gather_value){.reason = reason});
}

enum facet_status facet_gather_process(int proc, int64_t pid, uint64_t now_ns, struct facet_measurement *measurements,
                                       uint32_t *count, struct facet_error *error)
{
    enum facet_status status = gather_begin(measurements, count, METERS, error);
    struct gather_output output = {.out = measurements, .time_ns = now_ns};
    char name[24];

    if (status != FACET_OK)
        return status;
    if (pid <= 0 || pid > INT32_MAX)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "pid", "pid %" PRIi64 ": expected 1 to %d", pid,
                                    INT32_MAX);
    snprintf(name, sizeof name, "%" PRIi64, pid);
    /* The open directory belongs to this process: once the process has ended, opening files below it fails. */
    FACET_CLEANUP_FD int process = openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (process >= 0)
        put_all(&output, process);
    else if (errno == EBADF || errno == ENOTDIR)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "proc",
                                    "proc %d: expected a directory of processes that is open", proc);
    else
        put_nothing(&output, errno == ENOENT || errno == ESRCH   ? FACET_UNMEASURED_GONE
                             : errno == EACCES || errno == EPERM ? FACET_UNMEASURED_PERMISSION
                                                                 : FACET_UNMEASURED_IO);
    *count = output.count;
    return FACET_OK;
}
