/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: starting a child for each group, receiving its reports, and reporting how it ended.
 * Never: waits forever, or lets a provider touch the caller's terminal, working folder, umask or process group.
 */
#include "conformance/conformance.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "conformance/group.h"
#include "conformance/wire.h"

#define DEADLINE_DEFAULT_NS (10 * FACET_NS_PER_S)

static const struct facet_check_group *const groups[] = {
    &facet_check_entry,     &facet_check_device,  &facet_check_topology,  &facet_check_modes,   &facet_check_partition,
    &facet_check_limit,     &facet_check_metrics, &facet_check_container, &facet_check_memory,  &facet_check_mapping,
    &facet_check_execution, &facet_check_math,    &facet_check_snapshot,  &facet_check_threads,
};

enum { GROUPS = sizeof groups / sizeof groups[0] };

/* How a child ended. */
enum ending {
    ENDING_DONE,
    ENDING_DIED,
    ENDING_HUNG,
};

/* The group that runs, its child, and the receiver of its results. */
struct run {
    const struct facet_conformance_options *options;
    const struct facet_check_group *group;
    facet_conformance_report_func report;
    void *user;
    struct facet_conformance_summary summary;
    uint64_t deadline_ns;
    pid_t pid;
    int fd;
    char under_way[160]; /* the last assertion that was announced */
    bool pending;        /* `under_way` has no result yet */
};

static void report_result(struct run *run, const struct facet_conformance_result *result)
{
    run->summary.passed += result->outcome == FACET_CONFORMANCE_PASSED;
    run->summary.failed += result->outcome == FACET_CONFORMANCE_FAILED;
    run->summary.skipped += result->outcome == FACET_CONFORMANCE_SKIPPED;
    run->report(run->user, result);
}

/* Handles a message; false when it was the last. */
static bool take_message(struct run *run, const struct facet_check_message *message)
{
    switch (message->kind) {
    case FACET_CHECK_BEGUN:
        memcpy(run->under_way, message->result.text, sizeof run->under_way);
        run->pending = true;
        return true;
    case FACET_CHECK_RESULT:
        run->pending = run->pending && message->result.outcome > FACET_CONFORMANCE_FAILED;
        report_result(run, &message->result);
        return true;
    default:
        return false;
    }
}

/* Waits for the next message, at most until the deadline, which each message sets anew. */
static bool wait_readable(int fd, uint64_t limit_ns)
{
    uint64_t end = facet_clock_now_ns() + limit_ns;

    for (;;) {
        uint64_t now = facet_clock_now_ns();
        const struct timespec left = facet_ns_timespec(end > now ? end - now : 0);
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        int ready = ppoll(&readable, 1, &left, NULL);

        if (ready >= 0)
            return ready > 0;
        if (errno != EINTR)
            return false;
    }
}

static enum ending receive_results(struct run *run)
{
    struct facet_check_message message;

    for (;;) {
        if (!wait_readable(run->fd, run->deadline_ns))
            return ENDING_HUNG;
        ssize_t bytes = read(run->fd, &message, sizeof message);
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes != sizeof message)
            return ENDING_DIED;
        if (!take_message(run, &message))
            return ENDING_DONE;
    }
}

/* Kills processes that a provider left running before reaping the child, while the group's number cannot be reused. */
static int reap_group(pid_t pid)
{
    siginfo_t info;
    int status, ended;
    pid_t waited;

    do
        ended = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    while (ended < 0 && errno == EINTR);
    if (ended < 0) /* the caller's program has reaped the child, so its number may have been reused */
        return -1;
    kill(-pid, SIGKILL);
    do
        waited = waitpid(pid, &status, 0);
    while (waited < 0 && errno == EINTR);
    return waited == pid ? status : -1;
}

static void describe_end(const struct run *run, enum ending ending, int status, char *text, size_t size)
{
    if (ending == ENDING_HUNG)
        snprintf(text, size, "no answer within %" PRIu64 " s", run->deadline_ns / FACET_NS_PER_S);
    else if (status >= 0 && WIFSIGNALED(status))
        snprintf(text, size, "crashed with signal %d (%s)", WTERMSIG(status), sigdescr_np(WTERMSIG(status)));
    else if (status >= 0 && WIFEXITED(status))
        snprintf(text, size, "called exit(%d)", WEXITSTATUS(status));
    else
        snprintf(text, size, "ended its process");
}

/* The assertion under way fails; when there is none, the group itself does. */
static void report_end(struct run *run, enum ending ending, int status)
{
    struct facet_conformance_result result = {.outcome = FACET_CONFORMANCE_FAILED};
    char how[80];

    describe_end(run, ending, status, how, sizeof how);
    snprintf(result.group, sizeof result.group, "%s", run->group->name);
    if (run->pending)
        snprintf(result.text, sizeof result.text, "%s", run->under_way);
    else
        snprintf(result.text, sizeof result.text, "%s: the group runs to its end", run->group->name);
    snprintf(result.diagnostic, sizeof result.diagnostic,
             "expected: an answer\ngot: %s %s '%s'\nnote: the rest of the group '%s' was not run", how,
             run->pending ? "during" : "after", run->under_way, run->group->name);
    report_result(run, &result);
}

static enum facet_status start_group(struct run *run, struct facet_error *error)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return facet_error_errno(error, errno, "no pipe to the group '%s'", run->group->name);
    FACET_CLEANUP_FD int read_end = ends[0];
    FACET_CLEANUP_FD int write_end = ends[1];

    run->pid = fork();
    if (run->pid < 0)
        return facet_error_errno(error, errno, "no process for the group '%s'", run->group->name);
    if (run->pid == 0)
        facet_check_group_run(run->group, run->options, write_end);
    run->fd = FACET_TAKE_FD(read_end);
    return FACET_OK;
}

static enum facet_status run_group(struct run *run, struct facet_error *error)
{
    run->pending = false;
    snprintf(run->under_way, sizeof run->under_way, "%s: begins", run->group->name);
    enum facet_status status = start_group(run, error);
    if (status != FACET_OK)
        return status;

    enum ending ending = receive_results(run);
    if (ending == ENDING_HUNG)
        kill(run->pid, SIGKILL);
    int wait_status = reap_group(run->pid);
    if (ending != ENDING_DONE)
        report_end(run, ending, wait_status);
    close(run->fd);
    return FACET_OK;
}

const char *facet_conformance_group_name(uint32_t index)
{
    return index < GROUPS ? groups[index]->name : NULL;
}

const char *facet_conformance_group_about(uint32_t index)
{
    return index < GROUPS ? groups[index]->about : NULL;
}

static bool is_group(const char *name)
{
    for (uint32_t i = 0; i < GROUPS; i++)
        if (strcmp(groups[i]->name, name) == 0)
            return true;
    return false;
}

enum facet_status facet_conformance_run(const struct facet_conformance_options *options,
                                        facet_conformance_report_func report, void *user,
                                        struct facet_conformance_summary *ret_summary, struct facet_error *error)
{
    struct run run = {.options = options, .report = report, .user = user};

    if (options->only && !is_group(options->only))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "only", "no group '%s', expected one of the list",
                                    options->only);
    run.deadline_ns = options->deadline_ns ? options->deadline_ns : DEADLINE_DEFAULT_NS;
    for (uint32_t i = 0; i < GROUPS; i++) {
        run.group = groups[i];
        if (options->only && strcmp(options->only, run.group->name) != 0)
            continue;
        enum facet_status status = run_group(&run, error);
        if (status != FACET_OK)
            return status;
    }
    *ret_summary = run.summary;
    return FACET_OK;
}
