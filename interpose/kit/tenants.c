/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: attaching to several segments. Never: leaves a slot taken when it fails. */
#include "tenants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"
#include "limiter/given.h"

bool facet_tenants_read_folders(char ret_folders[FACET_TENANTS_FOLDERS])
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

/* Vendors' variables separate addresses by ','. */
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

/* Attaches to one more segment; `error` has the reason for a failure. */
static bool attach_next(const char *folder, bool (*is_ours)(const char *address), uint32_t most,
                        struct facet_tenant *tenants, uint32_t *count, struct facet_error *error)
{
    if (*count == most) {
        facet_error_set(error, FACET_OUT_OF_RANGE, "%s names more than %u virtual GPUs", FACET_ENV_VGPU_DIR, most);
        return false;
    }
    if (facet_tenant_attach(folder, &tenants[*count], error) != FACET_OK)
        return false;
    const struct facet_tenant *tenant = &tenants[(*count)++];
    const char *expected = NULL;

    if (!is_proper(tenant))
        expected = "a device with an address that has no ','";
    else if (!is_ours(facet_tenant_address(tenant)))
        expected = "a device of this vendor";
    else if (is_among(tenant, tenants, *count - 1))
        expected = "each device once in " FACET_ENV_VGPU_DIR;
    if (expected)
        facet_error_set(error, FACET_UNSUPPORTED, "vGPU segment %s is of device '%.64s': expected %s", folder,
                        tenant->policy->device.id, expected);
    return !expected;
}

uint32_t facet_tenants_attach(const char *folders, bool (*is_ours)(const char *address), uint32_t most,
                              struct facet_tenant *ret_tenants)
{
    char copy[FACET_TENANTS_FOLDERS], *rest = copy, *folder;
    struct facet_error error;
    uint32_t count = 0;

    snprintf(copy, sizeof copy, "%s", folders);
    if (facet_given_check(folders, &error) != FACET_OK) {
        facet_entry_refused(strsep(&rest, ":"), &error);
        return 0;
    }
    while ((folder = strsep(&rest, ":")) && attach_next(folder, is_ours, most, ret_tenants, &count, &error))
        ;
    if (!folder)
        return count;
    facet_tenants_detach(ret_tenants, count);
    facet_entry_refused(folder, &error);
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
