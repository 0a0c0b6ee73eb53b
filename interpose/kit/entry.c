/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what entry.h says. Never: buffers, or lets a closed pipe end the program. */
#include "entry.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "limiter/refused.h"

/* The process that was told. One that was forked since is another one. */
static _Atomic int32_t told;

/* A pipe that nobody reads would end the program by a signal: that is held off, and taken back. */
static void write_quietly(const char *text, size_t size)
{
    const struct timespec none = {0};
    sigset_t pipe, before, pending;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    if (pthread_sigmask(SIG_BLOCK, &pipe, &before) != 0)
        return;
    ssize_t written = write(STDERR_FILENO, text, size);
    if (written < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe, NULL, &none);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void tell(const struct facet_error *error)
{
    const char *quiet = getenv(FACET_ENV_QUIET);
    char line[FACET_REFUSED_RECORD + 128];
    int32_t self = getpid();

    if (atomic_exchange(&told, self) == self || (quiet && quiet[0] && strcmp(quiet, "0") != 0))
        return;
    int length =
        snprintf(line, sizeof line, "facet: process %d sees no device: %.*s (" FACET_ENV_QUIET "=1 silences this)\n",
                 self, (int)FACET_REFUSED_RECORD, error->message);
    write_quietly(line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

void facet_entry_refused(const char *dir, const struct facet_error *error)
{
    int saved = errno;

    facet_refused_note(dir, error->message);
    tell(error);
    errno = saved;
}
