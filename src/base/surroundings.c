/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: undoing a process's inherited environment, limits and priorities; see surroundings.h. Never: raises a hard
 * limit that is high enough.
 */
#include "base/surroundings.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <facet/limits.h>

#include "base/cleanup.h"
#include "base/config.h"
#include "base/paths.h"
#include "base/variables.h"

extern char **environ;

/* ---- streams ---- */

bool facet_surroundings_open_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) != fd)
            return false;
    return true;
}

/* ---- the environment ---- */

static const char *const personal_variables[] = {"HOME",           "LOGNAME",        "TZ", "USER", "XDG_CACHE_HOME",
                                                 "XDG_STATE_HOME", "XDG_RUNTIME_DIR"};
/* Folders that drivers and providers write to. The value in the shell that started the daemon may not suit it. */
static const char *const written_folders[] = {"HOME", "XDG_CACHE_HOME"};
static const char *const terminal_variables[] = {"COLUMNS", "LANG", "LC_ALL", "LC_CTYPE", "LINES", "NO_COLOR", "TERM"};

static bool is_one_of(const char *entry, const char *const *names, size_t count)
{
    size_t length = strcspn(entry, "=");

    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == length && strncmp(entry, names[i], length) == 0)
            return true;
    return false;
}

static bool is_setting(const char *entry)
{
    for (uint32_t id = 0; facet_config_setting(id); id++)
        if (is_one_of(entry, &facet_config_setting(id)->variable, 1))
            return true;
    return false;
}

/* Whether the folder, or its nearest existing parent, can be written. */
static bool can_be_written(const char *folder)
{
    char path[FACET_PATH_SIZE], *end;

    if (folder[0] != '/' || snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path)
        return false;
    while (access(path, F_OK) < 0 && errno == ENOENT && (end = strrchr(path, '/')) > path)
        *end = '\0';
    return access(path, W_OK | X_OK) == 0;
}

static bool is_wrong_folder(const char *entry)
{
    return is_one_of(entry, written_folders, sizeof written_folders / sizeof written_folders[0]) &&
           !can_be_written(strchr(entry, '=') + 1);
}

static bool is_kept(const char *entry, bool terminal)
{
    if (is_wrong_folder(entry))
        return false;
    return is_setting(entry) || facet_variable_is_of_devices(entry) ||
           is_one_of(entry, personal_variables, sizeof personal_variables / sizeof personal_variables[0]) ||
           (terminal && is_one_of(entry, terminal_variables, sizeof terminal_variables / sizeof terminal_variables[0]));
}

bool facet_surroundings_clean_environment(bool terminal)
{
    char **entry = environ;

    /* The strings and their array stay in place; the array gets a shorter end. */
    for (char **next = environ; next && *next; next++)
        if (is_kept(*next, terminal))
            *entry++ = *next;
    if (entry)
        *entry = NULL;
    const struct passwd *user = getenv("HOME") ? NULL : getpwuid(geteuid());
    if (user && can_be_written(user->pw_dir) && setenv("HOME", user->pw_dir, 1) != 0)
        return false;
    return setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1) == 0;
}

/* ---- limits ---- */

#define MIB (UINT64_C(1) << 20)

/* The needs of a daemon with its providers; PoCL alone takes 600 MiB of address space. */
static const struct need {
    __rlimit_resource_t resource;
    rlim_t min; /* of the hard limit; 0: any value is enough */
    rlim_t max; /* the soft limit is raised to this value; 0: to the hard limit */
    bool bytes;
    const char *name, *letter;
} needs[] = {
    {RLIMIT_AS, 4096 * MIB, 0, true, "the address space", "v"},
    {RLIMIT_DATA, 4096 * MIB, 0, true, "data", "d"},
    {RLIMIT_FSIZE, 64 * MIB, 0, true, "the size of files", "f"},
    {RLIMIT_STACK, 1 * MIB, 8 * MIB, true, "the stack", "s"},
    {RLIMIT_MEMLOCK, 0, 0, true, "locked memory", "l"},
    {RLIMIT_NOFILE, 256, 65536, false, "open files", "n"},
    {RLIMIT_NPROC, 512, 0, false, "processes", "u"}, /* all of the user's processes count */
    {RLIMIT_CPU, 600, 0, false, "seconds of processor time", "t"},
};

static rlim_t wanted_soft(const struct need *need, const struct rlimit *now)
{
    rlim_t max = need->max && need->max < now->rlim_max ? need->max : now->rlim_max;

    /* The soft limit is the stack size of new threads, so it is set to 8 MiB even if it was higher. */
    return need->resource == RLIMIT_STACK || now->rlim_cur < max ? max : now->rlim_cur;
}

void facet_surroundings_raise_limits(void)
{
    struct rlimit limit;

    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if (getrlimit(needs[i].resource, &limit) < 0)
            continue;
        limit.rlim_cur = wanted_soft(&needs[i], &limit);
        (void)setrlimit(needs[i].resource, &limit);
    }
}

static enum facet_status refuse_low_limit(const struct need *need, rlim_t have, struct facet_error *error)
{
    char now[32], min[32];

