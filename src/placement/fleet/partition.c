/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the choice of the slice at which a partition begins on its device. Never: makes a partition. */
#include "placement/fleet/fleet.h"

static uint64_t slices_at(const struct facet_partition_profile *profile, uint32_t start)
{
    uint64_t slices = profile->slices == FACET_PARTITION_SLICES ? UINT64_MAX : (UINT64_C(1) << profile->slices) - 1;

    return slices << start;
}

static bool starts_at(const struct facet_partition_profile *profile, uint32_t start, uint64_t used)
{
    return (profile->starts >> start & 1) && start + profile->slices <= FACET_PARTITION_SLICES &&
           (slices_at(profile, start) & used) == 0;
}

/* How many ways there are to place one more partition, over all profiles. */
static uint32_t count_ways(const struct facet_partition_profile *profiles, size_t count, uint64_t used)
{
    uint32_t found = 0;

    for (size_t i = 0; i < count; i++)
        for (uint32_t start = 0; start < FACET_PARTITION_SLICES; start++)
            found += starts_at(&profiles[i], start, used);
    return found;
}

static enum facet_status check_profiles(const struct facet_partition_profile *profiles, size_t count, size_t wanted,
                                        struct facet_error *error)
{
    if (!profiles || wanted >= count)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "wanted", "wanted: %zu, expected below %zu", wanted,
                                    count);
    for (size_t i = 0; i < count; i++)
        if (profiles[i].slices == 0 || profiles[i].slices > FACET_PARTITION_SLICES)
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "profiles",
                                        "profiles[%zu].slices: %u, expected 1 to %u", i, profiles[i].slices,
                                        FACET_PARTITION_SLICES);
    return FACET_OK;
}

enum facet_status facet_partition_place(const struct facet_partition_profile *profiles, size_t profile_count,
                                        size_t wanted, uint64_t used, uint32_t *ret_start, struct facet_error *error)
{
    enum facet_status status = check_profiles(profiles, profile_count, wanted, error);
    uint32_t best = 0, chosen = FACET_PARTITION_SLICES;

    if (status != FACET_OK)
        return status;
    for (uint32_t start = 0; start < FACET_PARTITION_SLICES; start++) {
        if (!starts_at(&profiles[wanted], start, used))
            continue;
        uint32_t left = count_ways(profiles, profile_count, used | slices_at(&profiles[wanted], start));

        if (chosen == FACET_PARTITION_SLICES || left >= best) {
            best = left;
            chosen = start;
        }
    }
    if (chosen == FACET_PARTITION_SLICES)
        return facet_error_argument(error, FACET_QUOTA, "wanted", "wanted: no start is free for %u slices",
                                    profiles[wanted].slices);
    *ret_start = chosen;
    return FACET_OK;
}
