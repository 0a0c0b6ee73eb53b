/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the arena, the map, and the control flow graph with its dominators.
 * Never: changes a function.
 */
#include "lower_inside.h"

#include <stdlib.h>
#include <string.h>

struct facet_arena_piece {
    struct facet_arena_piece *next;
    size_t used, size;
    max_align_t memory[];
};

struct facet_map_entry {
    const void *key;
    void *value;
};

void *facet_arena_take(struct facet_arena *arena, size_t bytes)
{
    size_t need = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct facet_arena_piece *piece = arena->pieces;

    if (!piece || piece->size - piece->used < need) {
        size_t size = need > 65536 ? need : 65536;

        piece = calloc(1, sizeof(*piece) + size);
        if (!piece)
            longjmp(arena->exhausted, 1);
        piece->size = size;
        piece->next = arena->pieces;
        arena->pieces = piece;
    }
    piece->used += need;
    return (char *)piece->memory + piece->used - need;
}

void facet_arena_release(struct facet_arena *arena)
{
    while (arena->pieces) {
        struct facet_arena_piece *piece = arena->pieces;

        arena->pieces = piece->next;
        free(piece);
    }
}

static struct facet_map_entry *slot_of(const struct facet_map *map, const void *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t index = (uint32_t)(hash >> 32) & (map->capacity - 1);

    while (map->entries[index].key && map->entries[index].key != key)
        index = (index + 1) & (map->capacity - 1);
    return &map->entries[index];
}

static void map_grow(struct facet_map *map)
{
    struct facet_map old = *map;

    map->capacity = old.capacity ? old.capacity * 2 : 64;
    map->entries = facet_arena_take(map->arena, map->capacity * sizeof(*map->entries));
    for (uint32_t i = 0; i < old.capacity; i++)
        if (old.entries[i].key)
            *slot_of(map, old.entries[i].key) = old.entries[i];
}

void facet_map_put(struct facet_map *map, const void *key, void *value)
{
    struct facet_map_entry *slot;

    if (map->count * 2 >= map->capacity)
        map_grow(map);
    slot = slot_of(map, key);
    map->count += !slot->key;
    slot->key = key;
    slot->value = value;
}

void *facet_map_get(const struct facet_map *map, const void *key)
{
    return map->capacity ? slot_of(map, key)->value : NULL;
}

uint32_t facet_graph_find(const struct facet_graph *graph, LLVMBasicBlockRef block)
{
    return (uint32_t)(uintptr_t)facet_map_get(&graph->indices, block) - 1;
}

/* Depth first without recursion; `order` is filled from its end. Returns how many blocks were found. */
static uint32_t order_blocks(struct facet_graph *graph, LLVMBasicBlockRef entry, LLVMBasicBlockRef *order, uint32_t all)
{
    struct facet_map seen = {.arena = graph->indices.arena};
    LLVMBasicBlockRef *stack = facet_arena_take(seen.arena, all * sizeof(*stack));
    uint32_t *next = facet_arena_take(seen.arena, all * sizeof(*next));
    uint32_t depth = 1, place = all;

    stack[0] = entry;
    facet_map_put(&seen, entry, entry);
    while (depth) {
        LLVMValueRef end = LLVMGetBasicBlockTerminator(stack[depth - 1]);
        LLVMBasicBlockRef successor;

        if (next[depth - 1] == LLVMGetNumSuccessors(end)) {
            order[--place] = stack[--depth];
            continue;
        }
        successor = LLVMGetSuccessor(end, next[depth - 1]++);
        if (facet_map_get(&seen, successor))
            continue;
        facet_map_put(&seen, successor, successor);
        next[depth] = 0;
        stack[depth++] = successor;
    }
    return all - place;
}

