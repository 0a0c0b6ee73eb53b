/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the calls under /v1/vgpus, and the JSON form of a vGPU. Never: writes 0 for a value that was not measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "base/integer.h"
#include "limiter/refused.h"

static void set_text(json_t *object, const char *member, const char *text)
{
    json_object_set_new(object, member, json_string(text));
}

static void set_integer(json_t *object, const char *member, uint64_t integer)
{
    json_object_set_new(object, member, json_integer(facet_integer(integer)));
}

static json_t *labels_json(const char *lines)
{
    json_t *object = json_object();
    struct facet_label_line label;

    for (size_t at = 0; facet_label_next(lines, &at, &label);)
        json_object_setn_new(object, label.key, label.key_length, json_stringn(label.value, label.value_length));
    return object;
}

static void set_row(json_t *object, const struct vgpu_row *row)
{
    set_text(object, "id", row->id);
    set_text(object, "name", row->name);
    set_text(object, "device", row->device_id);
    set_text(object, "device_name", row->device_name);
    set_text(object, "mode", facet_mode_name((enum facet_mode)row->limits.mode));
    set_text(object, "priority", facet_priority_name((enum facet_priority)row->limits.priority));
    json_object_set_new(object, "ephemeral", json_boolean(row->ephemeral));
    if (row->limits.memory_bytes != MEMORY_UNDECIDED)
        set_integer(object, "memory_limit_bytes", row->limits.memory_bytes);
    set_integer(object, "compute_request_milli", row->limits.compute_request_milli);
    set_integer(object, "compute_limit_milli", row->limits.compute_limit_milli);
    set_integer(object, "idle_freeze_s", row->idle_freeze_s);
    json_object_set_new(object, "oversubscribe", json_boolean(row->oversubscribe));
    if (row->reservation[0])
        set_text(object, "reservation", row->reservation);
    set_integer(object, "owner_uid", row->owner_uid);
    json_object_set_new(object, "labels", labels_json(row->labels));
    set_integer(object, "created_ns", row->created_ns);
}

/* Sets the provider's part, in the modes hard and partitioned. */
static void set_slice(json_t *object, const struct vgpu_row *row)
{
    const struct vgpu_slice *slice = &row->slice;

    if (slice->template_id[0])
        set_text(object, "template", slice->template_id);
    if (slice->partition_uuid[0]) {
        set_text(object, "partition", slice->partition_uuid);
        set_integer(object, "partition_start", slice->start);
    }
    if (slice->address[0])
        set_text(object, "address", slice->address);
    if (slice->memory_bytes)
        set_integer(object, "granted_memory_bytes", slice->memory_bytes);
    if (slice->compute_milli)
        set_integer(object, "granted_compute_milli", slice->compute_milli);
    if (slice->compute_units)
        set_integer(object, "granted_compute_units", slice->compute_units);
}

/* The lines "NAME=value" as a JSON object. */
static json_t *environment_json(const struct vgpu_environment *environment)
{
    json_t *object = json_object();

    for (const char *line = environment->lines; *line; line += strcspn(line, "\n") + 1) {
        const char *equals = strchr(line, '=');
        size_t length = strcspn(line, "\n");
        char name[sizeof environment->lines];

        snprintf(name, sizeof name, "%.*s", (int)(equals - line), line);
        json_object_set_new(object, name, json_stringn(equals + 1, length - (size_t)(equals - line) - 1));
    }
    return object;
}

static void set_believed(json_t *object, const struct scheduler_view *view, uint32_t bit, const char *member,
                         uint64_t integer)
{
    if (view->believed & bit)
        set_integer(object, member, integer);
}

static void set_view(json_t *object, const struct scheduler_view *view)
{
    const struct facet_usage_totals *totals = &view->totals;

    set_believed(object, view, FACET_BELIEVED_MEMORY, "memory_used_bytes", totals->memory_bytes);
    set_believed(object, view, FACET_BELIEVED_PEAK, "memory_peak_bytes", totals->memory_peak_bytes);
    if (view->share_valid)
        set_believed(object, view, FACET_BELIEVED_BUSY, "share_milli", view->share_milli);
    set_believed(object, view, FACET_BELIEVED_BUSY, "device_time_ns", view->device_time_ns);
    set_believed(object, view, FACET_BELIEVED_LAUNCHES, "launches", totals->launches);
    set_believed(object, view, FACET_BELIEVED_THROTTLED, "throttled_ns", totals->throttled_ns);
    set_believed(object, view, FACET_BELIEVED_DENIED, "denied_allocations", totals->denied);
    if (view->believed)
        set_integer(object, "processes", totals->processes);
    json_object_set_new(object, "idle_frozen", json_boolean(view->idle_frozen));
    json_object_set_new(object, "memory_stuck", json_boolean(view->stuck));
}

