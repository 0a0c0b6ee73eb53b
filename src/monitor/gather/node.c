/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading the node's values from /proc. Never: adds up values of which some are unknown. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "monitor/gather/process.h"

#define METERS        6u
#define KIB           1024
#define WHOLE_PERCENT 100000 /* one CPU, in thousandths of a percent */

/*
 * Fields of the line "cpu", counted from 0: user, nice, system, idle, iowait, irq, softirq, steal. Time of guests is
 * counted in the first two already.
 */
enum { IDLE = 3, IOWAIT = 4, STEAL = 7 };
enum { RX_BYTES = 0, TX_BYTES = 8, HEADINGS = 2 };

/* ---- lines ---- */

static void take_ticks(struct node_stat *stat, char *line)
{
    int64_t ticks = 0;
    int field = 0;

    stat->ticks = (struct gather_value){0};
    for (; field <= STEAL && *line && stat->ticks.reason == FACET_MEASURED; field++) {
        stat->ticks.reason = gather_number(&line, &ticks);
        if (stat->ticks.reason == FACET_MEASURED && field != IDLE && field != IOWAIT)
            stat->ticks.reason = gather_add(ticks, &stat->ticks.value);
    }
    if (stat->ticks.reason == FACET_MEASURED && field <= IDLE)
        stat->ticks.reason = FACET_UNMEASURED_MALFORMED;
}

bool node_take_stat(void *context, char *line)
{
    struct node_stat *stat = context;

    if (strncmp(line, "cpu", 3) != 0)
        return stat->cpus == 0; /* the lines of CPUs come first, and none is read after them, as "intr" is long */
    if (gather_skip_word(&line, "cpu")) {
        if (stat->any)
            stat->ticks.reason = FACET_UNMEASURED_MALFORMED;
        else
            take_ticks(stat, line);
        stat->any = true;
    } else if (line[3] >= '0' && line[3] <= '9') {
        stat->cpus++;
    }
    return true;
}

static void add_value(struct gather_value *sum, char **text)
{
    int64_t value = 0;
    enum facet_unmeasured reason = gather_number(text, &value);

    if (reason == FACET_MEASURED)
        reason = gather_add(value, &sum->value);
    if (sum->reason == FACET_MEASURED)
        sum->reason = reason;
}

/* FNV-1a. The caller adds the hashes of all names, so that the order of the interfaces does not matter. */
static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

/* An interface's name ends at the last colon of the line, since the name of an alias contains a colon. */
bool node_take_network(void *context, char *line)
{
    struct node_network *network = context;
    char *colon = strrchr(line, ':');
    int64_t ignored = 0;

    if (network->lines++ < HEADINGS)
        return true;
    if (!colon) {
        network->received.reason = network->sent.reason = FACET_UNMEASURED_MALFORMED;
        return false;
    }
    *colon++ = '\0';
    line += strspn(line, " ");
    if (strcmp(line, "lo") == 0)
        return true;
    network->names += hash_of(line);
    add_value(&network->received, &colon);
    for (int field = RX_BYTES + 1; field < TX_BYTES; field++)
        if (gather_number(&colon, &ignored) == FACET_UNMEASURED_MALFORMED)
            network->sent.reason = FACET_UNMEASURED_MALFORMED;
    add_value(&network->sent, &colon);
    return true;
}

/* ---- files ---- */

static void put_cpu(struct gather_output *output, int proc)
{
    struct node_stat stat = {.ticks = GATHER_ABSENT};
    enum facet_unmeasured reason = gather_file_cut(proc, "stat", node_take_stat, &stat);
    struct gather_value limit = {.value = stat.cpus};

    if (reason != FACET_MEASURED && !stat.any)
        stat.ticks.reason = reason;
    limit.reason = reason != FACET_MEASURED ? reason : stat.cpus == 0 ? FACET_UNMEASURED_ABSENT : FACET_MEASURED;
    if (limit.reason == FACET_MEASURED)
        limit.reason = gather_multiply(WHOLE_PERCENT, &limit.value);
    gather_put(output, GATHER_CPU_TIME, process_ticks(stat.ticks));
    gather_put(output, GATHER_CPU_LIMIT, limit);
}

/* Used memory is the total less the available memory; both must be known, and the total must not be the smaller. */
static struct gather_value used_of(struct gather_value total, struct gather_value available)
{
    if (total.reason != FACET_MEASURED)
        return total;
    if (available.reason != FACET_MEASURED)
        return available;
    if (available.value > total.value)
        return (struct gather_value){.reason = FACET_UNMEASURED_OUT_OF_RANGE};
    return (struct gather_value){.value = total.value - available.value};
}

static void put_memory(struct gather_output *output, int proc)
{
    struct gather_field fields[] = {{"MemTotal:", GATHER_ABSENT},
                                    {"MemAvailable:", GATHER_ABSENT},
                                    {"SwapTotal:", GATHER_ABSENT},
                                    {"SwapFree:", GATHER_ABSENT}};

    gather_read_fields(proc, "meminfo",
                       &(struct gather_fields){.field = fields, .count = 4, .factor = KIB, .unit = "kB"});
    gather_put_of(output, GATHER_MEMORY_USED, used_of(fields[0].value, fields[1].value), fields[0].value);
    gather_put_of(output, GATHER_SWAP_USED, used_of(fields[2].value, fields[3].value), fields[2].value);
}

/*
 * /proc/net is a symbolic link to the reader's own folder. The path "net/dev" follows it, because O_NOFOLLOW concerns
 * only a path's last part.
 */
static void put_network(struct gather_output *output, int proc)
{
    struct node_network network = {0};
    enum facet_unmeasured reason = gather_file(proc, "net/dev", node_take_network, &network);

    if (reason == FACET_MEASURED && network.lines < HEADINGS)
        reason = FACET_UNMEASURED_MALFORMED;
    if (reason != FACET_MEASURED)
        network.received.reason = network.sent.reason = reason;
    /* When an interface goes, its bytes leave the sum, so a growth across that change belongs to no interface. */
    output->identity = reason == FACET_MEASURED ? (network.names ? network.names : 1) : 0;
    gather_put(output, GATHER_NET_RX, network.received);
    gather_put(output, GATHER_NET_TX, network.sent);
    output->identity = 0;
}

enum facet_status facet_gather_node(int proc, uint64_t now_ns, struct facet_measurement *measurements, uint32_t *count,
                                    struct facet_error *error)
{
    enum facet_status status = gather_begin(measurements, count, METERS, error);
    struct gather_output output = {.out = measurements, .time_ns = now_ns};
    struct stat directory;

    if (status != FACET_OK)
        return status;
    if (fstat(proc, &directory) < 0 || !S_ISDIR(directory.st_mode))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "proc", "proc %d: expected a directory that is open",
                                    proc);
    put_cpu(&output, proc);
    put_memory(&output, proc);
    put_network(&output, proc);
    *count = output.count;
    return FACET_OK;
}
