/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: plans, notes and states as tables and as JSON. Never: asks the host. */
#include <stdio.h>
#include <string.h>

#include "pci.h"
#include "pci_manage.h"
#include "view.h"

/* ---- JSON ---- */

static json_t *address_json(const struct facet_pci_address *address)
{
    char text[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(address, text);
    return json_string(text);
}

/* Leaves out an unknown serial number or slot. */
json_t *pci_identity_json(const struct facet_passthrough_identity *identity)
{
    char model[24];

    snprintf(model, sizeof model, "%04x:%04x:%04x:%04x", identity->vendor, identity->device, identity->subsystem_vendor,
             identity->subsystem_device);
    json_t *object = json_pack("{s:o, s:s}", "address", address_json(&identity->address), "model", model);
    if (object && identity->group >= 0)
        json_object_set_new(object, "iommu_group", json_integer(identity->group));
    if (object && identity->serial[0])
        json_object_set_new(object, "serial", json_string(identity->serial));
    if (object && identity->slot[0])
        json_object_set_new(object, "slot", json_string(identity->slot));
    return object;
}

static json_t *step_json(const struct facet_passthrough_step *step)
{
    return json_pack("{s:s, s:o, s:s, s:s, s:s}", "step", facet_passthrough_step_name(step->kind), "address",
                     address_json(&step->address), "path", step->path, "value", step->value, "before", step->before);
}

json_t *pci_plan_json(const struct facet_passthrough_plan *plan)
{
    json_t *functions = json_array(), *steps = json_array();

    for (size_t i = 0; i < plan->function_count; i++)
        json_array_append_new(functions, pci_identity_json(&plan->functions[i]));
    for (size_t i = 0; i < plan->step_count; i++)
        json_array_append_new(steps, step_json(&plan->steps[i]));
    json_t *object =
        json_pack("{s:s, s:o, s:o}", "direction", plan->direction == FACET_PASSTHROUGH_BIND ? "bind" : "unbind",
                  "functions", functions, "steps", steps);
    if (object && plan->verdict)
        json_object_set_new(object, "passthrough", pci_judgement_json(plan->verdict));
    return object;
}

json_t *pci_notes_json(const struct facet_passthrough_report *report)
{
    json_t *notes = json_array();

    for (uint32_t i = 0; i < report->note_count; i++) {
        const struct facet_passthrough_note *note = &report->notes[i];
        json_t *item = json_pack("{s:s, s:s}", "note", facet_passthrough_note_name(note->kind), "text", note->text);

        if (note->kind != FACET_PASSTHROUGH_NOTE_DAMAGED)
            json_object_set_new(item, "address", address_json(&note->address));
        json_array_append_new(notes, item);
    }
    return notes;
}

json_t *pci_entries_json(const struct facet_passthrough_list *list)
{
    json_t *entries = json_array();

    for (size_t i = 0; i < list->count; i++) {
        const struct facet_passthrough_entry *entry = &list->entries[i];
        json_t *item = pci_identity_json(&entry->identity);

        json_object_set_new(item, "state", json_string(facet_passthrough_state_name(entry->state)));
        json_object_set_new(item, "bound_by_facet", json_boolean(entry->is_ours));
        if (entry->driver[0])
            json_object_set_new(item, "driver", json_string(entry->driver));
        if (entry->is_ours)
            json_object_set_new(item, "driver_before", json_string(entry->old_driver));
        if (entry->node[0])
            json_object_set_new(item, "node", json_string(entry->node));
        json_array_append_new(entries, item);
    }
    return entries;
}

/* ---- tables ---- */

static const char *text_or_null(const char *text)
{
    return text[0] ? text : NULL;
}

bool pci_print_steps(const struct facet_passthrough_plan *plan)
{
    static const struct view_column columns[] = {{"STEP", 0}, {"WRITES", 0}, {"TO", 0}, {"NOW", 0}, {NULL, 0}};
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    bool complete = table != NULL;

    for (size_t i = 0; complete && i < plan->step_count; i++) {
        const struct facet_passthrough_step *step = &plan->steps[i];
        const char *cells[] = {facet_passthrough_step_name(step->kind), step->value[0] ? step->value : "(none)",
                               step->path[0] ? step->path : "modprobe", text_or_null(step->before)};

        complete = view_row(table, cells, 4);
    }
    return complete && scols_print_table(table) == 0;
}

bool pci_print_verdict(const struct facet_passthrough_verdict *verdict)
{
    json_t *verdicts = json_pack("[o]", pci_judgement_json(verdict));
    bool complete = verdicts && pci_print_reasons(verdicts);

    json_decref(verdicts);
    return complete;
}

/* Without a plan, every entry counts as in it. */
static bool is_in_plan(const struct facet_passthrough_plan *plan, const struct facet_passthrough_entry *entry)
{
    for (size_t i = 0; plan && i < plan->function_count; i++)
        if (facet_pci_address_compare(&plan->functions[i].address, &entry->identity.address) == 0)
            return true;
    return !plan;
}

static bool add_entry(struct libscols_table *table, const struct facet_passthrough_entry *entry)
{
    char address[FACET_PCI_ADDRESS_SIZE], model[12], group[12] = "";

    facet_pci_address_print(&entry->identity.address, address);
    snprintf(model, sizeof model, "%04x:%04x", entry->identity.vendor, entry->identity.device);
    if (entry->identity.group >= 0)
        snprintf(group, sizeof group, "%d", entry->identity.group);
    return view_row(table,
                    (const char *const[]){address, model, text_or_null(group),
                                          facet_passthrough_state_name(entry->state), text_or_null(entry->driver),
                                          text_or_null(entry->old_driver), text_or_null(entry->node)},
                    7);
}

bool pci_print_entries(const struct facet_passthrough_list *list, const struct facet_passthrough_plan *plan)
{
    static const struct view_column columns[] = {{"ADDRESS", 0}, {"MODEL", 0},  {"GROUP", SCOLS_FL_RIGHT},
                                                 {"STATE", 0},   {"DRIVER", 0}, {"BEFORE", 0},
                                                 {"NODE", 0},    {NULL, 0}};
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    bool complete = table != NULL;

    for (size_t i = 0; complete && i < list->count; i++)
        if (is_in_plan(plan, &list->entries[i]))
            complete = add_entry(table, &list->entries[i]);
    return complete && scols_print_table(table) == 0;
}
