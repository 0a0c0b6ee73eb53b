/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: closing frees nothing. Never: breaks anything else. */
#include "base.h"

static void close_badly(struct facet_provider_instance *instance)
{
    if (instance)
        pthread_mutex_destroy(&instance->lock);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.close = close_badly;
}
