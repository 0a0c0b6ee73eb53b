/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cloud Hypervisor's API over its Unix socket.
 *
 * Owns: add-device and remove-device, before the attachment's deadline. Never: makes a call twice.
 */
#ifndef FACET_PCI_CLOUD_H
#define FACET_PCI_CLOUD_H

#include "pci_attachment.h"

/* Attaches all functions or none. Fills only `id` of the reports: Cloud Hypervisor reports nothing else. */
enum facet_status pci_cloud_attach(const struct pci_attachment *attachment, struct facet_attach_report *ret_reports,
                                   struct facet_error *error);

/* Detaches all functions, and waits until none is in the VM's device tree: then the guest has given them up. */
enum facet_status pci_cloud_detach(const struct pci_attachment *attachment, struct facet_error *error);

#endif
