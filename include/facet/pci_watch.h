/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the PCI functions of a machine for changes.
 *
 * Owns: comparing two snapshots, and waiting for the next change.
 * Never: reports a change because of an event alone: an event of the kernel only starts a new scan, which shows the
 * changes. So a duplicate or forged event costs a scan, and after a lost event the next scan by time finds the change.
 *
 *     facet_pci_watch_open(&(struct facet_pci_watch_config){.size = sizeof(struct facet_pci_watch_config),
 *                          .scan = {.size = sizeof(struct facet_pci_scan_config), .root = root}, .events = 1},
 *                          &watch, &error);
 *     while ((status = facet_pci_watch_wait(watch, UINT64_MAX, print_change, NULL, &error)) == FACET_OK)
 *         ;
 *     facet_pci_watch_close(watch);
 *
 * Thread rule: one thread at a time for each watch; comparing is pure. Errors, besides those named:
 * FACET_INVALID_ARGUMENT, FACET_NO_MEMORY. Outputs are untouched on failure. More: docs/passthrough.md.
 */
#ifndef FACET_PCI_WATCH_H
#define FACET_PCI_WATCH_H

#include <facet/pci.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, name): the kinds of change. "It" is the function that changed. */
#define FACET_PCI_CHANGE_TABLE(X)                                                                                      \
    X(ADDED, added)             /* a function that was absent; `after` is its driver */                                \
    X(REMOVED, removed)         /* it is gone */                                                                       \
    X(LOST, lost)               /* it is listed and no longer answers */                                               \
    X(FOUND, found)             /* it answers again */                                                                 \
    X(STUCK, stuck)             /* the kernel keeps its lock: a driver, or a reset, does not return */                 \
    X(RELEASED, released)       /* the kernel has released its lock */                                                 \
    X(DRIVER, driver)           /* another driver has it, or none */                                                   \
    X(GROUP, group)             /* its IOMMU group changed */                                                          \
    X(POWER, power)             /* its power state changed */                                                          \
    X(WIDTH, width)             /* its link has more or fewer lanes */                                                 \
    X(SPEED, speed)             /* its link is faster or slower, as it does by itself when idle */                     \
    X(VIRTUALS, virtuals)       /* it has more or fewer virtual functions */                                           \
    X(HOLDERS, holders)         /* more or fewer processes have it open; needs FACET_PCI_SCAN_HOLDERS */               \
    X(CORRECTABLE, correctable) /* errors that the link corrected; before and after are the counts */                  \
    X(NONFATAL, nonfatal)       /* errors that cost a transaction */                                                   \
    X(FATAL, fatal)             /* errors that cost the link */

enum facet_pci_change_kind {
#define FACET_PCI_CHANGE_ENUM(NAME, name) FACET_PCI_CHANGE_##NAME,
    FACET_PCI_CHANGE_TABLE(FACET_PCI_CHANGE_ENUM)
#undef FACET_PCI_CHANGE_ENUM
        FACET_PCI_CHANGES
};

FACET_API const char *facet_pci_change_name(uint32_t kind); /* "driver"; NULL when unknown */

struct facet_pci_change {
    uint32_t size;
    uint32_t kind; /* enum facet_pci_change_kind */
    struct facet_pci_address address;
    char before[48]; /* as text: "nvidia", "D0", "16"; empty: none, or it does not apply */
    char after[48];
    const struct facet_pci_function *function; /* its present state, or its last state when it is gone */
};

/* `change` and its pointers are valid during the call. Return false to get no more changes. */
typedef bool (*facet_pci_change_func)(void *user, const struct facet_pci_change *change);

/*
 * Reports all differences, in the order of the functions' addresses. An attribute that could not be read in one of the
 * snapshots counts as unchanged. A counter of errors that went back was reset.
 */
FACET_API void facet_pci_compare(const struct facet_pci_snapshot *before, const struct facet_pci_snapshot *after,
                                 facet_pci_change_func take, void *user);

struct facet_pci_watch;

struct facet_pci_watch_config {
    uint32_t size;
    uint32_t events; /* 1: scan when the kernel sends an event; 0: scan by time alone, for example when `root` is a copy
                        of another machine */
    struct facet_pci_scan_config scan; /* `root` is duplicated, `ids` is copied */
    uint64_t poll_ns;   /* how often to scan when no event comes; 0: every 5 s. Changes of error counters and links
                           raise no events */
    uint64_t settle_ns; /* a scan starts when no event has come for this long, or after 20 times as long at the latest;
                           0: 50 ms */
};

/* Makes the first scan. FACET_UNSUPPORTED: this process gets no events of the kernel, because it is in a network
 * namespace of its own. Other errors as for facet_pci_scan(). */
FACET_API enum facet_status facet_pci_watch_open(const struct facet_pci_watch_config *config,
                                                 struct facet_pci_watch **ret_watch, struct facet_error *error);
FACET_API void facet_pci_watch_close(struct facet_pci_watch *watch); /* NULL is fine */

/* The last scan; valid until the next wait. */
FACET_API const struct facet_pci_snapshot *facet_pci_watch_snapshot(const struct facet_pci_watch *watch);

/* A descriptor that is readable when an event has come, for poll(). -1 without events. The caller must not close it. */
FACET_API int facet_pci_watch_fd(const struct facet_pci_watch *watch);

/*
 * Waits until something has changed, and reports all changes. A timeout of UINT64_MAX waits forever; 0 makes one scan
 * at once. FACET_TIMEOUT: nothing has changed. A scan that fails is an error; the next wait compares with the last scan
 * that succeeded.
 */
FACET_API enum facet_status facet_pci_watch_wait(struct facet_pci_watch *watch, uint64_t timeout_ns,
                                                 facet_pci_change_func take, void *user, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
