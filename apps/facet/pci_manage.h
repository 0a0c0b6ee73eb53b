/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that `facet pci bind`, `unbind` and `persist` share: options, the manager, and the output of plans and
 * reports.
 *
 * Owns: the folder of journals, and the rule that no signal interrupts a transaction.
 * Never: decides which values are written; facet/passthrough_bind.h does.
 */
#ifndef FACET_PCI_MANAGE_H
#define FACET_PCI_MANAGE_H

#include <facet/passthrough_bind.h>

#include "command.h"

enum { PCI_ADDRESSES_MOST = 64 };

/* Values of the long options. */
enum pci_option {
    PCI_OPTION_ALONE = 'A',
    PCI_OPTION_DRIVER = 'D',
    PCI_OPTION_HEADLESS = 'H',
    PCI_OPTION_RESET = 'R',
    PCI_OPTION_OWNER = 'O',
    PCI_OPTION_ROOT = 'r',
    PCI_OPTION_UNBIND = 'U',
};

#define PCI_OPTIONS_WISH                                                                                               \
    {"alone", no_argument, NULL, PCI_OPTION_ALONE}, {"driver", required_argument, NULL, PCI_OPTION_DRIVER},            \
        {"headless", no_argument, NULL, PCI_OPTION_HEADLESS}, {"reset", no_argument, NULL, PCI_OPTION_RESET},          \
    {                                                                                                                  \
        "owner", required_argument, NULL, PCI_OPTION_OWNER                                                             \
    }

/* The request of a command line. */
struct pci_wish {
    struct facet_pci_address addresses[PCI_ADDRESSES_MOST];
    size_t count;
    uint32_t wish_flags; /* FACET_PASSTHROUGH_WHOLE_GROUP, ... */
    uint32_t flags;      /* FACET_PASSTHROUGH_RESET */
    const char *driver;
    bool has_owner, json, unbind;
    uint32_t uid, gid;
    const char *root;
};

/* Reads a command line, which must name an address if `needs_address`. False: the caller returns *ret_exit. */
bool pci_read_wish(const struct command *self, int argc, char **argv, const struct option *words, bool needs_address,
                   struct pci_wish *ret_wish, int *ret_exit);

/* A manager with its two directories. */
struct pci_manager {
    struct facet_passthrough *manager;
    int root, state;
};

/*
 * Opens a manager. With `must_write` it creates a missing folder of journals; otherwise it works without one, and warns
 * when this user may not read it.
 */
enum facet_status pci_manager_open(const struct command *self, const struct pci_wish *wish, bool must_write,
                                   struct pci_manager *ret_manager, struct facet_error *error);
void pci_manager_close(struct pci_manager *manager);
#define PCI_CLEANUP_MANAGER __attribute__((cleanup(pci_manager_close)))

/* Blocks signals until the program ends, so that a transaction that has begun is finished. */
void pci_block_signals(void);

/* Undoes the changes that a crash left, and prints the notes that matter to a user as warnings. */
void pci_recover_first(const struct command *self, struct facet_passthrough *manager);

static inline void pci_cleanup_plan(struct facet_passthrough_plan **plan)
{
    facet_passthrough_plan_destroy(*plan);
}
#define PCI_CLEANUP_PLAN __attribute__((cleanup(pci_cleanup_plan)))

/* NULL: out of memory. */
json_t *pci_plan_json(const struct facet_passthrough_plan *plan);
json_t *pci_notes_json(const struct facet_passthrough_report *report);
json_t *pci_entries_json(const struct facet_passthrough_list *list);
json_t *pci_identity_json(const struct facet_passthrough_identity *identity);

bool pci_print_steps(const struct facet_passthrough_plan *plan);
bool pci_print_verdict(const struct facet_passthrough_verdict *verdict);
/* Prints the entries of the plan's functions; plan NULL: all entries. */
bool pci_print_entries(const struct facet_passthrough_list *list, const struct facet_passthrough_plan *plan);
void pci_warn_notes(const struct command *self, const struct facet_passthrough_report *report);

/* Plans the changes that bind the functions of `wish` or, with `unbind`, give them back. */
enum facet_status pci_make_plan(const struct pci_manager *manager, const struct pci_wish *wish,
                                struct facet_passthrough_plan **ret_plan, struct facet_error *error);

/* Runs a verb that changes something: reads the wish, makes the plan, executes it. Returns the exit status. */
int pci_change(const struct command *self, int argc, char **argv, const struct option *words, bool unbind);

#endif
