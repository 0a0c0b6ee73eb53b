/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the gates that check the function itself, and the things that the host needs to pass it through: an IOMMU,
 * interrupt remapping, vfio. Never: checks the function's users.
 */
#include "passthrough/judge/judgement.h"
#include "passthrough/stuck.h"

void judge_stuck(struct judgement *judgement, const struct facet_pci_function *function)
{
    char text[sizeof judgement->verdict->reasons->text];

    if (!stuck_is(function))
        return;
    stuck_print(function, text, sizeof text);
    judgement_add(judgement, function, FACET_PASSTHROUGH_STUCK, "%s", text);
}

void judge_function(struct judgement *judgement, const struct facet_pci_function *function)
{
    judgement_need_attribute(judgement, function, FACET_PCI_IDENTITY);
    judgement_need_attribute(judgement, function, FACET_PCI_DRIVER);
    if (function->is_lost)
        judgement_add(judgement, function, FACET_PASSTHROUGH_LOST, "does not answer: it has fallen off the bus");
    if (function->kind == FACET_PCI_KIND_BRIDGE)
        judgement_add(judgement, function, FACET_PASSTHROUGH_BRIDGE, "is a bridge to other functions");
    if (function->sriov_count > 0)
        judgement_add(judgement, function, FACET_PASSTHROUGH_HAS_VIRTUALS, "has %u virtual functions",
                      function->sriov_count);
    judgement_need_if_any(judgement, function, FACET_PCI_SRIOV);
    judgement_need_if_any(judgement, function, FACET_PCI_POWER);
    /* Any process may read the header, which shows the type. To read a sleeping function would wake it; judge_power()
     * says whether that is a reason. */
    if (function->header_type == FACET_PCI_HEADER_UNKNOWN &&
        function->unread[FACET_PCI_CONFIG] != FACET_PCI_UNREAD_ASLEEP)
        judgement_need_attribute(judgement, function, FACET_PCI_CONFIG);
}

void judge_iommu(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_pci_host *host = judgement->host;

    if (host->iommus == 0)
        judgement_add(judgement, function, FACET_PASSTHROUGH_NO_IOMMU, "this host has no IOMMU%s%s",
                      host->iommu_off == FACET_PCI_YES ? ": the kernel was told not to use one" : "",
                      host->has_noiommu == FACET_PCI_YES
                          ? " (vfio's unsafe no-IOMMU mode is on, but Facet does not use it)"
                          : "");
    else if (function->unread[FACET_PCI_GROUP] == FACET_PCI_UNREAD_ABSENT)
        judgement_add(judgement, function, FACET_PASSTHROUGH_NO_GROUP,
                      "is in no IOMMU group, though this host has an IOMMU");
    else
        judgement_need_attribute(judgement, function, FACET_PCI_GROUP);
    if (host->iommus == 0)
        return;
    if (host->interrupt_remapping == FACET_PCI_NO && host->unsafe_interrupts != FACET_PCI_YES)
        judgement_add(judgement, function, FACET_PASSTHROUGH_NO_INTERRUPT_REMAPPING,
                      "a guest could raise any interrupt of the host: interrupt remapping is off");
    if (host->interrupt_remapping == FACET_PCI_NO && host->unsafe_interrupts == FACET_PCI_YES)
        judgement_add(judgement, function, FACET_PASSTHROUGH_UNSAFE_INTERRUPTS,
                      "a guest could raise any interrupt of the host: allowed by a setting");
    if (host->interrupt_remapping == FACET_PCI_UNKNOWN)
        judgement_add(judgement, function, FACET_PASSTHROUGH_UNREAD, "whether interrupts are remapped is not known");
    if (host->acs_override == FACET_PCI_YES)
        judgement_add(judgement, function, FACET_PASSTHROUGH_ACS_OVERRIDE,
                      "the kernel was told to split groups that the hardware does not keep apart");
}

void judge_vfio(struct judgement *judgement, const struct facet_pci_function *function)
{
    if (function->is_vfio)
        return;
    if (judgement->host->has_vfio_pci == FACET_PCI_NO)
        judgement_add(judgement, function, FACET_PASSTHROUGH_NO_VFIO, "this kernel has no driver vfio-pci");
    if (judgement->host->has_vfio_pci == FACET_PCI_UNKNOWN)
        judgement_add(judgement, function, FACET_PASSTHROUGH_UNREAD, "whether this kernel has vfio-pci is not known");
}
