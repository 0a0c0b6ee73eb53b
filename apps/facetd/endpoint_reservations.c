/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the calls under /v1/reservations, and the JSON form of a reservation. Never: decides a grant. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/allocation.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "endpoint.h"
#include "request_reservation.h"
#include "workload.h"

static void set_text(json_t *object, const char *member, const char *text)
{
    json_object_set_new(object, member, json_string(text));
}

static json_t *amount_json(int64_t amount)
{
    char text[FACET_AMOUNT_SIZE];

    return json_string(facet_amount_format(amount, text, sizeof text));
}

/* --- known health ------------------------------------------------------------------------------------------------- */

/* Sets the part's `trouble` if its device failed since the registry read it. Waits for no provider. */
static void note_health(const struct daemon *daemon, struct reservation_part *part)
{
    const struct facet_device_record *device;
    char reason[360] = "";

    if (part->trouble[0] || facet_device_table_find(daemon->devices, part->facet_id, &device, NULL) != FACET_OK ||
        sessions_health(daemon->sessions, device, reason, sizeof reason) != FACET_HEALTH_FAILED)
        return;
    snprintf(part->trouble, sizeof part->trouble, "device %.40s is not available%s%.90s", part->facet_id,
             reason[0] ? ": " : "", reason);
    facet_text_make_line(part->trouble);
}

static void note_healths(const struct daemon *daemon, struct reservation *reservation)
{
    for (uint32_t i = 0; i < reservation->part_count; i++)
        note_health(daemon, &reservation->parts[i]);
}

/* --- the reservation ---------------------------------------------------------------------------------------------- */

static json_t *grants_json(const struct reservation *reservation)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < reservation->part_count; i++) {
        const struct reservation_part *part = &reservation->parts[i];
        json_t *object = json_object();

        set_text(object, "slot", part->slot);
        set_text(object, "device", part->facet_id);
        set_text(object, "device_id", part->device);
        json_object_set_new(object, "amount", amount_json(part->amount));
        if (part->trouble[0])
            set_text(object, "trouble", part->trouble);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *reservation_json(const struct reservation *reservation)
{
    json_t *object = json_object(), *slots = json_object();

    for (uint32_t i = 0; i < reservation->item_count; i++)
        json_object_set_new(slots, reservation->items[i].slot, amount_json(reservation->items[i].amount));
    if (reservation->id[0])
        set_text(object, "id", reservation->id);
    set_text(object, "name", reservation->name);
    set_text(object, "state",
             !reservation->id[0]                    ? "planned"
             : reservation_is_impaired(reservation) ? "impaired"
                                                    : "held");
    set_text(object, "strategy", facet_map_strategy_name(reservation->strategy));
    set_text(object, "affinity", affinity_name(reservation->affinity));
    if (reservation->created_ns)
        json_object_set_new(object, "created_ns", json_integer((json_int_t)reservation->created_ns));
    json_object_set_new(object, "slots", slots);
    json_object_set_new(object, "grants", grants_json(reservation));
    return object;
}

/* Sets the names of the vGPUs in the reservation. *ret_last is the last of them, if there is any. */
static enum facet_status set_vgpus(const struct daemon *daemon, const struct reservation *reservation, json_t *object,
                                   struct vgpu_info *ret_last, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct vgpu_info *infos = NULL;
    size_t count = 0;
    json_t *names = json_array();
    enum facet_status status = registry_list(daemon->registry, &infos, &count, error);

    for (size_t i = 0; status == FACET_OK && i < count; i++)
        if (reservation->id[0] && strcmp(infos[i].row.reservation, reservation->id) == 0) {
            json_array_append_new(names, json_string(infos[i].row.name));
            *ret_last = infos[i];
        }
    json_object_set_new(object, "vgpus", names);
    return status;
}

/* --- configuration of the workload -------------------------------------------------------------------------------- */

static enum facet_status find_form(const char *name, uint32_t *ret_form, struct facet_error *error)
{
    for (uint32_t form = 0; name && facet_render_name(form); form++)
        if (strcmp(facet_render_name(form), name) == 0 ||
            (form == FACET_RENDER_ENVIRONMENT && strcmp(name, "environment") == 0)) {
            *ret_form = form;
            return FACET_OK;
        }
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "render",
                                "render '%.32s': expected docker, oci, cdi or environment", name);
}

