/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading lists of nodes. Never: cuts lines into fields: csv.c does. */
#include <stdlib.h>

#include "placement/fleet/csv.h"
#include "placement/fleet/fleet.h"

#define MIB_MAX (UINT64_C(1) << 43)

enum column { COLUMN_SN, COLUMN_NAME, COLUMN_CPU, COLUMN_MEMORY, COLUMN_GPU, COLUMN_MODEL, COLUMNS };
static const char *const columns[COLUMNS] = {"sn", "name", "cpu_milli", "memory_mib", "gpu", "model"};

struct facet_node_list {
    struct facet_fleet_node *items;
    size_t count, room;
    struct csv_texts texts;
};

static const char *node_field(const struct csv *csv, const uint32_t *positions, enum column column)
{
    return positions[column] < csv->count ? csv->field[positions[column]] : "";
}

static enum facet_status read_texts(struct facet_node_list *list, const struct csv *csv, const uint32_t *positions,
                                    struct facet_fleet_node *node, struct facet_error *error)
{
    const char *name = node_field(csv, positions, positions[COLUMN_SN] != CSV_FIELDS ? COLUMN_SN : COLUMN_NAME);

    node->name = csv_text_keep(&list->texts, name);
    node->model = csv_text_keep(&list->texts, node_field(csv, positions, COLUMN_MODEL));
    if (!node->name || !node->model)
        return facet_error_set(error, FACET_NO_MEMORY, "out of memory for %s", csv->file);
    if (node->gpus > 0 && positions[COLUMN_MODEL] != CSV_FIELDS && node->model[0] == '\0')
        return csv_refuse(csv, "model", "", "the model of the GPUs", error);
    return FACET_OK;
}

static enum facet_status reserve_nodes(struct facet_node_list *list, const struct csv *csv, struct facet_error *error)
{
    size_t room = list->room ? 2 * list->room : 64;

    if (list->count < list->room)
        return FACET_OK;
    struct facet_fleet_node *items =
        list->count < FACET_FLEET_NODES ? realloc(list->items, room * sizeof *items) : NULL;

    if (!items)
        return facet_error_set(error, FACET_NO_MEMORY, "out of memory for %s", csv->file);
    list->items = items;
    list->room = room;
    return FACET_OK;
}

static enum facet_status read_node(void *data, const struct csv *csv, const uint32_t *positions,
                                   struct facet_error *error)
{
    struct facet_node_list *list = data;
    uint64_t gpus = 0, memory = MIB_MAX;
    enum facet_status status = reserve_nodes(list, csv, error);

    if (status != FACET_OK)
        return status;
    struct facet_fleet_node *node = &list->items[list->count];
    *node = (struct facet_fleet_node){.size = sizeof *node};
    status =
        csv_number(csv, "cpu_milli", node_field(csv, positions, COLUMN_CPU), FACET_FLEET_CPU, &node->cpu_milli, error);
    if (status == FACET_OK && positions[COLUMN_MEMORY] != CSV_FIELDS)
        status = csv_number(csv, "memory_mib", node_field(csv, positions, COLUMN_MEMORY), MIB_MAX, &memory, error);
    if (status == FACET_OK)
        status = csv_number(csv, "gpu", node_field(csv, positions, COLUMN_GPU), FACET_FLEET_GPUS, &gpus, error);
    node->memory_bytes = memory << 20;
    node->gpus = (uint32_t)gpus;
    if (status == FACET_OK)
        status = read_texts(list, csv, positions, node, error);
    list->count += status == FACET_OK;
    return status;
}

static enum facet_status read_headings(struct csv *csv, uint32_t *positions, struct facet_error *error)
{
    enum facet_status status = csv_headings(csv, columns, COLUMNS, positions, error);

    if (status != FACET_OK)
        return status;
    if (positions[COLUMN_CPU] == CSV_FIELDS)
        return csv_refuse(csv, "cpu_milli", "", "this heading", error);
    return positions[COLUMN_GPU] == CSV_FIELDS ? csv_refuse(csv, "gpu", "", "this heading", error) : FACET_OK;
}

static enum facet_status read_nodes(struct facet_node_list *list, struct csv *csv, struct facet_error *error)
{
    uint32_t positions[COLUMNS] = {0};
    enum facet_status status = read_headings(csv, positions, error);

    return status == FACET_OK ? csv_rows(csv, positions, "nodes", read_node, list, error) : status;
}

enum facet_status facet_node_list_parse(const char *text, size_t length, const char *file,
                                        struct facet_node_list **ret_list, struct facet_error *error)
{
    struct csv csv;
    enum facet_status status = csv_open(&csv, text, length, file, error);

    if (status != FACET_OK)
        return status;
    struct facet_node_list *list = calloc(1, sizeof *list);

    status = list ? read_nodes(list, &csv, error)
                  : facet_error_set(error, FACET_NO_MEMORY, "out of memory for %s", csv.file);
    csv_close(&csv);
    if (status == FACET_OK)
        *ret_list = list;
    else
        facet_node_list_free(list);
    return status;
}

const struct facet_fleet_node *facet_node_list_items(const struct facet_node_list *list, size_t *ret_count)
{
    *ret_count = list->count;
    return list->items;
}

void facet_node_list_free(struct facet_node_list *list)
{
    if (!list)
        return;
    csv_texts_free(&list->texts);
    free(list->items);
    free(list);
}
