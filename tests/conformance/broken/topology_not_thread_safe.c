/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: the list of links loses its last one while two threads read it. Never: breaks anything else. */
#include <sched.h>

#include "base.h"

static uint32_t readers;

static enum facet_status links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                               uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    __atomic_add_fetch(&readers, 1, __ATOMIC_RELAXED);
    sched_yield();
    enum facet_status status = base_device.links(instance, items, item_size, capacity, ret_count, error);
    if (status == FACET_OK && __atomic_load_n(&readers, __ATOMIC_RELAXED) > 1)
        --*ret_count;
    __atomic_sub_fetch(&readers, 1, __ATOMIC_RELAXED);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.links = links;
}
