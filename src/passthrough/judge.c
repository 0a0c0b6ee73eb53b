/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the gates, one function each. Never: touches the host, stops at the first reason, or lets what was not measured
 * pass for good. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/limits.h>
#include <facet/passthrough.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "passthrough/console.h"
#include "passthrough/driver.h"

/* ---- reasons ---- */

static const struct {
    const char *name, *advice;
    uint32_t weight;
} table[] = {
#define REASON(NAME, name, weight, advice) {#name, advice, FACET_PASSTHROUGH_##weight},
    FACET_PASSTHROUGH_REASON_TABLE(REASON)
#undef REASON
};

const char *facet_passthrough_reason_name(uint32_t code)
{
    return code < FACET_PASSTHROUGH_REASONS ? table[code].name : NULL;
}

const char *facet_passthrough_reason_advice(uint32_t code)
{
    return code < FACET_PASSTHROUGH_REASONS ? table[code].advice : NULL;
}

const char *facet_passthrough_answer_name(uint32_t answer)
{
    static const char *const names[] = {"unknown", "no", "yes"};

    return answer < sizeof names / sizeof names[0] ? names[answer] : NULL;
}

/* ---- a judgement under way ---- */

struct judgement {
    const struct facet_pci_snapshot *snapshot;
    const struct facet_passthrough_wish *wish;
    const struct facet_pci_host *host;
    struct facet_passthrough_verdict *verdict;
    size_t reason_room;
    bool failed; /* no memory */
};

static void FACET_PRINTF(4, 5) add(struct judgement *judgement, const struct facet_pci_function *function,
                                   enum facet_passthrough_reason_code code, const char *format, ...)
{
    struct facet_passthrough_verdict *verdict = judgement->verdict;
    va_list arguments;

    if (verdict->reason_count == judgement->reason_room) {
        size_t room = judgement->reason_room ? judgement->reason_room * 2 : 8;
        void *larger = reallocarray(verdict->reasons, room, sizeof *verdict->reasons);

        judgement->failed = judgement->failed || !larger;
        if (!larger)
            return;
        verdict->reasons = larger;
        judgement->reason_room = room;
    }
    struct facet_passthrough_reason *reason = &verdict->reasons[verdict->reason_count++];
    *reason =
        (struct facet_passthrough_reason){.code = code, .weight = table[code].weight, .address = function->address};
    va_start(arguments, format);
    vsnprintf(reason->text, sizeof reason->text, format, arguments);
    va_end(arguments);
    facet_text_make_line(reason->text);
}

static int compare_addresses(const void *a, const void *b)
{
    return facet_pci_address_compare(a, b);
}

/* Asked of each function by each other one: a group may be large. */
static bool is_named(const struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_passthrough_verdict *verdict = judgement->verdict;

    return bsearch(&function->address, verdict->functions, verdict->function_count, sizeof *verdict->functions,
                   compare_addresses) != NULL;
}

static const char *print(const struct facet_pci_address *address, char text[FACET_PCI_ADDRESS_SIZE])
{
    facet_pci_address_print(address, text);
    return text;
}

/* All functions of the snapshot, one after the other in `other`. */
#define FOR_EACH_FUNCTION(judgement, other)                                                                            \
    for (uint32_t index_ = 0; ((other) = facet_pci_snapshot_at((judgement)->snapshot, index_)); index_++)

/* ---- what could not be measured ---- */

static void need(struct judgement *judgement, const struct facet_pci_function *function,
                 enum facet_pci_attribute attribute)
{
    uint32_t unread = function->unread[attribute];

    if (unread != FACET_PCI_READ)
        add(judgement, function, FACET_PASSTHROUGH_UNREAD, "%s could not be read: %s",
            facet_pci_attribute_name(attribute), facet_pci_unread_name(unread));
}

/* The same for what a function need not have. */
static void need_if_any(struct judgement *judgement, const struct facet_pci_function *function,
                        enum facet_pci_attribute attribute)
{
    if (function->unread[attribute] != FACET_PCI_UNREAD_ABSENT)
        need(judgement, function, attribute);
}

static bool is_readable(const struct facet_pci_function *function, enum facet_pci_attribute attribute)
{
    return function->unread[attribute] == FACET_PCI_READ;
}

