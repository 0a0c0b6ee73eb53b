/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: each opening leaves a thread behind. Never: breaks anything else. */
#include <unistd.h>

#include "base.h"

static void *wait_forever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static enum facet_status open_badly(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, wait_forever, NULL) != 0)
        return FACET_NO_MEMORY;
    pthread_detach(thread);
    return base_device.open(ret_instance, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.open = open_badly;
}
