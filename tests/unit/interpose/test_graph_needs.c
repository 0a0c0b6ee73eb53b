/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of the memory that a graph may need, with graphs that are made up here. Never: needs a vendor, or
 * measures a time except to compare it with the time for a smaller graph.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "interpose/kit/memory/graph_needs.h"

#define KIB         UINT64_C(1024)
#define MIB         (KIB * KIB)
#define FEW_NODES   4000u
#define NODE_FACTOR 8u /* the larger graph has this many times as many nodes */
#define ATTEMPTS    5u /* the best one counts, because other programs disturb the times */

struct graph {
    struct facet_graph_node *nodes;
    size_t count, edge_count;
    const size_t (*edges)[2]; /* indices of nodes; NULL: each node leads to the next */
};

static size_t read_count;

static bool nodes_of(void *of, void **nodes, size_t *count)
{
    struct graph *graph = of;

    *count = graph->count;
    for (size_t i = 0; nodes && i < graph->count; i++)
        nodes[i] = &graph->nodes[i];
    return true;
}

static bool edges_of(void *of, void **from, void **to, size_t *count)
{
    struct graph *graph = of;

    *count = graph->edge_count;
    for (size_t i = 0; from && i < graph->edge_count; i++) {
        from[i] = &graph->nodes[graph->edges ? graph->edges[i][0] : i];
        to[i] = &graph->nodes[graph->edges ? graph->edges[i][1] : i + 1];
    }
    return true;
}

static void read_node(struct facet_graph_node *node)
{
    void *handle = node->handle;

    read_count++;
    *node = *(struct facet_graph_node *)handle;
    node->handle = handle;
}

static const struct facet_graph_reader reader = {.nodes = nodes_of, .edges = edges_of, .describe = read_node};

#define ALLOCATES(at, size)                                                                                            \
    {                                                                                                                  \
        .kind = FACET_GRAPH_ALLOCATES, .pointer = (at), .bytes = (size)                                                \
    }
#define FREES(at)                                                                                                      \
    {                                                                                                                  \
        .kind = FACET_GRAPH_FREES, .pointer = (at)                                                                     \
    }
#define CHAIN(of)                                                                                                      \
    {                                                                                                                  \
        .nodes = (of), .count = sizeof(of) / sizeof *(of), .edge_count = sizeof(of) / sizeof *(of)-1                   \
    }

static uint64_t needed_bytes(struct graph *graph)
{
    struct facet_graph_needs needs;

    assert_true(facet_graph_needs(&reader, graph, &needs));
    for (uint32_t i = 1; i < FACET_GRAPH_DEVICES; i++)
        assert_int_equal(needs.bytes[i], 0);
    return needs.bytes[0];
}

static void test_a_chain_needs_the_most_that_is_alive_at_a_time(void **state)
{
    struct facet_graph_node nodes[] = {
        ALLOCATES(1, 4 * MIB), ALLOCATES(2, 6 * MIB), FREES(1), ALLOCATES(3, 3 * MIB), FREES(2), ALLOCATES(4, MIB)};
    struct graph graph = CHAIN(nodes);

    assert_int_equal(needed_bytes(&graph), 10 * MIB);
    graph.edge_count = 0; /* in no order */
    assert_int_equal(needed_bytes(&graph), 14 * MIB);
}

/* Nodes are listed in any order; edges give the order in which they run. */
static void test_a_chain_is_found_by_its_edges(void **state)
{
    struct facet_graph_node nodes[] = {FREES(2), ALLOCATES(2, 5 * MIB), FREES(1), ALLOCATES(1, 7 * MIB)};
    const size_t edges[][2] = {{2, 1}, {3, 2}, {1, 0}}, two_starts[][2] = {{3, 2}, {1, 2}, {2, 0}};
    struct graph graph = {.nodes = nodes, .count = 4, .edge_count = 3, .edges = edges};

    assert_int_equal(needed_bytes(&graph), 7 * MIB);
    graph.edges = two_starts;
    assert_int_equal(needed_bytes(&graph), 12 * MIB);
}

