/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing the readers of files of control groups and /proc: the first byte chooses the reader, the rest is the
 * text. A measured value is not negative, and a missing value has a reason.
 */
#include "fuzz.h"
#include "monitor/gather/container.h"
#include "monitor/gather/process.h"

static void check_value(struct gather_value value)
{
    FUZZ_ASSERT(facet_unmeasured_name(value.reason));
    FUZZ_ASSERT(value.reason != FACET_MEASURED || value.value >= 0);
}

static void fuzz_single(const char *text, size_t size)
{
    struct gather_value value = GATHER_ABSENT;

    if (gather_text(text, size, gather_take_single, &value) == FACET_MEASURED)
        check_value(value);
}

static void fuzz_fields(const char *text, size_t size, int64_t factor, const char *unit)
{
    struct gather_field field[] = {{"usage_usec", GATHER_ABSENT}, {"VmRSS:", GATHER_ABSENT}};
    struct gather_fields fields = {.field = field, .count = 2, .factor = factor, .unit = unit};

    (void)gather_text(text, size, gather_take_field, &fields);
    check_value(field[0].value);
    check_value(field[1].value);
}

static void fuzz_io(const char *text, size_t size)
{
    struct container_io io = {0};

    (void)gather_text(text, size, container_take_io, &io);
    check_value(io.read);
    check_value(io.write);
}

static void fuzz_cpu_max(const char *text, size_t size)
{
    struct gather_value value = GATHER_ABSENT;

    (void)gather_text(text, size, container_take_cpu_max, &value);
    check_value(value);
}

static void fuzz_regions(const char *text, size_t size)
{
    struct container_regions regions = {.sum = GATHER_ABSENT};

    (void)gather_text(text, size, container_take_region, &regions);
    check_value(regions.sum);
    FUZZ_ASSERT((regions.count == 0) == (regions.sum.reason == FACET_UNMEASURED_ABSENT));
}

static void fuzz_process(const char *text, size_t size)
{
    struct process_stat stat = {.ticks = GATHER_ABSENT, .start = GATHER_ABSENT, .threads = GATHER_ABSENT};

    (void)gather_text(text, size, process_take_stat, &stat);
    check_value(process_ticks(stat.ticks));
    check_value(stat.start);
    check_value(stat.threads);
}

static void fuzz_node(const char *text, size_t size)
{
    struct node_stat stat = {.ticks = GATHER_ABSENT};

    (void)gather_text(text, size, node_take_stat, &stat);
    check_value(process_ticks(stat.ticks));
    FUZZ_ASSERT(stat.cpus >= 0);
}

static void fuzz_network(const char *text, size_t size)
{
    struct node_network network = {0};

    (void)gather_text(text, size, node_take_network, &network);
    check_value(network.received);
    check_value(network.sent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;

    size--;
    switch (data[0]) {
    case 's':
        fuzz_single(text, size);
        break;
    case 'f':
        fuzz_fields(text, size, 1000, NULL);
        break;
    case 'k':
        fuzz_fields(text, size, 1024, "kB");
        break;
    case 'i':
        fuzz_io(text, size);
        break;
    case 'c':
        fuzz_cpu_max(text, size);
        break;
    case 'd':
        fuzz_regions(text, size);
        break;
    case 'p':
        fuzz_process(text, size);
        break;
    case 'n':
        fuzz_node(text, size);
        break;
    case 'w':
        fuzz_network(text, size);
        break;
    default:
        break;
    }
    return 0;
}
