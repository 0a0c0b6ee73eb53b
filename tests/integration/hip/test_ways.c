/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a program gets Facet's library, however it loads the HIP runtime, and that this library finds the
 * runtime that the program would have loaded. Never: sets FACET_REAL_HIP, which names that runtime.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "apps/facet/launch_hip.h"
#include "limiter/tenant.h"
#include "machine.h"

/* what program.c prints in a vGPU of 1 GiB, and outside it; 2: hipErrorOutOfMemory */
#define INSIDE  "1 devices, 1024 MiB, 2 GiB 2, launch 0, 0"
#define OUTSIDE "1 devices, 8192 MiB, 2 GiB 0, launch 0, 0"

struct client_case {
    const char *program, *argument;
    const char *runtime; /* the variable that names the folder in which the loader finds the runtime; NULL: none */
    bool in_vgpu;        /* in a vGPU, with the variables that `facet run` sets */
    bool uses_ours;      /* in no vGPU, with Facet's library preloaded */
};

/* Does what `facet run` does between fork and exec. */
static void enter_role(void)
{
    struct facet_error error = {0};
    struct launch_hip entrance;

    CHECK_EQUAL(launch_hip_find(getenv(FACET_ENV_VGPU_DIR), &entrance, &error), FACET_OK);
    CHECK(launch_hip_enter(&entrance));
}

static void become_program(const struct client_case *client_case)
{
    char path[4096];

    machine_environment(client_case->in_vgpu);
    unsetenv("FACET_REAL_HIP");
    setenv("LD_LIBRARY_PATH", client_case->runtime ? getenv(client_case->runtime) : "", 1);
    snprintf(path, sizeof path, "%s/libamdhip64.so", getenv("FACET_TEST_HIP_OURS"));
    if (client_case->in_vgpu)
        enter_role();
    else if (client_case->uses_ours)
        setenv("LD_PRELOAD", path, 1);
    snprintf(path, sizeof path, "%s/%s", getenv("FACET_TEST_HIP_PROGRAMS"), client_case->program);
    alarm(60);
    execl(path, client_case->program, client_case->argument, (char *)NULL);
    _exit(127);
}

/* The program's output, without the end of its line. */
static const char *output_of(struct client_case client_case)
{
    static char output[4096];
    int ends[2], status = 0;
    size_t used = 0;
    ssize_t got;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO); /* catches a loader's complaint about versions, too */
        close(ends[0]);
        close(ends[1]);
        become_program(&client_case);
    }
    close(ends[1]);
    while (used < sizeof output - 1 && (got = read(ends[0], output + used, sizeof output - 1 - used)) > 0)
        used += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    output[used] = 0;
    output[strcspn(output, "\n")] = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s %s ended with wait status %#x, expected 0. Its output: %s", client_case.program,
                 client_case.argument ? client_case.argument : "", (unsigned)status, output);
    return output;
}

static int setup(void **state)
{
    machine_make(1, &(uint64_t){GIB}, "300M");
    return 0;
}

static int teardown(void **state)
{
    machine_remove();
    return 0;
}

#define FAKE "FACET_TEST_HIP_FAKE"
#define OLD  "FACET_TEST_HIP_OLD"

static void test_a_linked_program_finds_its_symbol_versions_and_has_its_limits(void **state)
{
    assert_string_equal(output_of((struct client_case){"program-linked", NULL, FAKE, true, false}), INSIDE);
}

static void test_a_program_linked_with_an_older_release_has_its_limits(void **state)
{
    setenv("FAKE_HIP_VERSION", "50200000", 1);
    assert_string_equal(output_of((struct client_case){"program-old", NULL, OLD, true, false}), INSIDE);
    unsetenv("FAKE_HIP_VERSION");
}

static void test_a_program_that_bundles_the_runtime_uses_it_and_has_its_limits(void **state)
{
    assert_string_equal(output_of((struct client_case){"program-bundled", NULL, NULL, false, false}), OUTSIDE);
    assert_string_equal(output_of((struct client_case){"program-bundled", NULL, NULL, true, false}), INSIDE);
}

static void test_a_program_that_opens_the_runtime_by_any_name_has_its_limits(void **state)
{
    assert_string_equal(output_of((struct client_case){"program", "libamdhip64.so.6", FAKE, true, false}), INSIDE);
    assert_string_equal(output_of((struct client_case){"program", "libamdhip64.so", FAKE, true, false}), INSIDE);
}

static void test_in_no_vgpu_each_call_reaches_the_runtime(void **state)
{
    assert_string_equal(output_of((struct client_case){"program-linked", NULL, FAKE, false, true}), OUTSIDE);
    assert_string_equal(output_of((struct client_case){"program-linked", NULL, FAKE, false, false}), OUTSIDE);
    assert_string_equal(output_of((struct client_case){"program-bundled", NULL, NULL, false, true}), OUTSIDE);
}

static void test_without_a_runtime_a_program_finds_no_device(void **state)
{
    assert_string_equal(output_of((struct client_case){"program-linked", NULL, NULL, true, false}),
                        "0 devices, 0 MiB, 2 GiB 100, launch 100, 100"); /* 100: hipErrorNoDevice */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_linked_program_finds_its_symbol_versions_and_has_its_limits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_program_linked_with_an_older_release_has_its_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_program_that_bundles_the_runtime_uses_it_and_has_its_limits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_program_that_opens_the_runtime_by_any_name_has_its_limits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_in_no_vgpu_each_call_reaches_the_runtime, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_a_runtime_a_program_finds_no_device, setup, teardown),
    };

    return cmocka_run_group_tests_name("hip/ways", tests, NULL, NULL);
}
