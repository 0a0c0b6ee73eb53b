/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the order in which a slot's places are preferred: by free amount, and by NUMA node.
 * Never: decides how much of a place is granted.
 */
#include <string.h>

#include "placement/maps/maps.h"

/* --- by free amount, most first; equals in the order of the configuration --- */

static bool is_before(const struct maps_cell *cells, uint32_t left, uint32_t right)
{
    int64_t a = maps_free(&cells[left]), b = maps_free(&cells[right]);

    return a != b ? a > b : left < right;
}

/* Merges `left` and `right` into `to`. */
static void merge_cells(const struct maps_cell *cells, const uint32_t *left, uint32_t left_count, const uint32_t *right,
                        uint32_t right_count, uint32_t *to)
{
    while (left_count && right_count) {
        bool first = is_before(cells, *left, *right);

        *to++ = first ? *left : *right;
        left += first;
        left_count -= first;
        right += !first;
        right_count -= !first;
    }
    memcpy(to, left, left_count * sizeof *to);
    memcpy(to + left_count, right, right_count * sizeof *to);
}

static void merge_sort(const struct maps_cell *cells, uint32_t *order, uint32_t *buffer, uint32_t count)
{
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t begin = 0; begin < count; begin += 2 * width) {
            uint32_t length = count - begin < 2 * width ? count - begin : 2 * width;
            uint32_t middle = width < length ? width : length;

            merge_cells(cells, order + begin, middle, order + begin + middle, length - middle, buffer + begin);
        }
        memcpy(order, buffer, count * sizeof *order);
    }
}

/* Unchanged cells are still in order: the changed cells are taken out, sorted, and merged in again. */
void maps_sort(struct facet_maps *maps, struct maps_slot *slot)
{
    uint32_t *order = maps->order + slot->first, *unchanged = maps->scratch.next, *changed = maps->scratch.cells;
    uint32_t unchanged_count = 0, changed_count = 0;

    if (slot->unsorted_cells == 0)
        return;
    for (uint32_t i = 0; i < slot->count; i++) {
        struct maps_cell *cell = &maps->cells[order[i]];

        if (cell->unsorted)
            changed[changed_count++] = order[i];
        else
            unchanged[unchanged_count++] = order[i];
        cell->unsorted = false;
    }
    merge_sort(maps->cells, changed, order, changed_count);
    merge_cells(maps->cells, unchanged, unchanged_count, changed, changed_count, order);
    slot->unsorted_cells = 0;
}

/* --- by NUMA node --- */

/* Lists the nodes that the slot has places on, in the order of these places, and sums up what is taken on each node. */
static uint32_t find_nodes(struct facet_maps *maps, const struct maps_slot *slot)
{
    struct maps_scratch *scratch = &maps->scratch;
    uint32_t count = 0;

    for (uint32_t i = 0; i < maps->node_count; i++)
        scratch->nodes[i].size = 0;
    for (uint32_t i = slot->first; i < slot->first + slot->count; i++) {
        const struct maps_cell *cell = &maps->cells[i];
        struct maps_node *node = &scratch->nodes[cell->node];

        if (node->size++ == 0) {
            node->taken_amount = 0;
            node->head = node->tail = MAPS_NONE;
            scratch->node_order[count++] = cell->node;
        }
        node->taken_amount += cell->granted + cell->reserved;
    }
    return count;
}

/*
 * Without a hint, the node with the least taken goes first, then the node with more devices. With a hint, the hinted
 * nodes go first, in the order of their labels. Equals keep their order.
 */
static bool node_goes_before(const struct maps_scratch *scratch, uint32_t left, uint32_t right, bool hinted)
{
    const struct maps_node *a = &scratch->nodes[left], *b = &scratch->nodes[right];

    if (hinted)
        return a->hinted != b->hinted ? a->hinted : left < right;
    return a->taken_amount != b->taken_amount ? a->taken_amount < b->taken_amount : a->size > b->size;
}

