/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of the table `metrics`. Never: expects a certain value; it checks that readings
 * are plausible. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "conformance/activity.h"

enum { READINGS = 20, PAUSE_MS = 10, ATTEMPTS_MAX = 300 }; /* 3 s of attempts, PAUSE_MS apart */

static void refuse_absent_device(struct facet_check *check)
{
    facet_check_absent_device(check, "metrics");
}

struct field {
    const char *name;
    uint64_t bit;
    size_t offset, bytes;
    bool counter, milli;
};

#define FIELD(bit, member, counter, milli)                                                                             \
    {                                                                                                                  \
#member, FACET_METRIC_##bit, offsetof(struct facet_device_metrics, member),                                    \
            sizeof(((struct facet_device_metrics *)NULL)->member), (counter), (milli)                                  \
    }

static const struct field fields[] = {
    FIELD(POWER, power_mw, false, false),
    FIELD(ENERGY, energy_mj, true, false),
    FIELD(TEMPERATURE, temperature_mc, false, false),
    FIELD(CLOCK, clock_mhz, false, false),
    FIELD(MEMORY_USED, memory_used_bytes, false, false),
    FIELD(PCIE_RX, pcie_rx_bytes, true, false),
    FIELD(PCIE_TX, pcie_tx_bytes, true, false),
    FIELD(BUSY, busy_ns, true, false),
    FIELD(COMPUTE_ACTIVE, compute_active_milli, false, true),
    FIELD(TENSOR_ACTIVE, tensor_active_milli, false, true),
    FIELD(MEMORY_ACTIVE, memory_active_milli, false, true),
    FIELD(ENCODER_ACTIVE, encoder_active_milli, false, true),
    FIELD(DECODER_ACTIVE, decoder_active_milli, false, true),
    FIELD(THROTTLE, throttle, false, false),
    FIELD(ECC_CORRECTED, ecc_corrected, true, false),
    FIELD(ECC_UNCORRECTED, ecc_uncorrected, true, false),
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

static uint64_t value_of(const struct facet_device_metrics *metrics, const struct field *field)
{
    uint64_t wide = 0;
    uint32_t narrow;

    if (field->bytes == sizeof wide) {
        memcpy(&wide, (const char *)metrics + field->offset, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)metrics + field->offset, sizeof narrow);
    return narrow;
}

enum aspect { ANSWERS, ABSENT, MILLI, COUNTERS, BACKWARDS, VALID, ASPECTS };

static void check_reading(const struct facet_check *check, const struct facet_device_metrics *now,
                          struct facet_check_tally *tallies)
{
    struct timespec time;

    clock_gettime(CLOCK_REALTIME, &time);
    uint64_t wall = facet_timespec_ns(&time);

    for (int i = 0; i < FIELDS; i++) {
        uint64_t value = value_of(now, &fields[i]);

        if (!(now->valid & fields[i].bit) && value != 0)
            facet_check_tally_miss(&tallies[ABSENT], "expected: %s 0, as its bit is clear\ngot: %" PRIu64,
                                   fields[i].name, value);
        if (fields[i].milli && value > FACET_MILLI_WHOLE)
            facet_check_tally_miss(&tallies[MILLI], "expected: %s of at most 1000\ngot: %" PRIu64, fields[i].name,
                                   value);
    }
    if (now->device != check->device)
        facet_check_tally_miss(&tallies[VALID], "expected: device %" PRIu32 "\ngot: %" PRIu32, check->device,
                               now->device);
    if (now->timestamp_ns == 0 || now->timestamp_ns > wall + FACET_NS_PER_S)
        facet_check_tally_miss(&tallies[VALID],
                               "expected: a time of CLOCK_REALTIME, which is %" PRIu64 " ns now\ngot: %" PRIu64 " ns",
                               wall, now->timestamp_ns);
    if ((facet_check_info(check)->valid & FACET_DEVICE_HAS_MEMORY) &&
        now->memory_used_bytes > facet_check_info(check)->memory_bytes)
        facet_check_tally_miss(&tallies[VALID],
                               "expected: memory_used_bytes within the device's memory\ngot: %" PRIu64 " bytes",
                               now->memory_used_bytes);
}

static void compare_readings(const struct facet_device_metrics *before, const struct facet_device_metrics *now,
                             struct facet_check_tally *tallies)
{
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].counter && (before->valid & now->valid & fields[i].bit) &&
            value_of(now, &fields[i]) < value_of(before, &fields[i]))
            facet_check_tally_miss(&tallies[COUNTERS], "expected: %s of at least %" PRIu64 "\ngot: %" PRIu64,
                                   fields[i].name, value_of(before, &fields[i]), value_of(now, &fields[i]));
    if (now->timestamp_ns < before->timestamp_ns)
        facet_check_tally_miss(&tallies[BACKWARDS], "expected: a time of at least %" PRIu64 " ns\ngot: %" PRIu64,
                               before->timestamp_ns, now->timestamp_ns);
}