/* ---- gates of one function ---- */

static void judge_function(struct judgement *judgement, const struct facet_pci_function *function)
{
    need(judgement, function, FACET_PCI_IDENTITY);
    need(judgement, function, FACET_PCI_DRIVER);
    if (function->is_lost)
        add(judgement, function, FACET_PASSTHROUGH_LOST, "does not answer: it has fallen off the bus");
    if (function->kind == FACET_PCI_KIND_BRIDGE)
        add(judgement, function, FACET_PASSTHROUGH_BRIDGE, "is a bridge to other functions");
    if (function->sriov_count > 0)
        add(judgement, function, FACET_PASSTHROUGH_HAS_VIRTUALS, "has %u virtual functions", function->sriov_count);
    need_if_any(judgement, function, FACET_PCI_SRIOV);
    need_if_any(judgement, function, FACET_PCI_POWER);
    /* Who reads no more than the header still knows its type; asleep is asleep. */
    if (function->header_type == FACET_PCI_HEADER_UNKNOWN &&
        function->unread[FACET_PCI_CONFIG] != FACET_PCI_UNREAD_ASLEEP)
        need(judgement, function, FACET_PCI_CONFIG);
}

static void judge_iommu(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_pci_host *host = judgement->host;

    if (host->iommus == 0)
        add(judgement, function, FACET_PASSTHROUGH_NO_IOMMU, "this host has no IOMMU%s%s",
            host->iommu_off == FACET_PCI_YES ? ": the kernel was told not to use one" : "",
            host->has_noiommu == FACET_PCI_YES ? " (the unsafe no-IOMMU mode of vfio is not used)" : "");
    else if (function->unread[FACET_PCI_GROUP] == FACET_PCI_UNREAD_ABSENT)
        add(judgement, function, FACET_PASSTHROUGH_NO_GROUP, "is in no IOMMU group, though this host has an IOMMU");
    else
        need(judgement, function, FACET_PCI_GROUP);
    if (host->iommus == 0)
        return;
    if (host->interrupt_remapping == FACET_PCI_NO && host->unsafe_interrupts != FACET_PCI_YES)
        add(judgement, function, FACET_PASSTHROUGH_NO_INTERRUPT_REMAPPING,
            "a guest could raise any interrupt of the host: interrupt remapping is off");
    if (host->interrupt_remapping == FACET_PCI_NO && host->unsafe_interrupts == FACET_PCI_YES)
        add(judgement, function, FACET_PASSTHROUGH_UNSAFE_INTERRUPTS,
            "a guest could raise any interrupt of the host: allowed by a setting");
    if (host->interrupt_remapping == FACET_PCI_UNKNOWN)
        add(judgement, function, FACET_PASSTHROUGH_UNREAD, "whether interrupts are remapped is not known");
    if (host->acs_override == FACET_PCI_YES)
        add(judgement, function, FACET_PASSTHROUGH_ACS_OVERRIDE,
            "the kernel was told to split groups that the hardware does not keep apart");
}

static void judge_vfio(struct judgement *judgement, const struct facet_pci_function *function)
{
    if (function->is_vfio)
        return;
    if (judgement->host->has_vfio_pci == FACET_PCI_NO)
        add(judgement, function, FACET_PASSTHROUGH_NO_VFIO, "this kernel has no driver vfio-pci");
    if (judgement->host->has_vfio_pci == FACET_PCI_UNKNOWN)
        add(judgement, function, FACET_PASSTHROUGH_UNREAD, "whether this kernel has vfio-pci is not known");
}

/* ---- who uses it ---- */

/* "/dev/vfio/12" is the group's, which a machine opens as a whole. */
static bool is_machine_node(const char *node)
{
    return strncmp(node, "/dev/vfio/", 10) == 0;
}

