/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing from within a program that is not ours. A pipe without a reader, and a file that would be longer than `ulimit
 * -f` allows, answer a write with a signal that ends the program. Here such a write only fails, with EPIPE or EFBIG.
 *
 * Owns: holding these signals off in one thread, and taking back those that the thread's own writes raised.
 * Never: changes a handler, or takes a signal that was pending before.
 */
#ifndef FACET_BASE_QUIET_H
#define FACET_BASE_QUIET_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

struct facet_quiet {
    sigset_t mask;    /* the thread's signal mask before */
    sigset_t pending; /* signals that were pending before */
    bool held;
};

static inline void facet_quiet_signals(sigset_t *ret_signals)
{
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGPIPE);
    sigaddset(ret_signals, SIGXFSZ);
}

/*
 * FACET_QUIET struct facet_quiet quiet = facet_quiet_begin(); holds the signals off until the end of the block; keeps
 * errno.
 */
static inline struct facet_quiet facet_quiet_begin(void)
{
    struct facet_quiet quiet = {.held = false};
    int saved = errno;
    sigset_t signals;

    facet_quiet_signals(&signals);
    sigpending(&quiet.pending);
    quiet.held = pthread_sigmask(SIG_BLOCK, &signals, &quiet.mask) == 0;
    errno = saved;
    return quiet;
}

static inline void facet_quiet_end(const struct facet_quiet *quiet)
{
    const struct timespec none = {0};
    int saved = errno;
    sigset_t now, ours;

    if (!quiet->held)
        return;
    sigpending(&now);
    sigemptyset(&ours);
    if (sigismember(&now, SIGPIPE) == 1 && sigismember(&quiet->pending, SIGPIPE) != 1)
        sigaddset(&ours, SIGPIPE);
    if (sigismember(&now, SIGXFSZ) == 1 && sigismember(&quiet->pending, SIGXFSZ) != 1)
        sigaddset(&ours, SIGXFSZ);
    while (sigtimedwait(&ours, NULL, &none) > 0)
        ;
    pthread_sigmask(SIG_SETMASK, &quiet->mask, NULL);
    errno = saved;
}

#define FACET_QUIET __attribute__((cleanup(facet_quiet_end), unused))

#endif
