/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that `facet pci attach` and `facet pci detach` share: the named functions, and what the host knows of them.
 *
 * Owns: the texts behind a request, the host's root folder. Never: changes anything.
 */
#ifndef FACET_PCI_ATTACHMENT_H
#define FACET_PCI_ATTACHMENT_H

#include <stdbool.h>

#include <facet/attach.h>

#include "pci.h"

enum pci_target {
    PCI_TARGET_NONE,
    PCI_TARGET_QEMU,
    PCI_TARGET_QMP,
    PCI_TARGET_LIBVIRT,
    PCI_TARGET_CLOUD,
};

struct pci_attachment {
    bool json;
    enum pci_target target;
    const char *socket;   /* NULL: print */
    const char *root;     /* the folder that holds sys and proc */
    uint64_t deadline_ns; /* of CLOCK_MONOTONIC, for all work with a socket; 0 until pci_attachment_begin() */
    uint64_t timeout_ns;
    int root_fd;
    struct facet_attach_request request;
    struct facet_attach_function functions[FACET_ATTACH_FUNCTIONS];
    struct facet_pci_snapshot *snapshot; /* NULL: the host shows no PCI */
};

/* Device nodes that a VM's monitor has open while it has a function. */
struct pci_nodes {
    char paths[2][64];
    uint32_t count;
};

/* Sets the kind of VM that gets or loses the functions; refuses a second one. `expected` names its options. */
bool pci_attachment_target(const struct command *self, struct pci_attachment *attachment, enum pci_target target,
                           const char *expected, int *ret_exit);

/* Reads options that both verbs have. False: return *ret_exit, after --help or a refused option. */
bool pci_attachment_option(const struct command *self, int option, struct pci_attachment *attachment, int *ret_exit);

/* Reads the operands: addresses, or UUIDs of mediated devices. */
bool pci_attachment_operands(const struct command *self, int argc, char **argv, struct pci_attachment *attachment,
                             int *ret_exit);

/* Opens the root folder, reads the host's functions, and sets the deadline. */
enum facet_status pci_attachment_begin(struct pci_attachment *attachment, struct facet_error *error);

/* Whether the mediated device is on this machine. */
bool pci_attachment_has_mdev(const struct pci_attachment *attachment, const char *uuid);

void pci_attachment_nodes(const struct pci_attachment *attachment, const struct facet_attach_function *function,
                          struct pci_nodes *ret_nodes);

/* Reads "9.0" as FACET_ATTACH_VERSION(9, 0). */
bool pci_attachment_version(const char *text, uint32_t *ret_version);

/* Connects to QEMU on the attachment's socket. */
enum facet_status pci_attachment_qmp(const struct pci_attachment *attachment, struct facet_qmp **ret_qmp,
                                     struct facet_error *error);

/* With --json, prints {`member`: `list`}. Takes the reference to `list`. Returns the exit status. */
int pci_attachment_print(const struct command *self, const struct pci_attachment *attachment, const char *member,
                         json_t *list);

void pci_attachment_end(struct pci_attachment *attachment);
#define PCI_CLEANUP_ATTACHMENT __attribute__((cleanup(pci_attachment_end)))

static inline void pci_cleanup_texts(struct facet_attach_texts **texts)
{
    facet_attach_texts_destroy(*texts);
}
#define PCI_CLEANUP_TEXTS __attribute__((cleanup(pci_cleanup_texts)))

static inline void pci_cleanup_qmp(struct facet_qmp **qmp)
{
    facet_qmp_close(*qmp);
}
#define PCI_CLEANUP_QMP __attribute__((cleanup(pci_cleanup_qmp)))

#endif