static void judge_holders(struct judgement *judgement, const struct facet_pci_function *function)
{
    if (function->kind == FACET_PCI_KIND_BRIDGE)
        return;
    for (size_t i = 0; i < function->holder_count; i++) {
        const struct facet_pci_holder *holder = &function->holders[i];

        if (holder->pid != judgement->wish->own_pid)
            add(judgement, function,
                is_machine_node(holder->node) ? FACET_PASSTHROUGH_GROUP_OPEN : FACET_PASSTHROUGH_HELD,
                "process %lld (%s) has %s open", (long long)holder->pid, holder->command, holder->node);
    }
    if (function->unread[FACET_PCI_HOLDERS] == FACET_PCI_UNREAD_UNKNOWN)
        add(judgement, function, FACET_PASSTHROUGH_USERS_UNKNOWN,
            "who uses it cannot be told: the device nodes of its driver%s%s are not known",
            function->driver[0] ? " " : "", function->driver);
    else
        need(judgement, function, FACET_PCI_HOLDERS);
}

static void judge_uses(struct judgement *judgement, const struct facet_pci_function *function)
{
    for (size_t i = 0; i < function->use_count; i++) {
        const struct facet_pci_use *use = &function->uses[i];

        if (use->is_network)
            add(judgement, function, FACET_PASSTHROUGH_NETWORK_UP, "its interface %s is up", use->name);
        else
            add(judgement, function, FACET_PASSTHROUGH_DISK_USED, "its disk %s is in use: %s", use->name, use->place);
    }
    need(judgement, function, FACET_PCI_USES);
}

/* ---- the host's screen ---- */

static bool may_be_boot_vga(const struct facet_pci_function *function)
{
    return function->boot_vga || (function->unread[FACET_PCI_BOOT_VGA] != FACET_PCI_READ &&
                                  function->unread[FACET_PCI_BOOT_VGA] != FACET_PCI_UNREAD_ABSENT);
}

static void judge_console(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_pci_host *host = judgement->host;

    for (size_t i = 0; i < host->region_count; i++)
        for (uint32_t j = 0; j < FACET_PCI_BARS_COUNT; j++)
            if (facet_console_is_in(&function->bars[j], &host->regions[i]))
                add(judgement, function, FACET_PASSTHROUGH_CONSOLE, "the host's console (%s) is in its BAR %u",
                    host->regions[i].owner, j);
    /* Only the GPU that the firmware used can have the console. */
    if (host->regions_unread != FACET_PCI_READ && may_be_boot_vga(function))
        add(judgement, function, FACET_PASSTHROUGH_UNREAD, "whether the host's console is in its memory is not known");
    if (host->region_count > 0)
        need(judgement, function, FACET_PCI_BARS);
}

/* A GPU for computing (class 0302) shows nothing, nor does one that is lost or handed on: no loss to the screen. */
static bool can_show(const struct facet_pci_function *function)
{
    return (function->class_code >> 8 == 0x0300 || function->class_code >> 8 == 0x0380) && !function->is_lost &&
           !function->is_virtual && !function->is_vfio;
}

static void judge_screen(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_pci_function *other;
    bool remains = false;

    if (!can_show(function) || judgement->wish->flags & FACET_PASSTHROUGH_HEADLESS)
        return;
    need_if_any(judgement, function, FACET_PCI_BOOT_VGA);
    FOR_EACH_FUNCTION(judgement, other)
    remains = remains || (can_show(other) && is_readable(other, FACET_PCI_DRIVER) && !is_named(judgement, other));
    if (!remains)
        add(judgement, function, FACET_PASSTHROUGH_ONLY_GPU, "is the last GPU that can show the host's screen");
    else if (function->boot_vga)
        add(judgement, function, FACET_PASSTHROUGH_ONLY_GPU,
            "is the GPU on which the firmware shows the host's screen");
}

/* ---- the others of its group ---- */

/* It passes on what is below it. A bridge of the host or to ISA is no such thing: its driver counts. */
static bool is_way_through(const struct facet_pci_function *function)
{
    uint32_t class = function->class_code >> 8;

    return class == 0x0604 || class == 0x0607 || class == 0x0609 ||
           (function->header_type != 0 && function->header_type != FACET_PCI_HEADER_UNKNOWN);
}

/* The port driver does no DMA, which the kernel knows; others of bridges (shpchp) it holds against the group
 * since 5.19, where it let all bridges pass before. */
static bool is_passed(const struct facet_pci_function *member)
{
    return is_way_through(member) && (driver_is_harmless(member->driver) || driver_is_port(member->driver));
}

