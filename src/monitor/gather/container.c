/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading a container's control group (version 2). Never: adds up values of which some are unknown. */
#include "monitor/gather/container.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"

#define METERS        11u
#define WHOLE_PERCENT 100000 /* one CPU, in thousandths of a percent */

/* ---- lines ---- */

static void add_value(struct gather_value *sum, char *text)
{
    int64_t value = 0;
    enum facet_unmeasured reason = gather_number(&text, &value);

    if (reason == FACET_MEASURED && *text)
        reason = FACET_UNMEASURED_MALFORMED;
    if (reason == FACET_MEASURED)
        reason = gather_add(value, &sum->value);
    if (sum->reason == FACET_MEASURED)
        sum->reason = reason;
}

bool container_take_io(void *context, char *line)
{
    struct container_io *io = context;
    char *word = gather_next_word(&line);

    if (!word || !strchr(word, ':')) {
        io->read.reason = io->write.reason = FACET_UNMEASURED_MALFORMED;
        return false;
    }
    /* The line of a device without reads and writes may have neither word. */
    while ((word = gather_next_word(&line))) {
        if (strncmp(word, "rbytes=", 7) == 0)
            add_value(&io->read, word + 7);
        else if (strncmp(word, "wbytes=", 7) == 0)
            add_value(&io->write, word + 7);
    }
    return true;
}

static struct gather_value cpu_share(int64_t quota, int64_t period)
{
    struct gather_value share = {.value = quota};

    if (period <= 0)
        return (struct gather_value){.reason = FACET_UNMEASURED_MALFORMED};
    share.reason = gather_multiply(WHOLE_PERCENT, &share.value);
    share.value /= period;
    return share;
}

bool container_take_cpu_max(void *context, char *line)
{
    struct gather_value *value = context;
    bool unlimited = gather_skip_word(&line, "max");
    int64_t quota = 0, period = 0;
    enum facet_unmeasured reason = unlimited ? FACET_MEASURED : gather_number(&line, &quota);

    if (reason == FACET_MEASURED)
        reason = gather_number(&line, &period);
    if (reason == FACET_MEASURED && *line)
        reason = FACET_UNMEASURED_MALFORMED;
    *value = reason == FACET_MEASURED ? cpu_share(quota, period) : (struct gather_value){.reason = reason};
    if (unlimited && value->reason == FACET_MEASURED)
        value->reason = FACET_UNMEASURED_UNLIMITED;
    return false;
}

bool container_take_region(void *context, char *line)
{
    struct container_regions *regions = context;
    char *name = gather_next_word(&line);

    if (regions->count++ == 0)
        regions->sum = (struct gather_value){0};
    if (!name)
        regions->sum.reason = FACET_UNMEASURED_MALFORMED;
    else if (strcmp(line, "max") == 0 && regions->sum.reason == FACET_MEASURED)
        regions->sum.reason = FACET_UNMEASURED_UNLIMITED;
    else if (strcmp(line, "max") != 0)
        add_value(&regions->sum, line);
    return true;
}

/* ---- files ---- */

static struct gather_value read_cpu_max(int cgroup)
{
    struct gather_value value = GATHER_ABSENT;
    enum facet_unmeasured reason = gather_file(cgroup, "cpu.max", container_take_cpu_max, &value);

    if (reason != FACET_MEASURED)
        value.reason = reason;
    else if (value.reason == FACET_UNMEASURED_ABSENT)
        value.reason = FACET_UNMEASURED_MALFORMED;
    return value;
}

static struct container_io read_io(int cgroup)
{
    struct container_io io = {0};
    enum facet_unmeasured reason = gather_file(cgroup, "io.stat", container_take_io, &io);

    /* A sum over some of the devices must not be taken for the sum over all. */
    if (reason != FACET_MEASURED)
        io.read.reason = io.write.reason = reason;
    return io;
}

static struct container_regions read_regions(int cgroup, const char *path)
{
    struct container_regions regions = {.sum = GATHER_ABSENT};
    enum facet_unmeasured reason = gather_file(cgroup, path, container_take_region, &regions);

    if (reason != FACET_MEASURED)
        regions.sum.reason = reason;
    return regions;
}

static void put_cpu(struct gather_output *output, int cgroup)
{
    struct gather_field fields[] = {{"usage_usec", GATHER_ABSENT}, {"throttled_usec", GATHER_ABSENT}};

    gather_read_fields(cgroup, "cpu.stat",
                       &(struct gather_fields){.field = fields, .count = 2, .factor = FACET_NS_PER_US});
    gather_put(output, GATHER_CPU_TIME, fields[0].value);
    gather_put(output, GATHER_CPU_LIMIT, read_cpu_max(cgroup));
    gather_put(output, GATHER_CPU_THROTTLED, fields[1].value);
}

static void put_memory(struct gather_output *output, int cgroup)
{
    struct gather_field fields[] = {{"anon", GATHER_ABSENT}, {"file", GATHER_ABSENT}};

    gather_put_of(output, GATHER_MEMORY_USED, gather_read_single(cgroup, "memory.current"),
                  gather_read_single(cgroup, "memory.max"));
    gather_read_fields(cgroup, "memory.stat", &(struct gather_fields){.field = fields, .count = 2, .factor = 1});
    gather_put(output, GATHER_MEMORY_ANONYMOUS, fields[0].value);
    gather_put(output, GATHER_MEMORY_FILE, fields[1].value);
    gather_put_of(output, GATHER_SWAP_USED, gather_read_single(cgroup, "memory.swap.current"),
                  gather_read_single(cgroup, "memory.swap.max"));
}

static void put_device_memory(struct gather_output *output, int cgroup)
{
    struct container_regions used = read_regions(cgroup, "dmem.current"), max = read_regions(cgroup, "dmem.max");

    if (used.count != max.count)
        max.sum = GATHER_ABSENT;
    gather_put_of(output, GATHER_DEVICE_MEMORY_USED, used.sum, max.sum);
}

/* Every control group of version 2 has this file. When a group is removed, its open directory no longer has it. */
static bool is_group(int cgroup)
{
    struct stat file;

    return fstatat(cgroup, "cgroup.controllers", &file, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static void mark_gone(struct gather_output *output)
{
    for (uint32_t i = 0; i < output->count; i++)
        if (output->out[i].reason == FACET_UNMEASURED_ABSENT)
            output->out[i].reason = FACET_UNMEASURED_GONE;
}

enum facet_status facet_gather_container(int cgroup, uint64_t now_ns, struct facet_measurement *measurements,
                                         uint32_t *count, struct facet_error *error)
{
    enum facet_status status = gather_begin(measurements, count, METERS, error);
    struct gather_output output = {.out = measurements, .time_ns = now_ns};
    struct container_io io;
    struct stat group;

    if (status != FACET_OK)
        return status;
    if (fstat(cgroup, &group) < 0 || !S_ISDIR(group.st_mode))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "cgroup",
                                    "cgroup %d: expected a directory that is open", cgroup);
    output.identity = group.st_ino;
    put_cpu(&output, cgroup);
    put_memory(&output, cgroup);
    io = read_io(cgroup);
    gather_put(&output, GATHER_IO_READ, io.read);
    gather_put(&output, GATHER_IO_WRITE, io.write);
    gather_put_of(&output, GATHER_TASKS, gather_read_single(cgroup, "pids.current"),
                  gather_read_single(cgroup, "pids.max"));
    put_device_memory(&output, cgroup);
    if (!is_group(cgroup))
        mark_gone(&output);
    *count = output.count;
    return FACET_OK;
}
