/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: one scan: the list of functions, the choice of attributes, the snapshot. Never: reads an attribute itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sized.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"
#include "passthrough/stuck.h"

struct listing {
    struct facet_pci_snapshot *snapshot;
    int root;
    bool failed;
};

/* Whether a name is an address in the kernel's spelling. The kernel gives no function another name. */
static bool is_address_of_kernel(const char *name, struct facet_pci_address *ret_address)
{
    char text[FACET_PCI_ADDRESS_SIZE];

    if (facet_pci_address_parse(name, ret_address, NULL))
        return false;
    facet_pci_address_print(ret_address, text);
    return strcmp(text, name) == 0;
}

static bool take_function(void *context, char *name)
{
    struct listing *listing = context;
    struct facet_pci_snapshot *snapshot = listing->snapshot;
    struct facet_pci_address address;

    if (!is_address_of_kernel(name, &address))
        return true;
    void *array = snapshot->functions;
    struct facet_pci_function *function = tree_append(&array, &snapshot->count, sizeof *function);
    snapshot->functions = array;
    listing->failed = !function;
    if (!function)
        return false;
    *function = (struct facet_pci_function){.address = address};
    enum scan_outcome outcome = scan_identity(listing->root, name, function);
    if (outcome == SCAN_VANISHED) {
        scan_function_free(function);
        snapshot->count--;
    }
    listing->failed = outcome == SCAN_NO_MEMORY;
    return !listing->failed;
}

static int compare_functions(const void *a, const void *b)
{
    return facet_pci_address_compare(&((const struct facet_pci_function *)a)->address,
                                     &((const struct facet_pci_function *)b)->address);
}

struct facet_pci_function *scan_find(struct facet_pci_snapshot *snapshot, const struct facet_pci_address *address)
{
    struct facet_pci_function key = {.address = *address};

    return snapshot->count == 0 ? NULL
                                : bsearch(&key, snapshot->functions, snapshot->count, sizeof key, compare_functions);
}

/* ---- how much is read of each function ---- */

static bool is_same_device(const struct facet_pci_function *a, const struct facet_pci_function *b)
{
    return a->address.domain == b->address.domain && a->address.bus == b->address.bus &&
           a->address.device == b->address.device;
}

static void mark_depth(uint8_t *marks, size_t index, enum scan_depth depth)
{
    if (marks[index] < depth)
        marks[index] = (uint8_t)depth;
}

static void mark_neighbours(struct facet_pci_snapshot *snapshot, const struct facet_pci_function *accelerator,
                            uint8_t *marks)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct facet_pci_function *other = &snapshot->functions[i];

        if (is_same_device(accelerator, other) || (accelerator->group >= 0 && accelerator->group == other->group))
            mark_depth(marks, i, facet_pci_is_accelerator(other) ? SCAN_DEPTH_FULL : SCAN_DEPTH_COMPANION);
    }
    for (size_t i = 0; i < accelerator->bridge_count; i++) {
        const struct facet_pci_function *bridge = scan_find(snapshot, &accelerator->bridges[i]);

        if (bridge)
            mark_depth(marks, (size_t)(bridge - snapshot->functions), SCAN_DEPTH_BRIDGE);
    }
}

/* Reads the marked functions, and leaves out functions that have vanished meanwhile. False: no memory. */
static bool read_marked(struct facet_pci_snapshot *snapshot, int root, const uint8_t *marks)
{
    size_t count = snapshot->count, kept = 0;
    bool complete = true;
    char name[FACET_PCI_ADDRESS_SIZE];

    for (size_t i = 0; i < count; i++) {
        struct facet_pci_function *function = &snapshot->functions[i];

        facet_pci_address_print(&function->address, name);
        enum scan_outcome outcome = marks[i] && complete ? scan_details(root, name, marks[i], function) : SCAN_DONE;
        complete = complete && outcome != SCAN_NO_MEMORY;
        if (outcome == SCAN_VANISHED)
            scan_function_free(function);
        else
            memmove(&snapshot->functions[kept++], function, sizeof *function);
    }
    snapshot->count = kept;
    return complete;
}

/*
 * Reads overrides before all else, because they show which functions are stuck. The kernel would block other reads of
 * such functions. The override of a bridge is not kept.
 */
static void read_locked(struct facet_pci_snapshot *snapshot, int root, const uint8_t *marks)
{
    for (size_t i = 0; i < snapshot->count; i++)
        if (marks[i] != SCAN_DEPTH_NONE)
            snapshot->functions[i].unread[FACET_PCI_OVERRIDE] = SCAN_PENDING;
    scan_locked(root, snapshot);
    for (size_t i = 0; i < snapshot->count; i++) {
        struct facet_pci_function *function = &snapshot->functions[i];

        if (marks[i] != SCAN_DEPTH_BRIDGE || stuck_is(function))
            continue;
        function->unread[FACET_PCI_OVERRIDE] = FACET_PCI_UNREAD_SKIPPED;
        function->driver_override[0] = '\0';
    }
}

