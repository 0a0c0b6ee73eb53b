/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the weight of each reason, adding a reason to a judgement, and functions about a set that all gates use.
 * Never: computes the answer.
 */
#include "passthrough/judge/judgement.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

static const uint32_t weights[] = {
#define WEIGHT(NAME, name, weight, advice) FACET_PASSTHROUGH_##weight,
    FACET_PASSTHROUGH_REASON_TABLE(WEIGHT)
#undef WEIGHT
};

void judgement_add(struct judgement *judgement, const struct facet_pci_function *function,
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
    *reason = (struct facet_passthrough_reason){.code = code, .weight = weights[code], .address = function->address};
    va_start(arguments, format);
    vsnprintf(reason->text, sizeof reason->text, format, arguments);
    va_end(arguments);
    facet_text_make_line(reason->text);
}

int judgement_compare(const void *a, const void *b)
{
    return facet_pci_address_compare(a, b);
}

/* A binary search, because gates ask this for each pair of functions, and a group may be large. */
bool judgement_names(const struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_passthrough_verdict *verdict = judgement->verdict;

    return bsearch(&function->address, verdict->functions, verdict->function_count, sizeof *verdict->functions,
                   judgement_compare) != NULL;
}

const char *judgement_print(const struct facet_pci_address *address, char text[FACET_PCI_ADDRESS_SIZE])
{
    facet_pci_address_print(address, text);
    return text;
}

/* ---- unread attributes ---- */

/* Attributes that are unread because the function is stuck need no reason of their own. */
void judgement_need_attribute(struct judgement *judgement, const struct facet_pci_function *function,
                              enum facet_pci_attribute attribute)
{
    uint32_t unread = function->unread[attribute];

    if (unread != FACET_PCI_READ && unread != FACET_PCI_UNREAD_STUCK)
        judgement_add(judgement, function, FACET_PASSTHROUGH_UNREAD, "%s could not be read: %s",
                      facet_pci_attribute_name(attribute), facet_pci_unread_name(unread));
}

void judgement_need_if_any(struct judgement *judgement, const struct facet_pci_function *function,
                           enum facet_pci_attribute attribute)
{
    if (function->unread[attribute] != FACET_PCI_UNREAD_ABSENT)
        judgement_need_attribute(judgement, function, attribute);
}

bool judgement_is_read(const struct facet_pci_function *function, enum facet_pci_attribute attribute)
{
    return function->unread[attribute] == FACET_PCI_READ;
}
