/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: restoring the host's signal handlers after a runtime has initialised. PoCL lets LLVM take over fifteen signals
 * then, the daemon's SIGBUS among them. Kernels, for which PoCL handles SIGFPE, never run in this process.
 * Never: sets a handler of its own.
 */
#include "opencl.h"

void facet_opencl_signals_save(struct facet_opencl_signals *ret_signals)
{
    /* The C library reserves a few numbers, for which sigaction() fails. */
    for (int number = 1; number < NSIG; number++)
        ret_signals->saved[number] = sigaction(number, NULL, &ret_signals->actions[number]) == 0;
}

/* Restores only handlers that differ from the saved ones. */
void facet_opencl_signals_restore(const struct facet_opencl_signals *signals)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction now;

        if (signals->saved[number] && sigaction(number, NULL, &now) == 0 &&
            now.sa_handler != signals->actions[number].sa_handler)
            sigaction(number, &signals->actions[number], NULL);
    }
}
