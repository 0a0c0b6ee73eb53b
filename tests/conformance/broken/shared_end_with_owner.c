/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: shared pages are cleared when the context that made them ends. Never: breaks anything else. */
#include "base.h"

static enum facet_status destroy_context(struct facet_provider_instance *instance, uint64_t context,
                                         struct facet_error *error)
{
    {
        BASE_LOCK(instance);
        for (int i = 0; i < BASE_PAGES; i++)
            if (instance->pages[i].shared && instance->pages[i].context == context)
                memset(instance->pages[i].data, 0, instance->pages[i].bytes);
    }
    return base_memory.destroy_context(instance, context, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.destroy_context = destroy_context;
}
