/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet run`, from options to the command's own exit status. Never: creates a vGPU for a wrong request. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <facet/limits.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "command.h"
#include "launch.h"
#include "launch_answer.h"
#include "limiter/belief.h"
#include "limiter/owner.h"
#include "limiter/tenant.h"
#include "report.h"
#include "request.h"
#include "run_advice.h"
#include "unknown.h"
#include "view.h"

#define LAYER_FILE "libfacet-opencl-layer.so"

enum { DELETE_ATTEMPTS = 5, DELETE_PAUSE_NS = 20 * 1000 * 1000 };

struct options {
    struct request request;
    const char *vgpus[LAUNCH_MAX_VGPUS], *report;
    size_t vgpu_count; /* 0: a vGPU is created for the command */
    bool verbose;
};

/* A vGPU that the command runs in. */
struct joined_vgpu {
    json_t *vgpu;
    int hold_fd;                      /* keeps an ephemeral vGPU alive while the command runs; -1: not held */
    struct facet_usage_totals before; /* the counts when the command started */
    uint64_t before_ns, device_time_before_ns;
};

/* The resources held while the command runs. Released by run_cleanup() in reverse. */
struct run {
    const struct command *self;
    struct options options;
    char **command;
    char layer[FACET_PATH_SIZE];
    struct report report;
    struct client client;
    struct joined_vgpu joined[LAUNCH_MAX_VGPUS];
    size_t count;
    bool created;     /* the only vGPU was created here, and is removed at the end */
    bool is_launcher; /* the command is a known launcher (run_launcher.h) */
};

static void run_cleanup(struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        if (run->joined[i].hold_fd >= 0)
            close(run->joined[i].hold_fd);
        json_decref(run->joined[i].vgpu);
    }
    client_close(&run->client);
    report_abandon(&run->report);
}

static bool add_vgpu(const struct command *self, struct options *options, const char *name)
{
    if (!name[0]) {
        command_usage(self, "vgpu '': expected a name or id; 'facet vgpu list' lists them");
        return false;
    }
    if (strchr(name, '/')) {
        command_usage(self, "vgpu '%.80s': expected a name or id, which has no '/'; 'facet vgpu list' lists them",
                      name);
        return false;
    }
    if (options->vgpu_count == LAUNCH_MAX_VGPUS) {
        command_usage(self, "vgpu '%s': a program can be in %d virtual GPUs at most", name, LAUNCH_MAX_VGPUS);
        return false;
    }
    options->vgpus[options->vgpu_count++] = name;
    return true;
}

/* True: the command begins at optind. False: the caller returns *ret_exit. */
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
        if (option == OPTION_VGPU) {
            if (!add_vgpu(self, options, optarg)) {
                *ret_exit = EXIT_USAGE;
                return false;
            }
        } else if (option == OPTION_REPORT)
            options->report = optarg;
        else
            options->verbose = true;
    }
    return true;
}

static bool check_usage(const struct command *self, int argc, const struct options *options)
{
    const char *given = request_first_given(&options->request);

    if (optind >= argc) {
        command_usage(self, "the command is missing; for example 'facet run -m 256M -c 30 -- clinfo'");
        return false;
    }
    if (options->vgpu_count && given) {
        command_usage(
            self,
            "%s does not go with --vgpu: '%s' has its limits already; 'facet vgpu set' changes some, the others "
            "are chosen when it is created",
            given, options->vgpus[0]);
        return false;
    }
    if (options->report && !options->report[0]) {
        command_usage(self, "--report '': expected a file, or '-' for standard output");
        return false;
    }
    if (options->vgpu_count > 1 && options->report) {
        command_usage(self, "--report is about one virtual GPU, and there are %zu", options->vgpu_count);
        return false;
    }
    if (getenv(FACET_ENV_VGPU_DIR)) {
        command_usage(self, "already inside a virtual GPU (%s is set); run it outside", FACET_ENV_VGPU_DIR);
        return false;
    }
    return true;
}

/* Finds and opens all that can fail before a daemon is asked or started. */
static enum facet_status prepare_run(struct run *run, struct facet_error *error)
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
    struct joined_vgpu *joined = &run->joined[0];
    status = client_call(&run->client, "POST", "/v1/vgpus", body, &joined->vgpu, error);
    if (status != FACET_OK)
        return status;
    if (run->client.environment_note[0])
        command_warn(run->self, "%s", run->client.environment_note);
    joined->hold_fd = -1;
    joined->before_ns = facet_clock_now_ns();
    run->count = 1;
    run->created = true;
    status = launch_answer_check_segment(view_text(joined->vgpu, "segment"), error);
    return status == FACET_OK ? facet_hold_acquire(view_text(joined->vgpu, "segment"), &joined->hold_fd, error)
                              : status;
}

/* Refuses a vGPU that the daemon does not serve, and so does not measure: its limits would not hold. */
static enum facet_status check_served(const json_t *vgpu, struct facet_error *error)
{
    if (view_has(vgpu, "idle_frozen"))
        return FACET_OK;
    return facet_error_argument(error, FACET_BAD_STATE, "vgpu", "vGPU %s: %s", view_text(vgpu, "name"),
                                view_has(vgpu, "warning") ? view_text(vgpu, "warning")
                                                          : "the daemon does not serve it");
}

/* Joins an existing vGPU, and holds it, so that it is not destroyed before the command enters. After FACET_BUSY,
 * another holder keeps it. */
static enum facet_status join_vgpu(struct run *run, const char *name, struct facet_error *error)
{
    struct joined_vgpu *joined = &run->joined[run->count];
    struct facet_error reason = {0};
    enum facet_status status = client_call_vgpu(&run->client, "GET", name, "", NULL, &joined->vgpu, error);
    const char *segment = view_text(joined->vgpu, "segment");

    if (status != FACET_OK)
        return status;
    joined->hold_fd = -1;
    joined->before_ns = facet_clock_now_ns();
    run->count++;
    status = launch_answer_check_segment(segment, error);
    if (status == FACET_OK)
        status = check_served(joined->vgpu, error);
    if (status == FACET_OK)
        status = facet_segment_read_totals(segment, &joined->before, &reason);
    if (status == FACET_OK)
        status = facet_segment_read_device_time(segment, &joined->device_time_before_ns, &reason);
    if (reason.status == FACET_CORRUPT)
        return facet_error_set(error, FACET_CORRUPT,
                               "vGPU %s: its segment was damaged from outside; destroy it and create it again: %.200s",
                               view_text(joined->vgpu, "name"), reason.message);
    if (reason.status != FACET_OK) {
        *error = reason;
        return status;
    }
    if (status == FACET_OK)
        status = facet_hold_acquire(segment, &joined->hold_fd, error);
    return status == FACET_BUSY ? FACET_OK : status;
}

static enum facet_status join_vgpus(struct run *run, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (size_t i = 0; status == FACET_OK && i < run->options.vgpu_count; i++)
        status = join_vgpu(run, run->options.vgpus[i], error);
    return status;
}

static void describe_vgpu(const struct run *run, const json_t *vgpu)
{
    char memory[VIEW_SIZE], compute[VIEW_SIZE];
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

/* Which totals after the run are plausible (FACET_BELIEVED_*): tenants can write the segment. */
static uint32_t believed_totals(const struct joined_vgpu *joined, const struct facet_usage_totals *after)
{
    uint64_t limit = view_number(joined->vgpu, "memory_limit_bytes"), now_ns = facet_clock_now_ns();
    struct facet_segment_device device = {0};
    struct facet_belief belief = {0};

    (void)facet_segment_read_device(view_text(joined->vgpu, "segment"), &device, NULL);
    /* A vGPU that existed before may have had a larger quota. */
    uint64_t most = joined->before.slots_used && device.memory_bytes > limit ? device.memory_bytes : limit;
    (void)facet_belief_check(&belief, &joined->before, most, joined->before_ns);
    return facet_belief_check(&belief, after, most, now_ns);
}

/* NULL for an implausible total; json_pack() then leaves the member out. */
static json_t *amount_json(uint32_t believed, uint32_t bit, uint64_t number)
{
    return believed & bit ? json_integer((json_int_t)number) : NULL;
}

/* Reports the amounts of this run alone, without what an existing vGPU counted before. */
static json_t *report_json(const struct run *run, const struct facet_usage_totals *after, uint64_t device_time_ns,
                           const struct launch_outcome *outcome)
{
    const json_t *vgpu = run->joined[0].vgpu;
    const struct facet_usage_totals *before = &run->joined[0].before;
    uint32_t believed = believed_totals(&run->joined[0], after);

    return json_pack("{s:s, s:s, s:s, s:I, s:o*, s:o*, s:I, s:I, s:o*, s:I, s:o*, s:o*, s:i}", "name",
                     view_text(vgpu, "name"), "device", view_text(vgpu, "device"), "mode", view_text(vgpu, "mode"),
                     "memory_limit_bytes", (json_int_t)view_number(vgpu, "memory_limit_bytes"), "memory_peak_bytes",
                     amount_json(believed, FACET_BELIEVED_PEAK, after->memory_peak_bytes), "denied_allocations",
                     amount_json(believed, FACET_BELIEVED_DENIED, after->denied - before->denied),
                     "compute_request_milli", (json_int_t)view_number(vgpu, "compute_request_milli"),
                     "compute_limit_milli", (json_int_t)view_number(vgpu, "compute_limit_milli"), "device_time_ns",
                     amount_json(believed, FACET_BELIEVED_BUSY, device_time_ns), "wall_ns",
                     (json_int_t)outcome->wall_ns, "launches",
                     amount_json(believed, FACET_BELIEVED_LAUNCHES, after->launches - before->launches), "throttled_ns",
                     amount_json(believed, FACET_BELIEVED_THROTTLED, after->throttled_ns - before->throttled_ns),
                     "exit_status", outcome->exit_status);
}

/* Says whether the program reached the device and was refused memory, because a failed program may not say so. */
static void print_summary(const struct run *run, const struct joined_vgpu *joined)
{
    char peak[VIEW_SIZE], name[VIEW_SIZE] = "";
    struct facet_usage_totals after;
    const struct facet_usage_totals *before = &joined->before;

    if (!run->options.verbose ||
        facet_segment_read_totals(view_text(joined->vgpu, "segment"), &after, NULL) != FACET_OK)
        return;
    if (run->count > 1)
        snprintf(name, sizeof name, "%s: ", view_text(joined->vgpu, "name"));
    if (believed_totals(joined, &after) != FACET_BELIEVED_ALL) {
        command_warn(run->self, "%sits segment was damaged while the command ran: its counts mean nothing", name);
        return;
    }
    facet_format_size(after.memory_peak_bytes, peak, sizeof peak);
    fprintf(stderr, "facet run: %s%" PRIu64 " launches, memory peak %s, %" PRIu64 " denied allocations\n", name,
            after.launches - before->launches, peak, after.denied - before->denied);
}

/*
 * Whether to warn when no program entered the vGPU: only if limits or a summary were requested, since a program without
 * limits need not use a device. No process can enter a simulated vGPU, of which describe_vgpu() warned.
 */
static bool expects_entry(const struct run *run, const json_t *vgpu)
{
    bool wants_summary = run->options.verbose || run->options.vgpu_count || run->is_launcher;

    return (wants_summary || request_has_limits(&run->options.request)) &&
           !json_is_true(json_object_get(vgpu, "simulated"));
}

static enum facet_status write_report(struct run *run, const struct launch_outcome *outcome, struct facet_error *error)
{
    const struct joined_vgpu *joined = &run->joined[0];
    const char *segment = view_text(joined->vgpu, "segment");
    struct facet_usage_totals after;
    uint64_t device_time_ns;
    CLIENT_CLEANUP_JSON json_t *json = NULL;
    enum facet_status status;

    if (!run->report.file)
        return FACET_OK;
    status = facet_segment_read_totals(segment, &after, error);
    if (status == FACET_OK)
        status = facet_segment_read_device_time(segment, &device_time_ns, error);
    if (status != FACET_OK)
        return status;
    json = report_json(run, &after, device_time_ns - joined->device_time_before_ns, outcome);
    if (!json)
        return facet_error_set(error, FACET_NO_MEMORY, "cannot write the report");
    return report_finish(&run->report, json, error);
}

/* Retries a few times, because a daemon that dies during the call may hold its socket for another moment. */
static enum facet_status delete_vgpu(struct run *run, struct facet_error *error)
{
    const struct timespec pause = {.tv_nsec = DELETE_PAUSE_NS};
    const char *id = view_text(run->joined[0].vgpu, "id");

    for (int attempts = DELETE_ATTEMPTS;; attempts--) {
        enum facet_status status = client_call_vgpu(&run->client, "DELETE", id, "", NULL, NULL, error);
        if (status != FACET_IO || run->client.unreachable || attempts == 1)
            return status;
        nanosleep(&pause, NULL);
    }
}

/*
 * Removes the vGPU now, instead of waiting until the daemon finds it unused. Starts another daemon if this one is gone.
 * FACET_BUSY: processes of the command still run, and the daemon removes the vGPU when the last of them ends.
 */
static void remove_vgpu(struct run *run)
{
    struct facet_error error = {0};

    if (!run->created)
        return;
    if (run->joined[0].hold_fd >= 0)
        close(FACET_TAKE_FD(run->joined[0].hold_fd));
    enum facet_status status = delete_vgpu(run, &error);
    bool settled = status == FACET_OK || status == FACET_BUSY || status == FACET_NOT_FOUND;
    if (run->client.unreachable || !settled)
        command_warn(run->self, "vGPU %s is left to the next daemon: %s", view_text(run->joined[0].vgpu, "name"),
                     error.message);
}

static int refuse_command(const struct run *run, const struct facet_error *error)
{
    command_refuse(run->self, false, error, NULL);
    return error->status == FACET_PERMISSION ? EXIT_NOT_EXECUTABLE : EXIT_NOT_FOUND;
}

/* Joins the folders of all vGPUs, as FACET_VGPU_DIR lists them, and the variables that their devices need. */
static enum facet_status join_places(const struct run *run, char dirs[LAUNCH_DIRS_SIZE], json_t *environment,
                                     struct facet_error *error)
{
    size_t used = 0;

    for (size_t i = 0; i < run->count; i++) {
        const char *segment = view_text(run->joined[i].vgpu, "segment");

        used += (size_t)snprintf(dirs + used, LAUNCH_DIRS_SIZE - used, "%s%s", i ? ":" : "", segment);
        if (used >= LAUNCH_DIRS_SIZE)
            return facet_error_set(error, FACET_OUT_OF_RANGE, "the paths of the virtual GPUs' folders are too long");
        enum facet_status status = launch_answer_add_environment(run->self, run->joined[i].vgpu, environment, error);
        if (status != FACET_OK)
            return status;
    }
    return FACET_OK;
}

static enum facet_status find_place(const struct run *run, char dirs[LAUNCH_DIRS_SIZE], json_t *environment,
                                    struct launch_cuda *cuda, struct launch_hip *hip, struct facet_error *error)
{
    enum facet_status status = join_places(run, dirs, environment, error);

    if (status == FACET_OK)
        status = launch_cuda_find(dirs, cuda, error);
    if (status == FACET_OK)
        status = launch_hip_find(dirs, hip, error);
    if (status == FACET_OK && run->count > 1 && !cuda->addresses[0] && !hip->uuids[0])
        return facet_error_argument(error, FACET_UNSUPPORTED, "vgpu",
                                    "a program can be in several virtual GPUs only when all are of NVIDIA's GPUs, "
                                    "or all of AMD's");
    return status;
}

/* Runs the command in the vGPUs. Returns its exit status, or the one that says why it could not be started. */
static int run_inside(struct run *run)
{
    struct facet_error error = {0};
    struct launch_outcome outcome;
    struct launch_cuda cuda;
    struct launch_hip hip;
    char dirs[LAUNCH_DIRS_SIZE];
    CLIENT_CLEANUP_JSON json_t *environment = json_object();
    const struct launch_place place = {
        .vgpu_dirs = dirs, .layer = run->layer, .cuda = &cuda, .hip = &hip, .environment = environment};

    if (find_place(run, dirs, environment, &cuda, &hip, &error) != FACET_OK)
        return command_refuse(run->self, false, &error, NULL);
    for (size_t i = 0; i < run->count; i++) {
        describe_vgpu(run, run->joined[i].vgpu);
        run_advise_before(run->self, &run->client, run->joined[i].vgpu);
    }
    run->is_launcher = run_advise_launcher(run->self, run->command);
    if (launch_run(run->command, &place, &outcome, &error) != FACET_OK)
        return command_refuse(run->self, false, &error, NULL);
    for (size_t i = 0; i < run->count; i++) {
        print_summary(run, &run->joined[i]);
        run_advise_after(run->self, run->joined[i].vgpu, &run->joined[i].before);
        if (expects_entry(run, run->joined[i].vgpu))
            run_advise_unused(run->self, run->joined[i].vgpu);
    }
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
    if (prepare_run(run, &error) == FACET_OK &&
        (run->options.vgpu_count ? join_vgpus(run, &error) : create_vgpu(run, &error)) == FACET_OK)
        status = run_inside(run);
    else
        status = command_refuse(run->self, false, &error, run->client.advice);
    remove_vgpu(run);
    return status;
}

static int run_run(const struct command *self, int argc, char **argv)
{
    __attribute__((cleanup(run_cleanup))) struct run run = {.self = self};
    int status = EXIT_DONE;

    if (!read_options(self, argc, argv, &run.options, &status))
        return status;
    if (!check_usage(self, argc, &run.options))
        return EXIT_USAGE;
    run.command = argv + optind;
    if (run.options.verbose)
        unknown_warn(self);
    launch_prepare();
    return run_command(&run);
}

const struct command command_run = {
    .name = "run",
    .help = "usage: facet run [-d DEVICE] [-m MEMORY] [-c REQUEST[:LIMIT]] [--mode MODE]\n"
            "                 [--template T] [--priority P] [--idle-freeze S] [--name NAME]\n"
            "                 [--reservation R] [--oversubscribe] [--label KEY=VALUE]\n"
            "                 [--report FILE] [-v] [--] COMMAND [ARGUMENT...]\n"
            "       facet run --vgpu VGPU... [--report FILE] [-v] [--] COMMAND [ARGUMENT...]\n"
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
            "      --reservation R      within what 'facet place' reserved: its first device\n"
            "                           that can be used, and as much by default; hard\n"
            "                           cannot have more\n"
            "      --oversubscribe      swap its memory to the host's when others need the\n"
            "                           device's, so that quotas may sum above it (CUDA)\n"
            "      --name NAME          default vgpu-1, vgpu-2, ...\n"
            "      --label KEY=VALUE    a mark to find it by ('facet vgpu list --label KEY');\n"
            "                           repeat it for several\n"
            "      --vgpu VGPU          in this virtual GPU (name or id); several: repeat it\n"
            "      --report FILE        write what was used, as JSON; - is standard output\n"
            "  -v, --verbose            say which virtual GPU it is, and then what was used\n"
            "\n"
            "What podman, sudo, ssh, srun and their like start is out of reach: a warning\n"
            "says so before, and at the end of a run with limits that no program entered.\n"
            "\n"
            "Exit status: the command's own, 128+N when signal N killed it; 127 when it is\n"
            "not found, 126 when it cannot be executed; 2 for a wrong option or value, 1 when\n"
            "the daemon refuses.\n"
            "\n"
            "  facet run -m 256M -c 30 -- clinfo\n"
            "  facet run -c 20:50 --report use.json -- clinfo\n",
    .repeats = (const char *const[]){"--vgpu", "--label", NULL},
    .run = run_run,
};
