/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: opening sets a variable. Never: breaks anything else. */
#include <stdlib.h>

#include "base.h"

static enum facet_status open_badly(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    setenv("BASE_IS_OPEN", "1", 1);
    return base_device.open(ret_instance, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.open = open_badly;
}
