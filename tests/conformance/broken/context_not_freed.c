/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a context's memory stays in use after its end. Never: breaks anything else. */
#include "base.h"

static enum facet_status destroy_context(struct facet_provider_instance *instance, uint64_t context,
                                         struct facet_error *error)
{
    uint64_t other = 0;

    for (int i = 0; i < BASE_CONTEXTS; i++)
        if (instance->contexts[i].number && instance->contexts[i].number != context)
            other = instance->contexts[i].number;
    for (int i = 0; other && i < BASE_PAGES; i++) {
        if (instance->pages[i].context != context || !instance->pages[i].from_alloc)
            continue;
        instance->pages[i].context = other;
        instance->pages[i].maps++; /* as if another context still used them */
    }
    return base_memory.destroy_context(instance, context, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.destroy_context = destroy_context;
}
