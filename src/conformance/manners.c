/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: comparing this process's state before and after a group. Never: repairs a provider's changes. */
#include "conformance/manners.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/surroundings.h"

/* The caller's handlers must not run in this child, where they would act on the caller's files a second time. */
static void reset_signals(void)
{
    sigset_t none;

    facet_surroundings_reset_signals();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Redirects standard output and error to a memory file, and standard input to /dev/null. */
static bool catch_output(int *ret_fd)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int caught = memfd_create("facet-conformance-output", MFD_CLOEXEC);

    *ret_fd = caught;
    return null >= 0 && caught >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(caught, STDOUT_FILENO) >= 0 &&
           dup2(caught, STDERR_FILENO) >= 0 && close(null) == 0;
}

static mode_t current_mask(void)
{
    mode_t file_mask = umask(022);

    umask(file_mask);
    return file_mask;
}

static char **copy_environment(void)
{
    size_t count = 0;

    while (environ[count])
        count++;
    char **copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++) {
        copy[i] = strdup(environ[i]);
        if (!copy[i])
            return NULL; /* the group and its process then end, so nothing is freed */
    }
    return copy;
}

bool facet_check_manners_begin(struct facet_check_manners *manners)
{
    memset(manners, 0, sizeof *manners);
    reset_signals();
    if (!catch_output(&manners->output_fd) || !getcwd(manners->folder, sizeof manners->folder))
        return false;
    manners->file_mask = current_mask();
    for (int number = 1; number < NSIG; number++)
        sigaction(number, NULL, &manners->handlers[number]);
    for (int fd = 0; fd < FACET_CHECK_DESCRIPTORS; fd++)
        manners->inherited[fd] = fcntl(fd, F_GETFD) >= 0;
    manners->environment = copy_environment();
    return manners->environment != NULL;
}

static void check_output(const struct facet_check_manners *manners, struct facet_check *check)
{
    char text[200] = "";
    struct stat file;

    fflush(NULL);
    ssize_t bytes = pread(manners->output_fd, text, sizeof text - 1, 0);
    for (ssize_t i = 0; i < bytes; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            text[i] = ' ';
    EXPECT_TRUE(check, "manners: nothing is printed to standard output or standard error",
                fstat(manners->output_fd, &file) == 0 && file.st_size == 0, "expected: no output\ngot: %s", text);
}

/*
 * The first signal whose handler has changed; 0 when there is none. A change counts even if the vendor's runtime made
 * it: a provider must restore such handlers, because signals belong to the host.
 */
static int changed_signal(const struct facet_check_manners *manners)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction now;

        if (sigaction(number, NULL, &now) == 0 && now.sa_handler != manners->handlers[number].sa_handler)
            return number;
    }
    return 0;
}

/* A program that the host starts while the provider is open would inherit a descriptor without FD_CLOEXEC. */
void facet_check_manners_opened(const struct facet_check_manners *manners, struct facet_check *check)
{
    int leaked = -1;

    facet_check_begin(check, "manners: descriptors that it opens are closed on exec");
    for (int fd = 0; fd < FACET_CHECK_DESCRIPTORS && leaked < 0; fd++) {
        int flags = fcntl(fd, F_GETFD);

        if (!manners->inherited[fd] && flags >= 0 && !(flags & FD_CLOEXEC))
            leaked = fd;
    }
    char link[64], path[200] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", leaked);
    ssize_t length = leaked >= 0 ? readlink(link, path, sizeof path - 1) : 0;
    facet_check_judge(
        check,
        leaked<0, "expected: FD_CLOEXEC on each new descriptor\ngot: none on descriptor %d, %s", leaked, length> 0
            ? path
            : "unknown");
}

/* The first changed variable, by its present or former text; NULL when there is none. */
static const char *changed_variable(const struct facet_check_manners *manners)
{
    for (size_t i = 0; environ[i] || manners->environment[i]; i++) {
        if (!environ[i])
            return manners->environment[i];
        if (!manners->environment[i] || strcmp(environ[i], manners->environment[i]) != 0)
            return environ[i];
    }
    return NULL;
}

void facet_check_manners_end(const struct facet_check_manners *manners, struct facet_check *check)
{
    char folder[sizeof manners->folder] = "";
    sigset_t blocked;

    check_output(manners, check);
    int changed = changed_signal(manners);
    EXPECT_TRUE(check, "manners: no signal handler is installed", changed == 0,
                "expected: signal handlers as before\ngot: another handler of signal %d", changed);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    EXPECT_TRUE(check, "manners: no signal is blocked", sigisemptyset(&blocked) != 0,
                "expected: an empty signal mask\ngot: signals blocked in the calling thread");
    EXPECT_TRUE(check, "manners: the file mask is as before", current_mask() == manners->file_mask,
                "expected: file mask %03o\ngot: file mask %03o", (unsigned)manners->file_mask,
                (unsigned)current_mask());
    const char *variable = changed_variable(manners);
    EXPECT_TRUE(check, "manners: the environment is as before", !variable,
                "expected: the variables as before\ngot: '%.60s', which was added, changed or removed",
                variable ? variable : "");
    EXPECT_TRUE(check, "manners: the working folder is as before",
                getcwd(folder, sizeof folder) && strcmp(folder, manners->folder) == 0,
                "expected: folder %.200s\ngot: folder %.200s", manners->folder, folder);
}
