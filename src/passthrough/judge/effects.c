/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks for side effects of passing a function through. Never: guesses unread attributes. */
#include <string.h>

#include <facet/limits.h>

#include "passthrough/judge/judgement.h"

enum { SIZE_TEXT = 40 };

static bool is_sibling(const struct facet_pci_function *a, const struct facet_pci_function *b)
{
    return a != b && facet_pci_distance(a, b) == 0;
}

/* A bus reset is done by the bridge above the function, and resets every function below that bridge. */
static bool is_hit_by_reset(const struct facet_pci_function *function, const struct facet_pci_function *other)
{
    if (function == other || function->bridge_count == 0 || other->kind == FACET_PCI_KIND_BRIDGE)
        return false;
    for (size_t i = 0; i < other->bridge_count; i++)
        if (facet_pci_address_compare(&other->bridges[i], &function->bridges[0]) == 0)
            return true;
    return false;
}

void judge_reset(struct judgement *judgement, const struct facet_pci_function *function)
{
    const uint32_t shared = FACET_PCI_RESET_BUS | FACET_PCI_RESET_CXL_BUS;
    const struct facet_pci_function *other;
    char text[FACET_PCI_ADDRESS_SIZE];

    if (function->kind == FACET_PCI_KIND_BRIDGE || !judgement_is_read(function, FACET_PCI_RESET))
        return;
    if (function->reset_methods == 0)
        judgement_add(judgement, function, FACET_PASSTHROUGH_NO_RESET, "the kernel knows no way to reset it");
    if (function->reset_methods == 0 || function->reset_methods & ~shared)
        return;
    JUDGEMENT_EACH (judgement, other)
        if (is_hit_by_reset(function, other) && !judgement_names(judgement, other))
            judgement_add(judgement, function, FACET_PASSTHROUGH_BUS_RESET,
                          "only its whole bus can be reset, which hits %s", judgement_print(&other->address, text));
}

void judge_companions(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_pci_function *other;
    char text[FACET_PCI_ADDRESS_SIZE];

    if (function->is_virtual || !facet_pci_is_accelerator(function))
        return;
    JUDGEMENT_EACH (judgement, other)
        if (is_sibling(function, other) && !other->is_virtual && !judgement_names(judgement, other) &&
            other->kind != FACET_PCI_KIND_BRIDGE)
            judgement_add(judgement, function, FACET_PASSTHROUGH_COMPANION,
                          "%s (%s) is part of the same device and stays", judgement_print(&other->address, text),
                          facet_pci_kind_name(other->kind));
}

void judge_power(struct judgement *judgement, const struct facet_pci_function *function)
{
    if (strcmp(function->power_state, "D3cold") == 0 && judgement->host->disable_idle_d3 != FACET_PCI_YES)
        judgement_add(judgement, function, FACET_PASSTHROUGH_SLEEPS,
                      "is without power (D3cold), from which some devices do not wake");
}

static uint64_t add_up(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* A guest's 32-bit window has room for less than 4 GiB, and a root port reserves 2 MiB if its size is not given. */
void judge_bars(struct judgement *judgement, const struct facet_pci_function *function)
{
    char size[SIZE_TEXT];
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < FACET_PCI_ROM; i++)
        if (function->bars[i].is_64bit && function->bars[i].is_prefetchable)
            bytes = add_up(bytes, function->bars[i].bytes);
    if (bytes >> 32 == 0)
        return;
    facet_format_size(bytes, size, sizeof size);
    judgement_add(judgement, function, FACET_PASSTHROUGH_LARGE_BAR,
                  "its BARs take %s of the guest's address space above 4G", size);
}

/* The bytes of memory in the BARs of all functions of the set. */
static uint64_t bytes_of_bars(const struct judgement *judgement)
{
    const struct facet_pci_function *function;
    uint64_t bytes = 0;

    JUDGEMENT_EACH (judgement, function)
        for (uint32_t i = 0; i < FACET_PCI_ROM && judgement_names(judgement, function); i++)
            if (function->bars[i].is_memory)
                bytes = add_up(bytes, function->bars[i].bytes);
    return bytes;
}

/* Judges the virtual machine as a whole: the reason is added once, to the first function. */
void judge_memory(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_passthrough_wish *wish = judgement->wish;
    char asked[SIZE_TEXT], limit[SIZE_TEXT];

    if (wish->memory_bytes == 0 || wish->memory_lock_bytes == 0 ||
        facet_pci_address_compare(&function->address, &judgement->verdict->functions[0]) != 0)
        return;
    uint64_t bytes = add_up(wish->memory_bytes, bytes_of_bars(judgement));
    if (bytes <= wish->memory_lock_bytes)
        return;
    facet_format_size(bytes, asked, sizeof asked);
    facet_format_size(wish->memory_lock_bytes, limit, sizeof limit);
    judgement_add(judgement, function, FACET_PASSTHROUGH_MEMORY_LOCK,
                  "%s of memory and BARs would be locked, %s may be", asked, limit);
}

void judge_place(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_passthrough_wish *wish = judgement->wish;

    if (wish->has_numa_node && function->numa_node >= 0 && function->numa_node != wish->numa_node)
        judgement_add(judgement, function, FACET_PASSTHROUGH_FAR, "is on NUMA node %d, the virtual machine on %d",
                      function->numa_node, wish->numa_node);
}