static json_t *left_json(const struct facet_violations *left)
{
    struct facet_violation violation = {.size = sizeof violation};
    json_t *array = json_array();

    for (uint32_t i = 0; facet_violations_get(left, i, &violation, NULL) == FACET_OK; i++)
        json_array_append_new(array,
                              json_pack("{s:s, s:s}", "pointer", violation.pointer, "message", violation.message));
    return array;
}

/* Whether an object is empty, or all its members are: {}, {"env": []}. */
static bool is_empty(const json_t *value)
{
    const char *name;
    json_t *member;

    if (!json_is_object(value))
        return json_is_array(value) && json_array_size(value) == 0;
    json_object_foreach ((json_t *)(uintptr_t)value, name, member)
        if (!is_empty(member))
            return false;
    return true;
}

/*
 * The name of the CDI device: two documents with one name would make both unusable. A name of CDI ends with a letter or
 * digit; a planned reservation has no id, and keeps the default.
 */
static struct facet_render_options cdi_name(const struct reservation *reservation, const struct vgpu_info *vgpu)
{
    const char *name = vgpu ? vgpu->row.name : reservation->name, *id = vgpu ? vgpu->row.id : reservation->id;
    bool is_proper = name[0] && isalnum((unsigned char)name[strlen(name) - 1]);

    return (struct facet_render_options){.size = sizeof(struct facet_render_options),
                                         .cdi_kind = vgpu ? "facet.dev/vgpu" : "facet.dev/workload",
                                         .cdi_device = is_proper ? name
                                                       : id[0]   ? id
                                                                 : NULL};
}

/* Sets the rendered configuration. Refuses an empty one, which would look as if it had an effect. */
static enum facet_status set_rendered(const struct facet_workload *workload, uint32_t form,
                                      const struct facet_render_options *options, const char *warning, json_t *object,
                                      struct facet_error *error)
{
    FACET_CLEANUP_FREE char *text = NULL;
    struct facet_violations *left = NULL;
    enum facet_status status = facet_workload_render(workload, form, options, &text, &left, error);

    if (status != FACET_OK)
        return status;
    json_t *configuration = json_loads(text, 0, NULL), *rest = left_json(left);
    facet_violations_destroy(left);
    if (is_empty(configuration) && json_array_size(rest) == 0) {
        json_decref(configuration);
        json_decref(rest);
        return facet_error_set(error, FACET_UNSUPPORTED, "there is nothing to render: %s",
                               warning[0] ? warning : "a workload needs no settings to use this reservation");
    }
    json_object_set_new(
        object, "rendered",
        json_pack("{s:s, s:o, s:o}", "form", facet_render_name(form), "configuration", configuration, "left", rest));
    return FACET_OK;
}

/* Enters the reservation's only vGPU. With several, warns: a process is in one, which the user must choose. */
static void enter_reservation(const json_t *object, const struct reservation *reservation, const struct vgpu_info *vgpu,
                              struct facet_workload *workload, char *warning, size_t size)
{
    size_t count = json_array_size(json_object_get(object, "vgpus")), used = strlen(warning);
    struct facet_error reason;

    if (count > 1)
        snprintf(warning + used, size - used,
                 "%s%zu vGPUs are in the reservation, and a process can enter one: the configuration enters none",
                 used ? "; " : "", count);
    else if (count == 1 && workload_enter(workload, vgpu, reservation->part_count == 1, &reason) != FACET_OK)
        snprintf(warning + used, size - used, "%svGPU %s: %.200s", used ? "; " : "", vgpu->row.name, reason.message);
}

static enum facet_status set_workload(const struct daemon *daemon, const struct reservation *reservation,
                                      const struct vgpu_info *vgpu, const uint32_t *form, json_t *object,
                                      struct facet_error *error)
{
    CLEANUP_WORKLOAD struct facet_workload *workload = NULL;
    FACET_CLEANUP_FREE char *text = NULL;
    char warning[512];
    enum facet_status status =
        workload_describe(daemon->devices, daemon->sessions, reservation, &workload, warning, sizeof warning, error);

