/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table `container`. Never: opens what is listed. */
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

static void absent_device(struct facet_check *check)
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

static void look_at(struct facet_check *check, const char *text, const char *partition)
{
    const struct facet_check_list list = {"container.items", sizeof(struct facet_container_item), false, call_items,
                                          partition};
    struct facet_check_tally tally = {.text = text};
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_container_item *all = facet_check_fetch(check, &list, &count);

    for (uint32_t i = 0; i < count; i++) {
        const char *fault = fault_of_item(&all[i]);

        if (fault)
            facet_check_miss(&tally, "expected: a sound item %" PRIu32 "\ngot: %s", i, fault);
    }
    facet_check_tell(check, &tally, 1);
}

static void items(struct facet_check *check)
{
    const struct facet_check_list list = {"container.items", sizeof(struct facet_container_item), false, call_items,
                                          NULL};
    uint32_t whole = 0, empty = 0, got;

    facet_check_list_rules(check, &list);
    look_at(check, "container.items: each is sound", NULL);
    EXPECT_REFUSED(check, "container.items: an unknown partition is not found", FACET_NOT_FOUND, &got, sizeof got,
                   call_items(check, "no such partition", NULL, list.struct_size, 0, &got));
    call_items(check, NULL, NULL, list.struct_size, 0, &whole);
    facet_check_begin(check, "container.items: an empty uuid is the whole device, as NULL is");
    call_items(check, "", NULL, list.struct_size, 0, &empty);
    facet_check_number(check, whole, empty);
}

static void of_partition(struct facet_check *check)
{
    uint32_t count = 0;
    struct facet_partition_info made;
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);
    uint32_t there = facet_check_partition_count(check);

    if (count == 0 || there > 0)
        return;
    if (!EXPECT_OK(check, "partition.create: one to put into a container",
                   facet_check_create(check, facet_check_smallest(all, count)->id, FACET_PLACEMENT_ANY, &made)))
        return;
    look_at(check, "container.items: of a partition, each is sound", made.uuid);
    EXPECT_OK(check, "partition.destroy: the one for a container", facet_check_destroy(check, made.uuid));
}

static const struct facet_check_case cases[] = {
    {absent_device, 0},
    {items, FACET_CAN_CONTAINER},
    {of_partition, FACET_CAN_CONTAINER | FACET_CAN_PARTITION},
    {NULL, 0},
};

const struct facet_check_group facet_check_container = {
    .name = "container", .about = "what a container needs", .cases = cases};
