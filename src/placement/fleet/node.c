/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the choice of devices of a node by their links. Never: finds out which devices are free: the caller
 * says which it allows. */
#include <inttypes.h>

#include "base/sized.h"
#include "placement/fleet/fleet.h"

struct choice {
    uint64_t links, rest; /* sums over pairs of the chosen devices; over pairs of the allowed devices that remain */
    uint32_t numa;        /* how many NUMA nodes the chosen devices have */
    uint32_t devices;
};

static uint64_t links_among(const struct facet_node_topology *topology, uint32_t devices)
{
    uint64_t sum = 0;

    for (uint32_t left = devices; left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left);

        for (uint32_t others = left & (left - 1); others; others &= others - 1)
            sum += topology->link[i][__builtin_ctz(others)];
    }
    return sum;
}

/* A device whose NUMA node is unknown counts as a node of its own. */
static uint32_t numa_nodes(const struct facet_node_topology *topology, uint32_t devices)
{
    uint32_t count = 0;

    for (uint32_t left = devices; left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left), j = 0;

        while (j < i && !((devices >> j & 1) && topology->numa[j] == topology->numa[i]))
            j++;
        count += j == i || topology->numa[i] == FACET_NODE_NO_NUMA;
    }
    return count;
}

static bool is_better_choice(const struct choice *a, const struct choice *b)
{
    if (a->links != b->links)
        return a->links > b->links;
    if (a->numa != b->numa)
        return a->numa < b->numa;
    return a->rest > b->rest; /* a tie keeps the earlier choice */
}

/* Returns the next larger number with as many set bits. */
static uint32_t next_set(uint32_t set)
{
    uint32_t low = set & -set, ripple = set + low;

    return ripple | ((set ^ ripple) / low >> 2);
}

static uint32_t devices_of_set(uint32_t set, const uint32_t *device)
{
    uint32_t devices = 0;

    for (; set; set &= set - 1)
        devices |= UINT32_C(1) << device[__builtin_ctz(set)];
    return devices;
}

/* Tries all sets of `count` devices: 12,870 at most, for 8 of 16. */
static uint32_t search_devices(const struct facet_node_topology *topology, uint32_t allowed, uint32_t count)
{
    uint32_t device[FACET_FLEET_GPUS], devices = 0;
    struct choice best = {0};

    for (uint32_t left = allowed; left; left &= left - 1)
        device[devices++] = (uint32_t)__builtin_ctz(left);
    for (uint32_t set = (UINT32_C(1) << count) - 1; set < UINT32_C(1) << devices; set = next_set(set)) {
        struct choice now = {.devices = devices_of_set(set, device)};

        now.links = links_among(topology, now.devices);
        now.numa = numa_nodes(topology, now.devices);
        now.rest = links_among(topology, allowed & ~now.devices);
        if (best.devices == 0 || is_better_choice(&now, &best))
            best = now;
    }
    return best.devices;
}

enum facet_status facet_node_choose(const struct facet_node_topology *topology, uint32_t allowed, uint32_t count,
                                    uint32_t *ret_devices, struct facet_error *error)
{
    uint32_t devices = topology ? topology->devices : FACET_FLEET_GPUS, chosen = 0;

    if (topology && (topology->size < sizeof *topology || devices > FACET_FLEET_GPUS))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "topology",
                                    "topology: expected a struct with its size and at most %u devices",
                                    FACET_FLEET_GPUS);
    FACET_NEED_KNOWN("topology", topology, error);
    if (count == 0 || allowed >> devices != 0)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, count ? "allowed" : "count",
                                    "allowed 0x%x, count %u: expected at least one of %u devices", allowed, count,
                                    devices);
    if ((uint32_t)__builtin_popcount(allowed) < count)
        return facet_error_argument(error, FACET_QUOTA, "count", "count: %u, but %d devices may be taken", count,
                                    __builtin_popcount(allowed));
    if (topology) {
        *ret_devices = search_devices(topology, allowed, count);
        return FACET_OK;
    }
    for (; count > 0; count--, allowed &= allowed - 1)
        chosen |= allowed & -allowed;
    *ret_devices = chosen;
    return FACET_OK;
}
