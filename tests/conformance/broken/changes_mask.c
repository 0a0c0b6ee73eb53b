/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: opening changes the file mask of the whole program. Never: breaks anything else. */
#include <sys/stat.h>

#include "base.h"

static enum facet_status open_badly(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    umask(0);
    return base_device.open(ret_instance, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.open = open_badly;
}
