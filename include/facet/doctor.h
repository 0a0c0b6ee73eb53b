/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a host: the problems to fix before accelerators can be handed to virtual machines.
 *
 * Owns: the list of checks, each with its finding and its remedy.
 * Never: touches the host: the caller supplies all data.
 *
 * Thread rule: pure; any thread. Errors: FACET_INVALID_ARGUMENT. facet/passthrough.h names the gates of a single
 * function; the checks here are about the host, and about problems that appear when the machine starts
 * (docs/passthrough.md).
 */
#ifndef FACET_DOCTOR_H
#define FACET_DOCTOR_H

#include <facet/pci.h>

#ifdef __cplusplus
extern "C" {
#endif

enum facet_doctor_state {
    FACET_DOCTOR_GOOD = 0,
    FACET_DOCTOR_BAD = 1,     /* nothing can be handed on until this problem is mended */
    FACET_DOCTOR_UNKNOWN = 2, /* the check could not be made */
    FACET_DOCTOR_WARNING = 3, /* handing on works, with a drawback */
};
#define FACET_DOCTOR_STATES 4u

FACET_API const char *facet_doctor_state_name(uint32_t state); /* "good"; NULL when unknown */

/* Facts that a snapshot does not hold. An absent fact is FACET_PCI_UNKNOWN or 0. */
struct facet_doctor_environment {
    uint32_t size;
    uint32_t kvm;               /* enum facet_pci_known: /dev/kvm exists and may be opened */
    uint64_t memory_lock_bytes; /* RLIMIT_MEMLOCK; UINT64_MAX: unlimited */
    uint32_t kernel_version;    /* major << 16 | minor */
    uint32_t qemu;              /* enum facet_pci_known: QEMU was found */
    uint32_t qemu_version;      /* as kernel_version; 0: QEMU did not say */
    uint32_t reserved;
};

struct facet_doctor_finding {
    uint32_t size;
    uint32_t state;     /* enum facet_doctor_state */
    const char *check;  /* "iommu"; never freed */
    const char *advice; /* the remedy; empty when good; never freed */
    char text[200];     /* the finding, one line */
};

#define FACET_DOCTOR_CHECKS 12u

/* One finding for each check, in order. The snapshot should have been taken with FACET_PCI_SCAN_HOLDERS. */
FACET_API enum facet_status facet_doctor_examine(const struct facet_pci_snapshot *snapshot,
                                                 const struct facet_doctor_environment *environment,
                                                 struct facet_doctor_finding ret_findings[FACET_DOCTOR_CHECKS],
                                                 struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
