/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the difference of two snapshots. Never: reads a machine, or takes an unread attribute for a change. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <facet/pci_watch.h>

#include "base/text.h"
#include "passthrough/stuck.h"

const char *facet_pci_change_name(uint32_t kind)
{
    static const char *const names[] = {
#define NAME(NAME, name) #name,
        FACET_PCI_CHANGE_TABLE(NAME)
#undef NAME
    };

    return kind < FACET_PCI_CHANGES ? names[kind] : NULL;
}

struct comparison {
    const struct facet_pci_function *before, *after; /* one of them may be NULL */
    facet_pci_change_func take;
    void *user;
    bool enough;
};

static void report_change(struct comparison *comparison, enum facet_pci_change_kind kind, const char *before,
                          const char *after)
{
    const struct facet_pci_function *function = comparison->after ? comparison->after : comparison->before;
    struct facet_pci_change change = {
        .size = sizeof change, .kind = kind, .address = function->address, .function = function};

    if (comparison->enough)
        return;
    snprintf(change.before, sizeof change.before, "%s", before);
    snprintf(change.after, sizeof change.after, "%s", after);
    facet_text_make_line(change.before);
    facet_text_make_line(change.after);
    comparison->enough = !comparison->take(comparison->user, &change);
}

static void report_text(struct comparison *comparison, enum facet_pci_change_kind kind, const char *before,
                        const char *after)
{
    if (strcmp(before, after) != 0)
        report_change(comparison, kind, before, after);
}

static void report_number(struct comparison *comparison, enum facet_pci_change_kind kind, uint64_t before,
                          uint64_t after)
{
    char old_text[24], new_text[24];

    if (before == after)
        return;
    snprintf(old_text, sizeof old_text, "%" PRIu64, before);
    snprintf(new_text, sizeof new_text, "%" PRIu64, after);
    report_change(comparison, kind, old_text, new_text);
}

/* ---- a function that is in both snapshots ---- */

static bool is_read_in_both(const struct comparison *comparison, enum facet_pci_attribute attribute)
{
    return comparison->before->unread[attribute] == FACET_PCI_READ &&
           comparison->after->unread[attribute] == FACET_PCI_READ;
}

static void compare_group(struct comparison *comparison)
{
    const struct facet_pci_function *sides[] = {comparison->before, comparison->after};
    char texts[2][16] = {"", ""};

    for (int i = 0; i < 2; i++) {
        uint32_t unread = sides[i]->unread[FACET_PCI_GROUP];

        if (unread != FACET_PCI_READ && unread != FACET_PCI_UNREAD_ABSENT)
            return;
        if (sides[i]->group >= 0)
            snprintf(texts[i], sizeof texts[i], "%d", sides[i]->group);
    }
    report_text(comparison, FACET_PCI_CHANGE_GROUP, texts[0], texts[1]);
}

static void compare_link(struct comparison *comparison)
{
    const struct facet_pci_link *before = &comparison->before->link, *after = &comparison->after->link;

    report_number(comparison, FACET_PCI_CHANGE_WIDTH, before->width, after->width);
    report_number(comparison, FACET_PCI_CHANGE_SPEED, before->speed_mts, after->speed_mts);
}

/* When a device was reset or replaced, its counters begin at 0 again. */
static void report_errors(struct comparison *comparison, enum facet_pci_change_kind kind, uint64_t before,
                          uint64_t after)
{
    report_number(comparison, kind, after < before ? 0 : before, after);
}

static void compare_errors(struct comparison *comparison)
{
    const struct facet_pci_aer *before = &comparison->before->aer, *after = &comparison->after->aer;

    report_errors(comparison, FACET_PCI_CHANGE_CORRECTABLE, before->correctable, after->correctable);
    report_errors(comparison, FACET_PCI_CHANGE_NONFATAL, before->nonfatal, after->nonfatal);
    report_errors(comparison, FACET_PCI_CHANGE_FATAL, before->fatal, after->fatal);
}

static void compare_function(struct comparison *comparison)
{
    const struct facet_pci_function *before = comparison->before, *after = comparison->after;

    if (before->is_lost != after->is_lost)
        report_change(comparison, after->is_lost ? FACET_PCI_CHANGE_LOST : FACET_PCI_CHANGE_FOUND, "", "");
    if (stuck_is(before) != stuck_is(after))
        report_change(comparison, stuck_is(after) ? FACET_PCI_CHANGE_STUCK : FACET_PCI_CHANGE_RELEASED, "", "");
    if (is_read_in_both(comparison, FACET_PCI_DRIVER))
        report_text(comparison, FACET_PCI_CHANGE_DRIVER, before->driver, after->driver);
    compare_group(comparison);
    if (is_read_in_both(comparison, FACET_PCI_POWER))
        report_text(comparison, FACET_PCI_CHANGE_POWER, before->power_state, after->power_state);
    if (is_read_in_both(comparison, FACET_PCI_LINK))
        compare_link(comparison);
    if (is_read_in_both(comparison, FACET_PCI_SRIOV))
        report_number(comparison, FACET_PCI_CHANGE_VIRTUALS, before->sriov_count, after->sriov_count);
    if (is_read_in_both(comparison, FACET_PCI_HOLDERS))
        report_number(comparison, FACET_PCI_CHANGE_HOLDERS, before->holder_count, after->holder_count);
    if (is_read_in_both(comparison, FACET_PCI_AER))
        compare_errors(comparison);
}

/* ---- all functions ---- */

/* Whether both scans saw the same card at the address; unread numbers count as equal. */
static bool is_same_model(const struct facet_pci_function *a, const struct facet_pci_function *b)
{
    if (a->unread[FACET_PCI_IDENTITY] != FACET_PCI_READ || b->unread[FACET_PCI_IDENTITY] != FACET_PCI_READ)
        return true;
    return a->vendor == b->vendor && a->device == b->device && a->subsystem_vendor == b->subsystem_vendor &&
           a->subsystem_device == b->subsystem_device &&
           (a->serial[0] == '\0' || b->serial[0] == '\0' || strcmp(a->serial, b->serial) == 0);
}

static void compare_address(struct comparison *comparison)
{
    const struct facet_pci_function *before = comparison->before, *after = comparison->after;

    if (before && after && is_same_model(before, after)) {
        compare_function(comparison);
        return;
    }
    if (before) {
        comparison->after = NULL;
        report_change(comparison, FACET_PCI_CHANGE_REMOVED, before->driver, "");
        comparison->after = after;
    }
    if (after)
        report_change(comparison, FACET_PCI_CHANGE_ADDED, "", after->driver);
}

void facet_pci_compare(const struct facet_pci_snapshot *before, const struct facet_pci_snapshot *after,
                       facet_pci_change_func take, void *user)
{
    struct comparison comparison = {.take = take, .user = user};
    uint32_t i = 0, j = 0;

    while (!comparison.enough) {
        const struct facet_pci_function *first = facet_pci_snapshot_at(before, i);
        const struct facet_pci_function *second = facet_pci_snapshot_at(after, j);

        if (!first && !second)
            return;
        int order = !first ? 1 : !second ? -1 : facet_pci_address_compare(&first->address, &second->address);
        comparison.before = order <= 0 ? first : NULL;
        comparison.after = order >= 0 ? second : NULL;
        compare_address(&comparison);
        i += order <= 0;
        j += order >= 0;
    }
}
