/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet run`: from options to the command's own exit status. Never: creates anything before all is checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <facet/limits.h>

#include "base/cleanup.h"
#include "command.h"
#include "launch.h"
#include "limiter/owner.h"
#include "limiter/tenant.h"
#include "report.h"
#include "request.h"
#include "view.h"

#define LAYER_FILE "libfacet-opencl-layer.so"

enum { DELETE_ATTEMPTS = 5, DELETE_PAUSE_NS = 20 * 1000 * 1000 };

struct options {
    struct request request;
    const char *vgpu, *report;
    bool verbose;
};

/* What is held while the command runs. Released by run_cleanup() in reverse. */
struct run {
    const struct command *self;
    struct options options;
    char **command;
    char layer[FACET_PATH_SIZE];
    struct report report;
    struct client client;
    json_t *vgpu;
    bool created;                     /* `vgpu` is ours to remove */
    int hold;                         /* keeps it until then; -1 when not held */
    struct facet_usage_totals before; /* of a vGPU that was there already */
};

static void run_cleanup(struct run *run)
{
    if (run->hold >= 0)
        close(run->hold);
    json_decref(run->vgpu);
    client_close(&run->client);
    report_abandon(&run->report);
}

/* True: go on with the command at optind; else return *ret_exit. */
static bool read_options(const struct command *self, int argc, char **argv, struct options *options, int *ret_exit)
{
    static const struct option words[] = {
        REQUEST_WORDS,
        {"vgpu", required_argument, NULL, OPTION_VGPU},
        {"report", required_argument, NULL, OPTION_REPORT},
        {"verbose", no_argument, NULL, 'v'},
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_END,
    };
    int option;

    while ((option = command_option(self, argc, argv, "+:hv" REQUEST_LETTERS, words)) != -1) {
        if (request_option(&options->request, option, optarg))
            continue;
        if (option == 'h' || option == '?') {
            *ret_exit = option == 'h' ? command_help(self) : EXIT_USAGE;
            return false;
        }
        if (option == OPTION_VGPU)
            options->vgpu = optarg;
        else if (option == OPTION_REPORT)
            options->report = optarg;
        else
            options->verbose = true;
    }
    return true;
}

static bool check_usage(const struct command *self, int argc, const struct options *options)
{
    const char *given = request_given(&options->request);

    if (optind >= argc) {
        command_usage(self, "the command is missing; for example 'facet run -m 256M -c 30 -- hashcat -b'");
        return false;
    }
    if (options->vgpu && given) {
        command_usage(self, "%s does not go with --vgpu: '%s' has its limits already; 'facet vgpu set' changes them",
                      given, options->vgpu);
        return false;
    }
    if (options->vgpu && !options->vgpu[0]) {
        command_usage(self, "vgpu '': expected a name or id; 'facet vgpu list' lists them");
        return false;
    }
    if (getenv(FACET_ENV_VGPU_DIR)) {
        command_usage(self, "already inside a virtual GPU (%s is set); run it outside", FACET_ENV_VGPU_DIR);
        return false;
    }
    return true;
}

/* What can still be refused before a daemon is asked or started. */
static enum facet_status prepare(struct run *run, struct facet_error *error)
{
    enum facet_status status = facet_path_shipped(LAYER_FILE, run->layer, sizeof run->layer, error);

    if (status == FACET_OK)
        status = client_open(&run->client, true, error);
    if (status == FACET_OK && run->options.report)
        status = report_open(run->options.report, &run->report, error);
    return status;
}

static enum facet_status create_vgpu(struct run *run, struct facet_error *error)
{
    CLIENT_CLEANUP_JSON json_t *body = NULL;
    const struct request *request = &run->options.request;
    enum facet_status status = request_body(request, &run->client, request->device, &body, error);

    if (status != FACET_OK)
        return status;
    if (json_object_set_new(body, "ephemeral", json_true()) != 0)
        return facet_error_set(error, FACET_NO_MEMORY, "cannot build a request");
    status = client_call(&run->client, "POST", "/v1/vgpus", body, &run->vgpu, error);
    run->created = status == FACET_OK;
    if (status == FACET_OK)
        status = facet_hold_acquire(view_text(run->vgpu, "segment"), &run->hold, error);
    return status;
}

/* Holds it too, so that it is not destroyed before the command is attached; another holder keeps it just as well. */
static enum facet_status join_vgpu(struct run *run, struct facet_error *error)
{
    enum facet_status status = client_call_vgpu(&run->client, "GET", run->options.vgpu, "", NULL, &run->vgpu, error);
    const char *segment = view_text(run->vgpu, "segment");

    if (status == FACET_OK)
        status = facet_segment_read_totals(segment, &run->before, error);
    if (status == FACET_OK)
        status = facet_hold_acquire(segment, &run->hold, error);
    return status == FACET_BUSY ? FACET_OK : status;
}

static void describe(const struct run *run)
{
    char memory[VIEW_SIZE], compute[VIEW_SIZE];
    const json_t *vgpu = run->vgpu;
    uint64_t request = view_number(vgpu, "compute_request_milli"), limit = view_number(vgpu, "compute_limit_milli");

    if (view_has(vgpu, "warning"))
        command_warn(run->self, "%s", view_text(vgpu, "warning"));
    if (json_is_true(json_object_get(vgpu, "simulated")))
        command_warn(run->self, "device %s is simulated: programs cannot run on it; the command runs without a device",
                     view_text(vgpu, "device"));
    if (!run->options.verbose)
        return;
    facet_format_size(view_number(vgpu, "memory_limit_bytes"), memory, sizeof memory);
    if (request || limit < FACET_MILLI_WHOLE)
        view_compute(request, limit, compute);
    else
        snprintf(compute, sizeof compute, "best effort");
    fprintf(stderr, "facet run: %s on %s (%s): memory %s, compute %s, mode %s\n", view_text(vgpu, "name"),
            view_text(vgpu, "device"), view_text(vgpu, "device_name"), memory, compute, view_text(vgpu, "mode"));
}

/* Amounts of this run alone: a vGPU that was there before has counted others already. */
static json_t *report_json(const struct run *run, const struct facet_usage_totals *after,
                           const struct launch_outcome *outcome)
{
    const json_t *vgpu = run->vgpu;
    const struct facet_usage_totals *before = &run->before;

    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "name",
                     view_text(vgpu, "name"), "device", view_text(vgpu, "device"), "mode", view_text(vgpu, "mode"),
                     "memory_limit_bytes", (json_int_t)view_number(vgpu, "memory_limit_bytes"), "memory_peak_bytes",
                     (json_int_t)after->memory_peak_bytes, "denied_allocations",
                     (json_int_t)(after->denied - before->denied), "compute_request_milli",
                     (json_int_t)view_number(vgpu, "compute_request_milli"), "compute_limit_milli",
                     (json_int_t)view_number(vgpu, "compute_limit_milli"), "device_time_ns",
                     (json_int_t)(after->busy_ns - before->busy_ns), "wall_ns", (json_int_t)outcome->wall_ns,
                     "launches", (json_int_t)(after->launches - before->launches), "throttled_ns",
                     (json_int_t)(after->throttled_ns - before->throttled_ns), "exit_status", outcome->exit_status);
}

/* Why a program failed is not always said by it: whether it reached the device, and was refused memory, is. */
static void summarize(const struct run *run)
{
    char peak[VIEW_SIZE];
    struct facet_usage_totals after;
    const struct facet_usage_totals *before = &run->before;

    if (!run->options.verbose || facet_segment_read_totals(view_text(run->vgpu, "segment"), &after, NULL) != FACET_OK)
        return;
    facet_format_size(after.memory_peak_bytes, peak, sizeof peak);
    fprintf(stderr, "facet run: %" PRIu64 " launches, memory peak %s, %" PRIu64 " denied allocations\n",
            after.launches - before->launches, peak, after.denied - before->denied);
}

static enum facet_status write_report(struct run *run, const struct launch_outcome *outcome, struct facet_error *error)
{
    struct facet_usage_totals after;
    CLIENT_CLEANUP_JSON json_t *json = NULL;
    enum facet_status status;

    if (!run->report.file)
        return FACET_OK;
    status = facet_segment_read_totals(view_text(run->vgpu, "segment"), &after, error);
    if (status != FACET_OK)
        return status;
    json = report_json(run, &after, outcome);
    if (!json)
        return facet_error_set(error, FACET_NO_MEMORY, "cannot write the report");
    return report_finish(&run->report, json, error);
}

/* A daemon that dies while it is asked may hold its socket for another moment: so a few times, with a pause. */
static enum facet_status delete_vgpu(struct run *run, struct facet_error *error)
{
    const struct timespec pause = {.tv_nsec = DELETE_PAUSE_NS};
    const char *id = view_text(run->vgpu, "id");

    for (int left = DELETE_ATTEMPTS;; left--) {
        enum facet_status status = client_call_vgpu(&run->client, "DELETE", id, "", NULL, NULL, error);
        if (status != FACET_IO || run->client.unreachable || left == 1)
            return status;
        nanosleep(&pause, NULL);
    }
}

/*
 * Takes the vGPU back at once instead of leaving that to the daemon's next round; when the daemon is gone, another one
 * is started for it. Processes that the command left behind keep the vGPU (busy); then it goes with the last of them.
 */
static void remove_vgpu(struct run *run)
{
    struct facet_error error = {0};

    if (!run->created)
        return;
    if (run->hold >= 0)
        close(FACET_TAKE_FD(run->hold));
    enum facet_status status = delete_vgpu(run, &error);
    bool settled = status == FACET_OK || status == FACET_BUSY || status == FACET_NOT_FOUND;
    if (run->client.unreachable || !settled)
        command_warn(run->self, "vGPU %s is left to the next daemon: %s", view_text(run->vgpu, "name"), error.message);
}

static int refuse_command(const struct run *run, const struct facet_error *error)
{
    command_refuse(run->self, false, error, NULL);
    return error->status == FACET_PERMISSION ? EXIT_NOT_EXECUTABLE : EXIT_NOT_FOUND;
}

/* In the vGPU: the command's exit status, or why it could not be started. */
static int run_inside(struct run *run)
{
    struct facet_error error = {0};
    struct launch_outcome outcome;
    struct launch_cuda cuda;

    if (launch_cuda_find(view_text(run->vgpu, "segment"), &cuda, &error) != FACET_OK)
        return command_refuse(run->self, false, &error, NULL);
    const struct launch_place place = {.vgpu_dir = view_text(run->vgpu, "segment"),
                                       .layer = run->layer,
                                       .cuda = &cuda,
                                       .environment = json_object_get(run->vgpu, "environment")};

    describe(run);
    if (launch_run(run->command, &place, &outcome, &error) != FACET_OK)
        return command_refuse(run->self, false, &error, NULL);
    summarize(run);
    if (write_report(run, &outcome, &error) != FACET_OK)
        command_warn(run->self, "no report: %s", error.message);
    return outcome.exit_status;
}

static int run_command(struct run *run)
{
    struct facet_error error = {0};
    int status;

    if (request_check(&run->options.request, &error) != FACET_OK)
        return command_refuse(run->self, false, &error, NULL);
    if (launch_check(run->command[0], &error) != FACET_OK)
        return refuse_command(run, &error);
    if (prepare(run, &error) == FACET_OK &&
        (run->options.vgpu ? join_vgpu(run, &error) : create_vgpu(run, &error)) == FACET_OK)
        status = run_inside(run);
    else
        status = command_refuse(run->self, false, &error, run->client.advice);
    remove_vgpu(run);
    return status;
}

static int run_run(const struct command *self, int argc, char **argv)
{
    __attribute__((cleanup(run_cleanup))) struct run run = {.self = self, .hold = -1};
    int status = EXIT_DONE;

    if (!read_options(self, argc, argv, &run.options, &status))
        return status;
    if (!check_usage(self, argc, &run.options))
        return EXIT_USAGE;
    run.command = argv + optind;
    return run_command(&run);
}

const struct command command_run = {
    .name = "run",
    .help = "usage: facet run [-d DEVICE] [-m MEMORY] [-c REQUEST[:LIMIT]] [--mode MODE]\n"
            "                 [--template T] [--priority P] [--idle-freeze S] [--name NAME]\n"
            "                 [--reservation R] [--report FILE] [-v]\n"
            "                 [--] COMMAND [ARGUMENT...]\n"
            "       facet run --vgpu VGPU [--report FILE] [-v] [--] COMMAND [ARGUMENT...]\n"
            "\n"
            "Runs an unmodified program in a virtual GPU of its own, or in one that exists.\n"
            "The program sees a device of MEMORY bytes, cannot get a byte more, and gets its\n"
            "share of the device's time when others want it.\n"
            "\n"
            "  -d, --device DEVICE      an id, uuid or index of 'facet devices'; default 0\n"
            "  -m, --memory MEMORY      quota: 512M, 2G, 50%; default all of the device's\n"
            "  -c, --compute REQ[:LIM]  guaranteed share and cap: 30, 0.3, 30:60; default\n"
            "                           best effort without a cap\n"
            "      --mode MODE          shared, soft, hard or partitioned; default soft\n"
            "      --template T         of 'facet devices DEVICE', when partitioned; default\n"
            "                           the smallest that holds MEMORY and REQUEST\n"
            "      --priority P         low, normal or high; default normal\n"
            "      --idle-freeze S      freeze when idle for S seconds, until the next launch\n"
            "      --reservation R      within what 'facet place' reserved: its first device,\n"
            "                           and as much by default; hard cannot have more\n"
            "      --name NAME          default vgpu-1, vgpu-2, ...\n"
            "      --vgpu VGPU          run inside this virtual GPU, by name or id\n"
            "      --report FILE        write what was used, as JSON; - is standard output\n"
            "  -v, --verbose            say which virtual GPU it is, and then what was used\n"
            "\n"
            "Exit status: the command's own, 128+N when signal N killed it; 127 when it is\n"
            "not found, 126 when it cannot be executed; 2 for a wrong option or value, 1 when\n"
            "the daemon refuses.\n"
            "\n"
            "  facet run -m 256M -c 30 -- hashcat -b\n"
            "  facet run -c 20:50 --report use.json clpeak\n",
    .run = run_run,
};