/* Freed memory makes room for another allocation at its address. A free node frees the latest allocation there. */
static void test_a_free_ends_the_latest_allocation_at_its_address(void **state)
{
    struct facet_graph_node nodes[] = {ALLOCATES(1, 2 * MIB), FREES(1), ALLOCATES(1, 8 * MIB), FREES(1),
                                       ALLOCATES(1, 9 * MIB)};
    struct graph graph = CHAIN(nodes);

    assert_int_equal(needed_bytes(&graph), 9 * MIB);
}

static void test_freeing_memory_of_another_graph_makes_no_room(void **state)
{
    struct facet_graph_node nodes[] = {ALLOCATES(5, 2 * MIB), FREES(7), FREES(3), ALLOCATES(6, 2 * MIB), FREES(9)};
    struct graph graph = CHAIN(nodes);

    assert_int_equal(needed_bytes(&graph), 4 * MIB);
}

static void test_children_are_counted_beside_their_parent(void **state)
{
    struct facet_graph_node child_nodes[] = {ALLOCATES(1, 3 * MIB), FREES(1), ALLOCATES(2, 2 * MIB)};
    struct graph child = CHAIN(child_nodes);
    struct facet_graph_node nodes[] = {{.kind = FACET_GRAPH_CHILD, .child = &child}, ALLOCATES(1, MIB)};
    struct graph graph = CHAIN(nodes);
    struct facet_graph_node other_nodes[] = {{.kind = FACET_GRAPH_OTHER}, FREES(1)};
    struct graph allocates_nothing = CHAIN(other_nodes);
    struct facet_graph_needs needs;

    assert_int_equal(needed_bytes(&graph), 4 * MIB);
    assert_false(facet_graph_needs(&reader, &allocates_nothing, &needs));
}

static void test_sizes_are_rounded_and_do_not_overflow(void **state)
{
    struct facet_graph_node nodes[] = {ALLOCATES(1, 1), ALLOCATES(2, 513)};
    struct facet_graph_node huge[] = {ALLOCATES(1, UINT64_MAX), ALLOCATES(2, UINT64_MAX)};
    struct graph graph = CHAIN(nodes), too_large = CHAIN(huge);

    assert_int_equal(needed_bytes(&graph), 1536);
    assert_int_equal(needed_bytes(&too_large), UINT64_MAX);
}

/*
 * The processor time, in ns, for a graph with `count` allocations. All are alive at once and then freed, so that no
 * free node is near its allocation.
 */
static uint64_t time_for_graph(uint32_t count)
{
    struct facet_graph_node *nodes = calloc(2 * (size_t)count, sizeof *nodes);
    struct graph graph = {.nodes = nodes, .count = 2 * (size_t)count, .edge_count = 2 * (size_t)count - 1};
    struct timespec begin, end;

    assert_non_null(nodes);
    for (uint32_t i = 0; i < count; i++) {
        nodes[i] = (struct facet_graph_node)ALLOCATES((i + 1) * MIB, KIB);
        nodes[count + i] = (struct facet_graph_node)FREES((count - i) * MIB);
    }
    read_count = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    assert_int_equal(needed_bytes(&graph), count * KIB);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    assert_int_equal(read_count, graph.count);
    free(nodes);
    return (uint64_t)(end.tv_sec - begin.tv_sec) * 1000000000u + (uint64_t)end.tv_nsec - (uint64_t)begin.tv_nsec;
}

/*
 * If the code searched all nodes for each node, 8 times as many nodes would take 64 times as long. The bound is 24.
 */
static void test_many_nodes_cost_hardly_more_each_than_few(void **state)
{
    double best = 1000;

    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        uint64_t few = time_for_graph(FEW_NODES), many = time_for_graph(FEW_NODES * NODE_FACTOR);
        double growth = (double)many / (double)few;

        best = growth < best ? growth : best;
    }
    assert_true(best < 3 * NODE_FACTOR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_chain_needs_the_most_that_is_alive_at_a_time),
        cmocka_unit_test(test_a_chain_is_found_by_its_edges),
        cmocka_unit_test(test_a_free_ends_the_latest_allocation_at_its_address),
        cmocka_unit_test(test_freeing_memory_of_another_graph_makes_no_room),
        cmocka_unit_test(test_children_are_counted_beside_their_parent),
        cmocka_unit_test(test_sizes_are_rounded_and_do_not_overflow),
        cmocka_unit_test(test_many_nodes_cost_hardly_more_each_than_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
