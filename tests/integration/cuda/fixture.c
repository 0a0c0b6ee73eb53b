/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: starting the test's programs with the libraries under test. Never: runs a test. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../scratch.h"
#include "limiter/tenant.h"

struct fixture fixture;

void fixture_uuid(uint32_t device, char text[64])
{
    /* like tests/fake/cuda/state.c: "fake-gpu", and the device's number, from 1, at the end */
    snprintf(text, 64, "GPU-66616b65-2d67-7075-0000-%012x", device + 1);
}

static void clean_environment(void)
{
    static const char *const names[] = {FACET_ENV_VGPU_DIR,  "CUDA_VISIBLE_DEVICES", "FACET_REAL_CUDA", "LD_PRELOAD",
                                        "FAKE_CUDA_VERSION", "FAKE_CUDA_HIDDEN",     "FAKE_CUDA_NEWER"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    fixture_library_path(FIXTURE_OURS "," FIXTURE_FAKE);
}

int fixture_setup(void **state)
{
    char uuid[64];

    fixture.file = scratch_file(fixture.state, sizeof fixture.state);
    if (fixture.file < 0)
        return -1;
    setenv("FAKE_CUDA_STATE", fixture.state, 1);
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    clean_environment();
    for (uint32_t i = 0; i < FIXTURE_DEVICES; i++) {
        fixture_uuid(i, uuid);
        if (!test_segment_make(&fixture.segments[i], uuid, FIXTURE_MEMORY))
            return -1;
    }
    return 0;
}

int fixture_teardown(void **state)
{
    for (uint32_t i = 0; i < FIXTURE_DEVICES; i++)
        test_segment_remove(&fixture.segments[i]);
    close(fixture.file);
    return 0;
}

void fixture_enter(const char *vgpus)
{
    char dirs[256] = "";

    unsetenv(FACET_ENV_VGPU_DIR);
    for (const char *at = vgpus; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        snprintf(dirs + strlen(dirs), sizeof dirs - strlen(dirs), "%s%s", dirs[0] ? ":" : "",
                 fixture.segments[*at - '0'].dir);
    if (vgpus)
        setenv(FACET_ENV_VGPU_DIR, dirs, 1);
}

void fixture_library_path(const char *variables)
{
    char copy[256], *rest = copy, *name, path[4096] = "";

    snprintf(copy, sizeof copy, "%s", variables);
    while ((name = strsep(&rest, ","))) {
        const char *folder = name[0] ? getenv(name) : NULL;
        if (folder)
            snprintf(path + strlen(path), sizeof path - strlen(path), "%s%s", path[0] ? ":" : "", folder);
    }
    setenv("LD_LIBRARY_PATH", path, 1);
}

static void become_program(const char *program, const char *first, const char *second)
{
    char path[4096] = "/proc/self/exe";

    if (program)
        snprintf(path, sizeof path, "%s/%s", getenv("FACET_TEST_CUDA_PROGRAMS"), program);
    alarm(120);
    execl(path, program ? program : "role", first, second, (char *)NULL);
    _exit(127);
}

const char *fixture_run(const char *program, const char *first, const char *second)
{
    static char output[4096];
    size_t used = 0;
    ssize_t got;
    int pipe_fds[2], status = 0;

    assert_int_equal(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        become_program(program, first, second);
    }
    close(pipe_fds[1]);
    while (used < sizeof output - 1 && (got = read(pipe_fds[0], output + used, sizeof output - 1 - used)) > 0)
        used += (size_t)got;
    close(pipe_fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    output[used] = 0;
    if (used && output[used - 1] == '\n')
        output[used - 1] = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s %s %s ended with wait status %#x, expected 0. Its output: %s", program ? program : "role", first,
                 second, (unsigned)status, output);
    return output;
}
