/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the set of functions that a wish names, the order of the gates, and the answer that follows from their reasons.
 * Never: touches the host, or stops at the first reason. */
#include <stdlib.h>

#include "base/sized.h"
#include "passthrough/judge/judgement.h"

static void (*const gates[])(struct judgement *judgement, const struct facet_pci_function *function) = {
    judge_stuck, judge_function,   judge_iommu, judge_vfio,  judge_holders, judge_uses,   judge_console, judge_screen,
    judge_group, judge_companions, judge_reset, judge_power, judge_bars,    judge_memory, judge_place,
};

static bool is_requested(const struct judgement *judgement, const struct facet_pci_function *function)
{
    const struct facet_passthrough_wish *wish = judgement->wish;

    for (size_t i = 0; i < wish->count; i++) {
        const struct facet_pci_function *named = facet_pci_snapshot_find(judgement->snapshot, &wish->functions[i]);

        if (named == function)
            return true;
        if (wish->flags & FACET_PASSTHROUGH_WHOLE_GROUP && judgement_shares_group(named, function) &&
            function->kind != FACET_PCI_KIND_BRIDGE)
            return true;
    }
    return false;
}

/* Collects the wish's functions, each once, in the snapshot's order of addresses. */
static enum facet_status choose_functions(struct judgement *judgement, struct facet_error *error)
{
    const struct facet_passthrough_wish *wish = judgement->wish;
    struct facet_passthrough_verdict *verdict = judgement->verdict;
    const struct facet_pci_function *function;
    char text[FACET_PCI_ADDRESS_SIZE];

    for (size_t i = 0; i < wish->count; i++)
        if (!facet_pci_snapshot_find(judgement->snapshot, &wish->functions[i]))
            return facet_error_argument(error, FACET_NOT_FOUND, "functions", "there is no PCI function %s",
                                        judgement_print(&wish->functions[i], text));
    verdict->functions = calloc(facet_pci_snapshot_count(judgement->snapshot), sizeof *verdict->functions);
    if (!verdict->functions)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a judgement");
    JUDGEMENT_EACH (judgement, function)
        if (is_requested(judgement, function))
            verdict->functions[verdict->function_count++] = function->address;
    qsort(verdict->functions, verdict->function_count, sizeof *verdict->functions, judgement_compare);
    return FACET_OK;
}

/*
 * Sorts reasons by weight. Reasons of one weight keep the order in which they were found: by the function's address,
 * then by gate.
 */
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
    FACET_NEED_KNOWN("wish", wish, error);
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
