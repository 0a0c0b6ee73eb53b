/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the description of a live provider's device. Never: reports an unknown health as ok. */
#include "node.h"

#include <stdio.h>

#include "device/describe.h"
#include "device/node.h"

static enum facet_status read_device(void *context, const struct facet_device_record *device,
                                     struct facet_node_look *look, struct facet_error *error)
{
    struct sessions *sessions = context;
    CLEANUP_USE struct provider_use use = {0};
    struct facet_error reason;

    if (device->info.capabilities & FACET_CAN_PARTITION) {
        if (sessions_use(sessions, device, &use, &reason) != FACET_OK) {
            look->health = FACET_HEALTH_FAILED;
            snprintf(look->reason, sizeof look->reason, "%s", reason.message);
            return FACET_OK;
        }
        look->full = facet_device_describe(device, use.provider, use.instance, use.device);
        if (!look->full)
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for device %s", device->id);
    }
    look->health = sessions_health(sessions, device, look->reason, sizeof look->reason);
    return FACET_OK;
}

enum facet_status node_describe(const struct facet_device_table *devices, struct sessions *sessions,
                                struct facet_spec **ret_spec, struct facet_error *error)
{
    const struct facet_node_config config = {.devices = devices, .look = read_device, .context = sessions};

    return facet_node_describe(&config, ret_spec, error);
}