static void pause_briefly(void)
{
    const struct timespec pause = facet_ns_timespec(PAUSE_MS * FACET_NS_PER_MS);

    nanosleep(&pause, NULL);
}

static enum facet_status read_metrics(struct facet_check *check, struct facet_device_metrics *ret_metrics)
{
    ret_metrics->size = sizeof *ret_metrics;
    return check->metrics_ops.device(check->instance, check->device, ret_metrics, &check->error);
}

/* A provider may cache a reading; within seconds it must make a new one. */
static void expect_later_reading(struct facet_check *check, uint64_t first_ns)
{
    struct facet_device_metrics now = {.timestamp_ns = first_ns};

    facet_check_begin(check, "metrics.device: the time of the reading moves on");
    for (int i = 0; i < ATTEMPTS_MAX && now.timestamp_ns <= first_ns; i++) {
        pause_briefly();
        if (read_metrics(check, &now) != FACET_OK)
            break;
    }
    facet_check_judge(check, now.timestamp_ns > first_ns,
                      "expected: a timestamp_ns above %" PRIu64 " within 3 s\ngot: %" PRIu64, first_ns,
                      now.timestamp_ns);
}

static void check_readings(struct facet_check *check)
{
    struct facet_check_tally tallies[ASPECTS] = {
        [ANSWERS] = {.text = "metrics.device: answers each of many calls"},
        [ABSENT] = {.text = "metrics.device: a field whose bit is clear is 0"},
        [MILLI] = {.text = "metrics.device: shares are at most 1000 milli"},
        [COUNTERS] = {.text = "metrics.device: counters never fall"},
        [BACKWARDS] = {.text = "metrics.device: time never goes back"},
        [VALID] = {.text = "metrics.device: device, time and memory are valid"},
    };
    struct facet_device_metrics before = {0}, now = {0};
    uint64_t first_ns = 0;

    facet_check_begin(check, "%s", tallies[ANSWERS].text);
    for (int i = 0; i < READINGS; i++) {
        enum facet_status status = read_metrics(check, &now);

        if (status != FACET_OK) {
            facet_check_tally_miss(&tallies[ANSWERS], "expected: ok from metrics.device\ngot: %s",
                                   facet_status_name(status));
            break;
        }
        check_reading(check, &now, tallies);
        if (i == 0)
            first_ns = now.timestamp_ns;
        else
            compare_readings(&before, &now, tallies);
        before = now;
        pause_briefly();
    }
    facet_check_report_tallies(check, tallies, ASPECTS);
    expect_later_reading(check, first_ns);
}

static enum facet_status fill_metrics(struct facet_check *check, const void *subject, void *out)
{
    return check->metrics_ops.device(check->instance, check->device, out, &check->error);
}

static void check_device_metrics(struct facet_check *check)
{
    facet_check_struct_rules(check, "metrics.device", sizeof(struct facet_device_metrics), fill_metrics, NULL);
    EXPECT_STATUS(check, "metrics.device: no place for the answer is an invalid argument", FACET_INVALID_ARGUMENT,
                  check->metrics_ops.device(check->instance, check->device, NULL, &check->error));
    check_readings(check);
}

static enum facet_status call_processes(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                        uint32_t capacity, uint32_t *ret_count)
{
    return check->metrics_ops.processes(check->instance, check->device, items, item_size, capacity, ret_count,
                                        &check->error);
}

static enum facet_status call_links(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count)
{
    return check->metrics_ops.links(check->instance, check->device, items, item_size, capacity, ret_count,
                                    &check->error);
}

