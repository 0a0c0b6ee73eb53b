/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: an operation prints to standard output. Never: breaks anything else. */
#include "base.h"

static enum facet_status health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                struct facet_error *error)
{
    printf("base: asked for the health of device %" PRIu32 "\n", device);
    return base_device.health(instance, device, ret_health, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.health = health;
}
