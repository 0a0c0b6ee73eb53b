/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: opening leaves a descriptor without close-on-exec. Never: breaks anything else. */
#include <fcntl.h>

#include "base.h"

static enum facet_status open_badly(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    static atomic_int kept = -1;

    if (kept < 0)
        kept = open("/dev/null", O_RDONLY);
    return kept < 0 ? FACET_IO : base_device.open(ret_instance, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.open = open_badly;
}
