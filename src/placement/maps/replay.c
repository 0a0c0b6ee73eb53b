/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: running each vector of a file, and reporting it. Never: interprets a step. */
#include <stdio.h>
#include <string.h>

#include "placement/maps/replay_inside.h"

struct replay {
    facet_replay_report report;
    void *user;
    struct facet_replay_summary summary;
};

static void report_vector(struct replay *replay, const char *id, const struct replay_text *notes,
                          const struct replay_text *fault)
{
    struct facet_replay_result result = {.id = id, .notes = notes->bytes, .fault = fault->bytes};

    replay->summary.passed += fault->length == 0;
    replay->summary.failed += fault->length > 0;
    replay->summary.defects += fault->length == 0 && notes->length > 0;
    replay->report(replay->user, &result);
}

/* Runs a vector about maps, which has steps. */
static void run_steps(struct replay *replay, const struct replay_value *vector, bool has_several_maps,
                      struct replay_text *notes, struct replay_text *fault)
{
    struct replay_value origin = replay_member(vector, "origin");
    struct replay_run run = {.has_several_maps = has_several_maps};

    run.is_strict = replay_present(&origin) && strcmp(replay_string(&origin), "repo_test") == 0;
    run.outcome_recorded = replay_present(&origin) && strcmp(replay_string(&origin), "executed_probe") == 0;
    struct replay_value inside = *vector;
    inside.fault = &run.fault;
    replay_build(&run, &inside);
    for (uint32_t i = 0; i < run.steps && !run.fault.length; i++)
        replay_step(&run, &inside, i);
    if (!fault->length)
        *fault = run.fault;
    *notes = run.notes;
    replay->summary.broken += run.own_broken;
    replay_clear(&run);
}

static void run_vector(struct replay *replay, const struct replay_value *vector)
{
    static const char *const maps[] = {"discrete", "fraction", "kernel", "agent_partition", "align_memory", NULL};
    struct replay_text fault = {0}, notes = {0};
    struct replay_value inside = *vector;
    struct replay_value id = replay_member(vector, "id");

    inside.fault = &fault;
    struct replay_value map = replay_member(&inside, "map");
    if (!replay_present(&map))
        replay_refuse(&map, "the kind of the vector");
    uint32_t kind = replay_choice(&map, maps, UINT32_MAX);
    if (kind <= 2)
        run_steps(replay, &inside, kind == 2, &notes, &fault);
    else if (kind == 3)
        replay_agents_split(&fault, &inside);
    else if (kind == 4)
        replay_align(&fault, &inside);
    report_vector(replay, json_string_value(id.value), &notes, &fault);
}

/* A vector without a name could not be reported, so the whole file is refused. */
static enum facet_status check_file(const struct replay_value *root, const struct replay_value *vectors,
                                    struct facet_error *error)
{
    struct replay_value schema = replay_member(root, "schema");
    size_t count;

    if (replay_expect_object(root) && replay_present(&schema) && json_integer_value(schema.value) != 1)
        replay_refuse(&schema, "1");
    count = replay_count(vectors, SIZE_MAX);
    if (count == 0)
        replay_refuse(vectors, "at least one vector");
    for (size_t i = 0; i < count; i++) {
        struct replay_value vector = replay_item(vectors, i), id = replay_member(&vector, "id");

        if (!replay_expect_object(&vector) || !replay_string(&id)[0])
            replay_refuse(&id, "a name");
    }
    if (!root->fault->length)
        return FACET_OK;
    root->fault->bytes[root->fault->length - 1] = '\0';
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "file", "%s", root->fault->bytes);
}

static enum facet_status parse_file(const char *bytes, size_t size, json_t **ret_json, struct facet_error *error)
{
    json_error_t why;
    json_t *json;

    if (size > FACET_REPLAY_BYTES_MAX)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "file", "expected at most %zu bytes",
                                    FACET_REPLAY_BYTES_MAX);
    if (!(json = json_loadb(bytes ? bytes : "", size, JSON_REJECT_DUPLICATES, &why)))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "file",
                                    "line %d, column %d: %s; expected a JSON document", why.line, why.column, why.text);
    *ret_json = json;
    return FACET_OK;
}

static void run_table(struct replay *replay, const struct replay_value *root)
{
    struct replay_value table = replay_member(root, "guard_density_table");
    struct replay_text fault = {0}, notes = {0};

    if (!replay_present(&table))
        return;
    table.fault = &fault;
    if (replay_expect_object(&table))
        replay_density(&fault, &table);
    report_vector(replay, "guard_density_table", &notes, &fault);
}

enum facet_status facet_replay_run(const char *bytes, size_t size, facet_replay_report report_to, void *user,
                                   struct facet_replay_summary *ret_summary, struct facet_error *error)
{
    struct replay replay = {.report = report_to, .user = user};
    struct replay_text fault = {0};
    struct replay_value root = {.fault = &fault};
    json_t *json = NULL;
    enum facet_status status = parse_file(bytes, size, &json, error);

    if (status != FACET_OK)
        return status;
    root.value = json;
    struct replay_value vectors = replay_member(&root, "vectors");
    status = check_file(&root, &vectors, error);
    if (status == FACET_OK) {
        for (size_t i = 0; i < json_array_size(vectors.value); i++) {
            struct replay_value vector = replay_item(&vectors, i);

            run_vector(&replay, &vector);
        }
        run_table(&replay, &root);
        *ret_summary = replay.summary;
    }
    json_decref(json);
    return status;
}
