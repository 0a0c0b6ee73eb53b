/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the verbs of `facet pci` share: one scan of the machine, and its JSON form.
 *
 * Owns: the options --root and --json of these verbs, and the spelling of functions, hosts and verdicts.
 * Never: writes to a device.
 */
#ifndef FACET_PCI_VIEW_H
#define FACET_PCI_VIEW_H

#include <facet/passthrough.h>

#include "command.h"

/* Each verb has a file of its own, except `recover`, which is in pci_state.c. */
extern const struct command command_pci_scan, command_pci_show, command_pci_attach, command_pci_detach,
    command_pci_watch, command_pci_doctor;
extern const struct command command_pci_plan, command_pci_bind, command_pci_unbind, command_pci_recover,
    command_pci_state, command_pci_persist;

/* The options of verbs that only read. */
struct pci_look_options {
    const char *root;
    const char *probe; /* the value of --probe; NULL: not given, or not an option of the verb */
    bool all;          /* --all was given */
    bool json;
};
#define PCI_OPTION_LOOK_ALL                                                                                            \
    {                                                                                                                  \
        "all", no_argument, NULL, 'a'                                                                                  \
    }
#define PCI_OPTION_LOOK_ROOT                                                                                           \
    {                                                                                                                  \
        "root", required_argument, NULL, 'r'                                                                           \
    }

/*
 * Reads the options and checks that exactly `operands` words follow them, from optind on; a refusal calls them `name`.
 * True: go on; else return *ret_exit.
 */
bool pci_read_look(const struct command *self, int argc, char **argv, const struct option *words, int operands,
                   const char *name, struct pci_look_options *ret_options, int *ret_exit);

/*
 * Scans the machine whose directories are below `root`. On failure prints the reason and returns NULL, with the exit
 * status in *ret_exit.
 */
struct facet_pci_snapshot *pci_look(const struct command *self, const char *root, uint32_t flags, bool json,
                                    int *ret_exit);

static inline void pci_cleanup_snapshot(struct facet_pci_snapshot **snapshot)
{
    facet_pci_snapshot_destroy(*snapshot);
}
#define PCI_CLEANUP_SNAPSHOT __attribute__((cleanup(pci_cleanup_snapshot)))

/* Whether the function may be passed through with its whole group; NULL: out of memory. */
json_t *pci_verdict_json(const struct facet_pci_snapshot *snapshot, const struct facet_pci_function *function);
json_t *pci_judgement_json(const struct facet_passthrough_verdict *verdict);
json_t *pci_function_json(const struct facet_pci_function *function);
json_t *pci_host_json(const struct facet_pci_host *host);
json_t *pci_platforms_json(const struct facet_pci_host *host);

/* Prints the reasons of all verdicts of an array, each once, with advice. False: out of memory. */
bool pci_print_reasons(const json_t *verdicts);

#endif
