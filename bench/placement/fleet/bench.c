/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions over a generated fleet: Facet's, and those of a scheduler that scores every node for each request.
 *
 * Owns: the fleet and the requests, both from one seed; the naive scheduler, which knows FGD's formula only.
 * Never: shares code with what it is compared to.
 *
 * usage: bench_placement ours POLICY NODES REQUESTS | naive fgd NODES REQUESTS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <facet/placement.h>

#define GPUS_MOST 8u
#define KINDS     24u

/* Roughly as in the public lists: most requests are for one GPU or a part of one, some for eight, some for none. */
static const struct kind {
    uint32_t weight, cores, num, milli;
} kinds[KINDS] = {{230, 8, 1, 1000}, {60, 4, 1, 1000}, {90, 12, 1, 1000}, {70, 16, 1, 1000}, {110, 8, 1, 810},
                  {20, 6, 1, 810},   {70, 6, 1, 470},  {25, 4, 1, 470},   {35, 5, 1, 320},   {14, 8, 1, 460},
                  {26, 10, 1, 650},  {8, 4, 1, 590},   {8, 2, 1, 550},    {16, 2, 1, 230},   {8, 1, 1, 160},
                  {7, 1, 1, 220},    {5, 3, 1, 370},   {50, 8, 0, 0},     {30, 16, 0, 0},    {40, 4, 0, 0},
                  {14, 32, 0, 0},    {3, 24, 2, 1000}, {3, 48, 4, 1000},  {8, 88, 8, 1000}};

struct node {
    uint32_t cpu_milli, gpus, left[GPUS_MOST]; /* left: free thousandths of each GPU */
};

static uint64_t state_random = 1;

static uint32_t random_below(uint32_t bound)
{
    state_random = state_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state_random >> 33) % bound);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint32_t sum_weights(void)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < KINDS; i++)
        sum += kinds[i].weight;
    return sum;
}

static uint32_t any_kind(void)
{
    uint32_t at = random_below(sum_weights()), kind = 0;

    while (at >= kinds[kind].weight)
        at -= kinds[kind++].weight;
    return kind;
}

static void make_nodes(struct node *nodes, uint32_t count)
{
    static const struct node models[] = {{96000, 8, {0}}, {104000, 2, {0}}, {64000, 2, {0}}, {96000, 8, {0}}};

    for (uint32_t i = 0; i < count; i++) {
        nodes[i] = models[random_below(4)];
        for (uint32_t gpu = 0; gpu < nodes[i].gpus; gpu++)
            nodes[i].left[gpu] = 1000;
    }
}

/* --- naive --- */

/* FGD's fragmentation: the free thousandths of GPUs that a request of the mix cannot use, on average. */
static double fragments_of(const struct node *node, uint32_t total)
{
    double sum = 0;

    for (uint32_t i = 0; i < KINDS; i++) {
        uint32_t fit = 0, lost = 0, free_milli = 0;

        for (uint32_t gpu = 0; gpu < node->gpus; gpu++) {
            fit += node->left[gpu] >= kinds[i].milli;
            lost += node->left[gpu] < kinds[i].milli ? node->left[gpu] : 0;
            free_milli += node->left[gpu];
        }
        if (kinds[i].num == 0 || node->cpu_milli < kinds[i].cores * 1000 || fit < kinds[i].num)
            lost = free_milli;
        sum += (double)kinds[i].weight / total * lost;
    }
    return sum;
}

/* Takes the GPUs from `first` on that have room; false when they do not suffice. */
static int take_gpus(struct node *node, const struct kind *kind, uint32_t first)
{
    uint32_t wanted = kind->num;

    if (node->cpu_milli < kind->cores * 1000)
        return 0;
    node->cpu_milli -= kind->cores * 1000;
    for (uint32_t gpu = first; gpu < node->gpus && wanted > 0; gpu++) {
        if (node->left[gpu] >= kind->milli) {
            node->left[gpu] -= kind->milli;
            wanted--;
        }
    }
    return wanted == 0;
}

