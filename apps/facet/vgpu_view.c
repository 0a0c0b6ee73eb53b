/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list and the card of virtual GPUs. Never: asks the daemon. */
#include "vgpu_view.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/label.h"
#include "view.h"

/* For a value that is not measured, or is implausible. */
#define NOT_KNOWN "not known"

/* "partitioned 1g.10gb" */
static const char *mode_of(const json_t *vgpu, char buffer[static VIEW_SIZE * 2])
{
    snprintf(buffer, VIEW_SIZE * 2, "%.20s%s%.32s", view_text(vgpu, "mode"), view_has(vgpu, "template") ? " " : "",
             view_text(vgpu, "template"));
    return buffer;
}

static bool add_line(struct libscols_table *table, const json_t *vgpu)
{
    char request_text[VIEW_SIZE], share[VIEW_SIZE], memory[VIEW_SIZE], processes[VIEW_SIZE], mode[VIEW_SIZE * 2];

    snprintf(processes, sizeof processes, "%" PRIu64, view_number(vgpu, "processes"));
    return view_row(table,
                    (const char *const[]){
                        view_text(vgpu, "name"),
                        view_text(vgpu, "id"),
                        view_text(vgpu, "device"),
                        view_text(vgpu, "state"),
                        mode_of(vgpu, mode),
                        view_compute(view_number(vgpu, "compute_request_milli"),
                                     view_number(vgpu, "compute_limit_milli"), request_text),
                        view_has(vgpu, "share_milli") ? view_milli(view_number(vgpu, "share_milli"), share) : NULL,
                        view_vgpu_memory(vgpu, memory),
                        view_has(vgpu, "processes") ? processes : NULL,
                    },
                    9);
}

/* Warns of a vGPU in whose row numbers are missing. */
static void warn_of_absent_numbers(const struct command *self, const json_t *vgpu)
{
    static const char *const members[] = {"memory_used_bytes", "memory_peak_bytes",  "device_time_ns", "launches",
                                          "throttled_ns",      "denied_allocations", "processes"};

    for (size_t i = 0; view_has(vgpu, "warning") && i < sizeof members / sizeof members[0]; i++)
        if (!view_has(vgpu, members[i])) {
            command_warn(self, "%s: %s", view_text(vgpu, "name"), view_text(vgpu, "warning"));
            return;
        }
}

int vgpu_print_list(const struct command *self, const json_t *answer)
{
    static const struct view_column columns[] = {
        {"NAME", SCOLS_FL_TRUNC},
        {"ID", 0},
        {"DEVICE", 0},
        {"STATE", 0},
        {"MODE", 0},
        {"ASKED", SCOLS_FL_RIGHT},
        {"SHARE", SCOLS_FL_RIGHT},
        {"MEMORY", SCOLS_FL_RIGHT},
        {"PROCS", SCOLS_FL_RIGHT},
        {NULL, 0},
    };
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    bool complete = table != NULL;
    const json_t *vgpu;
    size_t index;

    json_array_foreach (json_object_get(answer, "vgpus"), index, vgpu)
        complete = complete && add_line(table, vgpu);
    complete = complete && scols_print_table(table) == 0;
    json_array_foreach (json_object_get(answer, "vgpus"), index, vgpu)
        warn_of_absent_numbers(self, vgpu);
    return complete ? EXIT_DONE : command_out_of_memory(self);
}

static bool add_amounts(struct libscols_table *card, const json_t *vgpu)
{
    char used[VIEW_SIZE], peak[VIEW_SIZE], request_text[VIEW_SIZE], share[VIEW_SIZE], busy[VIEW_SIZE],
        waited[VIEW_SIZE];
    uint64_t request = view_number(vgpu, "compute_request_milli"), limit = view_number(vgpu, "compute_limit_milli");

    return view_card_add(card, "compute asked",
                         request || limit < 1000 ? view_compute(request, limit, request_text)
                                                 : "best effort, no cap") &&
           view_card_add(card, "share measured",
                         view_has(vgpu, "share_milli") ? view_milli(view_number(vgpu, "share_milli"), share)
                                                       : "not measured yet") &&
           view_card_add(card, "memory used/limit", view_vgpu_memory(vgpu, used)) &&
           view_card_add(card, "memory peak",
                         view_has(vgpu, "memory_peak_bytes") ? view_memory(view_number(vgpu, "memory_peak_bytes"), peak)
                                                             : NOT_KNOWN) &&
           view_card_add(card, "device time",
                         view_has(vgpu, "device_time_ns") ? view_seconds(view_number(vgpu, "device_time_ns"), busy)
                                                          : NOT_KNOWN) &&
           view_card_add(card, "throttled",
                         view_has(vgpu, "throttled_ns") ? view_seconds(view_number(vgpu, "throttled_ns"), waited)
                                                        : NOT_KNOWN);
}

