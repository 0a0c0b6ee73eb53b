/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: making a fleet, shapes, decisions, and the allocations on each node. Never: scores a node (score*.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sized.h"
#include "placement/fleet/fleet.h"

#define JOURNAL_MIN 1024u /* entries of the journal, at least */
#define HASH_SLOTS  1024u /* entries of facet_fleet.hash */
/* The node size that normalizes the published scores; a fleet with larger nodes uses their size. */
#define PUBLISHED_CPU 128000u
#define PUBLISHED_GPU 8000u

/* --- making a fleet --- */

static enum facet_status out_of_memory(struct facet_error *error, const char *what)
{
    return facet_error_set(error, FACET_NO_MEMORY, "out of memory for %s", what);
}

static enum facet_status check_node(const struct facet_fleet_node *node, size_t index, struct facet_error *error)
{
    if (node->size < sizeof *node)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "nodes", "nodes[%zu].size: expected at least %zu",
                                    index, sizeof *node);
    if (node->gpus > FACET_FLEET_GPUS)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "nodes", "nodes[%zu].gpus: %u, expected at most %u",
                                    index, node->gpus, FACET_FLEET_GPUS);
    if (node->cpu_milli > FACET_FLEET_CPU)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "nodes",
                                    "nodes[%zu].cpu_milli: %" PRIu64 ", expected at most %u", index, node->cpu_milli,
                                    FACET_FLEET_CPU);
    if (node->topology && node->topology->devices != node->gpus)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "nodes",
                                    "nodes[%zu].topology: %u devices, expected %u as the node has GPUs", index,
                                    node->topology->devices, node->gpus);
    return FACET_OK;
}

static enum facet_status check_config(const struct facet_fleet_config *config, struct facet_error *error)
{
    if (!config || config->size < sizeof *config)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config", "config: expected a struct with its size");
    FACET_NEED_KNOWN("config", config, error);
    if (config->policy >= FACET_PLACEMENT_POLICIES)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "policy", "policy: %u, expected below %u",
                                    config->policy, FACET_PLACEMENT_POLICIES);
    if (config->node_count == 0 || config->node_count > FACET_FLEET_NODES || !config->nodes)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "nodes", "nodes: %zu, expected 1 to %u",
                                    config->node_count, FACET_FLEET_NODES);
    if (config->mix_count > 0 && !config->mix)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "mix", "mix: expected %zu jobs", config->mix_count);
    return FACET_OK;
}

static enum facet_status find_model(struct facet_fleet *fleet, const char *name, uint8_t *ret_model,
                                    struct facet_error *error)
{
    for (uint32_t i = 0; i < fleet->model_count; i++) {
        if (strcmp(fleet->models[i], name) == 0) {
            *ret_model = (uint8_t)i;
            return FACET_OK;
        }
    }
    if (fleet->model_count == FACET_FLEET_MODELS)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "nodes",
                                    "nodes: model '%s' is one too many, expected %u", name, FACET_FLEET_MODELS);
    fleet->models[fleet->model_count] = strdup(name);
    if (!fleet->models[fleet->model_count])
        return out_of_memory(error, "the models");
    *ret_model = (uint8_t)fleet->model_count++;
    return FACET_OK;
}

static enum facet_status add_node(struct facet_fleet *fleet, uint32_t index, const struct facet_fleet_node *from,
                                  struct facet_error *error)
{
    struct fleet_node *node = &fleet->nodes[index];
    enum facet_status status = check_node(from, index, error);

