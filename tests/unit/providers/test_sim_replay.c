/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of examples/sim_replay: recorded times are replayed exactly, a fit explains waves, bad traces are
 * refused.
 *
 * FACET_TRACES may name a folder with orion/model_kernels/ and reef/, of which every trace is replayed as well.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>

#include "sim_world.h"

extern char **environ;

static char output[1 << 20];

/* Runs sim_replay with up to three arguments; its output is in `output`. Returns its exit status. */
static int run_replay(const char *first, const char *second, const char *third)
{
    char program[512], option[] = "--provider", plugin[512], *arguments[7] = {program, option, plugin};
    const char *extra[] = {first, second, third};
    posix_spawn_file_actions_t actions;
    int pipes[2], status;
    size_t length = 0;
    pid_t child;

    snprintf(program, sizeof program, "%s/examples/sim_replay", getenv("FACET_LIB_DIR"));
    snprintf(plugin, sizeof plugin, "%s/facet-provider-sim.so", getenv("FACET_LIB_DIR"));
    for (size_t i = 0; i < 3; i++)
        arguments[3 + i] = (char *)(uintptr_t)extra[i];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], 2);
    assert_int_equal(posix_spawn(&child, program, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    for (ssize_t got; (got = read(pipes[0], output + length, sizeof output - 1 - length)) > 0;)
        length += (size_t)got;
    output[length] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const char *write_trace(const char *name, const char *text)
{
    static char path[128];

    world_file("FACET_TEST_TRACE", name, text);
    snprintf(path, sizeof path, "%s/%s", world_folder(), name);
    return path;
}

static void expect_output(const char *text)
{
    if (!strstr(output, text))
        fail_msg("expected '%s' in:\n%s", text, output);
}

#define HEADER "Name,Profile,Memory_footprint,SM_usage,Duration\n"

static void recorded_times_are_replayed(void **state)
{
    (void)state;
    assert_int_equal(run_replay(write_trace("trace.csv", HEADER "void f(int, char),0,0,12,1500\n"
                                                                "g,-1,0,2862,106943\n"
                                                                "void f(int, char),1,0,3,500\n"),
                                NULL, NULL),
                     0);
    expect_output("       2        2.000        2.000     0.00  void f(int, char)\n");
    expect_output("       1      106.943      106.943     0.00  g\n");
    expect_output("       3      108.943      108.943     0.00  total\n");
    expect_output("27537 launches/s");
    expect_output("Simulated Tiny");
}

/*
 * On 100 units with one slot each, 100 groups take one wave and 300 take three, so one cost of a group explains both
 * times. No cost explains two equal launches of 1000 and 3000 ns: the fitted times differ by half of their sum.
 */
static void a_fit_explains_waves_and_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(run_replay("--fit",
                                write_trace("trace.csv", HEADER "waves,0,0,100,1000\nwaves,0,0,300,3000\n"
                                                                "odd,0,0,7,1000\nodd,0,0,7,3000\n"),
                                NULL),
                     0);
    expect_output("       2        4.000        4.000     0.00  waves\n");
    expect_output("       2        4.000        4.000    50.00  odd\n");
}

static void json_traces_have_their_latencies_in_a_file_beside_them(void **state)
{
    (void)state;
    world_file("FACET_TEST_TRACE", "trace.profile.json",
               "{\"model_latency\": 30, \"kernel_latency\": {\"add\": {\"total_latency\": 16, \"latency\": [14]}}}");
    assert_int_equal(
        run_replay("--device", "1",
                   write_trace("trace.json", "{\"kernels\": [{\"name\": \"add\", \"launch_params\": [2, 3, 1, 8, 8, "
                                             "1], \"args\": []}]}")),
        0);
    expect_output("       1       16.000       16.000     0.00  add\n");
    assert_int_equal(
        run_replay(write_trace("trace.json", "{\"kernels\": [{\"name\": \"unknown\", \"launch_params\": [1, 1, 1, "
                                             "1, 1, 1]}]}"),
                   NULL, NULL),
        1);
    expect_output("kernels[0]");
}

static void bad_traces_are_refused(void **state)
{
    (void)state;
    assert_int_equal(run_replay(write_trace("trace.csv", "Name,Duration\nf,1\n"), NULL, NULL), 1);
    expect_output("expected the header");
    assert_int_equal(run_replay(write_trace("trace.csv", HEADER "f,0,0,1,abc\n"), NULL, NULL), 1);
    expect_output("line 2: Duration");
    assert_int_equal(run_replay(write_trace("trace.csv", HEADER "f,0,0,0,7\n"), NULL, NULL), 1);
    expect_output("0 groups");
    assert_int_equal(run_replay(write_trace("trace.csv", HEADER), NULL, NULL), 1);
    expect_output("at least one kernel");
    assert_int_equal(run_replay("--device", "9", write_trace("trace.csv", HEADER "f,0,0,1,7\n")), 1);
    expect_output("--device 9");
    assert_int_equal(run_replay("/nonexistent.csv", NULL, NULL), 1);
    assert_int_equal(run_replay(NULL, NULL, NULL), 2);
}

/* Replays all traces of a folder, and returns their number. */
static unsigned replay_folder(const char *root, const char *name)
{
    char folder[PATH_MAX];
    unsigned replayed = 0;

    snprintf(folder, sizeof folder, "%s/%s", root, name);
    DIR *traces = opendir(folder);
    assert_non_null(traces);
    for (struct dirent *entry; (entry = readdir(traces));) {
        char path[PATH_MAX + 257];

        if (entry->d_name[0] == '.' || strstr(entry->d_name, ".profile.json") ||
            (strcmp(name, "reef") == 0 && !strstr(entry->d_name, ".json")))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (run_replay(path, NULL, NULL) != 0)
            fail_msg("%s: %s", path, output);
        expect_output("     0.00  total\n");
        replayed++;
    }
    closedir(traces);
    return replayed;
}

static void recorded_traces_are_replayed(void **state)
{
    const char *root = getenv("FACET_TRACES");
    (void)state;

    assert_non_null(root);
    setenv("FACET_SIM_PROFILE", "h100", 1);
    assert_true(replay_folder(root, "orion/model_kernels") > 0);
    assert_true(replay_folder(root, "reef") > 0);
}

static int set_up(void **state)
{
    (void)state;
    world_profile(&(struct world_setup){0});
    setenv("FACET_SIM_CLOCK", "stepped", 1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(recorded_times_are_replayed, set_up),
        cmocka_unit_test_setup(a_fit_explains_waves_and_nothing_else, set_up),
        cmocka_unit_test_setup(json_traces_have_their_latencies_in_a_file_beside_them, set_up),
        cmocka_unit_test_setup(bad_traces_are_refused, set_up),
        /* Must be the last: it is left out where there are no traces, because cmocka's skip() is "not ok" in TAP. */
        cmocka_unit_test(recorded_traces_are_replayed),
    };
    size_t count = sizeof tests / sizeof *tests;

    if (!getenv("FACET_TRACES")) {
        count--;
        puts("# FACET_TRACES is not set: no real traces to replay");
        fflush(stdout);
    }
    return _cmocka_run_group_tests("sim replay", tests, count, NULL, NULL);
}
