/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the checks that capabilities, modes and operations agree. Never: checks what a supported operation does; the
 * check group of the operation's table does that.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/slices.h"

enum { ALL_MODES = 0xf };

/* Asks again, because facet_check_drop_broken_promises() has cleared claims in check->devices. */
static struct facet_device_info *fetch_device_infos(struct facet_check *check, uint32_t *ret_count)
{
    FACET_CLEANUP_FREE struct facet_device_info *all = calloc((size_t)check->device_count + 1, sizeof *all);

    if (!all)
        _exit(EXIT_FAILURE);
    for (uint32_t i = 0; i < check->device_count; i++)
        all[i].size = sizeof *all;
    *ret_count = 0;
    check->device_ops.list(check->instance, all, sizeof *all, check->device_count, ret_count, NULL);
    return FACET_TAKE_PTR(all);
}

static void check_claims(const struct facet_check *check, const struct facet_device_info *info,
                         struct facet_check_tally *tally)
{
    for (uint64_t rest = info->capabilities; rest; rest &= rest - 1) {
        const char *missing = facet_check_missing_operation(check, rest & -rest);

        if (missing)
            facet_check_tally_miss(tally, "expected: all operations behind %s of device %" PRIu32 "\ngot: no %s",
                                   facet_check_capability_name(rest & -rest), info->index, missing);
    }
}

static bool has_mode(const struct facet_device_info *info, enum facet_mode mode)
{
    return (info->modes & FACET_DEVICE_MODE(mode)) != 0;
}

static const char *fault_of_modes(const struct facet_device_info *info)
{
    if (info->modes & ~(uint32_t)ALL_MODES)
        return "an unknown mode";
    if (info->modes == 0 && !(info->capabilities & FACET_CAN_EXECUTE))
        return "no mode, and no FACET_CAN_EXECUTE: nothing could be done with it";
    if (has_mode(info, FACET_MODE_PARTITIONED) && !(info->capabilities & FACET_CAN_PARTITION))
        return "mode partitioned without FACET_CAN_PARTITION";
    if (has_mode(info, FACET_MODE_HARD) && !(info->capabilities & (FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE)))
        return "mode hard without a capability to limit";
    for (int mode = 0; mode < 4; mode++)
        if (info->mode_group[mode] && !(info->modes & FACET_DEVICE_MODE(mode)))
            return "a group for a mode that it does not support";
    return NULL;
}

static void check_all_claims(struct facet_check *check)
{
    struct facet_check_tally tallies[] = {
        {.text = "modes: every operation behind a claimed capability is offered"},
        {.text = "modes: modes and capabilities agree"},
        {.text = "modes: no unknown capability is claimed"},
    };
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_device_info *all = fetch_device_infos(check, &count);

    if (count == 0) {
        facet_check_skip(check, "modes: capabilities and modes", "there is no device");
        return;
    }
    facet_check_begin(check, "%s", tallies[0].text);
    for (uint32_t i = 0; i < count; i++) {
        const char *fault = fault_of_modes(&all[i]);

        check_claims(check, &all[i], &tallies[0]);
        if (fault)
            facet_check_tally_miss(&tallies[1],
                                   "expected: modes of device %" PRIu32 " that agree with its capabilities\ngot: %s", i,
                                   fault);
        if (all[i].capabilities >= FACET_CAN_MATH << 1)
            facet_check_tally_miss(&tallies[2], "expected: bits up to FACET_CAN_MATH\ngot: 0x%" PRIx64,
                                   all[i].capabilities);
    }
    facet_check_report_tallies(check, tallies, 3);
}

static void expect_unsupported(struct facet_check *check, const char *operation, enum facet_status got)
{
    facet_check_judge(check, got == FACET_UNSUPPORTED,
                      "expected: unsupported from %s, as its capability is not claimed\ngot: %s", operation,
                      facet_status_name(got));
}

