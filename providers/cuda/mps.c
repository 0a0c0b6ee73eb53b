/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: calling the control program of MPS, and contexts with execution affinity.
 * Never: sends `quit` to the program, which would end the service. The program exits at the end of its input.
 *
 * FACET_CUDA_MPS_CONTROL names the program; otherwise it is nvidia-cuda-mps-control in PATH. The program finds the
 * daemon by CUDA_MPS_PIPE_DIRECTORY, as the driver does.
 */
#include "mps.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/executor.h"
#include "provider_kit.h"

#define ANSWER_NS UINT64_C(2000000000)

extern char **environ;

bool cuda_mps_is_used(const struct cuda_driver *driver, CUdevice ordinal)
{
    int supported = 0;

    return cuda_driver_has_affinity(driver) &&
           driver->cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, ordinal) ==
               CUDA_SUCCESS &&
           supported;
}

/* --- the control program --- */

/* Starts the program with the read end of `in` as stdin and the write end of `out` as stdout. */
static bool start_control(const int in[2], const int out[2], pid_t *ret_child)
{
    const char *path = getenv("FACET_CUDA_MPS_CONTROL");
    char program[4096];
    char *const arguments[] = {program, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;

    snprintf(program, sizeof program, "%s", path && *path ? path : "nvidia-cuda-mps-control");
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int result = posix_spawnp(ret_child, program, &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return result == 0;
}

/* Reads until the other end is closed, the text is full, or the deadline passes. */
static void read_answer(int from, char *text, size_t size)
{
    uint64_t deadline = gpu_deadline_ns(ANSWER_NS), now;
    size_t length = 0;

    while (length + 1 < size && (now = gpu_monotonic_ns()) < deadline) {
        struct pollfd ready = {.fd = from, .events = POLLIN};

        if (poll(&ready, 1, (int)((deadline - now) / 1000000) + 1) < 0 && errno != EINTR)
            break;
        if (!ready.revents)
            continue;
        ssize_t count = read(from, text + length, size - length - 1);
        if (count <= 0 && !(count < 0 && errno == EINTR))
            break;
        length += count > 0 ? (size_t)count : 0;
    }
    text[length] = '\0';
}

/*
 * Called after the answer or the deadline. The host program may have reaped the child, so that its pid may be another
 * process's. Without a pidfd (no descriptor was left) the child is killed only if it is still this process's child.
 */
static void end_child(pid_t child, int process)
{
    if (process >= 0) {
        pidfd_send_signal(process, SIGKILL, NULL, 0);
        close(process);
    } else if (waitpid(child, NULL, WNOHANG) == 0) {
        kill(child, SIGKILL);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void close_both(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

/* The program's answer to a command; empty without a program or a daemon. */
static void ask_daemon(const char *command, char *text, size_t size)
{
    int in[2], out[2];
    pid_t child;

    text[0] = '\0';
    if (pipe2(in, O_CLOEXEC) != 0)
        return;
    if (pipe2(out, O_CLOEXEC) != 0) {
        close_both(in);
        return;
    }
    /* This process has the read end open, too, and a pipe has room for a command: no write blocks or raises SIGPIPE. */
    bool is_written = write(in[1], command, strlen(command)) == (ssize_t)strlen(command);
    bool started = is_written && start_control(in, out, &child);
    close(out[1]);
    close_both(in);
    if (started) {
        int process = pidfd_open(child, 0);

        read_answer(out[0], text, size);
        end_child(child, process);
    }
    close(out[0]);
}

/* Reads a percentage; 100 if there is none. Its decimal point is never the locale's, so strtod() would be wrong. */
static double percentage_of(const char *text)
{
    const char *at = text ? text + strspn(text, " \t\n") : "";
    double value = 0, place = 1;

    for (; *at >= '0' && *at <= '9'; at++)
        value = value * 10 + (*at - '0');
    for (at += *at == '.'; *at >= '0' && *at <= '9'; at++)
        value += (*at - '0') * (place /= 10);
    return value > 0 && value <= 100 ? value : 100;
}

uint32_t cuda_mps_units(uint32_t all)
{
    char answer[64];

    ask_daemon("get_default_active_thread_percentage\n", answer, sizeof answer);
    double most = fmin(percentage_of(answer), percentage_of(getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")));
    return (uint32_t)(all * most / 100);
}

/* --- contexts --- */

enum facet_status cuda_mps_context(const struct cuda_driver *driver, CUdevice ordinal, uint32_t units,
                                   CUcontext *ret_context, uint32_t *ret_units, struct facet_error *error)
{
    CUexecAffinityParam affinity = {.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param = {.smCount = {units}}};
    CUcontext context, top;
    CUresult result = driver->cuCtxCreate_v3(&context, &affinity, 1, 0, ordinal);

    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(driver, error, "cuCtxCreate_v3", result);
    result = driver->cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT);
    driver->cuCtxPopCurrent_v2(&top);
    if (result != CUDA_SUCCESS) {
        driver->cuCtxDestroy_v2(context);
        return cuda_driver_fail(driver, error, "cuCtxGetExecAffinity", result);
    }
    *ret_context = context;
    *ret_units = affinity.param.smCount.val;
    return FACET_OK;
}