static void connect_blocks(struct facet_graph *graph)
{
    struct facet_arena *arena = graph->indices.arena;

    for (uint32_t i = 0; i < graph->count; i++) {
        struct facet_block *block = &graph->blocks[i];
        LLVMValueRef end = LLVMGetBasicBlockTerminator(block->block);

        block->successor_count = LLVMGetNumSuccessors(end);
        block->successors = facet_arena_take(arena, (block->successor_count + 1) * sizeof(uint32_t));
        for (uint32_t s = 0; s < block->successor_count; s++) {
            block->successors[s] = facet_graph_find(graph, LLVMGetSuccessor(end, s));
            graph->blocks[block->successors[s]].predecessor_count++;
        }
    }
    for (uint32_t i = 0; i < graph->count; i++) {
        struct facet_block *block = &graph->blocks[i];

        block->predecessors = facet_arena_take(arena, (block->predecessor_count + 1) * sizeof(uint32_t));
        block->predecessor_count = 0;
    }
    for (uint32_t i = 0; i < graph->count; i++)
        for (uint32_t s = 0; s < graph->blocks[i].successor_count; s++) {
            struct facet_block *to = &graph->blocks[graph->blocks[i].successors[s]];

            to->predecessors[to->predecessor_count++] = i;
        }
}

/* The block where the walks from two blocks up the tree of dominators meet (Cooper, Harvey, Kennedy). */
static uint32_t meet_above(const struct facet_graph *graph, uint32_t a, uint32_t b)
{
    while (a != b) {
        while (a > b)
            a = graph->blocks[a].dominator;
        while (b > a)
            b = graph->blocks[b].dominator;
    }
    return a;
}

static void find_dominators(struct facet_graph *graph)
{
    bool changed = true;

    for (uint32_t i = 1; i < graph->count; i++)
        graph->blocks[i].dominator = FACET_NO_BLOCK;
    while (changed) {
        changed = false;
        for (uint32_t i = 1; i < graph->count; i++) {
            struct facet_block *block = &graph->blocks[i];
            uint32_t best = FACET_NO_BLOCK;

            for (uint32_t p = 0; p < block->predecessor_count; p++) {
                uint32_t from = block->predecessors[p];

                if (from == 0 || graph->blocks[from].dominator != FACET_NO_BLOCK)
                    best = best == FACET_NO_BLOCK ? from : meet_above(graph, from, best);
            }
            changed |= block->dominator != best;
            block->dominator = best;
        }
    }
}

/*
 * Lists the blocks from which an end of the function is reached, in reverse post-order of the reversed graph:
 * `ret_list` is filled from its end, depth first over predecessors. `ret_number` gives each block's index in the list.
 * Returns how many blocks were found.
 */
static uint32_t order_backwards(const struct facet_graph *graph, uint32_t *ret_list, uint32_t *ret_number)
{
    struct facet_arena *arena = graph->indices.arena;
    uint32_t *stack = facet_arena_take(arena, graph->count * sizeof(*stack));
    uint32_t *next = facet_arena_take(arena, graph->count * sizeof(*next));
    uint32_t place = graph->count;

    for (uint32_t i = 0; i < graph->count; i++)
        ret_number[i] = FACET_NO_BLOCK;
    for (uint32_t end = graph->count; end-- > 0;) {
        uint32_t depth = 0;

        if (graph->blocks[end].successor_count == 0) {
            stack[depth++] = end;
            next[end] = 1;
        }
        while (depth) {
            const struct facet_block *block = &graph->blocks[stack[depth - 1]];
            uint32_t from;

            if (next[stack[depth - 1]] > block->predecessor_count) {
                ret_list[--place] = stack[--depth];
                ret_number[stack[depth]] = place;
                continue;
            }
            from = block->predecessors[next[stack[depth - 1]]++ - 1];
            if (next[from])
                continue;
            next[from] = 1;
            stack[depth++] = from;
        }
    }
    return graph->count - place;
}

/* Like meet_above(), up the tree of post-dominators. A post-dominator has a lower number; FACET_NO_BLOCK, behind all
 * ends, is the lowest. */
static uint32_t meet_below(const struct facet_graph *graph, const uint32_t *number, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (b == FACET_NO_BLOCK || (a != FACET_NO_BLOCK && number[a] > number[b]))
            a = graph->blocks[a].post_dominator;
        else
            b = graph->blocks[b].post_dominator;
    }
    return a;
}

