/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the checks of the table `partition`: templates and placements, refusals, uuids, use. Never: removes a partition
 * that existed before the checks.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/slices.h"

/* Existing partitions are never removed, so checks that create partitions are skipped while there are any. */
static bool is_empty(struct facet_check *check, const char *what)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_info *existing = facet_check_partitions(check, &count);

    if (count > 0)
        facet_check_skip(check, what, "the device has %" PRIu32 " partitions already", count);
    return existing && count == 0;
}

static void refuse_absent_device(struct facet_check *check)
{
    facet_check_absent_device(check, "partition");
}

static const char *fault_of_template(const struct facet_check *check, const struct facet_partition_template *one)
{
    const struct facet_device_info *info = facet_check_info(check);

    if (!one->id[0] || !facet_check_is_text(one->id, sizeof one->id))
        return "its id is empty or not printable";
    if (one->length == 0 || one->max_count == 0)
        return "it takes no slice, or there may be none of it";
    if (!(one->valid & FACET_PARTITION_HAS_MEMORY) && one->memory_bytes)
        return "it has memory_bytes though the bit is clear";
    if (!(one->valid & FACET_PARTITION_HAS_OVERHEAD) && one->overhead_bytes)
        return "it has overhead_bytes though the bit is clear";
    if ((info->valid & FACET_DEVICE_HAS_MEMORY) && one->memory_bytes > info->memory_bytes)
        return "it has more memory than the device";
    if ((info->valid & FACET_DEVICE_HAS_COMPUTE_UNITS) && one->compute_units > info->compute_units)
        return "it has more compute units than the device";
    if (one->compute_milli > FACET_MILLI_WHOLE)
        return "its compute_milli is above 1000";
    return NULL;
}

/* Checks that the template's placements are well-formed: the template's length, in rising order, none twice. */
static const char *fault_of_placements(struct facet_check *check, const struct facet_partition_template *one)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_placement *placements = facet_check_placements(check, one->id, &count);

    if (!placements || count == 0)
        return "it has no placement";
    for (uint32_t i = 0; i < count; i++) {
        if (placements[i].length != one->length)
            return "a placement has another length";
        if (placements[i].free > 1)
            return "the free flag of a placement is neither 0 nor 1";
        for (uint32_t j = 0; j < i; j++)
            if (placements[j].start == placements[i].start)
                return "two placements begin at the same slice";
    }
    return NULL;
}

static bool id_is_taken(const struct facet_partition_template *templates, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (strncmp(templates[i].id, templates[index].id, sizeof templates[i].id) == 0)
            return true;
    return false;
}

static void check_templates(struct facet_check *check)
{
    struct facet_check_tally tallies[] = {
        {.text = "partition.templates: each template is well-formed, and its id unique"},
        {.text = "partition.placements: each template has well-formed placements"}};
    uint32_t count = 0;

    facet_check_list_rules(check, &facet_check_templates_list);
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);
    if (!EXPECT_TRUE(check, "partition.templates: there is one", count > 0,
                     "expected: at least one template\ngot: none"))
        return;
    for (uint32_t i = 0; i < count; i++) {
        const char *fault = id_is_taken(all, i) ? "its id is another's" : fault_of_template(check, &all[i]);
        const char *place = fault_of_placements(check, &all[i]);

        if (fault)
            facet_check_tally_miss(&tallies[0], "expected: a well-formed template\ngot: '%.31s': %s", all[i].id, fault);
        if (place)
            facet_check_tally_miss(&tallies[1], "expected: well-formed placements\ngot: '%.31s': %s", all[i].id, place);
    }
    facet_check_report_tallies(check, tallies, 2);
    const struct facet_check_list placements = facet_check_placements_list(all[0].id);
    facet_check_list_rules(check, &placements);
}

