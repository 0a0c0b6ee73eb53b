/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: PCI functions as Prometheus text: links, errors, power, holders. Never: asks the daemon, or wakes a device. */
#ifndef FACET_METRICS_PCI_H
#define FACET_METRICS_PCI_H

#include <facet/error.h>

/* The metrics of accelerators and of the functions in their groups. The caller frees the text. `root` is "/" for this
 * machine. */
enum facet_status metrics_of_pci(const char *root, char **ret_text, struct facet_error *error);

#endif
