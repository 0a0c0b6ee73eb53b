/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: an operation ends the program. Never: breaks anything else. */
#include <stdlib.h>

#include "base.h"

static enum facet_status health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                struct facet_error *error)
{
    exit(3);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.health = health;
}