    if (status == FACET_OK && from->gpus > 0)
        status = find_model(fleet, from->model ? from->model : "", &node->model, error);
    if (status != FACET_OK)
        return status;
    node->cpu_left = (uint32_t)from->cpu_milli;
    node->memory_left = from->memory_bytes;
    node->gpus = node->free_gpus = (uint8_t)from->gpus;
    node->gpu_left = from->gpus * FLEET_WHOLE;
    fleet->details[index].first_alloc = FLEET_NONE;
    for (uint32_t i = 0; i < from->gpus; i++)
        node->left[i] = FLEET_WHOLE;
    fleet->details[index].cpu = node->cpu_left;
    fleet->details[index].memory = node->memory_left;
    fleet->details[index].topology = from->topology;
    fleet->cpu_total += node->cpu_left;
    fleet->gpu_total += node->gpu_left;
    fleet->supply[node->model] += node->gpu_left;
    fleet->gpus += from->gpus;
    fleet->cpu_max = node->cpu_left > fleet->cpu_max ? node->cpu_left : fleet->cpu_max;
    fleet->gpu_max = node->gpu_left > fleet->gpu_max ? node->gpu_left : fleet->gpu_max;
    return FACET_OK;
}

static enum facet_status fill_fleet(struct facet_fleet *fleet, const struct facet_fleet_config *config,
                                    struct facet_error *error)
{
    uint32_t room = JOURNAL_MIN;
    enum facet_status status = FACET_OK;

    while (room < config->node_count)
        room *= 2;
    fleet->node_count = (uint32_t)config->node_count;
    fleet->block_count = (fleet->node_count + FLEET_BLOCK - 1) / FLEET_BLOCK;
    fleet->journal_mask = room - 1;
    fleet->nodes = calloc(config->node_count, sizeof *fleet->nodes);
    fleet->details = calloc(config->node_count, sizeof *fleet->details);
    fleet->journal = malloc(room * sizeof *fleet->journal);
    if (!fleet->nodes || !fleet->details || !fleet->journal)
        return out_of_memory(error, "the nodes");
    for (uint32_t i = 0; i < fleet->node_count && status == FACET_OK; i++)
        status = add_node(fleet, i, &config->nodes[i], error);
    if (status == FACET_OK)
        status = fleet_mix_from_config(fleet, config->mix, config->mix_count, error);
    return status;
}

enum facet_status facet_fleet_create(const struct facet_fleet_config *config, struct facet_fleet **ret_fleet,
                                     struct facet_error *error)
{
    enum facet_status status = check_config(config, error);

    if (status != FACET_OK)
        return status;
    struct facet_fleet *fleet = calloc(1, sizeof *fleet);

    if (!fleet)
        return out_of_memory(error, "a fleet");
    fleet->policy = config->policy;
    fleet->random = config->seed;
    fleet->cpu_max = PUBLISHED_CPU;
    fleet->gpu_max = PUBLISHED_GPU;
    fleet->alloc_free_head = FLEET_NONE;
    memset(fleet->hash, 0xff, sizeof fleet->hash);
    status = fill_fleet(fleet, config, error);
    if (status != FACET_OK) {
        facet_fleet_destroy(fleet);
        return status;
    }
    *ret_fleet = fleet;
    return FACET_OK;
}

void facet_fleet_destroy(struct facet_fleet *fleet)
{
    if (!fleet)
        return;
    for (uint32_t i = 0; i < fleet->shape_count; i++)
        free(fleet->shapes[i].scores);
    for (uint32_t i = 0; i < fleet->model_count; i++)
        free(fleet->models[i]);
    fleet_mix_clear(&fleet->mix);
    free(fleet->shapes);
    free(fleet->allocs);
    free(fleet->journal);
    free(fleet->details);
    free(fleet->nodes);
    free(fleet);
}

/* --- shapes --- */

static uint32_t slot_of(const struct fleet_shape *shape)
{
    uint64_t key = shape->cpu * UINT64_C(0x9e3779b97f4a7c15) ^ shape->memory * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                   shape->models * UINT64_C(0x165667b19e3779f9) ^ ((uint64_t)shape->milli << 8 | shape->gpu_count);

    return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % HASH_SLOTS;
}

static bool shapes_alike(const struct fleet_shape *a, const struct fleet_shape *b)
{
    return a->cpu == b->cpu && a->memory == b->memory && a->milli == b->milli && a->gpu_count == b->gpu_count &&
           a->models == b->models && a->any_model == b->any_model;
}

static bool grow_shapes(struct facet_fleet *fleet)
{
    uint32_t room = fleet->shape_room ? 2 * fleet->shape_room : 64;
    struct fleet_shape *shapes = realloc(fleet->shapes, room * sizeof *shapes);

    if (!shapes)
        return false;
    fleet->shapes = shapes;
    fleet->shape_room = room;
    return true;
}

