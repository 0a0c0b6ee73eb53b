/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of a vGPU's partition: the smallest template that holds the request, where it leaves most room.
 *
 * Owns: the choice, over a provider's lists.
 * Never: calls a provider.
 *
 * Thread rule: pure functions, callable from any thread.
 */
#ifndef FACETD_TEMPLATE_H
#define FACETD_TEMPLATE_H

#include <facet/provider.h>

/* A template and its placements. */
struct template_offer {
    struct facet_partition_template template;
    struct facet_partition_placement *placements;
    uint32_t placement_count;
};

struct template_wish {
    const char *id;        /* this template; NULL: any */
    uint64_t memory_bytes; /* the least; 0: any */
    uint32_t compute_milli;
};

/*
 * Chooses among `offers`: *ret_offer and the first slice. Errors name the argument at fault: FACET_NOT_FOUND
 * (template), FACET_OUT_OF_RANGE (the named template, or all of them, are too small), FACET_NO_SPACE (no suitable
 * template fits beside the existing partitions).
 */
enum facet_status template_choose(const struct template_offer *offers, uint32_t count, const struct template_wish *wish,
                                  const struct template_offer **ret_offer, uint32_t *ret_start,
                                  struct facet_error *error);

#endif
