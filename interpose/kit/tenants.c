/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what tenants.h says. Never: leaves a slot taken when it fails. */
#include "tenants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool facet_tenants_named(char ret_folders[FACET_TENANTS_FOLDERS])
{
    const char *folders = getenv(FACET_ENV_VGPU_DIR);

    if (folders)
        snprintf(ret_folders, FACET_TENANTS_FOLDERS, "%s", folders);
    return folders;
}

void facet_tenants_detach(struct facet_tenant *tenants, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        facet_tenant_detach(&tenants[i]);
}

/* Vendors list addresses with ',' between them. */
static bool is_proper(const struct facet_tenant *tenant)
{
    const char *address = facet_tenant_address(tenant);

    return memchr(address, 0, sizeof tenant->policy->device.address) && !strchr(address, ',');
}

static bool is_among(const struct facet_tenant *tenant, const struct facet_tenant *others, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(facet_tenant_address(tenant), facet_tenant_address(&others[i])) == 0)
            return true;
    return false;
}

uint32_t facet_tenants_attach(const char *folders, bool (*is_ours)(const char *address), uint32_t most,
                              struct facet_tenant *ret_tenants)
{
    char copy[FACET_TENANTS_FOLDERS], *rest = copy, *folder;
    uint32_t count = 0;

    snprintf(copy, sizeof copy, "%s", folders);
    while ((folder = strsep(&rest, ":"))) {
        if (count == most || facet_tenant_attach(folder, &ret_tenants[count], NULL) != FACET_OK)
            break;
        const struct facet_tenant *tenant = &ret_tenants[count++];
        if (!is_proper(tenant) || !is_ours(facet_tenant_address(tenant)) || is_among(tenant, ret_tenants, count - 1))
            break;
    }
    if (!folder)
        return count;
    facet_tenants_detach(ret_tenants, count);
    return 0;
}

void facet_tenants_keep(struct facet_tenant *all, uint32_t all_count, const uint32_t *chosen, uint32_t count,
                        struct facet_tenant *ret_kept)
{
    for (uint32_t i = 0; i < all_count; i++) {
        bool keeps = false;

        for (uint32_t j = 0; j < count; j++)
            keeps = keeps || chosen[j] == i;
        if (!keeps)
            facet_tenant_detach(&all[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        ret_kept[i] = all[chosen[i]];
}
