/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the card and the tables of one device. Never: shows 0 for a value that was not measured. */
#include "device_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "view.h"

enum { TEXT_SIZE = 512 };

/* "a, b, c" */
static void join_texts(const json_t *array, char *buffer, size_t size)
{
    const json_t *value;
    size_t index, used = 0;

    buffer[0] = '\0';
    json_array_foreach (array, index, value)
        if (used < size)
            used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? ", " : "", json_string_value(value));
}

static bool add_text(struct libscols_table *card, const char *name, const json_t *object, const char *member)
{
    return !view_has(object, member) || view_card_add(card, name, view_text(object, member));
}

static bool add_number(struct libscols_table *card, const char *name, const json_t *object, const char *member,
                       const char *unit)
{
    char text[VIEW_SIZE];

    snprintf(text, sizeof text, "%" PRIu64 "%s", view_number(object, member), unit);
    return !view_has(object, member) || view_card_add(card, name, text);
}

static bool add_memory(struct libscols_table *card, const json_t *device)
{
    char memory[VIEW_SIZE];

    return !view_has(device, "memory_bytes") ||
           view_card_add(card, "memory", view_memory(view_number(device, "memory_bytes"), memory));
}

/* "soft (with shared)": the modes that may be on the device beside each mode. */
static bool add_modes(struct libscols_table *card, const json_t *device)
{
    const json_t *groups = json_object_get(device, "mode_groups"), *mode;
    char text[TEXT_SIZE] = "", others[TEXT_SIZE / 4];
    size_t index, used = 0;

    json_array_foreach (json_object_get(device, "modes"), index, mode) {
        const char *name = json_string_value(mode);
        join_texts(json_object_get(groups, name), others, sizeof others);
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s%s", used ? ", " : "", name,
                                     others[0] ? " (with " : "", others, others[0] ? ")" : "");
    }
    return view_card_add(card, "modes", used ? text : "none: it runs kernels only");
}

/* Leaves out the source code of test kernels, which only `facet provider check` needs. */
static bool add_property(struct libscols_table *card, const char *name, const char *value)
{
    static const char hidden[] = "conformance_";

    return strncmp(name, hidden, strlen(hidden)) == 0 || view_card_add(card, name, value);
}

static bool add_properties(struct libscols_table *card, const json_t *device)
{
    const char *name;
    json_t *value;
    bool complete = true;

    json_object_foreach (json_object_get(device, "properties"), name, value)
        complete = complete && add_property(card, name, json_string_value(value));
    return complete;
}

static bool print_card(const json_t *device)
{
    VIEW_CLEANUP_TABLE struct libscols_table *card = view_card();
    char kind[VIEW_SIZE * 2], health[TEXT_SIZE], capabilities[TEXT_SIZE];

    snprintf(kind, sizeof kind, "%.30s%s", view_text(device, "kind"),
             json_is_true(json_object_get(device, "simulated")) ? "  (simulated: it does not exist)" : "");
    snprintf(health, sizeof health, "%.20s%s%.400s", view_text(device, "health"),
             view_has(device, "health_reason") ? ": " : "", view_text(device, "health_reason"));
    join_texts(json_object_get(device, "capabilities"), capabilities, sizeof capabilities);
    return card && add_text(card, "id", device, "id") && add_text(card, "name", device, "name") &&
           view_card_add(card, "kind", kind) && add_text(card, "vendor", device, "vendor") &&
           add_text(card, "driver", device, "driver_version") && add_text(card, "uuid", device, "uuid") &&
           add_text(card, "pci address", device, "pci_address") && view_card_add(card, "health", health) &&
           add_memory(card, device) && add_number(card, "compute units", device, "compute_units", "") &&
           add_number(card, "clock", device, "clock_mhz", " MHz") &&
           add_number(card, "numa node", device, "numa_node", "") && add_text(card, "processors", device, "cpuset") &&
           add_modes(card, device) && view_card_add(card, "capabilities", capabilities) &&
           add_properties(card, device) && add_text(card, "trouble", device, "trouble") && scols_print_table(card) == 0;
}

/* --- lists ------------------------------------------------------------------------------------------------------ */

enum { CELLS_MAX = 8 };

/* Fills one row's cells: each is NULL, or points into `item`, or to a text that the function writes to `buffers`. */
typedef void (*fill_func)(const json_t *item, char buffers[CELLS_MAX][TEXT_SIZE], const char *cells[CELLS_MAX]);

struct section {
    const char *title, *member;
    const struct view_column *columns;
    size_t count;
    fill_func fill;
};

static const char *memory_cell(const json_t *item, char *buffer)
{
    return view_has(item, "memory_bytes") ? view_memory(view_number(item, "memory_bytes"), buffer) : NULL;
}

static const char *share_cell(const json_t *item, char *buffer)
{
    return view_has(item, "compute_milli") ? view_milli(view_number(item, "compute_milli"), buffer) : NULL;
}

static const char *number_cell(const json_t *item, const char *member, const char *unit, char *buffer)
{
    if (!view_has(item, member))
        return NULL;
    snprintf(buffer, VIEW_SIZE, "%" PRIu64 "%s", view_number(item, member), unit);
    return buffer;
}

