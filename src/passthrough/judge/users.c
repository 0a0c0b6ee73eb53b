/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the gates that check a function's users: processes, and the host's disks, networks, console and screen. Never:
 * takes an unknown answer for "no users".
 */
#include <string.h>

#include "passthrough/console.h"
#include "passthrough/judge/judgement.h"

bool judgement_is_machine_node(const char *node)
{
    return strncmp(node, "/dev/vfio/", 10) == 0;
}

void judge_holders(struct judgement *judgement, const struct facet_pci_function *function)
{
    if (function->kind == FACET_PCI_KIND_BRIDGE)
        return;
    for (size_t i = 0; i < function->holder_count; i++) {
        const struct facet_pci_holder *holder = &function->holders[i];

        if (holder->pid != judgement->wish->own_pid)
            judgement_add(judgement, function,
                          judgement_is_machine_node(holder->node) ? FACET_PASSTHROUGH_GROUP_OPEN
                                                                  : FACET_PASSTHROUGH_HELD,
                          "process %lld (%s) has %s open", (long long)holder->pid, holder->command, holder->node);
    }
    if (function->unread[FACET_PCI_HOLDERS] == FACET_PCI_UNREAD_UNKNOWN)
        judgement_add(judgement, function, FACET_PASSTHROUGH_USERS_UNKNOWN,
                      "its users are unknown: the device nodes of its driver%s%s are not known",
                      function->driver[0] ? " " : "", function->driver);
    else
        judgement_need_attribute(judgement, function, FACET_PCI_HOLDERS);
}

void judge_uses(struct judgement *judgement, const struct facet_pci_function *function)
{
    for (size_t i = 0; i < function->use_count; i++) {
        const struct facet_pci_use *use = &function->uses[i];

        if (use->is_network)
            judgement_add(judgement, function, FACET_PASSTHROUGH_NETWORK_UP, "its interface %s is up", use->name);
        else
            judgement_add(judgement, function, FACET_PASSTHROUGH_DISK_USED, "its disk %s is in use: %s", use->name,
                          use->place);
    }
    judgement_need_attribute(judgement, function, FACET_PCI_USES);
}

/* ---- the host's screen ---- */

static bool may_be_boot_vga(const struct facet_pci_function *function)
{
    return function->boot_vga || (function->unread[FACET_PCI_BOOT_VGA] != FACET_PCI_READ &&
                                  function->unread[FACET_PCI_BOOT_VGA] != FACET_PCI_UNREAD_ABSENT);
}

void judge_console(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_pci_host *host = judgement->host;

    for (size_t i = 0; i < host->region_count; i++)
        for (uint32_t j = 0; j < FACET_PCI_BARS_COUNT; j++)
            if (facet_console_is_in(&function->bars[j], &host->regions[i]))
                judgement_add(judgement, function, FACET_PASSTHROUGH_CONSOLE,
                              "the host's console (%s) is in its BAR %u", host->regions[i].owner, j);
    /* When the regions are unread, only the GPU that the firmware used can have the console. */
    if (host->regions_unread != FACET_PCI_READ && may_be_boot_vga(function))
        judgement_add(judgement, function, FACET_PASSTHROUGH_UNREAD,
                      "whether the host's console is in its memory is not known");
    if (host->region_count > 0)
        judgement_need_attribute(judgement, function, FACET_PCI_BARS);
}

/* Whether a GPU can drive the host's screen. A GPU for computing (class 0302) cannot, nor can one that is lost or
 * passed through. */
static bool can_drive_screen(const struct facet_pci_function *function)
{
    return (function->class_code >> 8 == 0x0300 || function->class_code >> 8 == 0x0380) && !function->is_lost &&
           !function->is_virtual && !function->is_vfio;
}

void judge_screen(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_pci_function *other;
    bool remains = false;

    if (!can_drive_screen(function) || judgement->wish->flags & FACET_PASSTHROUGH_HEADLESS)
        return;
    judgement_need_if_any(judgement, function, FACET_PCI_BOOT_VGA);
    JUDGEMENT_EACH (judgement, other)
        remains = remains || (can_drive_screen(other) && judgement_is_read(other, FACET_PCI_DRIVER) &&
                              !judgement_names(judgement, other));
    if (!remains)
        judgement_add(judgement, function, FACET_PASSTHROUGH_ONLY_GPU,
                      "is the last GPU that can show the host's screen");
    else if (function->boot_vga)
        judgement_add(judgement, function, FACET_PASSTHROUGH_ONLY_GPU,
                      "is the GPU on which the firmware shows the host's screen");
}