enum facet_status facet_fleet_shape(struct facet_fleet *fleet, const struct facet_fleet_request *request,
                                    uint32_t *ret_shape, struct facet_error *error)
{
    struct fleet_shape shape;
    enum facet_status status = fleet_shape_make(fleet, request, &shape, error);

    if (status != FACET_OK)
        return status;
    uint32_t *slot = &fleet->hash[slot_of(&shape)];

    for (uint32_t i = *slot; i != FLEET_NONE; i = fleet->shapes[i].hash_next) {
        if (shapes_alike(&fleet->shapes[i], &shape)) {
            *ret_shape = i;
            return FACET_OK;
        }
    }
    if (fleet->shape_count == fleet->shape_room && !grow_shapes(fleet))
        return out_of_memory(error, "a shape");
    shape.hash_next = *slot;
    fleet->shapes[fleet->shape_count] = shape;
    *ret_shape = *slot = fleet->shape_count++;
    return FACET_OK;
}

/* --- decisions --- */

static enum facet_status check_shape(const struct facet_fleet *fleet, uint32_t shape, struct facet_error *error)
{
    if (shape < fleet->shape_count)
        return FACET_OK;
    return facet_error_argument(error, FACET_NOT_FOUND, "shape", "shape: %u, expected below %u", shape,
                                fleet->shape_count);
}

/* Returns a random node among those that the shape fits, each with the same chance. */
static uint32_t random_node(struct facet_fleet *fleet, const struct fleet_shape *shape)
{
    uint64_t fitting = 0;
    uint32_t node = 0;

    for (uint32_t i = 0; i < fleet->node_count; i++)
        fitting += shape->scores[i] != FLEET_SCORE_NO_FIT;
    if (fitting == 0)
        return FLEET_NONE;
    for (uint64_t skip = fleet_random_below(&fleet->random, fitting) + 1; skip > 0; node++)
        skip -= shape->scores[node] != FLEET_SCORE_NO_FIT;
    return node - 1;
}

static uint32_t random_gpu(struct facet_fleet *fleet, const struct fleet_node *node, uint32_t milli)
{
    uint32_t gpu = 0, seen = 0;

    for (uint32_t i = 0; i < node->gpus; i++)
        if (node->left[i] >= milli && fleet_random_below(&fleet->random, ++seen) == 0)
            gpu = i;
    return gpu;
}

uint32_t fleet_choose_gpus(struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape)
{
    const struct fleet_node *state = &fleet->nodes[node];
    uint32_t gpu = FLEET_NONE;

    if (shape->gpu_count == 1 && shape->milli < FLEET_WHOLE) {
        if (fleet->policy == FACET_PLACEMENT_FGD)
            fleet_score_fgd(fleet, state, shape, &gpu);
        else if (fleet->policy == FACET_PLACEMENT_FACET)
            fleet_score_facet(fleet, state, shape, &gpu);
        else if (fleet->policy == FACET_PLACEMENT_RANDOM)
            gpu = random_gpu(fleet, state, shape->milli);
    }
    return gpu == FLEET_NONE ? fleet_gpus_best(fleet, node, shape) : UINT32_C(1) << gpu;
}

enum facet_status facet_fleet_decide(struct facet_fleet *fleet, uint32_t shape,
                                     struct facet_fleet_placement *ret_placement, struct facet_error *error)
{
    enum facet_status status = check_shape(fleet, shape, error);

    if (status != FACET_OK)
        return status;
    fleet_learn(fleet, &fleet->shapes[shape]);
    status = fleet_index_refresh(fleet, &fleet->shapes[shape], error);
    if (status != FACET_OK)
        return status;
    const struct fleet_shape *wanted = &fleet->shapes[shape];
    uint32_t node =
        fleet->policy == FACET_PLACEMENT_RANDOM ? random_node(fleet, wanted) : fleet_index_best(fleet, wanted);

