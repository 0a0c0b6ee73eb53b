/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: short functions that make nodes, requests and fleets for tests. Never: checks the subject of a test. */
#ifndef TEST_PLACEMENT_FIXTURES_H
#define TEST_PLACEMENT_FIXTURES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "placement/fleet/fleet.h"

#define GIB (UINT64_C(1) << 30)

static inline struct facet_fleet_node node_of(uint64_t cores, uint32_t gpus, const char *model)
{
    return (struct facet_fleet_node){.size = sizeof(struct facet_fleet_node),
                                     .gpus = gpus,
                                     .model = model,
                                     .cpu_milli = cores * 1000,
                                     .memory_bytes = 256 * GIB};
}

static inline struct facet_fleet_request request_of(uint64_t cores, uint32_t num, uint32_t milli, const char *spec)
{
    return (struct facet_fleet_request){.size = sizeof(struct facet_fleet_request),
                                        .num_gpu = num,
                                        .gpu_milli = milli,
                                        .cpu_milli = cores * 1000,
                                        .memory_bytes = GIB,
                                        .gpu_spec = spec};
}

static inline struct facet_fleet *fleet_of(uint32_t policy, const struct facet_fleet_node *nodes, size_t node_count,
                                           const struct facet_fleet_request *mix, size_t mix_count)
{
    struct facet_fleet_config config = {.size = sizeof config,
                                        .policy = policy,
                                        .seed = 7,
                                        .nodes = nodes,
                                        .node_count = node_count,
                                        .mix = mix,
                                        .mix_count = mix_count};
    struct facet_fleet *fleet = NULL;

    assert_int_equal(facet_fleet_create(&config, &fleet, NULL), FACET_OK);
    return fleet;
}

static inline uint32_t shape_of(struct facet_fleet *fleet, struct facet_fleet_request request)
{
    uint32_t shape = UINT32_MAX;

    assert_int_equal(facet_fleet_shape(fleet, &request, &shape, NULL), FACET_OK);
    return shape;
}

/* Decides where the request goes, commits it, and returns the placement. Its `gpus` is a mask, with a bit for each GPU.
 */
static inline struct facet_fleet_placement place_request(struct facet_fleet *fleet, struct facet_fleet_request request,
                                                         uint64_t *ret_allocation)
{
    struct facet_fleet_placement at = {0};
    uint64_t allocation = 0;
    uint32_t shape = shape_of(fleet, request);

    assert_int_equal(facet_fleet_decide(fleet, shape, &at, NULL), FACET_OK);
    assert_int_equal(facet_fleet_commit(fleet, shape, &at, &allocation, NULL), FACET_OK);
    assert_true(allocation != 0);
    if (ret_allocation)
        *ret_allocation = allocation;
    return at;
}

static inline uint64_t used_of(const struct facet_fleet *fleet)
{
    struct facet_fleet_usage usage;

    facet_fleet_get_usage(fleet, &usage);
    return usage.gpu_milli_used;
}

#endif
