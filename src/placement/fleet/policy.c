/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the names of the policies. Never: implements a policy. */
#include <string.h>

#include <facet/placement.h>

static const char *const names[FACET_PLACEMENT_POLICIES] = {"random",      "first_fit",      "best_fit", "dot_product",
                                                            "gpu_packing", "gpu_clustering", "fgd",      "facet"};

const char *facet_placement_policy_name(uint32_t policy)
{
    return policy < FACET_PLACEMENT_POLICIES ? names[policy] : NULL;
}

static int is_same_name(const char *name, const char *typed)
{
    for (; *name && (*name == *typed || (*name == '_' && *typed == '-')); name++)
        typed++;
    return *name == *typed;
}

enum facet_status facet_placement_policy_find(const char *name, uint32_t *ret_policy, struct facet_error *error)
{
    if (!name)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "policy", "policy: expected a name");
    for (uint32_t i = 0; i < FACET_PLACEMENT_POLICIES; i++) {
        if (is_same_name(names[i], name)) {
            *ret_policy = i;
            return FACET_OK;
        }
    }
    return facet_error_argument(error, FACET_NOT_FOUND, "policy",
                                "policy: '%s' is not known, expected random, first_fit, best_fit, dot_product, "
                                "gpu_packing, gpu_clustering, fgd or facet",
                                name);
}
