/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vGPUs of a process, each a tenant's side of a segment.
 *
 * Owns: reading their folders from the environment, attaching to all of them or to none, keeping some.
 * Never: knows a vendor, or the vendor's name for a device; keeps state.
 */
#ifndef FACET_INTERPOSE_TENANTS_H
#define FACET_INTERPOSE_TENANTS_H

#include "limiter/tenant.h"

#define FACET_TENANTS_FOLDERS ((size_t)16 * 1024)

/*
 * FACET_VGPU_DIR: a folder, or several with ':' between them. A list that is too long is cut, and then fails to attach,
 * as with any wrong folder. False: this process is in no vGPU.
 */
bool facet_tenants_read_folders(char ret_folders[FACET_TENANTS_FOLDERS]);

static inline const char *facet_tenant_address(const struct facet_tenant *tenant)
{
    return tenant->policy->device.address;
}

/*
 * Attaches to every folder, at most `most`. Returns the number, or 0 when one of them cannot be used, for example
 * because its device is another vendor's, has no proper address, or is named twice.
 */
uint32_t facet_tenants_attach(const char *folders, bool (*is_ours)(const char *address), uint32_t most,
                              struct facet_tenant *ret_tenants);

/* Keeps the tenants whose indices are in `chosen`, in that order, and releases the slots of the others. */
void facet_tenants_keep(struct facet_tenant *all, uint32_t all_count, const uint32_t *chosen, uint32_t count,
                        struct facet_tenant *ret_kept);

void facet_tenants_detach(struct facet_tenant *tenants, uint32_t count);

#endif
