/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the start of the daemon's threads, in which all signals are blocked except SIGBUS (bus_error.h).
 * Never: waits for a thread.
 */
#ifndef FACETD_THREADS_H
#define FACETD_THREADS_H

#include <pthread.h>
#include <signal.h>

/* Returns pthread_create()'s result. */
static inline int thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *argument)
{
    sigset_t all, old;

    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int result = pthread_create(ret_thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (result == 0)
        pthread_setname_np(*ret_thread, name);
    return result;
}

#endif
