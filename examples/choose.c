/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what choose.h says. Never: more. */
#include "choose.h"

#include <stdio.h>

#include <facet/device.h>

#define NEEDED (FACET_CAN_MEMORY | FACET_CAN_MAP_MEMORY | FACET_CAN_SHARE_PAGES | FACET_CAN_EXECUTE | FACET_CAN_MATH)

bool choose_device_with_math(char *ret_id, size_t size)
{
    struct facet_device_list *list = NULL;
    bool found = false;

    if (facet_device_list_open(NULL, &list, NULL) != FACET_OK)
        return false;
    for (uint32_t i = 0; i < facet_device_list_count(list) && !found; i++) {
        found = (facet_device_list_info(list, i)->capabilities & NEEDED) == NEEDED &&
                facet_device_list_health(list, i) != FACET_HEALTH_FAILED;
        snprintf(ret_id, size, "%s", facet_device_list_id(list, i));
    }
    facet_device_list_close(list);
    return found;
}
