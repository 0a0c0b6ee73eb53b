/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet simulate`: reads options and lists, runs the simulations, prints the results. Never: places a job. */
#include "simulate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
    OPTION_NODES = 1000,
    OPTION_JOBS,
    OPTION_POLICY,
    OPTION_SEEDS,
    OPTION_SEED_BASE,
    OPTION_LOAD,
    OPTION_PLOT,
    OPTION_DEPARTURES,
    OPTION_MIGRATE,
    OPTION_THREADS,
    OPTION_LEARN,
    OPTION_STRETCH
};

#define SEED_BASE     1000u
#define LOAD_MOST     1000u /* percent */
#define PLOT_POINTS   40u
#define LIST_BYTES    ((size_t)1 << 30) /* the most that a list of nodes or jobs may have */
#define LIST_CAPACITY ((size_t)1 << 16) /* of the first buffer, in bytes */
#define MIGRATE_MOST  64u
#define STRETCH_MOST  1000000u

static bool parse_number(const struct command *self, const char *option, const char *text, uint64_t least,
                         uint64_t most, uint64_t *ret_number)
{
    char *end = NULL;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || number < least || number > most) {
        command_usage(self, "--%s '%s': expected %llu to %llu", option, text, (unsigned long long)least,
                      (unsigned long long)most);
        return false;
    }
    *ret_number = number;
    return true;
}

static bool add_policy(const struct command *self, struct simulate *simulate, const char *name)
{
    struct facet_error error = {0};
    uint32_t policy = 0;

    if (facet_placement_policy_find(name, &policy, &error) != FACET_OK) {
        command_usage(self, "--policy '%s': %s", name, strchr(error.message, ',') + 2);
        return false;
    }
    for (uint32_t i = 0; i < simulate->policy_count; i++) {
        if (simulate->policies[i] == policy) {
            command_usage(self, "--policy '%s': expected each once", name);
            return false;
        }
    }
    simulate->policies[simulate->policy_count++] = policy;
    return true;
}

static bool add_all_policies(struct simulate *simulate)
{
    simulate->policy_count = 0;
    while (simulate->policy_count < FACET_PLACEMENT_POLICIES) {
        simulate->policies[simulate->policy_count] = simulate->policy_count;
        simulate->policy_count++;
    }
    return true;
}

/* Passes each part between commas to `take`. False: a part was refused. */
static bool for_each_part(const struct command *self, struct simulate *simulate, const char *text,
                          bool (*take)(const struct command *, struct simulate *, const char *))
{
    char part[64];

    for (;;) {
        size_t length = strcspn(text, ",");

        snprintf(part, sizeof part, "%.*s", (int)(length < sizeof part ? length : sizeof part - 1), text);
        if (!take(self, simulate, part))
            return false;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

/* Takes a load in percent, with at most one digit behind the point. */
static bool add_load(const struct command *self, struct simulate *simulate, const char *text)
{
    char *end = NULL;
    unsigned long load = strtoul(text, &end, 10);

    load = load > LOAD_MOST ? LOAD_MOST * 10 + 1 : load * 10; /* avoids an overflow */
    if (end != text && end[0] == '.' && end[1] >= '0' && end[1] <= '9') {
        load += (unsigned long)(end[1] - '0');
        end += 2;
    }
    if (text[0] < '0' || text[0] > '9' || *end || load == 0 || load > LOAD_MOST * 10) {
        command_usage(self, "--load '%s': expected percent from 0.1 to %u", text, LOAD_MOST);
        return false;
    }
    if (simulate->load_count == SIMULATE_LOADS_MOST ||
        (simulate->load_count > 0 && simulate->loads[simulate->load_count - 1] >= load)) {
        command_usage(self, "--load '%s': expected at most %u rising loads", text, SIMULATE_LOADS_MOST);
        return false;
    }
    simulate->loads[simulate->load_count++] = (uint32_t)load;
    return true;
}

static bool read_value(const struct command *self, struct simulate *simulate, int option)
{
    uint64_t number = 0;

    switch (option) {
    case OPTION_POLICY:
        return strcmp(optarg, "all") == 0 ? add_all_policies(simulate)
                                          : for_each_part(self, simulate, optarg, add_policy);
    case OPTION_LOAD:
        return for_each_part(self, simulate, optarg, add_load);
    case OPTION_SEEDS:
        return parse_number(self, "seeds", optarg, 1, SIMULATE_SEEDS_MOST, &simulate->seeds);
    case OPTION_SEED_BASE:
        return parse_number(self, "seed-base", optarg, 0, INT64_MAX - SIMULATE_SEEDS_MOST, &simulate->seed_base);
    case OPTION_THREADS:
        if (!parse_number(self, "threads", optarg, 1, SIMULATE_THREADS_MOST, &number))
            return false;
        simulate->threads = (uint32_t)number;
        return true;
    case OPTION_STRETCH:
        if (!parse_number(self, "stretch", optarg, 1, STRETCH_MOST, &number))
            return false;
        simulate->stretch = (uint32_t)number;
        return true;
    case OPTION_MIGRATE:
        if (!parse_number(self, "migrate", optarg, 0, MIGRATE_MOST, &number))
            return false;
        simulate->moves = (uint32_t)number;
        return true;
    default:
        return false;
    }
}

static bool read_option(const struct command *self, struct simulate *simulate, int option)
{
    switch (option) {
    case OPTION_NODES:
        simulate->node_file = optarg;
        return true;
    case OPTION_JOBS:
        simulate->job_file = optarg;
        return true;
    case OPTION_PLOT:
        simulate->plot_file = optarg;
        return true;
    case OPTION_JSON:
        return simulate->json = true;
    case OPTION_DEPARTURES:
        return simulate->departures = true;
    case OPTION_LEARN:
        return simulate->learn = true;
    default:
        return read_value(self, simulate, option);
    }
}

static bool read_options(const struct command *self, int argc, char **argv, struct simulate *simulate, int *ret_exit)
{
    static const struct option words[] = {
        {"nodes", required_argument, NULL, OPTION_NODES},
        {"jobs", required_argument, NULL, OPTION_JOBS},
        {"policy", required_argument, NULL, OPTION_POLICY},
        {"seeds", required_argument, NULL, OPTION_SEEDS},
        {"seed-base", required_argument, NULL, OPTION_SEED_BASE},
        {"load", required_argument, NULL, OPTION_LOAD},
        {"plot", required_argument, NULL, OPTION_PLOT},
        {"departures", no_argument, NULL, OPTION_DEPARTURES},
        {"migrate", required_argument, NULL, OPTION_MIGRATE},
        {"stretch", required_argument, NULL, OPTION_STRETCH},
        {"learn", no_argument, NULL, OPTION_LEARN},
        {"threads", required_argument, NULL, OPTION_THREADS},
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_END,
    };
    int option;

    *ret_exit = EXIT_USAGE;
    while ((option = command_option(self, argc, argv, ":h", words)) != -1) {
        if (option == 'h')
            *ret_exit = command_help(self);
        if (option == 'h' || !read_option(self, simulate, option))
            return false;
    }
    return true;
}

static bool check_options(const struct command *self, struct simulate *simulate)
{
    if (!simulate->node_file || !simulate->job_file) {
        command_usage(self, "--%s FILE is missing; see 'facet help simulate'", simulate->node_file ? "jobs" : "nodes");
        return false;
    }
    if (simulate->plot_file && simulate->departures) {
        command_usage(self, "--plot: expected without --departures, where jobs arrive by their times, not by load");
        return false;
    }
    if (simulate->load_count > 0 && simulate->departures) {
        command_usage(self, "--load: expected without --departures, where jobs arrive by their times, not by load");
        return false;
    }
    if (simulate->policy_count == 0)
        simulate->policies[simulate->policy_count++] = FACET_PLACEMENT_FACET;
    if (simulate->stretch && !simulate->departures) {
        command_usage(self, "--stretch: expected with --departures");
        return false;
    }
    if (simulate->load_count == 0 && !simulate->departures) {
        simulate->loads[simulate->load_count++] = 1000;
        simulate->loads[simulate->load_count++] = 1300;
    }
    return true;
}

/* Makes the rising points: the loads that are reported and, for a plot, more loads between them. */
static void make_points(struct simulate *simulate)
{
    uint32_t last = simulate->load_count ? simulate->loads[simulate->load_count - 1] : 0, load = 0;
    uint32_t extra = simulate->plot_file ? PLOT_POINTS : 0;

    for (uint32_t i = 1; i <= extra; i++) {
        uint32_t point = last * i / (PLOT_POINTS + 1);

        while (load < simulate->load_count && simulate->loads[load] <= point)
            simulate->points[simulate->point_count++] = simulate->loads[load++];
        if (point > 0 && (simulate->point_count == 0 || simulate->points[simulate->point_count - 1] < point))
            simulate->points[simulate->point_count++] = point;
    }
    while (load < simulate->load_count)
        simulate->points[simulate->point_count++] = simulate->loads[load++];
}

/* Reads a file or a pipe, whose length is not known before. */
static enum facet_status read_bytes(int fd, const char *path, char **ret_text, size_t *ret_length,
                                    struct facet_error *error)
{
    FACET_CLEANUP_FREE char *text = NULL;
    size_t length = 0, capacity = 0;
    ssize_t bytes_read = 1;

    while (bytes_read > 0 && length <= LIST_BYTES) {
        if (length == capacity) {
            char *larger = realloc(text, capacity = capacity ? 2 * capacity : LIST_CAPACITY);

            if (!larger)
                return facet_error_set(error, FACET_NO_MEMORY, "out of memory for %s", path);
            text = larger;
        }
        bytes_read = read(fd, text + length, capacity - length);
        if (bytes_read < 0)
            return facet_error_errno(error, errno, "cannot read %s", path);
        length += (size_t)bytes_read;
    }
    if (length > LIST_BYTES)
        return facet_error_set(error, FACET_INVALID_ARGUMENT, "%s: expected at most 1 GiB", path);
    *ret_text = FACET_TAKE_PTR(text);
    *ret_length = length;
    return FACET_OK;
}

static enum facet_status read_file(const char *path, char **ret_text, size_t *ret_length, struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return facet_error_errno(error, errno, "cannot read %s", path);
    return read_bytes(fd, path, ret_text, ret_length, error);
}

static enum facet_status read_lists(struct simulate *simulate, struct facet_error *error)
{
    FACET_CLEANUP_FREE char *nodes = NULL;
    FACET_CLEANUP_FREE char *jobs = NULL;
    size_t length = 0;
    enum facet_status status = read_file(simulate->node_file, &nodes, &length, error);

    if (status == FACET_OK)
        status = facet_node_list_parse(nodes, length, simulate->node_file, &simulate->nodes, error);
    if (status == FACET_OK)
        status = read_file(simulate->job_file, &jobs, &length, error);
    if (status == FACET_OK)
        status = facet_job_list_parse(jobs, length, simulate->job_file, &simulate->jobs, error);
    return status;
}

/* Checks before the long work that the plot can be written, and that it overwrites no list. */
static enum facet_status check_plot(const struct simulate *simulate, struct facet_error *error)
{
    const char *const lists[] = {simulate->node_file, simulate->job_file};
    FACET_CLEANUP_FD int fd = open(simulate->plot_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    struct stat plot, list;

    if (fd < 0 || fstat(fd, &plot) < 0)
        return facet_error_errno(error, errno, "cannot write %s", simulate->plot_file);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (stat(lists[i], &list) == 0 && list.st_dev == plot.st_dev && list.st_ino == plot.st_ino)
            return facet_error_set(error, FACET_INVALID_ARGUMENT, "--plot '%s': expected another file than %s",
                                   simulate->plot_file, lists[i]);
    return FACET_OK;
}

static int simulate_and_print(const struct command *self, struct simulate *simulate)
{
    struct facet_error error = {0};
    enum facet_status status = read_lists(simulate, &error);

    error.argument[0] = '\0'; /* the message names the file, the line and the column */
    if (status == FACET_OK && simulate->plot_file)
        status = check_plot(simulate, &error);
    if (status == FACET_OK)
        status = simulate_all(simulate, &error);
    if (status == FACET_OK && simulate->plot_file)
        status = simulate_plot(simulate, &error);
    if (status != FACET_OK)
        return command_refuse(self, simulate->json, &error, NULL);
    if (!(simulate->json ? simulate_print_json(simulate) : simulate_print_table(simulate)))
        return command_out_of_memory(self);
    return EXIT_DONE;
}

static uint32_t count_processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count < 1 ? 1 : count > (long)SIMULATE_THREADS_MOST ? SIMULATE_THREADS_MOST : (uint32_t)count;
}

static int run_simulate(const struct command *self, int argc, char **argv)
{
    struct simulate simulate = {.seeds = 10, .seed_base = SEED_BASE, .threads = count_processors()};
    int status;

    if (!read_options(self, argc, argv, &simulate, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 0, "") || !check_options(self, &simulate))
        return EXIT_USAGE;
    make_points(&simulate);
    status = simulate_and_print(self, &simulate);
    free(simulate.results);
    facet_node_list_free(simulate.nodes);
    facet_job_list_free(simulate.jobs);
    return status;
}

const struct command command_simulate = {
    .name = "simulate",
    .help = "usage: facet simulate --nodes FILE --jobs FILE [--policy P[,P...]] [--seeds N]\n"
            "                      [OPTION...]\n"
            "\n"
            "Places jobs on the nodes of a fleet, policy by policy, and says how much of its\n"
            "GPUs is allocated. Jobs arrive in a random order, then again at random from the\n"
            "list until the last load is reached; no job ends, and one that fits nowhere is\n"
            "dropped. Numbers are means over the seeds.\n"
            "\n"
            "  --nodes FILE       CSV: sn, cpu_milli, memory_mib, gpu, model\n"
            "  --jobs FILE        CSV: name, cpu_milli, memory_mib, num_gpu, gpu_milli and,\n"
            "                     where it has them, gpu_spec, creation_time, deletion_time\n"
            "  --policy P,...     random, first_fit, best_fit, dot_product, gpu_packing,\n"
            "                     gpu_clustering, fgd, facet (the default), or all\n"
            "  --seeds N          how many runs of each (10)\n"
            "  --seed-base S      the first seed (1000)\n"
            "  --load L,...       report when so many percent were requested (100,130)\n"
            "  --departures       jobs come and go by their own times, once; not with --load\n"
            "                     or --plot\n"
            "  --stretch N        with --departures: every stay N times as long (1)\n"
            "  --migrate N        move up to N others for one that fits nowhere (0)\n"
            "  --learn            do not tell the policies what jobs are to come\n"
            "  --plot FILE        draw allocation against load, .svg or .html\n"
            "  --threads N        run so many at once; changes no result but times\n"
            "  --json             one object per policy, each on a line\n",
    .run = run_simulate,
};
