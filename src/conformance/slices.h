/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers for checks of partitions: fetching lists, creating a partition, removing all.
 *
 * Owns: calls of the table `partition`. Never: makes an assertion except that a list is
 * returned and that a partition is destroyed.
 */
#ifndef FACET_CONFORMANCE_SLICES_H
#define FACET_CONFORMANCE_SLICES_H

#include "conformance/check.h"

/* Each returns memory to free(); NULL after a failed assertion. */
struct facet_partition_template *facet_check_templates(struct facet_check *check, uint32_t *ret_count);
struct facet_partition_placement *facet_check_placements(struct facet_check *check, const char *template_id,
                                                         uint32_t *ret_count);
struct facet_partition_info *facet_check_partitions(struct facet_check *check, uint32_t *ret_count);

/* How many partitions there are; UINT32_MAX after a failed assertion. */
uint32_t facet_check_partition_count(struct facet_check *check);

extern const struct facet_check_list facet_check_templates_list, facet_check_partitions_list;
struct facet_check_list facet_check_placements_list(const char *template_id);

enum facet_status facet_check_create(struct facet_check *check, const char *template_id, uint32_t start,
                                     struct facet_partition_info *ret_info);
enum facet_status facet_check_destroy(struct facet_check *check, const char *uuid);

/* The template that takes the fewest slices. */
const struct facet_partition_template *facet_check_smallest(const struct facet_partition_template *templates,
                                                            uint32_t count);

/* The entry with that uuid; NULL when it is not in the list. */
const struct facet_partition_info *facet_check_find(const struct facet_partition_info *partitions, uint32_t count,
                                                    const char *uuid);

/* Removes all partitions of the device under test. */
void facet_check_clear_partitions(struct facet_check *check);

/* The cases of partition_life.c. */
void facet_check_partition_every_placement(struct facet_check *check);
void facet_check_partition_free_flags(struct facet_check *check);
void facet_check_partition_fill(struct facet_check *check);
void facet_check_partition_random(struct facet_check *check);

#endif
