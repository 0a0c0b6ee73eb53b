/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the output of results: one JSON object a line, one table. Never: computes them. */
#include <inttypes.h>
#include <math.h>

#include "base/cleanup.h"
#include "simulate.h"
#include "view.h"

/* Rounds to whole parts of 1/`scale`, so that lines stay readable. */
static json_t *rounded_json(double value, double scale)
{
    return json_real(round(value * scale) / scale);
}

static json_t *percents_json(const struct simulate *simulate, const struct simulate_mean *mean)
{
    json_t *object = json_object();
    char text[16];

    if (simulate->departures) {
        json_object_set_new(object, "peak", rounded_json(mean->peak_percent, 1e4));
        json_object_set_new(object, "mean", rounded_json(mean->mean_percent, 1e4));
    }
    for (uint32_t i = 0; i < simulate->load_count && !simulate->departures; i++)
        json_object_set_new(object, simulate_load_text(simulate->loads[i], text, sizeof text),
                            rounded_json(mean->percent[simulate_point(simulate, i)], 1e4));
    return object;
}

/* Lists the runs, each with what is needed to repeat it: its seed and the order of the nodes. */
static json_t *runs_json(const struct simulate *simulate, uint32_t policy)
{
    json_t *array = json_array();
    char order[24];

    for (uint64_t seed = 0; seed < simulate->seeds; seed++) {
        const struct facet_simulate_result *result = simulate_result(simulate, policy, seed);
        json_int_t number = (json_int_t)simulate->seed_base + (json_int_t)seed;
        double used = 100.0 * (double)result->gpu_milli_used / (double)result->gpu_milli;

        snprintf(order, sizeof order, "%016" PRIx64, result->node_order);
        json_array_append_new(array, json_pack("{s:I, s:s, s:o, s:I, s:I}", "seed", number, "node_order", order,
                                               "allocated_percent", rounded_json(used, 1e4), "requests",
                                               (json_int_t)result->requests, "refused", (json_int_t)result->refused));
    }
    return array;
}

bool simulate_print_json(const struct simulate *simulate)
{
    for (uint32_t i = 0; i < simulate->policy_count; i++) {
        struct simulate_mean mean = simulate_mean(simulate, i);
        json_t *object = json_pack(
            "{s:s, s:I, s:I, s:o, s:o, s:{s:I, s:I}, s:o, s:o, s:o, s:o}", "policy",
            facet_placement_policy_name(simulate->policies[i]), "seeds", (json_int_t)simulate->seeds, "seed_base",
            (json_int_t)simulate->seed_base, "allocated_percent", percents_json(simulate, &mean), "unallocated_gpus",
            rounded_json(mean.unallocated_gpus, 1e3), "decision_ns", "p50", (json_int_t)mean.p50_ns, "p99",
            (json_int_t)mean.p99_ns, "requests", rounded_json(mean.requests, 10), "refused",
            rounded_json(mean.refused, 10), "moved", rounded_json(mean.moved, 10), "runs", runs_json(simulate, i));

        if (!object)
            return false;
        json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(10));
        putchar('\n');
        json_decref(object);
    }
    return true;
}

#define LAST_COLUMNS 5u

static bool add_row(struct libscols_table *table, const struct simulate *simulate, uint32_t policy)
{
    char cell[SIMULATE_LOADS_MOST + LAST_COLUMNS + 1][VIEW_SIZE];
    const char *cells[SIMULATE_LOADS_MOST + LAST_COLUMNS + 1];
    struct simulate_mean mean = simulate_mean(simulate, policy);
    uint32_t count = 0;

    snprintf(cell[count++], VIEW_SIZE, "%s", facet_placement_policy_name(simulate->policies[policy]));
    if (simulate->departures) {
        snprintf(cell[count++], VIEW_SIZE, "%.2f", mean.peak_percent);
        snprintf(cell[count++], VIEW_SIZE, "%.2f", mean.mean_percent);
    }
    for (uint32_t i = 0; i < simulate->load_count && !simulate->departures; i++)
        snprintf(cell[count++], VIEW_SIZE, "%.2f", mean.percent[simulate_point(simulate, i)]);
    snprintf(cell[count++], VIEW_SIZE, "%.1f", mean.unallocated_gpus);
    snprintf(cell[count++], VIEW_SIZE, "%.0f", mean.refused);
    snprintf(cell[count++], VIEW_SIZE, "%.0f", mean.moved);
    snprintf(cell[count++], VIEW_SIZE, "%.2f", (double)mean.p50_ns / 1e3);
    snprintf(cell[count++], VIEW_SIZE, "%.2f", (double)mean.p99_ns / 1e3);
    for (uint32_t i = 0; i < count; i++)
        cells[i] = cell[i];
    return view_row(table, cells, count);
}

bool simulate_print_table(const struct simulate *simulate)
{
    char title[SIMULATE_LOADS_MOST][24], load[16];
    struct view_column columns[SIMULATE_LOADS_MOST + LAST_COLUMNS + 2] = {{"POLICY", 0}};
    static const char *const last[LAST_COLUMNS] = {"GPUS FREE", "REFUSED", "MOVED", "P50 us", "P99 us"};
    uint32_t count = 1;

    if (simulate->departures) {
        columns[count++] = (struct view_column){"PEAK %", SCOLS_FL_RIGHT};
        columns[count++] = (struct view_column){"MEAN %", SCOLS_FL_RIGHT};
    }
    for (uint32_t i = 0; i < simulate->load_count && !simulate->departures; i++) {
        snprintf(title[i], sizeof title[i], "%% AT %s", simulate_load_text(simulate->loads[i], load, sizeof load));
        columns[count++] = (struct view_column){title[i], SCOLS_FL_RIGHT};
    }
    for (uint32_t i = 0; i < LAST_COLUMNS; i++)
        columns[count++] = (struct view_column){last[i], SCOLS_FL_RIGHT};
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);

    for (uint32_t i = 0; table && i < simulate->policy_count; i++)
        if (!add_row(table, simulate, i))
            return false;
    return table && scols_print_table(table) == 0;
}
