/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the test whether the host's console uses memory of a BAR. Never: reads the machine. */
#ifndef FACET_PASSTHROUGH_CONSOLE_H
#define FACET_PASSTHROUGH_CONSOLE_H

#include <facet/pci.h>

/* Whether the region lies in the BAR. A BAR without an address holds no region. */
static inline bool facet_console_is_in(const struct facet_pci_bar *bar, const struct facet_pci_region *region)
{
    return bar->bytes > 0 && bar->is_memory && bar->start != 0 && region->start <= bar->start + (bar->bytes - 1) &&
           bar->start <= region->end;
}

#endif
