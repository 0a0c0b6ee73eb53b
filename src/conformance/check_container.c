/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of the table `container`. Never: opens a listed item. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/slices.h"

static enum facet_status call_items(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count)
{
    return check->container_ops.items(check->instance, check->device, subject, items, item_size, capacity, ret_count,
                                      &check->error);
}

static void refuse_absent_device(struct facet_check *check)
{
    facet_check_absent_device(check, "container");
}

static bool is_variable(const char *name)
{
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    return length > 0 && name[length] == '\0' && !(name[0] >= '0' && name[0] <= '9');
}

static const char *fault_of_item(const struct facet_container_item *item)
{
    if (!facet_check_is_text(item->host, sizeof item->host) || !facet_check_is_text(item->guest, sizeof item->guest))
        return "a text is not printable or not terminated";
    if (item->kind < FACET_CONTAINER_DEVICE_NODE || item->kind > FACET_CONTAINER_ENVIRONMENT)
        return "its kind is unknown";
    if (item->flags & ~FACET_CONTAINER_READ_ONLY)
        return "it has unknown flags";
    if (item->kind == FACET_CONTAINER_ENVIRONMENT)
        return is_variable(item->guest) ? NULL : "its guest is no name of a variable";
    if (item->host[0] != '/' || item->guest[0] != '/' || strstr(item->host, "/../") || strstr(item->guest, "/../"))
        return "a path is not absolute and direct";
    return NULL;
}

static void check_items(struct facet_check *check, const char *text, const char *partition)
{
    const struct facet_check_list list = {"container.items", sizeof(struct facet_container_item), false, call_items,
                                          partition};
    struct facet_check_tally tally = {.text = text};
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_container_item *all = facet_check_fetch(check, &list, &count);

    for (uint32_t i = 0; i < count; i++) {
        const char *fault = fault_of_item(&all[i]);

        if (fault)
            facet_check_tally_miss(&tally, "expected: a well-formed item %" PRIu32 "\ngot: %s", i, fault);
    }
    facet_check_report_tallies(check, &tally, 1);
}

static void check_device_items(struct facet_check *check)
{
    const struct facet_check_list list = {"container.items", sizeof(struct facet_container_item), false, call_items,
                                          NULL};
    uint32_t whole = 0, empty = 0, got;

    facet_check_list_rules(check, &list);
    check_items(check, "container.items: each is well-formed", NULL);
    EXPECT_REFUSED(check, "container.items: an unknown partition is not found", FACET_NOT_FOUND, &got, sizeof got,
                   call_items(check, "no such partition", NULL, list.struct_size, 0, &got));
    call_items(check, NULL, NULL, list.struct_size, 0, &whole);
    facet_check_begin(check, "container.items: an empty uuid is the whole device, as NULL is");
    call_items(check, "", NULL, list.struct_size, 0, &empty);
    facet_check_number(check, whole, empty);
}

/* The device nodes among the items, by their paths on the host, to free(); NULL after a failed assertion. */
static struct facet_container_item *list_nodes(struct facet_check *check, const char *partition, uint32_t *ret_count)
{
    const struct facet_check_list list = {"container.items", sizeof(struct facet_container_item), false, call_items,
                                          partition};
    uint32_t count = 0, kept = 0;
    struct facet_container_item *all = facet_check_fetch(check, &list, &count);

    for (uint32_t i = 0; all && i < count; i++)
        if (all[i].kind == FACET_CONTAINER_DEVICE_NODE)
            all[kept++] = all[i];
    *ret_count = kept;
    return all;
}

static bool is_among(const struct facet_container_item *node, const struct facet_container_item *all, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (strncmp(node->host, all[i].host, sizeof node->host) == 0)
            return true;
    return false;
}

/* Whether `all` has a node that `others` lacks. */
static bool has_more(const struct facet_container_item *all, uint32_t count, const struct facet_container_item *others,
                     uint32_t other_count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!is_among(&all[i], others, other_count))
            return true;
    return false;
}

/* A partition may share nodes with the device and with other partitions, but it must have a node of its own. */
static void compare_nodes(struct facet_check *check, const char *one, const char *two)
{
    uint32_t whole_count = 0, one_count = 0, two_count = 0;
    FACET_CLEANUP_FREE struct facet_container_item *whole = list_nodes(check, NULL, &whole_count);
    FACET_CLEANUP_FREE struct facet_container_item *first = list_nodes(check, one, &one_count);
    FACET_CLEANUP_FREE struct facet_container_item *second = list_nodes(check, two, &two_count);

    if (whole_count == 0) {
        facet_check_skip(check, "container.items: a partition has nodes of its own", "the device has no nodes");
        return;
    }
    EXPECT_TRUE(check, "container.items: a partition has a node that the whole device's list has not",
                has_more(first, one_count, whole, whole_count) && has_more(second, two_count, whole, whole_count),
                "expected: a node of the partition's own\ngot: %" PRIu32 " nodes, all of the whole device", one_count);
    EXPECT_TRUE(check, "container.items: two partitions have a node of their own each",
                has_more(first, one_count, second, two_count) && has_more(second, two_count, first, one_count),
                "expected: for each partition a node that the other has not\ngot: a partition without such a node");
}

static void check_two_partitions(struct facet_check *check)
{
    uint32_t count = 0;
    struct facet_partition_info one, two;
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);
    uint32_t existing = facet_check_partition_count(check);

    if (count == 0 || existing > 0)
        return;
    const struct facet_partition_template *smallest = facet_check_smallest(all, count);
    if (smallest->max_count < 2)
        facet_check_skip(check, "container.items: of two partitions", "the device can hold one '%.31s' at most",
                         smallest->id);
    else if (EXPECT_OK(check, "partition.create: one of two for containers",
                       facet_check_create(check, smallest->id, FACET_PLACEMENT_ANY, &one)) &&
             EXPECT_OK(check, "partition.create: the other for containers",
                       facet_check_create(check, smallest->id, FACET_PLACEMENT_ANY, &two)))
        compare_nodes(check, one.uuid, two.uuid);
    facet_check_clear_partitions(check);
}

static void check_partition_items(struct facet_check *check)
{
    uint32_t count = 0;
    struct facet_partition_info made;
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);
    uint32_t existing = facet_check_partition_count(check);

    if (count == 0 || existing > 0)
        return;
    if (!EXPECT_OK(check, "partition.create: one to put into a container",
                   facet_check_create(check, facet_check_smallest(all, count)->id, FACET_PLACEMENT_ANY, &made)))
        return;
    check_items(check, "container.items: of a partition, each is well-formed", made.uuid);
    EXPECT_OK(check, "partition.destroy: the one for a container", facet_check_destroy(check, made.uuid));
}

static const struct facet_check_case cases[] = {
    {refuse_absent_device, 0},
    {check_device_items, FACET_CAN_CONTAINER},
    {check_partition_items, FACET_CAN_CONTAINER | FACET_CAN_PARTITION},
    {check_two_partitions, FACET_CAN_CONTAINER | FACET_CAN_PARTITION},
    {NULL, 0},
};

const struct facet_check_group facet_check_container = {
    .name = "container", .about = "what a container needs", .cases = cases};