static void sort_nodes(struct maps_scratch *scratch, uint32_t count, bool hinted)
{
    uint32_t *order = scratch->node_order;

    for (uint32_t i = 1; i < count; i++) {
        uint32_t node = order[i], k = i;

        for (; k > 0 && node_goes_before(scratch, node, order[k - 1], hinted); k--)
            order[k] = order[k - 1];
        order[k] = node;
    }
}

/* Makes a list of cells for each node, most free first. */
static void fill_node_lists(struct facet_maps *maps, const struct maps_slot *slot)
{
    struct maps_scratch *scratch = &maps->scratch;

    for (uint32_t i = slot->first; i < slot->first + slot->count; i++) {
        uint32_t cell = maps->order[i];
        struct maps_node *node = &scratch->nodes[maps->cells[cell].node];

        scratch->next[cell] = MAPS_NONE;
        if (node->head == MAPS_NONE)
            node->head = cell;
        else
            scratch->next[node->tail] = cell;
        node->tail = cell;
    }
}

static void add_candidate(struct facet_maps *maps, struct maps_item *item, uint32_t cell)
{
    const struct maps_cell *place = &maps->cells[cell];
    int64_t units = item->unit == item->map->quantum ? place->quanta : maps_free(place) / item->unit;

    if (units <= 0)
        return;
    if (place->unhealthy) {
        item->unhealthy++;
        return;
    }
    maps->scratch.cells[item->candidates] = cell;
    maps->scratch.units[item->candidates++] = units;
}

/* Adds all cells of the first node, then all of the second, and so on. */
static void add_node_by_node(struct facet_maps *maps, struct maps_item *item, uint32_t count)
{
    struct maps_scratch *scratch = &maps->scratch;

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t cell = scratch->nodes[scratch->node_order[i]].head; cell != MAPS_NONE; cell = scratch->next[cell])
            add_candidate(maps, item, cell);
}

/* Adds one cell of each node in turn, until the lists of all nodes are empty. */
static void add_interleaved(struct facet_maps *maps, struct maps_item *item, uint32_t count)
{
    struct maps_scratch *scratch = &maps->scratch;
    uint32_t *order = scratch->node_order;

    while (count > 0) {
        uint32_t left = 0;

        for (uint32_t i = 0; i < count; i++) {
            struct maps_node *node = &scratch->nodes[order[i]];
            uint32_t cell = node->head;

            if (cell == MAPS_NONE)
                continue;
            add_candidate(maps, item, cell);
            node->head = scratch->next[cell];
            if (node->head != MAPS_NONE)
                order[left++] = order[i];
        }
        count = left;
    }
}

/* Adds the cells of the hinted nodes in turn, then all other cells by their free amounts. */
static void add_hinted_first(struct facet_maps *maps, struct maps_item *item, uint32_t count)
{
    const struct maps_slot *slot = item->slot;
    struct maps_scratch *scratch = &maps->scratch;
    uint32_t near = 0;

    while (near < count && scratch->nodes[scratch->node_order[near]].hinted)
        near++;
    add_interleaved(maps, item, near);
    item->hinted_candidates = item->candidates;
    for (uint32_t i = slot->first; i < slot->first + slot->count; i++)
        if (!scratch->nodes[maps->cells[maps->order[i]].node].hinted)
            add_candidate(maps, item, maps->order[i]);
}

void maps_candidates(struct facet_maps *maps, struct maps_item *item)
{
    const struct maps_slot *slot = item->slot;

    maps_sort(maps, &maps->slots[slot - maps->slots]);
    item->candidates = item->hinted_candidates = item->too_small = item->unhealthy = 0;
    if (item->request->affinity == FACET_AFFINITY_NONE) {
        for (uint32_t i = slot->first; i < slot->first + slot->count; i++)
            add_candidate(maps, item, maps->order[i]);
        return;
    }

    uint32_t count = find_nodes(maps, slot);
    sort_nodes(&maps->scratch, count, item->hinted);
    fill_node_lists(maps, slot);
    if (item->hinted)
        add_hinted_first(maps, item, count);
    else if (item->request->affinity == FACET_AFFINITY_PREFER_SINGLE_NODE)
        add_node_by_node(maps, item, count);
    else
        add_interleaved(maps, item, count);
}
