/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the calls under /v1/devices, and GET /v1/providers. Never: reports an unknown health as ok. */
#include <stdio.h>

#include "device/describe.h"
#include "device/json.h"
#include "endpoint.h"

/* Replaces the device's health at the daemon's start by its present one. */
static void set_health(const struct daemon *daemon, const struct facet_device_record *device, json_t *object)
{
    char reason[360];
    uint32_t health = sessions_health(daemon->sessions, device, reason, sizeof reason);

    json_object_set_new(object, "health", json_string(facet_health_name(health)));
    if (reason[0])
        json_object_set_new(object, "health_reason", json_string(reason));
}

enum facet_status endpoint_devices(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                   struct facet_error *error)
{
    json_t *answer = facet_device_table_json(daemon->devices), *object;
    size_t index;

    json_array_foreach (json_object_get(answer, "devices"), index, object)
        set_health(daemon, facet_device_table_at(daemon->devices, (uint32_t)index), object);
    return answer_json(200, answer, ret_answer, error);
}

/* The members by which a partition is recognized. */
static struct facet_partition_info identity_of(const json_t *part)
{
    struct facet_partition_info info = {.size = sizeof info};
    const char *uuid = json_string_value(json_object_get(part, "uuid"));
    const char *template = json_string_value(json_object_get(part, "template"));

    info.start = (uint32_t)json_integer_value(json_object_get(part, "start"));
    snprintf(info.uuid, sizeof info.uuid, "%s", uuid ? uuid : "");
    snprintf(info.template_id, sizeof info.template_id, "%s", template ? template : "");
    return info;
}

static void set_owners(const struct daemon *daemon, const struct facet_device_record *device, json_t *object)
{
    char name[FACET_NAME_SIZE];
    json_t *part;
    size_t index;

    json_array_foreach (json_object_get(object, "partitions"), index, part) {
        const struct facet_partition_info info = identity_of(part);
        if (registry_partition_owner(daemon->registry, device, &info, name))
            json_object_set_new(part, "vgpu", json_string(name));
    }
    json_array_foreach (json_object_get(object, "workers"), index, part) {
        struct vgpu_info info;
        if (registry_find(daemon->registry, json_string_value(json_object_get(part, "worker")), &info, NULL) ==
            FACET_OK)
            json_object_set_new(part, "vgpu", json_string(info.row.name));
    }
}

/* Values that only the open provider has are absent while it is lost; `health_reason` says why. */
enum facet_status endpoint_device(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                  struct facet_error *error)
{
    const struct facet_device_record *device;
    CLEANUP_USE struct provider_use use = {0};
    json_t *object;

    enum facet_status status = facet_device_table_find(daemon->devices, call->ref, &device, error);
    if (status != FACET_OK)
        return status;
    if (sessions_use(daemon->sessions, device, &use, NULL) == FACET_OK)
        object = facet_device_describe(device, use.provider, use.instance, use.device);
    else
        object = facet_device_json(device);
    if (object) {
        set_health(daemon, device, object);
        set_owners(daemon, device, object);
    }
    return answer_json(200, object, ret_answer, error);
}

enum facet_status endpoint_providers(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                     struct facet_error *error)
{
    return answer_json(200, facet_provider_table_json(daemon->devices), ret_answer, error);
}