static void find_post_dominators(struct facet_graph *graph)
{
    struct facet_arena *arena = graph->indices.arena;
    uint32_t *list = facet_arena_take(arena, graph->count * sizeof(*list));
    uint32_t *number = facet_arena_take(arena, graph->count * sizeof(*number));
    bool *known = facet_arena_take(arena, graph->count);
    uint32_t count = order_backwards(graph, list, number);
    bool changed = true;

    for (uint32_t i = 0; i < graph->count; i++)
        graph->blocks[i].post_dominator = FACET_NO_BLOCK;
    while (changed) {
        changed = false;
        for (uint32_t i = graph->count - count; i < graph->count; i++) {
            struct facet_block *block = &graph->blocks[list[i]];
            uint32_t best = FACET_NO_BLOCK;
            bool any = false;

            for (uint32_t s = 0; s < block->successor_count; s++) {
                uint32_t to = block->successors[s];

                if (!known[to])
                    continue;
                best = any ? meet_below(graph, number, to, best) : to;
                any = true;
            }
            changed |= !known[list[i]] || block->post_dominator != best;
            known[list[i]] = true;
            block->post_dominator = best;
        }
    }
}

void facet_graph_make(struct facet_graph *graph, struct facet_arena *arena, LLVMValueRef function)
{
    uint32_t all = LLVMCountBasicBlocks(function);
    LLVMBasicBlockRef *order = facet_arena_take(arena, all * sizeof(*order));

    memset(graph, 0, sizeof(*graph));
    graph->indices.arena = arena;
    graph->count = order_blocks(graph, LLVMGetEntryBasicBlock(function), order, all);
    graph->blocks = facet_arena_take(arena, graph->count * sizeof(*graph->blocks));
    for (uint32_t i = 0; i < graph->count; i++) {
        graph->blocks[i].block = order[all - graph->count + i];
        facet_map_put(&graph->indices, graph->blocks[i].block, (void *)(uintptr_t)(i + 1));
    }
    connect_blocks(graph);
    find_dominators(graph);
    find_post_dominators(graph);
}

bool facet_graph_dominates(const struct facet_graph *graph, uint32_t above, uint32_t below)
{
    while (below > above)
        below = graph->blocks[below].dominator;
    return below == above;
}

uint32_t facet_graph_header(const struct facet_graph *graph, uint32_t latch)
{
    for (uint32_t s = 0; s < graph->blocks[latch].successor_count; s++)
        if (facet_graph_dominates(graph, graph->blocks[latch].successors[s], latch))
            return graph->blocks[latch].successors[s];
    return FACET_NO_BLOCK;
}

uint32_t facet_graph_join(const struct facet_graph *graph, uint32_t branch)
{
    const struct facet_block *block = &graph->blocks[branch];

    if (block->successor_count != 2 || block->successors[0] == block->successors[1] ||
        facet_graph_header(graph, branch) != FACET_NO_BLOCK)
        return FACET_NO_BLOCK;
    for (uint32_t s = 0; s < 2; s++)
        if (block->successors[s] == block->post_dominator && block->successors[s] > branch)
            return block->successors[s];
    return FACET_NO_BLOCK;
}

uint32_t facet_graph_then(const struct facet_graph *graph, uint32_t branch)
{
    const struct facet_block *block = &graph->blocks[branch];
    uint32_t join = facet_graph_join(graph, branch);
    uint32_t then;

    if (join == FACET_NO_BLOCK)
        return FACET_NO_BLOCK;
    then = block->successors[block->successors[0] == join];
    return graph->blocks[then].predecessor_count == 1 ? then : FACET_NO_BLOCK;
}

/* The number of the block's back edges to a block that is not the only entry of its loop. */
static uint32_t count_irreducible_edges(const struct facet_graph *graph, uint32_t block)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < graph->blocks[block].successor_count; s++) {
        uint32_t to = graph->blocks[block].successors[s];
        count += to <= block && !facet_graph_dominates(graph, to, block);
    }
    return count;
}

/* Small switches do not count, however many there are: one read of an image has five. */
uint32_t facet_graph_cases(const struct facet_graph *graph)
{
    enum { CASES_FEW = 16 };
    uint32_t cases = 0;

    for (uint32_t i = 0; i < graph->count; i++)
        cases += graph->blocks[i].successor_count > CASES_FEW ? graph->blocks[i].successor_count : 0;
    return cases;
}

bool facet_graph_is_too_complex(const struct facet_graph *graph)
{
    enum { IRREDUCIBLE_EDGES_MAX = 16 };
    uint32_t irreducible_edges = 0;

    for (uint32_t i = 0; i < graph->count; i++)
        irreducible_edges += count_irreducible_edges(graph, i);
    return facet_graph_cases(graph) > FACET_CASES_MAX || irreducible_edges > IRREDUCIBLE_EDGES_MAX;
}