    if (!need->bytes)
        return facet_error_set(error, FACET_NO_SPACE,
                               "%s are limited to %llu here (ulimit -H%s), and a daemon serves other shells as well: "
                               "expected at least %llu",
                               need->name, (unsigned long long)have, need->letter, (unsigned long long)need->min);
    return facet_error_set(error, FACET_NO_SPACE,
                           "%s is limited to %s here (ulimit -H%s), and a daemon serves other shells as well: expected "
                           "at least %s",
                           need->name, facet_format_size(have, now, sizeof now), need->letter,
                           facet_format_size(need->min, min, sizeof min));
}

enum facet_status facet_surroundings_check_limits(struct facet_error *error)
{
    const struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    struct rlimit limit;

    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if (getrlimit(needs[i].resource, &limit) < 0 || limit.rlim_max >= needs[i].min)
            continue;
        if (setrlimit(needs[i].resource, &none) < 0)
            return refuse_low_limit(&needs[i], limit.rlim_max, error);
    }
    return FACET_OK;
}

/* ---- signals, scheduling ---- */

/*
 * Resets a signal by the system call: the C library refuses to change the signals that it reserves (32 and 33), but a
 * process inherits them as ignored like any other signal. The C library's own handlers for them stay.
 */
static void stop_ignoring(int number)
{
    /* The kernel's structure, which is not that of <signal.h>: its first word is the handler. */
    unsigned long now[16] = {0}, usual[16] = {0};
    const unsigned long set_bytes = sizeof(uint64_t); /* of a signal set */

    if (syscall(SYS_rt_sigaction, number, NULL, now, set_bytes) == 0 && now[0] == 1 /* SIG_IGN */)
        (void)syscall(SYS_rt_sigaction, number, usual, NULL, set_bytes);
}

void facet_surroundings_reset_signals(void)
{
    for (int number = 1; number < NSIG; number++)
        if (signal(number, SIG_DFL) == SIG_ERR) /* SIGKILL and SIGSTOP, which are never ignored, also return an error */
            stop_ignoring(number);
    signal(SIGXFSZ, SIG_IGN);
}

#define OOM_PATH          "/proc/self/oom_score_adj"
#define TIMER_SLACK_NS    50000UL /* the value of the kernel's first process, which others inherit unchanged */
#define IOPRIO_OF_PROCESS 1 /* ioprio_set()'s IOPRIO_WHO_PROCESS; the priority 0 is the one that follows niceness */

static int read_oom(void)
{
    FACET_CLEANUP_FILE FILE *file = fopen(OOM_PATH, "re");
    char text[16] = "";

    return file && fgets(text, sizeof text, file) ? atoi(text) : 0;
}

static void reset_oom(void)
{
    FACET_CLEANUP_FD int fd = read_oom() ? open(OOM_PATH, O_WRONLY | O_CLOEXEC) : -1;

    if (fd >= 0)
        (void)!write(fd, "0", 1);
}

/*
 * Resets the nice value and policy, the processors, the memory nodes, and the OOM score.
 * facet_surroundings_list_remaining() lists the settings that this process may not change.
 */
static void reset_scheduling(void)
{
    const struct sched_param usual = {0};
    cpu_set_t all;

    memset(&all, 0xff, sizeof all); /* the kernel ignores processors that do not exist, or are outside the cpuset */
    (void)sched_setaffinity(0, sizeof all, &all);
    (void)sched_setscheduler(0, SCHED_OTHER, &usual);
    (void)setpriority(PRIO_PROCESS, 0, 0);
    (void)syscall(SYS_ioprio_set, IOPRIO_OF_PROCESS, 0, 0);
    (void)syscall(SYS_set_mempolicy, 0 /* MPOL_DEFAULT */, NULL, 0UL);
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0UL, 0UL, 0UL);
    (void)prctl(PR_SET_THP_DISABLE, 0UL, 0UL, 0UL, 0UL);
    (void)personality(PER_LINUX);
    reset_oom();
}

static void add_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add_text(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list values;

    if (used && used + 2 < size)
        used += (size_t)snprintf(text + used, size - used, ", ");
    va_start(values, format);
    vsnprintf(text + used, size - used, format, values);
    va_end(values);
}

bool facet_surroundings_list_remaining(char *ret_text, size_t size)
{
    int nice = getpriority(PRIO_PROCESS, 0), policy = sched_getscheduler(0), oom = read_oom();

    ret_text[0] = '\0';
    if (nice > 0)
        add_text(ret_text, size, "a nice value of %d", nice);
    if (policy > SCHED_OTHER)
        add_text(ret_text, size, "scheduling policy %d (chrt)", policy);
    if (oom > 0)
        add_text(ret_text, size, "an oom_score_adj of %d", oom);
    if (prctl(PR_GET_NO_NEW_PRIVS, 0UL, 0UL, 0UL, 0UL) == 1)
        add_text(ret_text, size, "no_new_privs, so that no helper of a driver (nvidia-modprobe) has rights of its own");
    return ret_text[0];
}

void facet_surroundings_reset(void)
{
    sigset_t none;

    reset_scheduling();
    facet_surroundings_reset_signals();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