static const char *fault_of_process(const struct facet_check *check, const struct facet_process_metrics *one)
{
    if (one->device != check->device || one->pid <= 0 || one->timestamp_ns == 0)
        return "another device, no pid, or no time";
    if (!(one->valid & FACET_PROCESS_HAS_MEMORY) && one->memory_used_bytes)
        return "memory_used_bytes though its bit is clear";
    if (!(one->valid & FACET_PROCESS_HAS_RESERVED) && one->memory_reserved_bytes)
        return "memory_reserved_bytes though its bit is clear";
    if (!(one->valid & FACET_PROCESS_HAS_BUSY) && one->busy_ns)
        return "busy_ns though its bit is clear";
    if (one->compute_milli > FACET_MILLI_WHOLE || (!(one->valid & FACET_PROCESS_HAS_COMPUTE) && one->compute_milli))
        return "compute_milli above 1000, or though its bit is clear";
    if (!(one->valid & FACET_PROCESS_HAS_UNITS) && one->units_active)
        return "units_active though its bit is clear";
    if (!facet_check_is_text(one->worker, sizeof one->worker) ||
        !facet_check_is_text(one->partition_uuid, sizeof one->partition_uuid))
        return "a text that is not printable";
    return NULL;
}

static void check_processes(struct facet_check *check)
{
    const struct facet_check_list list = {"metrics.processes", sizeof(struct facet_process_metrics), true,
                                          call_processes, NULL};
    struct facet_check_tally tally = {.text = "metrics.processes: each is well-formed"};
    uint64_t context = 0;
    uint32_t count = 0;
    bool used = facet_check_claims(check, FACET_CAN_MEMORY) && facet_check_context(check, FACET_CHECK_WORKER, &context);

    facet_check_list_rules(check, &list);
    FACET_CLEANUP_FREE struct facet_process_metrics *all = facet_check_fetch(check, &list, &count);
    for (uint32_t i = 0; i < count; i++) {
        const char *fault = fault_of_process(check, &all[i]);

        if (fault)
            facet_check_tally_miss(&tally, "expected: a well-formed process\ngot: %s, for pid %" PRId32, fault,
                                   all[i].pid);
    }
    facet_check_report_tallies(check, &tally, 1);
    if (used)
        facet_check_drop_context(check, context);
}

static void check_links(struct facet_check *check)
{
    const struct facet_check_list list = {"metrics.links", sizeof(struct facet_link_metrics), true, call_links, NULL};
    struct facet_check_tally tally = {.text = "metrics.links: each is a link of the topology, and well-formed"};
    uint32_t count = 0, link_count = UINT32_MAX;

    if (check->device_ops.links)
        check->device_ops.links(check->instance, NULL, sizeof(struct facet_topology_link), 0, &link_count, NULL);
    facet_check_list_rules(check, &list);
    FACET_CLEANUP_FREE struct facet_link_metrics *all = facet_check_fetch(check, &list, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct facet_link_metrics *one = &all[i];

        if (one->link >= link_count || one->type > FACET_LINK_VENDOR || one->timestamp_ns == 0 ||
            (!(one->valid & FACET_LINK_METRIC_RX) && one->rx_bytes) ||
            (!(one->valid & FACET_LINK_METRIC_TX) && one->tx_bytes) ||
            (!(one->valid & FACET_LINK_METRIC_ERRORS) && one->errors))
            facet_check_tally_miss(&tally,
                                   "expected: a link below %" PRIu32
                                   ", a known type, a time, zero where a bit is clear\n"
                                   "got: link %" PRIu32 ", type %" PRIu32 ", valid 0x%" PRIx32,
                                   link_count, one->link, one->type, one->valid);
    }
    facet_check_report_tallies(check, &tally, 1);
}

static const struct facet_check_case cases[] = {
    {refuse_absent_device, 0},
    {check_device_metrics, FACET_CAN_DEVICE_METRICS},
    {facet_check_activity_clock, FACET_CAN_DEVICE_METRICS},
    {facet_check_activity_memory, FACET_CAN_DEVICE_METRICS | FACET_CAN_MEMORY},
    {facet_check_activity_busy, FACET_CAN_DEVICE_METRICS | FACET_CAN_MEMORY | FACET_CAN_EXECUTE},
    {check_processes, FACET_CAN_PROCESS_METRICS},
    {facet_check_activity_process, FACET_CAN_PROCESS_METRICS | FACET_CAN_MEMORY},
    {check_links, FACET_CAN_LINK_METRICS},
    {NULL, 0},
};

const struct facet_check_group facet_check_metrics = {
    .name = "metrics", .about = "readings of devices, processes and links", .cases = cases};
