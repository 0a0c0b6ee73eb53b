/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the system calls behind hidden.h. Never: leaves a zombie of the intermediate process. */
#include "base/hidden.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The stack of the intermediate process; a sanitizer makes its frames larger. */
#define STACK_BYTES ((size_t)256 << 10)

/* ThreadSanitizer takes every clone() for a fork and initializes itself again in the child, so memory is not shared. */
#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define MEMORY_FLAGS 0
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define MEMORY_FLAGS 0
#endif
#ifndef MEMORY_FLAGS
#define MEMORY_FLAGS CLONE_VM /* as in posix_spawn(): copying the page tables of a large program is slow */
#endif

pid_t facet_hidden_fork(void)
{
    return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
}

int facet_hidden_wait(pid_t pid, int options)
{
    int status = 0;
    pid_t waited;

    do
        waited = waitpid(pid, &status, options | __WALL);
    while (waited < 0 && errno == EINTR);
    return waited < 0 ? -1 : status;
}

/* Shared by this process and the intermediate one, below whose stack it lies. */
struct spawn_state {
    const struct facet_hidden_program *program;
    int errnum, pidfd;
};

/*
 * The intermediate process. It shares our descriptors, so that the pidfd that it opens is ours too. But its signal
 * handlers are its own: if SIGCHLD was ignored, the kernel could reuse the id of a program that has ended before the
 * pidfd is open.
 */
static int spawn_program(void *data)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    struct spawn_state *spawn_state = data;
    const struct facet_hidden_program *program = spawn_state->program;
    pid_t pid;

    sigaction(SIGCHLD, &usual, NULL);
    spawn_state->errnum = posix_spawn(&pid, program->path, program->actions, program->attributes, program->arguments,
                                      program->environment);
    if (spawn_state->errnum == 0)
        spawn_state->pidfd = pidfd_open(pid, 0);
    return 0;
}

/* This thread stands still until the intermediate process, which shares our memory, has ended. */
static void run_intermediate(struct spawn_state *spawn_state, char *stack_end)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t intermediate = clone(spawn_program, stack_end, MEMORY_FLAGS | CLONE_VFORK | CLONE_FILES, spawn_state);
    if (intermediate < 0)
        spawn_state->errnum = errno;
    else
        facet_hidden_wait(intermediate, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int facet_hidden_spawn(const struct facet_hidden_program *program, int *ret_pidfd)
{
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (stack == MAP_FAILED)
        return errno;
    struct spawn_state *spawn_state = (struct spawn_state *)(void *)stack;
    *spawn_state = (struct spawn_state){.program = program, .errnum = ECHILD, .pidfd = -1};
    run_intermediate(spawn_state, stack + STACK_BYTES);
    int errnum = spawn_state->errnum;
    if (errnum == 0)
        *ret_pidfd = spawn_state->pidfd;
    munmap(stack, STACK_BYTES);
    return errnum;
}

void facet_hidden_reap(int pidfd)
{
    siginfo_t info;

    while (pidfd >= 0 && waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
}
