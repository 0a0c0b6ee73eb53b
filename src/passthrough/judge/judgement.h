/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A judgement while its gates run: their input and their output.
 *
 * Owns: adding a reason, and the treatment of unread attributes.
 * Never: touches the host. A gate checks one function of the set, adds every reason that it finds, and stops no other
 * gate.
 */
#ifndef FACET_PASSTHROUGH_JUDGE_JUDGEMENT_H
#define FACET_PASSTHROUGH_JUDGE_JUDGEMENT_H

#include <facet/passthrough.h>

struct judgement {
    const struct facet_pci_snapshot *snapshot;
    const struct facet_passthrough_wish *wish;
    const struct facet_pci_host *host;
    struct facet_passthrough_verdict *verdict;
    size_t reason_room;
    bool failed; /* no memory */
};

void FACET_PRINTF(4, 5) judgement_add(struct judgement *judgement, const struct facet_pci_function *function,
                                      enum facet_passthrough_reason_code code, const char *format, ...);

/* Both add a reason if the attribute is unread; judgement_need_if_any() adds none for an absent attribute. */
void judgement_need_attribute(struct judgement *judgement, const struct facet_pci_function *function,
                              enum facet_pci_attribute attribute);
void judgement_need_if_any(struct judgement *judgement, const struct facet_pci_function *function,
                           enum facet_pci_attribute attribute);
bool judgement_is_read(const struct facet_pci_function *function, enum facet_pci_attribute attribute);

/* Whether the function is in the set that the wish names. */
bool judgement_names(const struct judgement *judgement, const struct facet_pci_function *function);

int judgement_compare(const void *a, const void *b); /* two addresses */
const char *judgement_print(const struct facet_pci_address *address, char text[FACET_PCI_ADDRESS_SIZE]);

/* A loop over all functions of the snapshot; `other` is the current function. */
#define JUDGEMENT_EACH(judgement, other)                                                                               \
    for (uint32_t index_ = 0; ((other) = facet_pci_snapshot_at((judgement)->snapshot, index_)); index_++)

/* ---- function.c: the function itself, and what the host needs for it ---- */

void judge_stuck(struct judgement *judgement, const struct facet_pci_function *function);
void judge_function(struct judgement *judgement, const struct facet_pci_function *function);
void judge_iommu(struct judgement *judgement, const struct facet_pci_function *function);
void judge_vfio(struct judgement *judgement, const struct facet_pci_function *function);

/* ---- users.c: the function's users, including the host's screen ---- */

void judge_holders(struct judgement *judgement, const struct facet_pci_function *function);
void judge_uses(struct judgement *judgement, const struct facet_pci_function *function);
void judge_console(struct judgement *judgement, const struct facet_pci_function *function);
void judge_screen(struct judgement *judgement, const struct facet_pci_function *function);

/* Whether `node` belongs to vfio, so that its holder is a virtual machine. The node "/dev/vfio/12" opens all of
 * group 12. */
bool judgement_is_machine_node(const char *node);

/* ---- group.c: the other functions of the function's group ---- */

void judge_group(struct judgement *judgement, const struct facet_pci_function *function);
bool judgement_shares_group(const struct facet_pci_function *function, const struct facet_pci_function *other);

/* ---- effects.c: side effects ---- */

void judge_companions(struct judgement *judgement, const struct facet_pci_function *function);
void judge_reset(struct judgement *judgement, const struct facet_pci_function *function);
void judge_power(struct judgement *judgement, const struct facet_pci_function *function);
void judge_bars(struct judgement *judgement, const struct facet_pci_function *function);
void judge_memory(struct judgement *judgement, const struct facet_pci_function *function);
void judge_place(struct judgement *judgement, const struct facet_pci_function *function);

#endif