static void check_refusals(struct facet_check *check)
{
    const struct facet_partition_ops *ops = &check->partition_ops;
    struct facet_provider_instance *instance = check->instance;
    struct facet_partition_info info;
    uint32_t device = check->device, count = 0, got;
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);

    if (count == 0 || !is_empty(check, "partition.create: refusals"))
        return;
    EXPECT_REFUSED(check, "partition.placements: an unknown template is not found", FACET_NOT_FOUND, &got, sizeof got,
                   ops->placements(instance, device, "no such template", NULL, sizeof(struct facet_partition_placement),
                                   0, &got, &check->error));
    EXPECT_REFUSED(check, "partition.placements: a NULL template is an invalid argument", FACET_INVALID_ARGUMENT, &got,
                   sizeof got,
                   ops->placements(instance, device, NULL, NULL, sizeof(struct facet_partition_placement), 0, &got,
                                   &check->error));
    EXPECT_REFUSED(check, "partition.create: an unknown template is not found", FACET_NOT_FOUND, &info, sizeof info,
                   ops->create(instance, device, "no such template", FACET_PLACEMENT_ANY, &info, &check->error));
    EXPECT_REFUSED(check, "partition.create: a NULL template is an invalid argument", FACET_INVALID_ARGUMENT, &info,
                   sizeof info, ops->create(instance, device, NULL, FACET_PLACEMENT_ANY, &info, &check->error));
    EXPECT_REFUSED(check, "partition.create: a start that is no placement is out of range", FACET_OUT_OF_RANGE, &info,
                   sizeof info, ops->create(instance, device, all[0].id, 1000000, &info, &check->error));
    EXPECT_STATUS(check, "partition.create: no place for the answer is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->create(instance, device, all[0].id, FACET_PLACEMENT_ANY, NULL, &check->error));
    EXPECT_STATUS(check, "partition.destroy: an unknown uuid is not found", FACET_NOT_FOUND,
                  ops->destroy(instance, device, "no such partition", &check->error));
    EXPECT_STATUS(check, "partition.destroy: a NULL uuid is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->destroy(instance, device, NULL, &check->error));
    EXPECT_STATUS(check, "partition.destroy: a template's id is no uuid", FACET_NOT_FOUND,
                  ops->destroy(instance, device, all[0].id, &check->error));
    FACET_CLEANUP_FREE struct facet_partition_info *existing = facet_check_partitions(check, &count);
    EXPECT_NUMBER(check, "partition.list: refused calls created nothing", 0, existing ? count : UINT32_MAX);
    facet_check_clear_partitions(check);
}

static void check_distinct(struct facet_check *check, const struct facet_partition_info *one,
                           const struct facet_partition_info *two)
{
    uint32_t count = 0;

    EXPECT_TRUE(check, "partition.create: two alike have uuids of their own",
                strncmp(one->uuid, two->uuid, sizeof one->uuid) != 0,
                "expected: two uuids that differ\ngot: '%.63s' twice", one->uuid);
    facet_check_list_rules(check, &facet_check_partitions_list);
    EXPECT_OK(check, "partition.destroy: one of two alike", facet_check_destroy(check, one->uuid));
    FACET_CLEANUP_FREE struct facet_partition_info *left = facet_check_partitions(check, &count);
    EXPECT_TRUE(check, "partition.list: the other one is left",
                left && count == 1 && facet_check_find(left, count, two->uuid),
                "expected: '%.63s' alone\ngot: %" PRIu32 " partitions, the first '%.63s'", two->uuid, count,
                count ? left[0].uuid : "");
    EXPECT_STATUS(check, "partition.destroy: a second time is not found", FACET_NOT_FOUND,
                  facet_check_destroy(check, one->uuid));
    EXPECT_OK(check, "partition.destroy: the other one", facet_check_destroy(check, two->uuid));
}

static void check_two_alike(struct facet_check *check)
{
    struct facet_partition_info one, two;
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);

    if (count == 0 || !is_empty(check, "partition.create: two alike"))
        return;
    const struct facet_partition_template *smallest = facet_check_smallest(all, count);
    if (smallest->max_count < 2) {
        facet_check_skip(check, "partition.create: two alike", "the device can hold one '%.31s' at most", smallest->id);
        return;
    }
    if (EXPECT_OK(check, "partition.create: one of the smallest",
                  facet_check_create(check, smallest->id, FACET_PLACEMENT_ANY, &one)) &&
        EXPECT_OK(check, "partition.create: another of the smallest",
                  facet_check_create(check, smallest->id, FACET_PLACEMENT_ANY, &two)))
        check_distinct(check, &one, &two);
    facet_check_clear_partitions(check);
}

static enum facet_status fill_info(struct facet_check *check, const void *subject, void *out)
{
    uint32_t count = 0;
    enum facet_status status =
        check->partition_ops.create(check->instance, check->device, subject, FACET_PLACEMENT_ANY, out, &check->error);
    FACET_CLEANUP_FREE struct facet_partition_info *made = facet_check_partitions(check, &count);

