/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes under the device's own lock, read by this process. The scan lets a child read them, because the child may
 * hang; no file of a test hangs. A fork of a process with a sanitizer costs more than all of the rest of a scan.
 *
 * Owns: this replacement, which the linker's --wrap puts in the place of the scan's reader, when effort is low. With
 * more effort, as in the plain build, and in each scan after 15 others, the scan's own reader reads.
 * Never: is in a test that is about this reader.
 */
#ifndef FACET_TEST_PASSTHROUGH_SAME_PROCESS_H
#define FACET_TEST_PASSTHROUGH_SAME_PROCESS_H

#include <stdio.h>
#include <string.h>

#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

#include "../../effort.h"

void __real_scan_locked(int root, struct facet_pci_snapshot *snapshot);
void __wrap_scan_locked(int root, struct facet_pci_snapshot *snapshot);
enum facet_pci_unread __real_scan_override(int root, const struct facet_pci_address *address, char *text, size_t size);
enum facet_pci_unread __wrap_scan_override(int root, const struct facet_pci_address *address, char *text, size_t size);

/* A child has its own copy of the state of failures. */
#ifdef FACET_TEST_PASSTHROUGH_FAILING_H
static struct failing same_process_failing;

static inline void same_process_begin(void)
{
    same_process_failing = failing;
}

static inline void same_process_end(void)
{
    failing = same_process_failing;
}
#else
static inline void same_process_begin(void)
{
}

static inline void same_process_end(void)
{
}
#endif

static inline bool same_process_reads(void)
{
    enum { MANY = 100, LITTLE = 25, READER_EACH = 16 };
    static unsigned scans;

    return effort(MANY, 1) < LITTLE && ++scans % READER_EACH != 0;
}

static inline enum facet_pci_unread same_process_read(int root, const struct facet_pci_address *address, char *text,
                                                      size_t size)
{
    char name[FACET_PCI_ADDRESS_SIZE], path[80];

    facet_pci_address_print(address, name);
    snprintf(path, sizeof path, SCAN_DEVICES "/%s/driver_override", name);
    enum facet_pci_unread unread = tree_read_text(root, path, text, size);
    if (strcmp(text, "(null)") == 0) /* the kernel's text for no override */
        text[0] = '\0';
    return unread;
}

void __wrap_scan_locked(int root, struct facet_pci_snapshot *snapshot)
{
    if (!same_process_reads()) {
        __real_scan_locked(root, snapshot);
        return;
    }
    same_process_begin();
    for (size_t i = 0; i < snapshot->count; i++) {
        struct facet_pci_function *function = &snapshot->functions[i];
        uint8_t *unread = &function->unread[FACET_PCI_OVERRIDE];

        if (*unread >= SCAN_PENDING)
            *unread = (uint8_t)same_process_read(root, &function->address, function->driver_override,
                                                 sizeof function->driver_override);
    }
    same_process_end();
}

enum facet_pci_unread __wrap_scan_override(int root, const struct facet_pci_address *address, char *text, size_t size)
{
    return same_process_reads() ? same_process_read(root, address, text, size)
                                : __real_scan_override(root, address, text, size);
}

#endif
