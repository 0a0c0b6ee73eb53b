/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing facet_node_list_parse(): facet_fleet_create() takes the nodes of an accepted list, unless they have too
 * many models. */
#include <facet/placement.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_fleet_config config = {.size = sizeof config, .policy = FACET_PLACEMENT_FACET};
    struct facet_node_list *list = NULL;
    struct facet_fleet *fleet = NULL;
    struct facet_error error = {0};

    if (facet_node_list_parse((const char *)data, size, "list", &list, &error) != FACET_OK) {
        FUZZ_ASSERT(!list && error.status == FACET_INVALID_ARGUMENT);
        FUZZ_ASSERT(strncmp(error.message, "list", 4) == 0 && strstr(error.message, "expected"));
        return 0;
    }
    config.nodes = facet_node_list_items(list, &config.node_count);
    FUZZ_ASSERT(config.node_count > 0);
    if (facet_fleet_create(&config, &fleet, &error) != FACET_OK)
        FUZZ_ASSERT(error.status == FACET_OUT_OF_RANGE); /* too many models */
    facet_fleet_destroy(fleet);
    facet_node_list_free(list);
    return 0;
}
