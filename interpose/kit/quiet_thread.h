/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A detached thread of an interposer in the program's process.
 *
 * Owns: blocking all signals in that thread, so that no handler of the program runs there.
 * Never: is joined.
 */
#ifndef FACET_INTERPOSE_QUIET_THREAD_H
#define FACET_INTERPOSE_QUIET_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

static inline bool facet_quiet_thread(void *(*run)(void *), void *argument)
{
    sigset_t all, old;
    pthread_attr_t attributes;
    pthread_t thread;
    bool made = false;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &old) == 0) {
        made = pthread_create(&thread, &attributes, run, argument) == 0;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    pthread_attr_destroy(&attributes);
    return made;
}

#endif
