/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the worth of a GPU of each model, and the GPU milli that a CPU core feeds, derived from the expected jobs.
 * Never: holds a number that was chosen by hand; each is a ratio of two sums over jobs or nodes.
 */
#include "placement/fleet/fleet.h"

/* A ratio that no node reaches; it keeps products within 64 bits. */
#define PER_CPU_MAX (INT64_C(1) << 31)

static int64_t ratio(unsigned __int128 above, unsigned __int128 below, int64_t max)
{
    unsigned __int128 scaled = below ? (above << FLEET_SCALE_BITS) / below : (unsigned __int128)max;

    return scaled > (unsigned __int128)max ? max : (int64_t)scaled;
}

/* The GPU milli for each milli-core, over all jobs that want GPUs. */
static int64_t gpu_per_cpu(const struct fleet_weighted *list, size_t count)
{
    unsigned __int128 gpu = 0, cpu = 0;

    for (size_t i = 0; i < count; i++) {
        if (list[i].shape.gpu_count == 0)
            continue;
        gpu += (unsigned __int128)list[i].weight * list[i].shape.gpu_milli_sum;
        cpu += (unsigned __int128)list[i].weight * list[i].shape.cpu;
    }
    return gpu ? ratio(gpu, cpu, PER_CPU_MAX) : PER_CPU_MAX;
}

static uint64_t supply_for(const struct facet_fleet *fleet, uint64_t models)
{
    uint64_t supply = 0;

    for (uint32_t model = 0; model < fleet->model_count; model++)
        supply += models >> model & 1 ? fleet->supply[model] : 0;
    return supply;
}

/*
 * The price of a model is the demand of jobs that name the model, over the model's supply. The demand is scaled: all
 * jobs of the mix together want as many GPUs as the fleet has. A job that names several models wants them in proportion
 * to their supply.
 */
static void price_models(const struct facet_fleet *fleet, const struct fleet_weighted *list, size_t count,
                         int64_t *ret_prices)
{
    unsigned __int128 wanted = 0;

    for (size_t i = 0; i < count; i++)
        wanted += (unsigned __int128)list[i].weight * list[i].shape.gpu_milli_sum;
    for (size_t i = 0; i < count; i++) {
        const struct fleet_shape *shape = &list[i].shape;
        uint64_t supply = shape->gpu_count && !shape->any_model ? supply_for(fleet, shape->models) : 0;

        if (supply == 0)
            continue;
        int64_t price = ratio((unsigned __int128)list[i].weight * shape->gpu_milli_sum * fleet->gpu_total,
                              wanted * supply, FLEET_PRICE_MAX);

        for (uint32_t model = 0; model < fleet->model_count; model++)
            if (shape->models >> model & 1)
                ret_prices[model] += price;
    }
    for (uint32_t model = 0; model < fleet->model_count; model++)
        if (ret_prices[model] > FLEET_PRICE_MAX)
            ret_prices[model] = FLEET_PRICE_MAX;
}

struct fleet_prices fleet_prices_make(const struct facet_fleet *fleet, const struct fleet_weighted *list, size_t count)
{
    struct fleet_prices prices = {.gpu_per_cpu = gpu_per_cpu(list, count)};

    price_models(fleet, list, count, prices.model);
    return prices;
}