    if (status == FACET_OK)
        enter_reservation(object, reservation, vgpu, workload, warning, sizeof warning);
    if (status == FACET_OK)
        status = facet_workload_write(workload, &text, error);
    if (status != FACET_OK)
        return status;
    json_object_set_new(object, "workload", json_loads(text, 0, NULL));
    facet_text_make_line(warning); /* the text may have been cut within a character */
    if (warning[0])
        set_text(object, "warning", warning);
    if (!form)
        return FACET_OK;
    const bool enters_one = json_array_size(json_object_get(object, "vgpus")) == 1;
    const struct facet_render_options options = cdi_name(reservation, enters_one ? vgpu : NULL);
    return set_rendered(workload, *form, &options, warning, object, error);
}

/*
 * Makes the full answer. The grant holds even when its configuration cannot be made now: that becomes a warning, and
 * the client can ask for the configuration again.
 */
static enum facet_status answer_reservation(const struct daemon *daemon, const struct reservation *reservation,
                                            unsigned http, const uint32_t *form, struct answer *ret_answer,
                                            struct facet_error *error)
{
    json_t *object = reservation_json(reservation);
    struct facet_error reason = {0};
    FACET_CLEANUP_FREE struct vgpu_info *vgpu = calloc(1, sizeof *vgpu);
    enum facet_status status = vgpu ? set_vgpus(daemon, reservation, object, vgpu, error)
                                    : facet_error_set(error, FACET_NO_MEMORY, "no memory for the answer");

    if (status != FACET_OK) {
        json_decref(object);
        return status;
    }
    if (set_workload(daemon, reservation, vgpu, form, object, &reason) != FACET_OK)
        set_text(object, "warning", reason.message);
    return answer_json(http, object, ret_answer, error);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

enum facet_status endpoint_reservation_list(const struct daemon *daemon, const struct call *call,
                                            struct answer *ret_answer, struct facet_error *error)
{
    CLEANUP_RESERVATIONS struct reservation_list list = {0};
    enum facet_status status = registry_reservation_list(daemon->registry, &list, error);

    if (status != FACET_OK)
        return status;
    json_t *array = json_array();
    for (size_t i = 0; i < list.count; i++) {
        note_healths(daemon, &list.items[i]);
        json_array_append_new(array, reservation_json(&list.items[i]));
    }
    return answer_json(200, json_pack("{s:o}", "reservations", array), ret_answer, error);
}

enum facet_status endpoint_reservation_create(const struct daemon *daemon, const struct call *call,
                                              struct answer *ret_answer, struct facet_error *error)
{
    CLEANUP_RESERVATION struct reservation wanted = {0};
    CLEANUP_RESERVATION struct reservation reservation = {0};
    bool dry_run = false;
    uint32_t form = 0;
    enum facet_status status = call->render ? find_form(call->render, &form, error) : FACET_OK;

    if (status == FACET_OK)
        status = request_parse_reservation(call->body, call->body_size, &wanted, &dry_run, error);
    if (status == FACET_OK)
        status = registry_reservation_create(daemon->registry, &wanted, dry_run, &reservation, error);
    return status == FACET_OK ? answer_reservation(daemon, &reservation, dry_run ? 200 : 201,
                                                   call->render ? &form : NULL, ret_answer, error)
                              : status;
}

enum facet_status endpoint_reservation_show(const struct daemon *daemon, const struct call *call,
                                            struct answer *ret_answer, struct facet_error *error)
{
    CLEANUP_RESERVATION struct reservation reservation = {0};
    uint32_t form = 0;
    enum facet_status status = call->render ? find_form(call->render, &form, error) : FACET_OK;

    if (status == FACET_OK)
        status = registry_reservation_find(daemon->registry, call->ref, &reservation, error);
    note_healths(daemon, &reservation);
    return status == FACET_OK
               ? answer_reservation(daemon, &reservation, 200, call->render ? &form : NULL, ret_answer, error)
               : status;
}

enum facet_status endpoint_reservation_release(const struct daemon *daemon, const struct call *call,
                                               struct answer *ret_answer, struct facet_error *error)
{
    enum facet_status status = registry_reservation_release(daemon->registry, call->ref, error);

    return status == FACET_OK ? answer_json(200, json_object(), ret_answer, error) : status;
}