static bool shares_group(const struct facet_pci_function *function, const struct facet_pci_function *other)
{
    return function != other && function->group >= 0 && other->group == function->group;
}

static void need_of_member(struct judgement *judgement, const struct facet_pci_function *function,
                           const struct facet_pci_function *member, enum facet_pci_attribute attribute)
{
    char text[FACET_PCI_ADDRESS_SIZE];

    if (!is_readable(member, attribute))
        add(judgement, function, FACET_PASSTHROUGH_UNREAD, "%s of %s of the same group could not be read: %s",
            facet_pci_attribute_name(attribute), print(&member->address, text),
            facet_pci_unread_name(member->unread[attribute]));
}

/* Whose group is not known may be of this one. */
static bool may_share_group(const struct facet_pci_function *function, const struct facet_pci_function *other)
{
    return function != other && function->group >= 0 && !is_readable(other, FACET_PCI_GROUP) &&
           other->unread[FACET_PCI_GROUP] != FACET_PCI_UNREAD_ABSENT;
}

static void judge_group(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_pci_function *member;
    char text[FACET_PCI_ADDRESS_SIZE];

    FOR_EACH_FUNCTION(judgement, member)
    {
        if (may_share_group(function, member))
            add(judgement, function, FACET_PASSTHROUGH_UNREAD, "%s may be of the same group: its own could not be read",
                print(&member->address, text));
        if (!shares_group(function, member) || is_named(judgement, member) || is_passed(member))
            continue;
        if (!driver_is_harmless(member->driver))
            add(judgement, function, FACET_PASSTHROUGH_GROUP_DRIVER,
                "group %d is not viable: it shares it with %s, which the host's driver %s has", function->group,
                print(&member->address, text), member->driver);
        for (size_t i = 0; i < member->holder_count; i++)
            if (member->holders[i].pid != judgement->wish->own_pid && is_machine_node(member->holders[i].node))
                add(judgement, function, FACET_PASSTHROUGH_GROUP_OPEN,
                    "process %lld (%s) has %s of the same group open", (long long)member->holders[i].pid,
                    member->holders[i].command, print(&member->address, text));
        need_of_member(judgement, function, member, FACET_PCI_DRIVER);
        if (member->unread[FACET_PCI_HOLDERS] != FACET_PCI_UNREAD_UNKNOWN) /* its driver is reason enough */
            need_of_member(judgement, function, member, FACET_PCI_HOLDERS);
    }
}

/* ---- what will be felt ---- */

enum { SIZE_TEXT = 40 };

static bool is_sibling(const struct facet_pci_function *a, const struct facet_pci_function *b)
{
    return a != b && facet_pci_distance(a, b) == 0;
}

/* A bus is reset by the bridge above it, and with it all that is below that bridge. */
static bool is_hit_by_reset(const struct facet_pci_function *function, const struct facet_pci_function *other)
{
    if (function == other || function->bridge_count == 0 || other->kind == FACET_PCI_KIND_BRIDGE)
        return false;
    for (size_t i = 0; i < other->bridge_count; i++)
        if (facet_pci_address_compare(&other->bridges[i], &function->bridges[0]) == 0)
            return true;
    return false;
}

static void judge_reset(struct judgement *judgement, const struct facet_pci_function *function)
{
    const uint32_t shared = FACET_PCI_RESET_BUS | FACET_PCI_RESET_CXL_BUS;
    const struct facet_pci_function *other;
    char text[FACET_PCI_ADDRESS_SIZE];

    if (function->kind == FACET_PCI_KIND_BRIDGE || !is_readable(function, FACET_PCI_RESET))
        return;
    if (function->reset_methods == 0)
        add(judgement, function, FACET_PASSTHROUGH_NO_RESET, "the kernel knows no way to reset it");
    if (function->reset_methods == 0 || function->reset_methods & ~shared)
        return;
    FOR_EACH_FUNCTION(judgement, other)
    if (is_hit_by_reset(function, other) && !is_named(judgement, other))
        add(judgement, function, FACET_PASSTHROUGH_BUS_RESET, "only its whole bus can be reset, which hits %s",
            print(&other->address, text));
}