    if (node == FLEET_NONE)
        return facet_error_set(error, FACET_QUOTA, "no node has room for this request");
    *ret_placement = (struct facet_fleet_placement){node, fleet_choose_gpus(fleet, node, wanted), wanted->scores[node]};
    return FACET_OK;
}

/* --- allocations --- */

static bool reserve_alloc(struct facet_fleet *fleet)
{
    if (fleet->alloc_free_head != FLEET_NONE || fleet->alloc_count < fleet->alloc_room)
        return true;
    uint32_t room = fleet->alloc_room ? 2 * fleet->alloc_room : 256;
    struct fleet_alloc *allocs = realloc(fleet->allocs, room * sizeof *allocs);

    if (!allocs)
        return false;
    fleet->allocs = allocs;
    fleet->alloc_room = room;
    return true;
}

void fleet_alloc_link(struct facet_fleet *fleet, uint32_t index, uint32_t node, uint32_t gpu_mask, uint32_t previous)
{
    struct fleet_alloc *alloc = &fleet->allocs[index];
    uint32_t *link = previous == FLEET_NONE ? &fleet->details[node].first_alloc : &fleet->allocs[previous].next;

    alloc->node = node;
    alloc->gpu_mask = gpu_mask;
    alloc->previous = previous;
    alloc->next = *link;
    if (alloc->next != FLEET_NONE)
        fleet->allocs[alloc->next].previous = index;
    *link = index;
    fleet_node_reserve(fleet, node, &fleet->shapes[alloc->shape], gpu_mask);
}

void fleet_alloc_unlink(struct facet_fleet *fleet, uint32_t index)
{
    const struct fleet_alloc *alloc = &fleet->allocs[index];

    if (alloc->previous == FLEET_NONE)
        fleet->details[alloc->node].first_alloc = alloc->next;
    else
        fleet->allocs[alloc->previous].next = alloc->next;
    if (alloc->next != FLEET_NONE)
        fleet->allocs[alloc->next].previous = alloc->previous;
    fleet_node_release(fleet, alloc->node, &fleet->shapes[alloc->shape], alloc->gpu_mask);
}

static uint32_t new_alloc(struct facet_fleet *fleet, uint32_t shape)
{
    uint32_t index = fleet->alloc_free_head;

    if (index == FLEET_NONE) {
        index = fleet->alloc_count++;
        fleet->allocs[index].generation = 0;
    } else {
        fleet->alloc_free_head = fleet->allocs[index].next;
    }
    fleet->allocs[index].shape = shape;
    fleet->allocs[index].generation++; /* odd: in use */
    fleet->allocs_in_use++;
    return index;
}

static enum facet_status check_gpus(const struct facet_fleet *fleet, const struct fleet_shape *shape,
                                    const struct facet_fleet_placement *placement, struct facet_error *error)
{
    const struct fleet_node *node = &fleet->nodes[placement->node];

    if ((uint32_t)__builtin_popcount(placement->gpus) != shape->gpu_count || placement->gpus >> node->gpus != 0)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "gpus",
                                    "gpus: mask 0x%x, expected %u of the node's %u GPUs", placement->gpus,
                                    shape->gpu_count, node->gpus);
    for (uint32_t i = 0; i < node->gpus; i++)
        if ((placement->gpus >> i & 1) && node->left[i] < shape->milli)
            return facet_error_argument(error, FACET_QUOTA, "gpus", "gpus: GPU %u has %u milli free, expected %u", i,
                                        node->left[i], shape->milli);
    return FACET_OK;
}

static enum facet_status check_placement(const struct facet_fleet *fleet, uint32_t shape,
                                         const struct facet_fleet_placement *placement, struct facet_error *error)
{
    enum facet_status status = check_shape(fleet, shape, error);

    if (status != FACET_OK)
        return status;
    if (!placement || placement->node >= fleet->node_count)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "placement", "placement: expected a node below %u",
                                    fleet->node_count);
    status = check_gpus(fleet, &fleet->shapes[shape], placement, error);
    if (status == FACET_OK && !fleet_fits(&fleet->nodes[placement->node], &fleet->shapes[shape]))
        status = facet_error_argument(error, FACET_QUOTA, "placement",
                                      "placement: node %u has no room for this request", placement->node);
    return status;
}