#define EXPECT_UNSUPPORTED(check, capability, operation, call)                                                         \
    do {                                                                                                               \
        if (!facet_check_claims((check), (capability)) && (operation)) {                                               \
            facet_check_begin((check), "modes: %s without its capability is unsupported", #operation);                 \
            expect_unsupported((check), #operation, (call));                                                           \
        }                                                                                                              \
    } while (0)

/* Operations that take a device. The provider offers them; without the capability, the device must refuse them. */
static void check_unclaimed_device_operations(struct facet_check *check)
{
    struct facet_provider_instance *instance = check->instance;
    const struct facet_partition_ops partition = check->partition_ops;
    const struct facet_metrics_ops metrics = check->metrics_ops;
    const struct facet_limit_ops limit = check->limit_ops;
    const struct facet_execution_ops execution = check->execution_ops;
    const struct facet_math_ops math = check->math_ops;
    struct facet_math_support support = {.size = sizeof support};
    struct facet_partition_info made = {.size = sizeof made};
    struct facet_device_metrics reading = {.size = sizeof reading};
    uint32_t device = check->device, got;

    EXPECT_UNSUPPORTED(
        check, FACET_CAN_PARTITION, partition.templates,
        partition.templates(instance, device, NULL, sizeof(struct facet_partition_template), 0, &got, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_PARTITION, partition.create,
                       partition.create(instance, device, "any", FACET_PLACEMENT_ANY, &made, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_PARTITION, partition.list,
                       partition.list(instance, device, NULL, sizeof made, 0, &got, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_PARTITION, partition.destroy,
                       partition.destroy(instance, device, "none", NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_LIMIT_MEMORY, limit.set_memory,
                       limit.set_memory(instance, device, FACET_CHECK_WORKER, 1 << 20, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_LIMIT_COMPUTE, limit.set_compute,
                       limit.set_compute(instance, device, FACET_CHECK_WORKER, 1000, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_DEVICE_METRICS, metrics.device,
                       metrics.device(instance, device, &reading, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_PROCESS_METRICS, metrics.processes,
                       metrics.processes(instance, device, NULL, sizeof(struct facet_process_metrics), 0, &got, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_LINK_METRICS, metrics.links,
                       metrics.links(instance, device, NULL, sizeof(struct facet_link_metrics), 0, &got, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_SCHEDULE, execution.set_policy,
                       execution.set_policy(instance, device, FACET_SCHEDULE_FAIR, 1, 0, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_MATH, math.support, math.support(instance, device, &support, NULL));
}

/* The operations of a context that the provider ABI has since version 1.4. */
static void check_unclaimed_control_operations(struct facet_check *check, uint64_t context)
{
    struct facet_provider_instance *instance = check->instance;
    const struct facet_execution_ops execution = check->execution_ops;
    const struct facet_math_ops math = check->math_ops;
    struct facet_math operation = {.size = sizeof operation};

    EXPECT_UNSUPPORTED(check, FACET_CAN_CONTROL, execution.set_bounds,
                       execution.set_bounds(instance, context, 0, 0, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_CONTROL, execution.pause, execution.pause(instance, context, 0, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_CONTROL, execution.wait, execution.wait(instance, context, 1, 1, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_CONTROL, execution.cancel_launch,
                       execution.cancel_launch(instance, context, 1, 1, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_MATH, math.run, math.run(instance, context, 1, &operation, NULL));
}

/* Operations that take a context, and operations of the tables container and snapshot. */
static void check_unclaimed_context_operations(struct facet_check *check)
{
    struct facet_provider_instance *instance = check->instance;
    const struct facet_container_ops container = check->container_ops;
    const struct facet_snapshot_ops snapshot = check->snapshot_ops;
    const struct facet_memory_ops memory = check->memory_ops;
    const struct facet_execution_ops execution = check->execution_ops;
    uint64_t number = 0, context = 0;
    uint32_t device = check->device, got;

    EXPECT_UNSUPPORTED(
        check, FACET_CAN_CONTAINER, container.items,
        container.items(instance, device, NULL, NULL, sizeof(struct facet_container_item), 0, &got, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_SNAPSHOT, snapshot.snapshot,
                       snapshot.snapshot(instance, device, FACET_CHECK_WORKER, -1, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_SNAPSHOT, snapshot.resume,
                       snapshot.resume(instance, device, FACET_CHECK_WORKER, -1, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_MEMORY, memory.create_context,
                       memory.create_context(instance, device, NULL, FACET_CHECK_WORKER, &number, NULL));
    if (!facet_check_claims(check, FACET_CAN_MEMORY) ||
        facet_check_claims(check, FACET_CAN_MAP_MEMORY | FACET_CAN_EXECUTE | FACET_CAN_ENQUEUE | FACET_CAN_SHARE |
                                      FACET_CAN_RECORD | FACET_CAN_SHARE_PAGES | FACET_CAN_MOVE_PAGES |
                                      FACET_CAN_CONTROL | FACET_CAN_MATH) ||
        !facet_check_context(check, FACET_CHECK_WORKER, &context))
        return;
    EXPECT_UNSUPPORTED(check, FACET_CAN_MAP_MEMORY, memory.reserve,
                       memory.reserve(instance, context, 1 << 21, 0, &number, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_MAP_MEMORY, memory.create_pages,
                       memory.create_pages(instance, context, 1 << 21, &number, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_SHARE_PAGES, memory.share_pages,
                       memory.share_pages(instance, context, 1, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_MOVE_PAGES, memory.move,
                       memory.move(instance, context, 1 << 21, 1, 0, 1 << 21, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_EXECUTE, execution.create_stream,
                       execution.create_stream(instance, context, &number, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_ENQUEUE, execution.fill, execution.fill(instance, context, 1, 0, 0, 1, NULL));
    EXPECT_UNSUPPORTED(check, FACET_CAN_SHARE, execution.set_share,
                       execution.set_share(instance, context, 0, 1000, 1, NULL));
    EXPECT_UNSUPPORTED(
        check, FACET_CAN_RECORD, execution.records,
        execution.records(instance, context, 1, 0, NULL, sizeof(struct facet_launch_record), 0, &got, NULL));
    check_unclaimed_control_operations(check, context);
    facet_check_drop_context(check, context);
}

/* Checks the first device, if there is a device. */
static void check_unclaimed(struct facet_check *check)
{
    for (uint32_t i = 0; i < check->device_count && i < 1; i++) {
        check_unclaimed_device_operations(check);
        check_unclaimed_context_operations(check);
    }
}

static bool modes_may_mix(const struct facet_device_info *info, enum facet_mode one, enum facet_mode two)
{
    return info->mode_group[one] != 0 && info->mode_group[one] == info->mode_group[two];
}

static bool is_refusal(enum facet_status status)
{
    return status == FACET_BUSY || status == FACET_BAD_STATE;
}

static enum facet_status set_limit(struct facet_check *check)
{
    const struct facet_limit_ops *ops = &check->limit_ops;

    if (facet_check_claims(check, FACET_CAN_LIMIT_MEMORY))
        return ops->set_memory(check->instance, check->device, FACET_CHECK_WORKER,
                               facet_check_info(check)->memory_bytes / 8, &check->error);
    return ops->set_compute(check->instance, check->device, FACET_CHECK_WORKER, 100, &check->error);
}

/* A device refuses a mode while a mode of another mode group is in use, whichever came first. */
static void expect_mixed_modes_refused(struct facet_check *check, const char *template_id)
{
    struct facet_partition_info made;

    if (!EXPECT_OK(check, "modes: a partition, to try a limit beside it",
                   facet_check_create(check, template_id, FACET_PLACEMENT_ANY, &made)))
        return;
    facet_check_begin(check, "modes: a limit beside partitions is refused where the two do not mix");
    enum facet_status status = set_limit(check);
    facet_check_judge(check, is_refusal(status), "expected: busy or bad_state from a limit beside a partition\ngot: %s",
                      facet_status_name(status));
    if (status == FACET_OK)
        check->limit_ops.clear(check->instance, check->device, FACET_CHECK_WORKER, NULL);
    facet_check_destroy(check, made.uuid);
    if (!EXPECT_OK(check, "modes: a limit, to try a partition beside it", set_limit(check)))
        return;
    facet_check_begin(check, "modes: a partition beside limits is refused where the two do not mix");
    status = facet_check_create(check, template_id, FACET_PLACEMENT_ANY, &made);
    facet_check_judge(check, is_refusal(status),
                      "expected: busy or bad_state from partition.create beside a limit\ngot: %s",
                      facet_status_name(status));
    if (status == FACET_OK)
        facet_check_destroy(check, made.uuid);
    EXPECT_OK(check, "modes: the limit is lifted",
              check->limit_ops.clear(check->instance, check->device, FACET_CHECK_WORKER, &check->error));
}

static void check_mixing(struct facet_check *check)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);
    uint32_t existing = facet_check_partition_count(check);

    if (!facet_check_claims(check, FACET_CAN_LIMIT_MEMORY) && !facet_check_claims(check, FACET_CAN_LIMIT_COMPUTE))
        return;
    if (modes_may_mix(facet_check_info(check), FACET_MODE_HARD, FACET_MODE_PARTITIONED))
        facet_check_skip(check, "modes: hard and partitioned are kept apart", "the device says that they may mix");
    else if (count > 0 && existing == 0)
        expect_mixed_modes_refused(check, facet_check_smallest(all, count)->id);
}

static const struct facet_check_case cases[] = {
    {check_all_claims, 0}, {check_unclaimed, 0}, {check_mixing, FACET_CAN_PARTITION}, {NULL, 0}};

const struct facet_check_group facet_check_modes = {
    .name = "modes", .about = "capabilities, modes and what is offered", .cases = cases};
