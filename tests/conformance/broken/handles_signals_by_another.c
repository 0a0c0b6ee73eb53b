/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: opening has another library handle a signal, as vendors' runtimes do. Never: breaks anything else. */
#include <signal.h>
#include <stdlib.h>

#include "base.h"

static enum facet_status open_badly(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    signal(SIGUSR2, _Exit);
    return base_device.open(ret_instance, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.open = open_badly;
}
