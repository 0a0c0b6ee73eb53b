/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: an operation never returns. Never: breaks anything else. */
#include <unistd.h>

#include "base.h"

static enum facet_status health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                struct facet_error *error)
{
    while (pause() < 0) /* a signal ends pause(), which is then called again */
        continue;
    return FACET_OK;
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.health = health;
}