static void judge_companions(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_pci_function *other;
    char text[FACET_PCI_ADDRESS_SIZE];

    if (function->is_virtual || !facet_pci_is_accelerator(function))
        return;
    FOR_EACH_FUNCTION(judgement, other)
    if (is_sibling(function, other) && !other->is_virtual && !is_named(judgement, other) &&
        other->kind != FACET_PCI_KIND_BRIDGE)
        add(judgement, function, FACET_PASSTHROUGH_COMPANION, "%s (%s) is part of the same device and stays",
            print(&other->address, text), facet_pci_kind_name(other->kind));
}

static void judge_power(struct judgement *judgement, const struct facet_pci_function *function)
{
    if (strcmp(function->power_state, "D3cold") == 0 && judgement->host->disable_idle_d3 != FACET_PCI_YES)
        add(judgement, function, FACET_PASSTHROUGH_SLEEPS, "is without power (D3cold), from which some do not wake");
}

static uint64_t add_up(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* A guest's 32-bit window has room for less than 4 GiB; a port's default for prefetchable memory is 2 MiB. */
static void judge_bars(struct judgement *judgement, const struct facet_pci_function *function)
{
    char size[SIZE_TEXT];
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < FACET_PCI_ROM; i++)
        if (function->bars[i].is_64bit && function->bars[i].is_prefetchable)
            bytes = add_up(bytes, function->bars[i].bytes);
    if (bytes >> 32 == 0)
        return;
    facet_format_size(bytes, size, sizeof size);
    add(judgement, function, FACET_PASSTHROUGH_LARGE_BAR, "its BARs take %s of the guest's address space above 4G",
        size);
}

/* What all functions of the set have in their BARs. */
static uint64_t bytes_of_bars(const struct judgement *judgement)
{
    const struct facet_pci_function *function;
    uint64_t bytes = 0;

    FOR_EACH_FUNCTION(judgement, function)
    for (uint32_t i = 0; i < FACET_PCI_ROM && is_named(judgement, function); i++)
        if (function->bars[i].is_memory)
            bytes = add_up(bytes, function->bars[i].bytes);
    return bytes;
}

/* Of the virtual machine as a whole: said once, of the first function. */
static void judge_memory(struct judgement *judgement, const struct facet_pci_function *function)
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
    add(judgement, function, FACET_PASSTHROUGH_MEMORY_LOCK, "%s of memory and BARs would be locked, %s may be", asked,
        limit);
}

static void judge_place(struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_passthrough_wish *wish = judgement->wish;

    if (wish->has_numa_node && function->numa_node >= 0 && function->numa_node != wish->numa_node)
        add(judgement, function, FACET_PASSTHROUGH_FAR, "is on NUMA node %d, the virtual machine on %d",
            function->numa_node, wish->numa_node);
}

/* ---- the set ---- */

static void (*const gates[])(struct judgement *judgement, const struct facet_pci_function *function) = {
    judge_function, judge_iommu,      judge_vfio,  judge_holders, judge_uses, judge_console, judge_screen,
    judge_group,    judge_companions, judge_reset, judge_power,   judge_bars, judge_memory,  judge_place,
};

static bool wants(const struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_passthrough_wish *wish = judgement->wish;

    for (size_t i = 0; i < wish->count; i++) {
        const struct facet_pci_function *named = facet_pci_snapshot_find(judgement->snapshot, &wish->functions[i]);

        if (named == function)
            return true;
        if (wish->flags & FACET_PASSTHROUGH_WHOLE_GROUP && shares_group(named, function) &&
            function->kind != FACET_PCI_KIND_BRIDGE)
            return true;
    }
    return false;
}

/* Functions of the snapshot come by address, and each once. */
static enum facet_status choose_functions(struct judgement *judgement, struct facet_error *error)
{
    const struct facet_passthrough_wish *wish = judgement->wish;
    struct facet_passthrough_verdict *verdict = judgement->verdict;
    const struct facet_pci_function *function;
    char text[FACET_PCI_ADDRESS_SIZE];

