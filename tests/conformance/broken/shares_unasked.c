/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: pages are shared without a request. Never: breaks anything else. */
#include "base.h"

static enum facet_status create_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                                      uint64_t *ret_pages, struct facet_error *error)
{
    enum facet_status status = base_memory.create_pages(instance, context, bytes, ret_pages, error);

    return status == FACET_OK ? base_memory.share_pages(instance, context, *ret_pages, error) : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.create_pages = create_pages;
}
