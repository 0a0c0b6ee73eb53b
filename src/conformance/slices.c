/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: calls of the table `partition`. Never: makes an assertion except that a list is
 * returned and that a partition is destroyed. */
#include "conformance/slices.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static enum facet_status call_templates(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                        uint32_t capacity, uint32_t *ret_count)
{
    return check->partition_ops.templates(check->instance, check->device, items, item_size, capacity, ret_count,
                                          &check->error);
}

static enum facet_status call_placements(struct facet_check *check, const void *subject, void *items,
                                         uint32_t item_size, uint32_t capacity, uint32_t *ret_count)
{
    return check->partition_ops.placements(check->instance, check->device, subject, items, item_size, capacity,
                                           ret_count, &check->error);
}

static enum facet_status call_list(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                   uint32_t capacity, uint32_t *ret_count)
{
    return check->partition_ops.list(check->instance, check->device, items, item_size, capacity, ret_count,
                                     &check->error);
}

const struct facet_check_list facet_check_templates_list = {
    "partition.templates", sizeof(struct facet_partition_template), false, call_templates, NULL};
const struct facet_check_list facet_check_partitions_list = {"partition.list", sizeof(struct facet_partition_info),
                                                             false, call_list, NULL};

struct facet_check_list facet_check_placements_list(const char *template_id)
{
    return (struct facet_check_list){"partition.placements", sizeof(struct facet_partition_placement), false,
                                     call_placements, template_id};
}

/* Fetches a list with two calls and no assertion about the list rules, which are checked elsewhere. */
static void *fetch_unchecked(struct facet_check *check, const struct facet_check_list *list, uint32_t *ret_count)
{
    uint32_t count = 0;
    enum facet_status status = list->call(check, list->subject, NULL, list->struct_size, 0, &count);

    if ((status == FACET_OK || status == FACET_TOO_SMALL) && count <= FACET_CHECK_ITEMS) {
        FACET_CLEANUP_FREE char *items = calloc((size_t)count + 1, list->struct_size);

        if (!items)
            _exit(EXIT_FAILURE);
        status = list->call(check, list->subject, items, list->struct_size, count, ret_count);
        if (status == FACET_OK && *ret_count <= count)
            return FACET_TAKE_PTR(items);
    }
    *ret_count = 0;
    facet_check_begin(check, "%s: gives all items", list->name);
    facet_check_status(check, FACET_OK, status == FACET_OK ? FACET_CORRUPT : status);
    return NULL;
}

struct facet_partition_template *facet_check_templates(struct facet_check *check, uint32_t *ret_count)
{
    return fetch_unchecked(check, &facet_check_templates_list, ret_count);
}

struct facet_partition_placement *facet_check_placements(struct facet_check *check, const char *template_id,
                                                         uint32_t *ret_count)
{
    const struct facet_check_list list = facet_check_placements_list(template_id);

    return fetch_unchecked(check, &list, ret_count);
}

struct facet_partition_info *facet_check_partitions(struct facet_check *check, uint32_t *ret_count)
{
    return fetch_unchecked(check, &facet_check_partitions_list, ret_count);
}

uint32_t facet_check_partition_count(struct facet_check *check)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_info *all = facet_check_partitions(check, &count);

    return all ? count : UINT32_MAX;
}

enum facet_status facet_check_create(struct facet_check *check, const char *template_id, uint32_t start,
                                     struct facet_partition_info *ret_info)
{
    ret_info->size = sizeof *ret_info;
    return check->partition_ops.create(check->instance, check->device, template_id, start, ret_info, &check->error);
}

enum facet_status facet_check_destroy(struct facet_check *check, const char *uuid)
{
    return check->partition_ops.destroy(check->instance, check->device, uuid, &check->error);
}

const struct facet_partition_template *facet_check_smallest(const struct facet_partition_template *templates,
                                                            uint32_t count)
{
    const struct facet_partition_template *smallest = templates;

    for (uint32_t i = 1; i < count; i++)
        if (templates[i].length < smallest->length ||
            (templates[i].length == smallest->length && templates[i].max_count > smallest->max_count))
            smallest = &templates[i];
    return smallest;
}

const struct facet_partition_info *facet_check_find(const struct facet_partition_info *partitions, uint32_t count,
                                                    const char *uuid)
{
    for (uint32_t i = 0; i < count; i++)
        if (strncmp(partitions[i].uuid, uuid, sizeof partitions[i].uuid) == 0)
            return &partitions[i];
    return NULL;
}

void facet_check_clear_partitions(struct facet_check *check)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_info *partitions = facet_check_partitions(check, &count);
    enum facet_status status = FACET_OK;

    facet_check_begin(check, "partition.destroy: removes what is left");
    for (uint32_t i = 0; i < count && status == FACET_OK; i++)
        status = facet_check_destroy(check, partitions[i].uuid);
    facet_check_status(check, FACET_OK, status);
}
