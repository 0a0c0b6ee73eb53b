/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cloud Hypervisor's API over its Unix socket.
 *
 * Owns: add-device and remove-device, before the attachment's deadline. Never: makes a call twice.
 */
#ifndef FACET_PCI_CLOUD_H
#define FACET_PCI_CLOUD_H

#include "pci_attachment.h"

/* All functions or none. Fills `id` of the reports; the rest Cloud Hypervisor does not say. */
enum facet_status pci_cloud_attach(const struct pci_attachment *attachment, struct facet_attach_report *ret_reports,
                                   struct facet_error *error);

/* Until none is in the VM's tree of devices any more: that is when the guest has let go. */
enum facet_status pci_cloud_detach(const struct pci_attachment *attachment, struct facet_error *error);

#endif