/* Adds the vGPU's own part of the device, in the modes hard and partitioned. */
static bool add_part(struct libscols_table *card, const json_t *vgpu)
{
    char memory[VIEW_SIZE], compute[VIEW_SIZE], units[VIEW_SIZE];
    bool complete = true;

    if (view_has(vgpu, "template"))
        complete = view_card_add(card, "template", view_text(vgpu, "template"));
    if (view_has(vgpu, "partition"))
        complete = complete && view_card_add(card, "partition", view_text(vgpu, "partition"));
    if (view_has(vgpu, "granted_memory_bytes"))
        complete = complete && view_card_add(card, "memory granted",
                                             view_memory(view_number(vgpu, "granted_memory_bytes"), memory));
    if (view_has(vgpu, "granted_compute_milli"))
        complete = complete && view_card_add(card, "compute granted",
                                             view_milli(view_number(vgpu, "granted_compute_milli"), compute));
    if (view_has(vgpu, "granted_compute_units")) {
        snprintf(units, sizeof units, "%" PRIu64, view_number(vgpu, "granted_compute_units"));
        complete = complete && view_card_add(card, "units granted", units);
    }
    return complete;
}

static bool add_idle_freeze(struct libscols_table *card, const json_t *vgpu)
{
    char text[VIEW_SIZE * 2];
    uint64_t seconds = view_number(vgpu, "idle_freeze_s");

    if (!seconds)
        return true;
    snprintf(text, sizeof text, "after %" PRIu64 " s%s", seconds,
             json_is_true(json_object_get(vgpu, "idle_frozen")) ? ", frozen now" : "");
    return view_card_add(card, "freezes when idle", text);
}

static bool add_oversubscription(struct libscols_table *card, const json_t *vgpu)
{
    bool stuck = json_is_true(json_object_get(vgpu, "memory_stuck"));

    return !json_is_true(json_object_get(vgpu, "oversubscribe")) ||
           view_card_add(card, "oversubscribed", stuck ? "yes; gives no memory back" : "yes");
}

static bool add_counts(struct libscols_table *card, const json_t *vgpu)
{
    static const struct {
        const char *name, *member;
    } counts[] = {{"launches", "launches"}, {"denied allocations", "denied_allocations"}, {"processes", "processes"}};
    char number[VIEW_SIZE];
    bool complete = true;

    for (size_t i = 0; complete && i < sizeof counts / sizeof counts[0]; i++) {
        snprintf(number, sizeof number, "%" PRIu64, view_number(vgpu, counts[i].member));
        complete = view_card_add(card, counts[i].name, view_has(vgpu, counts[i].member) ? number : NOT_KNOWN);
    }
    snprintf(number, sizeof number, "%" PRIu64, view_number(vgpu, "refused_processes"));
    return complete && (!view_number(vgpu, "refused_processes") || view_card_add(card, "refused processes", number));
}

static bool add_owner(struct libscols_table *card, const json_t *vgpu)
{
    char text[VIEW_SIZE * 2];
    const struct passwd *user = getpwuid((uid_t)view_number(vgpu, "owner_uid"));

    snprintf(text, sizeof text, "%.40s %" PRIu64, user ? user->pw_name : "user", view_number(vgpu, "owner_uid"));
    return !view_has(vgpu, "owner_uid") || view_card_add(card, "owner", text);
}

static bool add_labels(struct libscols_table *card, const json_t *vgpu)
{
    char text[FACET_LABEL_KEY_MOST + FACET_LABEL_VALUE_MOST + 2];
    bool complete = true;
    const char *key;
    json_t *value;

    json_object_foreach (json_object_get(vgpu, "labels"), key, value) {
        snprintf(text, sizeof text, "%s=%s", key, json_string_value(value) ? json_string_value(value) : "");
        complete = complete && view_card_add(card, "label", text);
    }
    return complete;
}

static bool add_created(struct libscols_table *card, const json_t *vgpu)
{
    time_t seconds = (time_t)(view_number(vgpu, "created_ns") / FACET_NS_PER_S);
    struct tm local;
    char text[VIEW_SIZE];

    if (!view_has(vgpu, "created_ns") || !localtime_r(&seconds, &local) ||
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", &local) == 0)
        return true;
    return view_card_add(card, "created", text);
}

int vgpu_print_card(const struct command *self, const json_t *vgpu)
{
    VIEW_CLEANUP_TABLE struct libscols_table *card = view_card();
    char device[256];

    snprintf(device, sizeof device, "%s  %s%s", view_text(vgpu, "device"), view_text(vgpu, "device_name"),
             json_is_true(json_object_get(vgpu, "simulated")) ? "  (simulated)" : "");
    bool complete =
        card && view_card_add(card, "name", view_text(vgpu, "name")) &&
        view_card_add(card, "id", view_text(vgpu, "id")) && view_card_add(card, "device", device) &&
        view_card_add(card, "state", view_text(vgpu, "state")) &&
        view_card_add(card, "mode", view_text(vgpu, "mode")) && add_part(card, vgpu) &&
        view_card_add(card, "priority", view_text(vgpu, "priority")) && add_amounts(card, vgpu) &&
        add_counts(card, vgpu) && add_idle_freeze(card, vgpu) && add_oversubscription(card, vgpu) &&
        (!view_has(vgpu, "reservation") || view_card_add(card, "reservation", view_text(vgpu, "reservation"))) &&
        view_card_add(card, "kept",
                      json_is_true(json_object_get(vgpu, "ephemeral")) ? "until its last process leaves"
                                                                       : "until destroyed") &&
        add_owner(card, vgpu) && add_labels(card, vgpu) && add_created(card, vgpu) &&
        view_card_add(card, "segment", view_text(vgpu, "segment")) &&
        (!view_has(vgpu, "warning") || view_card_add(card, "warning", view_text(vgpu, "warning")));
    return complete && scols_print_table(card) == 0 ? EXIT_DONE : command_out_of_memory(self);
}