static void naive_decide(struct node *nodes, uint32_t count, const struct kind *kind, uint32_t total)
{
    double best = -1e18;
    struct node chosen = {0};
    uint32_t where = count;

    for (uint32_t i = 0; i < count; i++) {
        double before = fragments_of(&nodes[i], total);
        uint32_t tries = kind->num == 1 && kind->milli < 1000 ? nodes[i].gpus : 1;

        for (uint32_t first = 0; first < tries; first++) {
            struct node after = nodes[i];

            if (tries > 1 && after.left[first] < kind->milli)
                continue;
            if (!take_gpus(&after, kind, first))
                continue;
            double gain = before - fragments_of(&after, total);

            if (gain > best) {
                best = gain;
                chosen = after;
                where = i;
            }
        }
    }
    if (where < count)
        nodes[where] = chosen;
}

/* --- ours --- */

static struct facet_fleet_request request_of(uint32_t kind)
{
    return (struct facet_fleet_request){.size = sizeof(struct facet_fleet_request),
                                        .num_gpu = kinds[kind].num,
                                        .gpu_milli = kinds[kind].milli,
                                        .cpu_milli = kinds[kind].cores * UINT64_C(1000)};
}

static struct facet_fleet *make_fleet(const struct node *nodes, uint32_t count, const char *name)
{
    struct facet_fleet_node *given = calloc(count, sizeof *given);
    struct facet_fleet_request *mix = calloc(sum_weights(), sizeof *mix);
    struct facet_fleet_config config = {.size = sizeof config, .nodes = given, .node_count = count, .mix = mix};
    struct facet_fleet *fleet = NULL;
    struct facet_error error = {0};

    if (!given || !mix || facet_placement_policy_find(name, &config.policy, &error) != FACET_OK)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        given[i] = (struct facet_fleet_node){.size = sizeof *given,
                                             .gpus = nodes[i].gpus,
                                             .model = "X",
                                             .cpu_milli = nodes[i].cpu_milli,
                                             .memory_bytes = 1};
    for (uint32_t i = 0; i < KINDS; i++)
        for (uint32_t n = 0; n < kinds[i].weight; n++)
            mix[config.mix_count++] = request_of(i);
    facet_fleet_create(&config, &fleet, &error);
    free(given);
    free(mix);
    return fleet;
}

static void our_decide(struct facet_fleet *fleet, uint32_t kind)
{
    struct facet_fleet_request request = request_of(kind);
    struct facet_fleet_placement at;
    uint64_t allocation;
    uint32_t shape = 0;

    if (facet_fleet_shape(fleet, &request, &shape, NULL) == FACET_OK &&
        facet_fleet_decide(fleet, shape, &at, NULL) == FACET_OK)
        facet_fleet_commit(fleet, shape, &at, &allocation, NULL);
}

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static void print_times(const char *name, const char *policy, uint32_t nodes, uint64_t *times, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += times[i];
    qsort(times, count, sizeof *times, compare_times);
    printf("{\"name\":\"%s\",\"policy\":\"%s\",\"nodes\":%u,\"requests\":%u,\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64
           ",\"mean_ns\":%" PRIu64 "}\n",
           name, policy, nodes, count, times[(count - 1) / 2], times[(uint64_t)(count - 1) * 99 / 100], sum / count);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    uint32_t count = (uint32_t)strtoul(argv[3], NULL, 10), requests = (uint32_t)strtoul(argv[4], NULL, 10);
    int naive = strcmp(argv[1], "naive") == 0;
    struct node *nodes = calloc(count ? count : 1, sizeof *nodes);
    uint64_t *times = calloc(requests ? requests : 1, sizeof *times);

    if (!nodes || !times || count == 0 || requests == 0)
        return 2;
    make_nodes(nodes, count);
    struct facet_fleet *fleet = naive ? NULL : make_fleet(nodes, count, argv[2]);

    if (!naive && !fleet)
        return 2;
    for (uint32_t i = 0; i < requests; i++) {
        uint32_t kind = any_kind();
        uint64_t before = now_ns();

        if (naive)
            naive_decide(nodes, count, &kinds[kind], sum_weights());
        else
            our_decide(fleet, kind);
        times[i] = now_ns() - before;
    }
    print_times(argv[1], argv[2], count, times, requests);
    facet_fleet_destroy(fleet);
    free(nodes);
    free(times);
    return 0;
}
