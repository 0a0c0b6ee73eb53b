/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the test whether a function is stuck, by its scan, and the message about it. Never: reads the host. */
#ifndef FACET_PASSTHROUGH_STUCK_H
#define FACET_PASSTHROUGH_STUCK_H

#include <stdbool.h>
#include <stdio.h>

#include <facet/pci.h>

/*
 * Whether a process that unbinds the function from its driver, or resets it, has not returned, and keeps the device's
 * lock in the kernel.
 */
static inline bool stuck_is(const struct facet_pci_function *function)
{
    return function->unread[FACET_PCI_OVERRIDE] == FACET_PCI_UNREAD_STUCK;
}

/*
 * Prints a predicate such as "is stuck ...", which follows the function's address. During an unbind the kernel no
 * longer shows the driver, and probably waits for the first process that has the function open.
 */
static inline void stuck_print(const struct facet_pci_function *function, char *text, size_t size)
{
    const struct facet_pci_holder *holder = function->holders;

    if (function->driver[0] == '\0' && function->holder_count > 0)
        snprintf(text, size,
                 "is stuck: the kernel unbinds its driver, and waits for process %lld (%s), which has %s open",
                 (long long)holder->pid, holder->command, holder->node);
    else
        snprintf(text, size, "is stuck: its driver, or a reset, has not returned, and keeps its lock in the kernel");
}

#endif