/* The numbers of the slices at which a partition of this template could begin now. */
static const char *free_places(const json_t *item, char *buffer)
{
    const json_t *place;
    size_t index, used = 0;

    buffer[0] = '\0';
    if (!view_has(item, "placements"))
        return "unknown";
    json_array_foreach (json_object_get(item, "placements"), index, place) {
        if (json_is_true(json_object_get(place, "free")) && used < TEXT_SIZE)
            used += (size_t)snprintf(buffer + used, TEXT_SIZE - used, "%s%" PRIu64, used ? "," : "",
                                     view_number(place, "start"));
    }
    return used ? buffer : "none";
}

static void fill_template(const json_t *item, char buffers[CELLS_MAX][TEXT_SIZE], const char *cells[CELLS_MAX])
{
    cells[0] = view_text(item, "id");
    cells[1] = memory_cell(item, buffers[1]);
    cells[2] = share_cell(item, buffers[2]);
    cells[3] = number_cell(item, "compute_units", "", buffers[3]);
    cells[4] = number_cell(item, "length", "", buffers[4]);
    cells[5] = free_places(item, buffers[5]);
}

static void fill_partition(const json_t *item, char buffers[CELLS_MAX][TEXT_SIZE], const char *cells[CELLS_MAX])
{
    cells[0] = view_text(item, "uuid");
    cells[1] = view_text(item, "template");
    cells[2] = number_cell(item, "start", "", buffers[2]);
    cells[3] = memory_cell(item, buffers[3]);
    cells[4] = share_cell(item, buffers[4]);
    cells[5] = view_text(item, "vgpu");
}

static void fill_worker(const json_t *item, char buffers[CELLS_MAX][TEXT_SIZE], const char *cells[CELLS_MAX])
{
    cells[0] = view_text(item, "worker");
    cells[1] = memory_cell(item, buffers[1]);
    cells[2] = share_cell(item, buffers[2]);
    cells[3] = number_cell(item, "compute_units", "", buffers[3]);
    cells[4] = view_text(item, "vgpu");
}

static void fill_link(const json_t *item, char buffers[CELLS_MAX][TEXT_SIZE], const char *cells[CELLS_MAX])
{
    cells[0] = view_text(item, "to");
    cells[1] = view_text(item, "kind");
    cells[2] = view_text(item, "type");
    cells[3] = view_text(item, "level");
    cells[4] = number_cell(item, "bandwidth_mbps", " MB/s", buffers[4]);
    cells[5] = number_cell(item, "latency_ns", " ns", buffers[5]);
}

static bool print_section(const json_t *device, const struct section *section)
{
    const json_t *items = json_object_get(device, section->member), *item;
    char buffers[CELLS_MAX][TEXT_SIZE];
    const char *cells[CELLS_MAX];
    size_t index;

    if (json_array_size(items) == 0)
        return true;
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(section->columns);
    bool complete = table != NULL;
    json_array_foreach (items, index, item) {
        section->fill(item, buffers, cells);
        complete = complete && view_row(table, cells, section->count);
    }
    printf("\n%s\n", section->title);
    return complete && scols_print_table(table) == 0;
}

int device_print(const struct command *self, const json_t *device)
{
    static const struct view_column templates[] = {{"TEMPLATE", 0},
                                                   {"MEMORY", SCOLS_FL_RIGHT},
                                                   {"COMPUTE", SCOLS_FL_RIGHT},
                                                   {"UNITS", SCOLS_FL_RIGHT},
                                                   {"SLICES", SCOLS_FL_RIGHT},
                                                   {"FREE AT", 0},
                                                   {NULL, 0}};
    static const struct view_column partitions[] = {{"PARTITION", 0},
                                                    {"TEMPLATE", 0},
                                                    {"START", SCOLS_FL_RIGHT},
                                                    {"MEMORY", SCOLS_FL_RIGHT},
                                                    {"COMPUTE", SCOLS_FL_RIGHT},
                                                    {"VGPU", 0},
                                                    {NULL, 0}};
    static const struct view_column workers[] = {
        {"WORKER", 0}, {"MEMORY", SCOLS_FL_RIGHT}, {"COMPUTE", SCOLS_FL_RIGHT}, {"UNITS", SCOLS_FL_RIGHT}, {"VGPU", 0},
        {NULL, 0}};
    static const struct view_column links[] = {
        {"TO", 0}, {"KIND", 0}, {"TYPE", 0}, {"LEVEL", 0}, {"BANDWIDTH", SCOLS_FL_RIGHT}, {"LATENCY", SCOLS_FL_RIGHT},
        {NULL, 0}};
    static const struct section sections[] = {
        {"Partition templates", "templates", templates, 6, fill_template},
        {"Partitions", "partitions", partitions, 6, fill_partition},
        {"Hard limits", "workers", workers, 5, fill_worker},
        {"Links", "links", links, 6, fill_link},
    };
    bool complete = print_card(device);

    for (size_t i = 0; complete && i < sizeof sections / sizeof sections[0]; i++)
        complete = print_section(device, &sections[i]);
    return complete ? EXIT_DONE : command_out_of_memory(self);
}
