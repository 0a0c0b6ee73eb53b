/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet place fleet`: one decision over a list of nodes. Never: decides itself (facet/placement.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/placement.h>

#include "base/cleanup.h"
#include "place.h"
#include "view.h"

enum { OPTION_NODES = 1000, OPTION_PLACED, OPTION_JOB, OPTION_JOBS, OPTION_POLICY };

#define FILE_BYTES ((size_t)1 << 30) /* the most that a file may have */
#define MIB_MOST   (INT64_MAX >> 20)

/* A node's name, and its index in the list. */
struct node_name {
    const char *name;
    uint32_t node;
};

struct fleet {
    const char *node_file, *placed_file, *job_text, *job_file;
    uint32_t policy;
    bool json;
    struct facet_node_list *nodes;
    struct node_name *names; /* sorted; as many as nodes */
    struct facet_job_list *jobs;
    struct facet_fleet_request *mix; /* the jobs that --jobs says are to be expected */
    size_t mix_count;
    struct facet_fleet *fleet;
    struct facet_error *error;
};

static void drop_fleet(struct fleet *fleet)
{
    facet_fleet_destroy(fleet->fleet);
    facet_node_list_free(fleet->nodes);
    free(fleet->names);
    facet_job_list_free(fleet->jobs);
    free(fleet->mix);
}
#define CLEANUP_FLEET __attribute__((cleanup(drop_fleet)))

static void drop_json(json_t **json)
{
    json_decref(*json);
}
#define CLEANUP_JSON __attribute__((cleanup(drop_json)))

/* --- jobs as JSON ------------------------------------------------------------------------------------------------- */

static enum facet_status read_number(const json_t *job, const char *member, int64_t most, uint64_t *ret_number,
                                     struct facet_error *error)
{
    const json_t *value = json_object_get(job, member);

    if (!value)
        return FACET_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > most)
        return facet_error_set(error, FACET_INVALID_ARGUMENT, "%s: expected a whole number from 0 to %" PRId64, member,
                               most);
    *ret_number = (uint64_t)json_integer_value(value);
    return FACET_OK;
}

/* Refuses members that a job does not have; a placed job has those of a placement as well. */
static enum facet_status check_members(const json_t *job, bool placed, struct facet_error *error)
{
    static const char *const known[] = {"cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec",
                                        "node",      "gpus",       "score",   "policy"};
    size_t count = placed ? 9 : 5; /* the first five are a job's */
    const char *member;
    json_t *value;

    if (!json_is_object(job))
        return facet_error_set(error, FACET_INVALID_ARGUMENT, "expected a JSON object");
    json_object_foreach ((json_t *)(uintptr_t)job, member, value) {
        size_t i = 0;
        while (i < count && strcmp(known[i], member) != 0)
            i++;
        if (i == count)
            return facet_error_set(error, FACET_INVALID_ARGUMENT,
                                   "unknown member '%.40s': expected cpu_milli, memory_mib, num_gpu, gpu_milli, "
                                   "gpu_spec%s",
                                   member, placed ? ", node, gpus" : "");
    }
    return FACET_OK;
}

/* `gpu_spec` is borrowed from `job`. */
static enum facet_status read_job(const json_t *job, bool placed, struct facet_fleet_request *ret_request,
                                  struct facet_error *error)
{
    struct facet_fleet_request request = {.size = sizeof request};
    const json_t *spec = json_object_get(job, "gpu_spec");
    uint64_t gpus = 0, milli = 1000, mib = 0;
    enum facet_status status = check_members(job, placed, error);

    if (status == FACET_OK)
        status = read_number(job, "cpu_milli", FACET_FLEET_CPU, &request.cpu_milli, error);
    if (status == FACET_OK)
        status = read_number(job, "memory_mib", MIB_MOST, &mib, error);
    if (status == FACET_OK)
        status = read_number(job, "num_gpu", FACET_FLEET_GPUS, &gpus, error);
    if (status == FACET_OK)
        status = read_number(job, "gpu_milli", 1000, &milli, error);
    if (status == FACET_OK && spec && !json_is_string(spec))
        status = facet_error_set(error, FACET_INVALID_ARGUMENT, "gpu_spec: expected models as text, \"A|B\"");
    if (status != FACET_OK)
        return status;
    request.memory_bytes = mib << 20;
    request.num_gpu = (uint32_t)gpus;
    request.gpu_milli = gpus ? (uint32_t)milli : 0;
    request.gpu_spec = json_string_value(spec);
    *ret_request = request;
    return FACET_OK;
}

/* --- existing placements ------------------------------------------------------------------------------------------ */

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const struct node_name *)left)->name, ((const struct node_name *)right)->name);
}

/* Refuses a missing or repeated name, because output and input refer to nodes by name. */
static enum facet_status check_names(const struct fleet *fleet, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = fleet->names[i].name;
        CLEANUP_JSON json_t *text = json_string(name);

        if (!name[0] || !text)
            return facet_error_set(fleet->error, FACET_INVALID_ARGUMENT,
                                   "%s: node %" PRIu32 ": its name (column sn) is %s, expected text", fleet->node_file,
                                   fleet->names[i].node + 1, name[0] ? "not UTF-8" : "empty");
        if (i > 0 && strcmp(name, fleet->names[i - 1].name) == 0)
            return facet_error_set(fleet->error, FACET_INVALID_ARGUMENT,
                                   "%s: node '%.60s' is there twice, expected a name for each", fleet->node_file, name);
    }
    return FACET_OK;
}

static enum facet_status index_names(struct fleet *fleet)
{
    size_t count = 0;
    const struct facet_fleet_node *nodes = facet_node_list_items(fleet->nodes, &count);

    fleet->names = calloc(count + 1, sizeof *fleet->names);
    if (!fleet->names)
        return facet_error_set(fleet->error, FACET_NO_MEMORY, "out of memory for %s", fleet->node_file);
    for (size_t i = 0; i < count; i++)
        fleet->names[i] = (struct node_name){nodes[i].name ? nodes[i].name : "", (uint32_t)i};
    qsort(fleet->names, count, sizeof *fleet->names, compare_names);
    return check_names(fleet, count);
}

static enum facet_status find_node(const struct fleet *fleet, const char *name, uint32_t *ret_node)
{
    const struct node_name wanted = {.name = name ? name : ""};
    size_t count = 0;

    facet_node_list_items(fleet->nodes, &count);
    const struct node_name *found = bsearch(&wanted, fleet->names, count, sizeof wanted, compare_names);
    if (!found)
        return facet_error_set(fleet->error, FACET_NOT_FOUND, "node '%.60s': expected one of the list of nodes",
                               wanted.name);
    *ret_node = found->node;
    return FACET_OK;
}

static enum facet_status read_gpus(const json_t *gpus, uint32_t *ret_gpus, struct facet_error *error)
{
    uint32_t set = 0;

    if (gpus && !json_is_array(gpus))
        return facet_error_set(error, FACET_INVALID_ARGUMENT, "gpus: expected a list of numbers");
    for (size_t i = 0; i < json_array_size(gpus); i++) {
        const json_t *gpu = json_array_get(gpus, i);
        if (!json_is_integer(gpu) || json_integer_value(gpu) < 0 || json_integer_value(gpu) >= FACET_FLEET_GPUS)
            return facet_error_set(error, FACET_INVALID_ARGUMENT, "gpus: expected numbers from 0 to %u",
                                   FACET_FLEET_GPUS - 1);
        uint32_t bit = UINT32_C(1) << json_integer_value(gpu);
        if (set & bit)
            return facet_error_set(error, FACET_INVALID_ARGUMENT, "gpus: expected each number once");
        set |= bit;
    }
    *ret_gpus = set;
    return FACET_OK;
}

static enum facet_status restore_allocation(const struct fleet *fleet, const json_t *item)
{
    struct facet_fleet_placement placement = {0};
    struct facet_fleet_request request;
    uint32_t shape = 0;
    uint64_t allocation = 0;
    enum facet_status status = read_job(item, true, &request, fleet->error);

    if (status == FACET_OK)
        status = find_node(fleet, json_string_value(json_object_get(item, "node")), &placement.node);
    if (status == FACET_OK)
        status = read_gpus(json_object_get(item, "gpus"), &placement.gpus, fleet->error);
    if (status == FACET_OK)
        status = facet_fleet_shape(fleet->fleet, &request, &shape, fleet->error);
    if (status == FACET_OK)
        status = facet_fleet_commit(fleet->fleet, shape, &placement, &allocation, fleet->error);
    return status;
}

static enum facet_status place_lines(const struct fleet *fleet, char *text)
{
    enum facet_status status = FACET_OK;
    unsigned number = 0;

    for (char *line = text, *end; status == FACET_OK && *line; line = end) {
        size_t length = strcspn(line, "\n");
        json_error_t where;

        end = line + length + (line[length] == '\n');
        number++;
        if (strspn(line, " \t\r") >= length)
            continue;
        CLEANUP_JSON json_t *item = json_loadb(line, length, JSON_REJECT_DUPLICATES, &where);
        status = item ? restore_allocation(fleet, item)
                      : facet_error_set(fleet->error, FACET_INVALID_ARGUMENT, "not JSON: %s", where.text);
    }
    return status == FACET_OK ? status : facet_error_prefix(fleet->error, "%s:%u", fleet->placed_file, number);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static enum facet_status read_file(const struct fleet *fleet, const char *path, char **ret_text, size_t *ret_length)
{
    errno = 0;
    char *text = place_read_file(path, FILE_BYTES, ret_length);

    if (!text)
        return facet_error_errno(fleet->error, errno ? errno : EIO, "cannot read %s", path);
    if (*ret_length > FILE_BYTES) {
        free(text);
        return facet_error_set(fleet->error, FACET_INVALID_ARGUMENT, "%s: expected at most 1 GiB", path);
    }
    *ret_text = text;
    return FACET_OK;
}

static enum facet_status read_placed(struct fleet *fleet)
{
    FACET_CLEANUP_FREE char *text = NULL, *copy = NULL;
    size_t length = 0;
    enum facet_status status = fleet->placed_file ? read_file(fleet, fleet->placed_file, &text, &length) : FACET_OK;

    if (status != FACET_OK || !text)
        return status;
    copy = calloc(1, length + 1);
    if (!copy)
        return facet_error_set(fleet->error, FACET_NO_MEMORY, "out of memory for %s", fleet->placed_file);
    memcpy(copy, text, length);
    if (strlen(copy) < length) /* the placements after a zero byte would be lost */
        return facet_error_set(fleet->error, FACET_INVALID_ARGUMENT, "%s: a zero byte, expected text",
                               fleet->placed_file);
    return place_lines(fleet, copy);
}

static enum facet_status read_mix(struct fleet *fleet)
{
    FACET_CLEANUP_FREE char *text = NULL;
    size_t length = 0;
    enum facet_status status = fleet->job_file ? read_file(fleet, fleet->job_file, &text, &length) : FACET_OK;

    if (status != FACET_OK || !text)
        return status;
    status = facet_job_list_parse(text, length, fleet->job_file, &fleet->jobs, fleet->error);
    if (status != FACET_OK)
        return status;
    const struct facet_fleet_job *jobs = facet_job_list_items(fleet->jobs, &fleet->mix_count);
    fleet->mix = calloc(fleet->mix_count + 1, sizeof *fleet->mix);
    if (!fleet->mix)
        return facet_error_set(fleet->error, FACET_NO_MEMORY, "out of memory for %s", fleet->job_file);
    for (size_t i = 0; i < fleet->mix_count; i++)
        fleet->mix[i] = jobs[i].request;
    return FACET_OK;
}

static enum facet_status open_fleet(struct fleet *fleet)
{
    FACET_CLEANUP_FREE char *text = NULL;
    size_t length = 0, count = 0;
    enum facet_status status = read_file(fleet, fleet->node_file, &text, &length);

    if (status == FACET_OK)
        status = facet_node_list_parse(text, length, fleet->node_file, &fleet->nodes, fleet->error);
    if (status == FACET_OK)
        status = index_names(fleet);
    if (status == FACET_OK)
        status = read_mix(fleet);
    if (status != FACET_OK)
        return status;
    const struct facet_fleet_node *nodes = facet_node_list_items(fleet->nodes, &count);
    status = facet_fleet_create(&(struct facet_fleet_config){.size = sizeof(struct facet_fleet_config),
                                                             .policy = fleet->policy,
                                                             .nodes = nodes,
                                                             .node_count = count,
                                                             .mix = fleet->mix,
                                                             .mix_count = fleet->mix_count},
                                &fleet->fleet, fleet->error);
    return status == FACET_OK ? read_placed(fleet) : status;
}

/* --- the decision ------------------------------------------------------------------------------------------------- */

static json_t *gpus_json(uint32_t gpus)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < FACET_FLEET_GPUS; i++)
        if (gpus & UINT32_C(1) << i)
            json_array_append_new(array, json_integer((json_int_t)i));
    return array;
}

static json_t *decision_json(const struct fleet *fleet, const struct facet_fleet_request *request,
                             const struct facet_fleet_placement *placement)
{
    size_t count = 0;
    const struct facet_fleet_node *nodes = facet_node_list_items(fleet->nodes, &count);
    const char *name = nodes[placement->node].name;
    json_t *json =
        json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I}", "policy", facet_placement_policy_name(fleet->policy),
                  "node", name ? name : "", "gpus", gpus_json(placement->gpus), "score", (json_int_t)placement->score,
                  "cpu_milli", (json_int_t)request->cpu_milli, "memory_mib", (json_int_t)(request->memory_bytes >> 20),
                  "num_gpu", (json_int_t)request->num_gpu, "gpu_milli", (json_int_t)request->gpu_milli);

    if (json && request->gpu_spec)
        json_object_set_new(json, "gpu_spec", json_string(request->gpu_spec));
    return json;
}

static int print_decision(const struct command *self, const struct fleet *fleet, const json_t *decision)
{
    static const struct view_column columns[] = {
        {"NODE", 0}, {"GPUS", 0}, {"POLICY", 0}, {"SCORE", SCOLS_FL_RIGHT}, {NULL, 0}};
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    FACET_CLEANUP_FREE char *gpus = json_dumps(json_object_get(decision, "gpus"), JSON_COMPACT);
    char score[VIEW_SIZE];

    if (fleet->json) {
        json_dumpf(decision, stdout, JSON_COMPACT);
        putchar('\n');
        return EXIT_DONE;
    }
    snprintf(score, sizeof score, "%lld", (long long)json_integer_value(json_object_get(decision, "score")));
    if (!table || !gpus)
        return command_out_of_memory(self);
    gpus[strcspn(gpus, "]")] = '\0';
    if (!view_row(table,
                  (const char *const[]){view_text(decision, "node"), gpus[1] ? gpus + 1 : NULL,
                                        view_text(decision, "policy"), score},
                  4) ||
        scols_print_table(table) != 0)
        return command_out_of_memory(self);
    return EXIT_DONE;
}

static enum facet_status decide_job(struct fleet *fleet, const json_t *job, json_t **ret_decision)
{
    struct facet_fleet_placement placement;
    struct facet_fleet_request request;
    uint32_t shape = 0;
    enum facet_status status = read_job(job, false, &request, fleet->error);

    if (status != FACET_OK)
        return facet_error_prefix(fleet->error, "--job");
    status = open_fleet(fleet);
    if (status == FACET_OK)
        status = facet_fleet_shape(fleet->fleet, &request, &shape, fleet->error);
    if (status != FACET_OK)
        return status;
    status = facet_fleet_decide(fleet->fleet, shape, &placement, fleet->error);
    if (status == FACET_QUOTA) /* the library's status; its advice is for virtual GPUs */
        return facet_error_set(fleet->error, FACET_NO_SPACE, "no node has room for this");
    if (status != FACET_OK)
        return status;
    *ret_decision = decision_json(fleet, &request, &placement);
    return *ret_decision ? FACET_OK : facet_error_set(fleet->error, FACET_NO_MEMORY, "out of memory");
}

/* --- options ------------------------------------------------------------------------------------------------------ */

static bool take_option(const struct command *self, struct fleet *fleet, int option)
{
    struct facet_error error;

    switch (option) {
    case OPTION_NODES:
        fleet->node_file = optarg;
        return true;
    case OPTION_PLACED:
        fleet->placed_file = optarg;
        return true;
    case OPTION_JOB:
        fleet->job_text = optarg;
        return true;
    case OPTION_JOBS:
        fleet->job_file = optarg;
        return true;
    case OPTION_JSON:
        return fleet->json = true;
    case OPTION_POLICY:
        if (facet_placement_policy_find(optarg, &fleet->policy, &error) == FACET_OK)
            return true;
        command_usage(self, "--policy: %s", error.message);
        return false;
    default:
        return false;
    }
}

static bool read_options(const struct command *self, int argc, char **argv, struct fleet *fleet, int *ret_exit)
{
    static const struct option words[] = {{"nodes", required_argument, NULL, OPTION_NODES},
                                          {"placed", required_argument, NULL, OPTION_PLACED},
                                          {"job", required_argument, NULL, OPTION_JOB},
                                          {"jobs", required_argument, NULL, OPTION_JOBS},
                                          {"policy", required_argument, NULL, OPTION_POLICY},
                                          COMMAND_OPTION_JSON,
                                          COMMAND_OPTION_HELP,
                                          COMMAND_OPTION_END};
    int option;

    *ret_exit = EXIT_USAGE;
    while ((option = command_option(self, argc, argv, ":h", words)) != -1) {
        if (option == 'h')
            *ret_exit = command_help(self);
        if (option == 'h' || !take_option(self, fleet, option))
            return false;
    }
    return command_operands(self, argc, argv, 0, 0, "");
}

static int run_fleet(const struct command *self, int argc, char **argv)
{
    struct facet_error error = {0};
    CLEANUP_FLEET struct fleet fleet = {.policy = FACET_PLACEMENT_FACET, .error = &error};
    CLEANUP_JSON json_t *job = NULL, *decision = NULL;
    json_error_t where;
    int status;

    if (!read_options(self, argc, argv, &fleet, &status))
        return status;
    if (!fleet.node_file || !fleet.job_text)
        return command_usage(self, "--%s is missing; see 'facet help place fleet'", fleet.node_file ? "job" : "nodes");
    job = json_loads(fleet.job_text, JSON_REJECT_DUPLICATES, &where);
    if (!job)
        return command_usage(self, "--job: not JSON: %s (column %d)", where.text, where.column);
    if (decide_job(&fleet, job, &decision) != FACET_OK) {
        error.argument[0] = '\0'; /* the message names the file, the line and the member */
        return command_refuse(self, fleet.json, &error, NULL);
    }
    return print_decision(self, &fleet, decision);
}

const struct command place_fleet = {
    .name = "place fleet",
    .help = "usage: facet place fleet --nodes FILE --job JSON [--placed FILE] [--jobs FILE]\n"
            "                         [--policy P] [--json]\n"
            "\n"
            "Chooses the node of a fleet, and the GPUs of it, for one job, by the policies of\n"
            "'facet simulate'. Nothing is kept: append what --json prints to the file of\n"
            "--placed, and the next decision knows of it. Exit status 1: it fits nowhere.\n"
            "\n"
            "  --nodes FILE    CSV: sn, cpu_milli, memory_mib, gpu, model\n"
            "  --job JSON      {\"num_gpu\": 1, \"gpu_milli\": 500, \"cpu_milli\": 4000,\n"
            "                  \"memory_mib\": 8192, \"gpu_spec\": \"T4|P100\"}; what is left out\n"
            "                  is 0, gpu_milli 1000, gpu_spec any\n"
            "  --placed FILE   what is placed already: one JSON object a line\n"
            "  --jobs FILE     CSV of jobs that are to be expected, for fgd and facet\n"
            "  --policy P      as of 'facet simulate'; default facet\n"
            "  --json          print one line of JSON\n",
    .run = run_fleet,
};
