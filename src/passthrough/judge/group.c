/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the gate of an IOMMU group: whether the kernel lets one program have the whole group. Never: checks more of the
 * group's other functions than this requires.
 */
#include "passthrough/driver.h"
#include "passthrough/judge/judgement.h"
#include "passthrough/stuck.h"

/* Whether a bridge forwards to functions below it. Host and ISA bridges do not, so their drivers are checked. */
static bool is_forwarding_bridge(const struct facet_pci_function *function)
{
    uint32_t class = function->class_code >> 8;

    return class == 0x0604 || class == 0x0607 || class == 0x0609 ||
           (function->header_type != 0 && function->header_type != FACET_PCI_HEADER_UNKNOWN);
}

/*
 * Whether the kernel ignores a bridge when it decides whether the group is viable. It ignores a bridge with the driver
 * of PCIe ports, which does no DMA. Before version 5.19 it ignored all bridges; since then a bridge with another driver
 * (shpchp) makes the group not viable.
 */
static bool is_ignored_bridge(const struct facet_pci_function *member)
{
    return is_forwarding_bridge(member) && (driver_is_harmless(member->driver) || driver_is_port(member->driver));
}

bool judgement_shares_group(const struct facet_pci_function *function, const struct facet_pci_function *other)
{
    return function != other && function->group >= 0 && other->group == function->group;
}

static void need_attribute_of_member(struct judgement *judgement, const struct facet_pci_function *function,
                                     const struct facet_pci_function *member, enum facet_pci_attribute attribute)
{
    char text[FACET_PCI_ADDRESS_SIZE];

    if (!judgement_is_read(member, attribute))
        judgement_add(judgement, function, FACET_PASSTHROUGH_UNREAD, "%s of %s of the same group could not be read: %s",
                      facet_pci_attribute_name(attribute), judgement_print(&member->address, text),
                      facet_pci_unread_name(member->unread[attribute]));
}

/* A function whose group could not be read may belong to this group. */
static bool may_share_group(const struct facet_pci_function *function, const struct facet_pci_function *other)
{
    return function != other && function->group >= 0 && !judgement_is_read(other, FACET_PCI_GROUP) &&
           other->unread[FACET_PCI_GROUP] != FACET_PCI_UNREAD_ABSENT;
}

void judge_group(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_pci_function *member;
    char text[FACET_PCI_ADDRESS_SIZE];

    JUDGEMENT_EACH (judgement, member) {
        if (may_share_group(function, member))
            judgement_add(judgement, function, FACET_PASSTHROUGH_UNREAD,
                          "%s may be of the same group: its own group could not be read",
                          judgement_print(&member->address, text));
        if (judgement_shares_group(function, member) && !judgement_names(judgement, member) && stuck_is(member))
            judgement_add(judgement, function, FACET_PASSTHROUGH_STUCK, "%s of the same group is stuck",
                          judgement_print(&member->address, text));
        if (!judgement_shares_group(function, member) || judgement_names(judgement, member) ||
            is_ignored_bridge(member))
            continue;
        if (!driver_is_harmless(member->driver))
            judgement_add(judgement, function, FACET_PASSTHROUGH_GROUP_DRIVER,
                          "its group %d is not viable: %s of the same group has the host's driver %s", function->group,
                          judgement_print(&member->address, text), member->driver);
        for (size_t i = 0; i < member->holder_count; i++)
            if (member->holders[i].pid != judgement->wish->own_pid &&
                judgement_is_machine_node(member->holders[i].node))
                judgement_add(judgement, function, FACET_PASSTHROUGH_GROUP_OPEN,
                              "process %lld (%s) has %s of the same group open", (long long)member->holders[i].pid,
                              member->holders[i].command, judgement_print(&member->address, text));
        need_attribute_of_member(judgement, function, member, FACET_PCI_DRIVER);
        if (member->unread[FACET_PCI_HOLDERS] != FACET_PCI_UNREAD_UNKNOWN) /* else its driver is a reason already */
            need_attribute_of_member(judgement, function, member, FACET_PCI_HOLDERS);
    }
}
