/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: GET /v1/events. Never: waits for an event. */
#include <stdlib.h>

#include "base/integer.h"
#include "endpoint.h"

static json_t *event_json(const struct daemon_event *daemon_event)
{
    const struct facet_event *event = &daemon_event->event;
    json_t *object = json_object();

    json_object_set_new(object, "sequence", json_integer(facet_integer(daemon_event->sequence)));
    json_object_set_new(object, "timestamp_ns", json_integer(facet_integer(event->timestamp_ns)));
    json_object_set_new(object, "kind", json_string(event_kind_name(event->kind)));
    json_object_set_new(object, "value", json_integer(facet_integer(event->value)));
    if (daemon_event->device_id[0])
        json_object_set_new(object, "device", json_string(daemon_event->device_id));
    if (event->uuid[0])
        json_object_set_new(object, "uuid", json_string(event->uuid));
    if (event->kind == FACET_EVENT_LINK)
        json_object_set_new(object, "link", json_integer((json_int_t)event->link));
    if (event->message[0])
        json_object_set_new(object, "message", json_string(event->message));
    return object;
}

enum facet_status endpoint_events(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                  struct facet_error *error)
{
    struct daemon_event *list = calloc(EVENTS_KEPT, sizeof *list);
    uint64_t last = 0;

    if (!list)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the events");
    sessions_watch(daemon->sessions);
    uint32_t count = events_read(daemon->events, call->after, list, &last);
    json_t *events = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(events, event_json(&list[i]));
    free(list);
    return answer_json(200, json_pack("{s:o, s:I}", "events", events, "last", (json_int_t)last), ret_answer, error);
}