    for (uint32_t i = 0; i < count; i++)
        facet_check_destroy(check, made[i].uuid);
    return status;
}

static void check_struct_size(struct facet_check *check)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);

    if (count == 0 || !is_empty(check, "partition.create: a struct of another size"))
        return;
    facet_check_struct_rules(check, "partition.create", sizeof(struct facet_partition_info), fill_info,
                             facet_check_smallest(all, count)->id);
    facet_check_clear_partitions(check);
}

static uint32_t use_partition_memory(struct facet_check *check, const char *uuid)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_info *all = facet_check_partitions(check, &count);
    const struct facet_partition_info *one = facet_check_find(all, count, uuid);

    return one ? one->in_use : UINT32_MAX;
}

static void use_partition(struct facet_check *check, const struct facet_partition_info *made)
{
    const struct facet_memory_ops *memory = &check->memory_ops;
    struct facet_memory_info room = {.size = sizeof room};
    uint64_t context = 0, none;

    EXPECT_REFUSED(
        check, "memory.create_context: a partitioned device wants a partition named", FACET_BUSY, &none, sizeof none,
        memory->create_context(check->instance, check->device, NULL, FACET_CHECK_WORKER, &none, &check->error));
    EXPECT_REFUSED(check, "memory.create_context: an unknown partition is not found", FACET_NOT_FOUND, &none,
                   sizeof none,
                   memory->create_context(check->instance, check->device, "no such partition", FACET_CHECK_WORKER,
                                          &none, &check->error));
    EXPECT_NUMBER(check, "partition.list: a partition without contexts is not in use", 0,
                  use_partition_memory(check, made->uuid));
    if (!EXPECT_OK(check, "memory.create_context: on a partition",
                   memory->create_context(check->instance, check->device, made->uuid, FACET_CHECK_WORKER, &context,
                                          &check->error)))
        return;
    EXPECT_NUMBER(check, "partition.list: one with a context is in use", 1, use_partition_memory(check, made->uuid));
    EXPECT_STATUS(check, "partition.destroy: one in use is busy", FACET_BUSY, facet_check_destroy(check, made->uuid));
    if ((made->valid & FACET_PARTITION_HAS_MEMORY) &&
        EXPECT_OK(check, "memory.info: of a context on a partition",
                  memory->info(check->instance, context, &room, &check->error)))
        EXPECT_NUMBER(check, "memory.info: a context on a partition has the partition's memory", made->memory_bytes,
                      room.total_bytes);
    facet_check_drop_context(check, context);
    EXPECT_NUMBER(check, "partition.list: afterwards it is not in use", 0, use_partition_memory(check, made->uuid));
    EXPECT_OK(check, "partition.destroy: one no longer in use", facet_check_destroy(check, made->uuid));
}

static void check_partition_in_use(struct facet_check *check)
{
    struct facet_partition_info made;
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);

    if (count == 0 || !is_empty(check, "partition.destroy: one in use"))
        return;
    if (EXPECT_OK(check, "partition.create: one to use",
                  facet_check_create(check, facet_check_smallest(all, count)->id, FACET_PLACEMENT_ANY, &made)))
        use_partition(check, &made);
    facet_check_clear_partitions(check);
}

/* Runs the four cases of partition_life.c, each on a device without partitions. */
static void check_partition_life(struct facet_check *check)
{
    static void (*const stages[])(struct facet_check *) = {facet_check_partition_every_placement,
                                                           facet_check_partition_free_flags, facet_check_partition_fill,
                                                           facet_check_partition_random};

    if (!is_empty(check, "partition: the life of partitions"))
        return;
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        stages[i](check);
        facet_check_clear_partitions(check);
    }
}

static const struct facet_check_case cases[] = {
    {refuse_absent_device, 0},
    {check_templates, FACET_CAN_PARTITION},
    {check_refusals, FACET_CAN_PARTITION},
    {check_two_alike, FACET_CAN_PARTITION},
    {check_struct_size, FACET_CAN_PARTITION},
    {check_partition_in_use, FACET_CAN_PARTITION | FACET_CAN_MEMORY},
    {check_partition_life, FACET_CAN_PARTITION},
    {NULL, 0},
};

const struct facet_check_group facet_check_partition = {
    .name = "partition", .about = "templates, placements, partitions and their lives", .cases = cases};
