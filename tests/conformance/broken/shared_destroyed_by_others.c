/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a context can destroy shared pages that another one made. Never: breaks anything else. */
#include "base.h"

static enum facet_status destroy_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                                       struct facet_error *error)
{
    uint64_t owner = context;

    {
        BASE_LOCK(instance);
        const struct base_pages *pages = base_find_pages(instance, context, number);
        if (pages)
            owner = pages->context;
    }
    return base_memory.destroy_pages(instance, owner, number, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.destroy_pages = destroy_pages;
}