static bool read_details(struct facet_pci_snapshot *snapshot, int root, bool all)
{
    FACET_CLEANUP_FREE uint8_t *marks = calloc(snapshot->count + 1, sizeof *marks);

    if (!marks)
        return false;
    memset(marks, all ? SCAN_DEPTH_FULL : SCAN_DEPTH_NONE, snapshot->count);
    for (size_t i = 0; i < snapshot->count && !all; i++)
        if (facet_pci_is_accelerator(&snapshot->functions[i]))
            mark_neighbours(snapshot, &snapshot->functions[i], marks);
    read_locked(snapshot, root, marks);
    return read_marked(snapshot, root, marks);
}

/* ---- the scan ---- */

static enum facet_status list_functions(int root, struct facet_pci_snapshot *snapshot, uint32_t flags,
                                        struct facet_error *error)
{
    struct listing listing = {.snapshot = snapshot, .root = root};

    if (!tree_exists(root, "sys"))
        return facet_error_argument(error, FACET_NOT_FOUND, "root", "holds no directory sys: nothing to look at");
    enum facet_pci_unread unread = tree_each_name(root, SCAN_DEVICES, take_function, &listing);
    if (listing.failed)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %zu PCI functions", snapshot->count);
    if (unread != FACET_PCI_READ && unread != FACET_PCI_UNREAD_ABSENT) /* absent: a machine without PCI */
        return facet_error_set(error, unread == FACET_PCI_UNREAD_PERMISSION ? FACET_PERMISSION : FACET_IO,
                               "cannot list the PCI functions in /" SCAN_DEVICES ": %s", facet_pci_unread_name(unread));
    if (snapshot->count > 1)
        qsort(snapshot->functions, snapshot->count, sizeof *snapshot->functions, compare_functions);
    if (!read_details(snapshot, root, flags & FACET_PCI_SCAN_ALL))
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %zu PCI functions", snapshot->count);
    return FACET_OK;
}

static enum facet_status scan_functions(const struct facet_pci_scan_config *config, struct facet_pci_snapshot *snapshot,
                                        struct facet_error *error)
{
    enum facet_status status = list_functions(config->root, snapshot, config->flags, error);

    if (status)
        return status;
    scan_names(config->root, config->ids, snapshot);
    scan_slots(config->root, snapshot);
    if (!scan_host(config->root, &snapshot->host) || !scan_uses(config->root, snapshot) ||
        (config->flags & FACET_PCI_SCAN_HOLDERS && !scan_holders(config->root, snapshot)))
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the attributes of %zu PCI functions",
                               snapshot->count);
    return FACET_OK;
}

enum facet_status facet_pci_scan(const struct facet_pci_scan_config *config, struct facet_pci_snapshot **ret_snapshot,
                                 struct facet_error *error)
{
    if (!config || !ret_snapshot)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, config ? "ret_snapshot" : "config",
                                    "must not be NULL");
    if (config->size < sizeof *config)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config->size", "is %u, at least %zu was expected",
                                    config->size, sizeof *config);
    FACET_NEED_KNOWN("config", config, error);
    FACET_NEED_RESERVED("config", config, error);
    if (config->flags & ~(FACET_PCI_SCAN_HOLDERS | FACET_PCI_SCAN_ALL))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config->flags", "0x%x has bits that are unknown",
                                    config->flags);

    struct facet_pci_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a snapshot");
    enum facet_status status = scan_functions(config, snapshot, error);
    if (status) {
        facet_pci_snapshot_destroy(snapshot);
        return status;
    }
    *ret_snapshot = snapshot;
    return FACET_OK;
}

void facet_pci_snapshot_destroy(struct facet_pci_snapshot *snapshot)
{
    if (!snapshot)
        return;
    for (size_t i = 0; i < snapshot->count; i++)
        scan_function_free(&snapshot->functions[i]);
    scan_host_free(&snapshot->host);
    free(snapshot->functions);
    free(snapshot);
}

/* ---- questions ---- */

uint32_t facet_pci_snapshot_count(const struct facet_pci_snapshot *snapshot)
{
    return (uint32_t)snapshot->count;
}

const struct facet_pci_function *facet_pci_snapshot_at(const struct facet_pci_snapshot *snapshot, uint32_t index)
{
    return index < snapshot->count ? &snapshot->functions[index] : NULL;
}

const struct facet_pci_function *facet_pci_snapshot_find(const struct facet_pci_snapshot *snapshot,
                                                         const struct facet_pci_address *address)
{
    return scan_find((struct facet_pci_snapshot *)snapshot, address);
}

const struct facet_pci_host *facet_pci_snapshot_host(const struct facet_pci_snapshot *snapshot)
{
    return &snapshot->host;
}

bool facet_pci_is_accelerator(const struct facet_pci_function *function)
{
    return function->kind == FACET_PCI_KIND_GPU || function->kind == FACET_PCI_KIND_NPU;
}

/* Counts the bridges between two functions: the first bridge above both, and the bridges below it on either side. */
uint32_t facet_pci_distance(const struct facet_pci_function *a, const struct facet_pci_function *b)
{
    if (is_same_device(a, b))
        return 0;
    for (size_t i = 0; i < a->bridge_count; i++)
        for (size_t j = 0; j < b->bridge_count; j++)
            if (facet_pci_address_compare(&a->bridges[i], &b->bridges[j]) == 0)
                return (uint32_t)(i + j + 1);
    return UINT32_MAX;
}