static uint64_t number_of(const struct facet_fleet *fleet, uint32_t index)
{
    return (uint64_t)fleet->allocs[index].generation << 32 | index;
}

enum facet_status facet_fleet_commit(struct facet_fleet *fleet, uint32_t shape,
                                     const struct facet_fleet_placement *placement, uint64_t *ret_allocation,
                                     struct facet_error *error)
{
    enum facet_status status = check_placement(fleet, shape, placement, error);

    if (status != FACET_OK)
        return status;
    if (!reserve_alloc(fleet))
        return out_of_memory(error, "an allocation");
    uint32_t index = new_alloc(fleet, shape);

    fleet_alloc_link(fleet, index, placement->node, placement->gpus, FLEET_NONE);
    *ret_allocation = number_of(fleet, index);
    return FACET_OK;
}

static enum facet_status find_allocation(const struct facet_fleet *fleet, uint64_t allocation, uint32_t *ret_index,
                                         struct facet_error *error)
{
    uint32_t index = (uint32_t)allocation, generation = (uint32_t)(allocation >> 32);

    if (index >= fleet->alloc_count || (generation & 1) == 0 || fleet->allocs[index].generation != generation)
        return facet_error_argument(error, FACET_NOT_FOUND, "allocation", "allocation: 0x%" PRIx64 " is unknown",
                                    allocation);
    *ret_index = index;
    return FACET_OK;
}

enum facet_status facet_fleet_release(struct facet_fleet *fleet, uint64_t allocation, struct facet_error *error)
{
    uint32_t index = 0;
    enum facet_status status = find_allocation(fleet, allocation, &index, error);

    if (status != FACET_OK)
        return status;
    fleet_alloc_unlink(fleet, index);
    fleet->allocs[index].generation++;
    fleet->allocs[index].next = fleet->alloc_free_head;
    fleet->alloc_free_head = index;
    fleet->allocs_in_use--;
    return FACET_OK;
}

enum facet_status facet_fleet_find(const struct facet_fleet *fleet, uint64_t allocation,
                                   struct facet_fleet_placement *ret_placement, struct facet_error *error)
{
    uint32_t index = 0;
    enum facet_status status = find_allocation(fleet, allocation, &index, error);

    if (status == FACET_OK)
        *ret_placement = (struct facet_fleet_placement){fleet->allocs[index].node, fleet->allocs[index].gpu_mask, 0};
    return status;
}

enum facet_status facet_fleet_node_free(const struct facet_fleet *fleet, uint32_t node,
                                        struct facet_fleet_free *ret_free, struct facet_error *error)
{
    struct facet_fleet_free now = {.size = sizeof now};

    if (node >= fleet->node_count)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "node", "node: %u, expected below %u", node,
                                    fleet->node_count);
    now.gpus = fleet->nodes[node].gpus;
    now.cpu_milli = fleet->nodes[node].cpu_left;
    now.memory_bytes = fleet->nodes[node].memory_left;
    for (uint32_t i = 0; i < now.gpus; i++)
        now.gpu_milli[i] = fleet->nodes[node].left[i];
    *ret_free = now;
    return FACET_OK;
}

void facet_fleet_get_usage(const struct facet_fleet *fleet, struct facet_fleet_usage *ret_usage)
{
    struct facet_fleet_usage usage = {.size = sizeof usage, .shapes = fleet->shape_count};

    usage.nodes = fleet->node_count;
    usage.gpus = fleet->gpus;
    usage.allocations = fleet->allocs_in_use;
    usage.gpu_milli = fleet->gpu_total;
    usage.gpu_milli_used = fleet->gpu_used;
    usage.cpu_milli = fleet->cpu_total;
    usage.cpu_milli_used = fleet->cpu_used;
    for (uint32_t i = 0; i < fleet->node_count; i++)
        usage.gpus_untouched += fleet->nodes[i].free_gpus;
    *ret_usage = usage;
}
