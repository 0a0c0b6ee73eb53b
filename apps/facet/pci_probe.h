/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a function as a virtual machine does, to see whether it can be handed on.
 *
 * Owns: one probe. Never: binds or gives back a function.
 */
#ifndef FACET_COMMAND_PCI_PROBE_H
#define FACET_COMMAND_PCI_PROBE_H

#include <stddef.h>

#include <facet/error.h>
#include <facet/pci.h>

#define PCI_PROBE_TEXT 200u

/*
 * Opens the function through VFIO, reads its identity, and maps a page of memory for it. The kernel resets the function
 * then, as it does for a virtual machine. `root` is a directory's descriptor. FACET_BAD_STATE: the function or a member
 * of its group is not driven by vfio-pci. FACET_BUSY: a virtual machine has it. Other errors: those of
 * passthrough/vfio/client.h.
 */
enum facet_status pci_probe(int root, const struct facet_pci_address *address, char ret_text[PCI_PROBE_TEXT],
                            struct facet_error *error);

#endif