/* Sets the driver's count, if there is one, and warns of an excess, if there is no other warning. */
static void set_audit(json_t *object, const struct daemon *daemon, const struct vgpu_info *info)
{
    char driver[16], charged[16], warning[256];
    struct audit_result result;

    if (!audit_of(daemon->audit, info->row.id, &result))
        return;
    set_integer(object, "driver_memory_bytes", result.driver_bytes);
    if (!result.excess || info->warning[0])
        return;
    snprintf(warning, sizeof warning,
             "the driver counts %s of its processes, and %s are charged: a program goes past the limits",
             facet_format_size(result.driver_bytes, driver, sizeof driver),
             facet_format_size(info->view.totals.memory_bytes, charged, sizeof charged));
    set_text(object, "warning", warning);
}

/* Sets the count of processes that could not enter. Each saw no device, and wrote the reason to its standard error. */
static void set_refused(json_t *object, const struct vgpu_info *info)
{
    char reason[FACET_REFUSED_REASON_SIZE], warning[FACET_REFUSED_REASON_SIZE + 128];
    uint32_t count = 0;
    bool has_count = facet_refused_read(info->segment, &count, reason),
         has_warning = json_object_get(object, "warning");

    if (has_count)
        set_integer(object, "refused_processes", count);
    else if (!has_warning)
        set_text(object, "warning", "the file that counts processes that could not enter it was damaged from outside");
    if (!count || has_warning)
        return;
    snprintf(warning, sizeof warning, "%u process%s could not enter it and saw no device; the last because: %s", count,
             count == 1 ? "" : "es", reason);
    set_text(object, "warning", warning);
}

static json_t *vgpu_json(const struct daemon *daemon, const struct vgpu_info *info)
{
    json_t *object = json_object();

    set_row(object, &info->row);
    set_slice(object, &info->row);
    json_object_set_new(object, "simulated", json_boolean(info->simulated));
    json_object_set_new(object, "environment", environment_json(&info->environment));
    set_text(object, "state", vgpu_state_name(info->state));
    set_text(object, "segment", info->segment);
    if (info->measured)
        set_view(object, &info->view);
    if (info->warning[0])
        set_text(object, "warning", info->warning);
    set_audit(object, daemon, info);
    if (info->measured)
        set_refused(object, info);
    return object;
}

static enum facet_status answer_vgpu(const struct daemon *daemon, unsigned http, const struct vgpu_info *info,
                                     struct answer *ret_answer, struct facet_error *error)
{
    return answer_json(http, vgpu_json(daemon, info), ret_answer, error);
}

enum facet_status endpoint_vgpu_list(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                     struct facet_error *error)
{
    struct vgpu_info *infos = NULL;
    size_t count = 0;

    enum facet_status status = registry_list(daemon->registry, &infos, &count, error);
    if (status != FACET_OK)
        return status;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, vgpu_json(daemon, &infos[i]));
    free(infos);
    return answer_json(200, json_pack("{s:o}", "vgpus", list), ret_answer, error);
}

enum facet_status endpoint_vgpu_create(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                       struct facet_error *error)
{
    struct request request;
    struct vgpu_info info;

    enum facet_status status = request_parse(call->body, call->body_size, REQUEST_ALL, &request, error);
    request.owner_uid = call->uid;
    if (status == FACET_OK)
        status = registry_create(daemon->registry, &request, &info, error);
    return status == FACET_OK ? answer_vgpu(daemon, 201, &info, ret_answer, error) : status;
}

enum facet_status endpoint_vgpu_show(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                     struct facet_error *error)
{
    struct vgpu_info info;

    enum facet_status status = registry_find(daemon->registry, call->ref, &info, error);
    return status == FACET_OK ? answer_vgpu(daemon, 200, &info, ret_answer, error) : status;
}

enum facet_status endpoint_vgpu_change(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                       struct facet_error *error)
{
    struct request request;
    struct vgpu_info info;

    enum facet_status status = request_parse(call->body, call->body_size, REQUEST_CHANGE, &request, error);
    if (status == FACET_OK)
        status = registry_change(daemon->registry, call->ref, &request, &info, error);
    return status == FACET_OK ? answer_vgpu(daemon, 200, &info, ret_answer, error) : status;
}

enum facet_status endpoint_vgpu_destroy(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                        struct facet_error *error)
{
    struct vgpu_removal removal;

    enum facet_status status = registry_destroy(daemon->registry, call->ref, call->force, &removal, error);
    if (status != FACET_OK)
        return status;
    json_t *object = json_object();
    if (removal.warning[0])
        set_text(object, "warning", removal.warning);
    return answer_json(200, object, ret_answer, error);
}

static enum facet_status set_frozen(const struct daemon *daemon, const struct call *call, bool frozen,
                                    struct answer *ret_answer, struct facet_error *error)
{
    struct request nothing;
    struct vgpu_info info;
    enum facet_status status = FACET_OK;

    if (call->body_size)
        status = request_parse(call->body, call->body_size, 0, &nothing, error);
    if (status == FACET_OK)
        status = registry_set_frozen(daemon->registry, call->ref, frozen, &info, error);
    return status == FACET_OK ? answer_vgpu(daemon, 200, &info, ret_answer, error) : status;
}

enum facet_status endpoint_vgpu_freeze(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                       struct facet_error *error)
{
    return set_frozen(daemon, call, true, ret_answer, error);
}

enum facet_status endpoint_vgpu_resume(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                       struct facet_error *error)
{
    return set_frozen(daemon, call, false, ret_answer, error);
}
