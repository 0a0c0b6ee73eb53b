/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fork, exec, forwarding, wait. Never: installs a signal handler; it takes blocked signals one by one. */
#include "launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/paths.h"
#include "command.h"
#include "limiter/tenant.h"

#define DEFAULT_PATH "/bin:/usr/bin" /* execvp()'s path when PATH is unset */

static enum facet_status check_file(const char *path, const char *name, struct facet_error *error)
{
    struct stat status;

    if (stat(path, &status) != 0) {
        int number = errno;
        enum facet_status code = number == EACCES ? FACET_PERMISSION : FACET_NOT_FOUND;
        return facet_error_argument(error, code, "command", "command '%s': %s", name, strerror(number));
    }
    if (S_ISDIR(status.st_mode))
        return facet_error_argument(error, FACET_PERMISSION, "command", "command '%s': is a folder", name);
    if (access(path, X_OK) != 0)
        return facet_error_argument(error, FACET_PERMISSION, "command", "command '%s': not executable", name);
    return FACET_OK;
}

/* Takes the first file on PATH that can be run. One that cannot be run decides only between exit status 126 and 127. */
enum facet_status launch_check(const char *name, struct facet_error *error)
{
    const char *path = getenv("PATH");
    enum facet_status worst = facet_error_argument(error, FACET_NOT_FOUND, "command", "command '%s': not found", name);
    char candidate[FACET_PATH_SIZE];

    if (strchr(name, '/'))
        return check_file(name, name, error);
    for (const char *at = path ? path : DEFAULT_PATH; name[0]; at++) {
        int length = (int)strcspn(at, ":");
        snprintf(candidate, sizeof candidate, "%.*s%s%s", length, at, length ? "/" : "", name);
        struct facet_error reason = {0};
        enum facet_status status = check_file(candidate, name, &reason);
        if (status == FACET_OK)
            return FACET_OK;
        if (status == FACET_PERMISSION && worst == FACET_NOT_FOUND && access(candidate, F_OK) == 0) {
            worst = status;
            if (error)
                *error = reason;
        }
        at += length;
        if (!*at)
            break;
    }
    return worst;
}

/* Puts Facet's layer before the layers that the variable names already. */
static bool put_layer_first(const char *variable, const char *layer)
{
    const char *earlier_layers = getenv(variable);
    FACET_CLEANUP_FREE char *layers = NULL;

    if (asprintf(&layers, earlier_layers && earlier_layers[0] ? "%s:%s" : "%s", layer, earlier_layers) < 0) {
        layers = NULL;
        return false;
    }
    return setenv(variable, layers, 1) == 0;
}

static bool prepare_environment(const struct launch_place *place)
{
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)place->environment, name, value)
        if (setenv(name, json_string_value(value), 1) != 0)
            return false;
    /* ocl-icd 2.2 knows the second name only, later releases the first only. */
    return put_layer_first("OPENCL_LAYERS", place->layer) && put_layer_first("OCL_ICD_LAYERS", place->layer) &&
           setenv(FACET_ENV_VGPU_DIR, place->vgpu_dirs, 1) == 0 && launch_cuda_enter(place->cuda) &&
           launch_hip_enter(place->hip);
}

static void (*on_broken_pipe)(int) = SIG_DFL; /* the settings that the command gets back */
static void (*on_long_file)(int) = SIG_DFL;

/* Which descriptors below INHERITED_MOST this process was started with; higher ones always count as inherited. */
enum { INHERITED_MOST = 1024 };
static bool inherited[INHERITED_MOST];

static void each_descriptor(void (*visit)(int fd))
{
    FACET_CLEANUP_DIR DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        int fd = atoi(entry->d_name);

        if (fd > STDERR_FILENO && fd < INHERITED_MOST && fd != dirfd(folder))
            visit(fd);
    }
}

static void note_inherited(int fd)
{
    inherited[fd] = true;
}

/* Keeps the command from inheriting descriptors that libraries opened in this process. */
static void close_unless_inherited(int fd)
{
    if (!inherited[fd])
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void launch_ignore_file_size_signal(void)
{
    on_long_file = signal(SIGXFSZ, SIG_IGN);
}

void launch_prepare(void)
{
    on_broken_pipe = signal(SIGPIPE, SIG_IGN);
    each_descriptor(note_inherited);
}

_Noreturn static void become_command(char *const *command, const struct launch_place *place, const sigset_t *mask)
{
    signal(SIGPIPE, on_broken_pipe);
    signal(SIGXFSZ, on_long_file);
    each_descriptor(close_unless_inherited);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (prepare_environment(place))
        execvp(command[0], command);
    int number = errno;
    dprintf(STDERR_FILENO, "facet run: command '%s': %s\n", command[0], strerror(number));
    _exit(number == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

static void forwarded_signals(sigset_t *ret_set)
{
    static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD};

    sigemptyset(ret_set);
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
        sigaddset(ret_set, forwarded[i]);
}

/*
 * Whether the command has ended. When the terminal's ^Z stops the command, this process stops too, so that the shell
 * sees its job stopped. It does not stop after SIGSTOP, which was sent to the command alone, as SIGCONT will be.
 */
static bool has_ended(pid_t child, int *ret_status)
{
    int status;

    while (waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
        if (!WIFSTOPPED(status)) {
            *ret_status = status;
            return true;
        }
        if (WSTOPSIG(status) != SIGSTOP)
            raise(SIGSTOP);
    }
    return false;
}

/*
 * The terminal signals the whole process group, so the command has its ^C already; a signal that another process sent
 * (si_code <= 0) reached only this process and is passed on.
 */
static int wait_and_forward(pid_t child, const sigset_t *set)
{
    siginfo_t info;
    int status;

    for (;;) {
        int number = sigwaitinfo(set, &info);
        if (number == SIGCHLD && has_ended(child, &status))
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (number > 0 && number != SIGCHLD && info.si_code <= 0)
            kill(child, number);
    }
}

enum facet_status launch_run(char *const *command, const struct launch_place *place, struct launch_outcome *ret_outcome,
                             struct facet_error *error)
{
    sigset_t forwarded, saved_mask;

    forwarded_signals(&forwarded);
    sigprocmask(SIG_BLOCK, &forwarded, &saved_mask);
    uint64_t start = facet_clock_now_ns();
    pid_t child = fork();
    if (child < 0) {
        int number = errno;
        sigprocmask(SIG_SETMASK, &saved_mask, NULL);
        return facet_error_errno(error, number, "cannot start '%s'", command[0]);
    }
    if (child == 0)
        become_command(command, place, &saved_mask);
    ret_outcome->exit_status = wait_and_forward(child, &forwarded);
    ret_outcome->wall_ns = facet_clock_now_ns() - start;
    sigprocmask(SIG_SETMASK, &saved_mask, NULL);
    return FACET_OK;
}
