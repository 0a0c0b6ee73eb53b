/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: opening installs a signal handler. Never: breaks anything else. */
#include <signal.h>

#include "base.h"

static void ignore(int number)
{
}

static enum facet_status open_badly(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    signal(SIGUSR1, ignore);
    return base_device.open(ret_instance, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.open = open_badly;
}