    for (size_t i = 0; i < wish->count; i++)
        if (!facet_pci_snapshot_find(judgement->snapshot, &wish->functions[i]))
            return facet_error_argument(error, FACET_NOT_FOUND, "functions", "there is no PCI function %s",
                                        print(&wish->functions[i], text));
    verdict->functions = calloc(facet_pci_snapshot_count(judgement->snapshot), sizeof *verdict->functions);
    if (!verdict->functions)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a judgement");
    FOR_EACH_FUNCTION(judgement, function)
    if (wants(judgement, function))
        verdict->functions[verdict->function_count++] = function->address;
    qsort(verdict->functions, verdict->function_count, sizeof *verdict->functions, compare_addresses);
    return FACET_OK;
}

/* By weight, and else in the order in which they were found: functions by address, gates as listed. */
static void sort_reasons(struct facet_passthrough_verdict *verdict)
{
    for (size_t i = 1; i < verdict->reason_count; i++) {
        struct facet_passthrough_reason reason = verdict->reasons[i];
        size_t j = i;

        for (; j > 0 && verdict->reasons[j - 1].weight > reason.weight; j--)
            verdict->reasons[j] = verdict->reasons[j - 1];
        verdict->reasons[j] = reason;
    }
}

static uint32_t answer_of(const struct facet_passthrough_verdict *verdict)
{
    if (verdict->reason_count == 0 || verdict->reasons[0].weight == FACET_PASSTHROUGH_WARNING)
        return FACET_PASSTHROUGH_YES;
    return verdict->reasons[0].weight == FACET_PASSTHROUGH_STOP ? FACET_PASSTHROUGH_NO : FACET_PASSTHROUGH_UNKNOWN;
}

static enum facet_status judge_all(struct judgement *judgement, struct facet_error *error)
{
    struct facet_passthrough_verdict *verdict = judgement->verdict;
    enum facet_status status = choose_functions(judgement, error);

    if (status)
        return status;
    for (size_t i = 0; i < verdict->function_count; i++) {
        const struct facet_pci_function *function =
            facet_pci_snapshot_find(judgement->snapshot, &verdict->functions[i]);

        for (size_t j = 0; j < sizeof gates / sizeof gates[0]; j++)
            gates[j](judgement, function);
    }
    if (judgement->failed)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the reasons of a judgement");
    sort_reasons(verdict);
    verdict->answer = answer_of(verdict);
    return FACET_OK;
}

static enum facet_status check_wish(const struct facet_passthrough_wish *wish, struct facet_error *error)
{
    if (wish->size < sizeof *wish)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "wish->size", "is %u, at least %zu was expected",
                                    wish->size, sizeof *wish);
    if (wish->flags & ~(FACET_PASSTHROUGH_WHOLE_GROUP | FACET_PASSTHROUGH_HEADLESS))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "wish->flags", "0x%x has bits that are unknown",
                                    wish->flags);
    if (wish->count == 0 || !wish->functions)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "wish->functions",
                                    "names none: at least one function was expected");
    return FACET_OK;
}

enum facet_status facet_passthrough_judge(const struct facet_pci_snapshot *snapshot,
                                          const struct facet_passthrough_wish *wish,
                                          struct facet_passthrough_verdict **ret_verdict, struct facet_error *error)
{
    if (!snapshot || !wish || !ret_verdict)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT,
                                    !snapshot ? "snapshot"
                                    : !wish   ? "wish"
                                              : "ret_verdict",
                                    "must not be NULL");
    enum facet_status status = check_wish(wish, error);
    if (status)
        return status;

    struct facet_passthrough_verdict *verdict = calloc(1, sizeof *verdict);
    if (!verdict)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a judgement");
    verdict->size = sizeof *verdict;
    struct judgement judgement = {
        .snapshot = snapshot, .wish = wish, .host = facet_pci_snapshot_host(snapshot), .verdict = verdict};
    status = judge_all(&judgement, error);
    if (status) {
        facet_passthrough_verdict_destroy(verdict);
        return status;
    }
    *ret_verdict = verdict;
    return FACET_OK;
}

void facet_passthrough_verdict_destroy(struct facet_passthrough_verdict *verdict)
{
    if (!verdict)
        return;
    free(verdict->functions);
    free(verdict->reasons);
    free(verdict);
}
