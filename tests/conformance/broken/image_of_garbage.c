/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: garbage is loaded as an image. Never: breaks anything else. */
#include "base.h"

static enum facet_status load(struct facet_provider_instance *instance, uint64_t context, const void *image,
                              uint64_t bytes, uint64_t *ret_module, struct facet_error *error)
{
    enum facet_status status = base_execution.load(instance, context, image, bytes, ret_module, error);

    if (status != FACET_CORRUPT)
        return status;
    return base_execution.load(instance, context, BASE_IMAGE, strlen(BASE_IMAGE), ret_module, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.load = load;
}
