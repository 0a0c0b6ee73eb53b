/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: whether a function is stuck, by what a look found, and the words for it. Never: asks the kernel. */
#ifndef FACET_PASSTHROUGH_STUCK_H
#define FACET_PASSTHROUGH_STUCK_H

#include <stdbool.h>
#include <stdio.h>

#include <facet/pci.h>

/* Whoever takes it from its driver, or resets it, has not come back, and keeps its lock in the kernel. */
static inline bool stuck_is(const struct facet_pci_function *function)
{
    return function->unread[FACET_PCI_OVERRIDE] == FACET_PCI_UNREAD_STUCK;
}

/* As a predicate. A driver that is to let go is not shown as its driver any more; whom it is likely to wait for is the
 * first that has it open. */
static inline void stuck_print(const struct facet_pci_function *function, char *text, size_t size)
{
    const struct facet_pci_holder *holder = function->holders;

    if (function->driver[0] == '\0' && function->holder_count > 0)
        snprintf(text, size,
                 "is stuck: the kernel has its driver let go of it, and waits for process %lld (%s), which has %s open",
                 (long long)holder->pid, holder->command, holder->node);
    else
        snprintf(text, size, "is stuck: its driver, or a reset, has not come back, and keeps its lock in the kernel");
}

#endif
