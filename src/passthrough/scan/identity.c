/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a function's numbers, kind, driver, IOMMU group and bridges. Never: reads attributes that only few callers
 * need.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/driver.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

/* Models whose class does not show their kind. Source: the list of PCI ids, and the vendors' drivers. */
static const struct {
    uint16_t vendor;
    uint16_t device; /* 0: every device of the vendor in this class */
    uint16_t class;
} npus[] = {
    {0x1022, 0x1502, 0x1180}, /* AMD XDNA */
    {0x1022, 0x17f0, 0x1180}, /* AMD XDNA 2 */
    {0x1ac1, 0x089a, 0x0880}, /* Coral Edge TPU */
    {0x1e60, 0, 0x0b40},      /* Hailo */
    {0x1d0f, 0x7064, 0x0880}, /* AWS Inferentia */
    {0x1d0f, 0x7164, 0x0880}, /* AWS Trainium */
    {0x1d0f, 0x7264, 0x0880}, /* AWS Inferentia 2 */
};

static bool is_npu(const struct facet_pci_function *function)
{
    uint32_t class = function->class_code >> 8;

    if (class >> 8 == 0x12)
        return true;
    for (size_t i = 0; i < sizeof npus / sizeof npus[0]; i++)
        if (function->vendor == npus[i].vendor && class == npus[i].class &&
            (npus[i].device == 0 || function->device == npus[i].device))
            return true;
    return false;
}

static enum facet_pci_kind kind_of(const struct facet_pci_function *function)
{
    switch (function->class_code >> 8) {
    case 0x0600: /* host */
    case 0x0601: /* ISA */
    case 0x0604: /* PCI to PCI */
    case 0x0607: /* CardBus */
    case 0x0609: /* PCI to PCI, semi-transparent */
        return FACET_PCI_KIND_BRIDGE;
    case 0x0403:
        return FACET_PCI_KIND_AUDIO;
    case 0x0c03:
    case 0x0c80:
        return FACET_PCI_KIND_USB;
    default:
        break;
    }
    switch (function->class_code >> 16) {
    case 0x01:
        return FACET_PCI_KIND_STORAGE;
    case 0x02:
        return FACET_PCI_KIND_NETWORK;
    case 0x03:
        return FACET_PCI_KIND_GPU;
    default:
        return is_npu(function) ? FACET_PCI_KIND_NPU : FACET_PCI_KIND_OTHER;
    }
}

static void keep_first_failure(struct facet_pci_function *function, enum facet_pci_attribute attribute,
                               enum facet_pci_unread unread)
{
    if (function->unread[attribute] == FACET_PCI_READ)
        function->unread[attribute] = (uint8_t)unread;
}

static uint32_t read_identity(int directory, const char *name, uint64_t max, struct facet_pci_function *function)
{
    uint64_t value = 0;

    keep_first_failure(function, FACET_PCI_IDENTITY, tree_read_number(directory, name, 16, max, &value));
    return (uint32_t)value;
}

static uint8_t read_group(int directory, struct facet_pci_function *function)
{
    char text[16];
    enum facet_pci_unread unread = tree_read_link_name(directory, "iommu_group", text, sizeof text);

    if (unread != FACET_PCI_READ)
        return (uint8_t)unread;
    if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 9)
        return FACET_PCI_UNREAD_MALFORMED;
    function->group = atoi(text);
    return FACET_PCI_READ;
}

static uint8_t read_driver(int directory, struct facet_pci_function *function)
{
    enum facet_pci_unread unread = tree_read_link_name(directory, "driver", function->driver, sizeof function->driver);

    function->is_vfio = driver_is_vfio(function->driver);
    /* An absent link is an answer: there is no driver. */
    return unread == FACET_PCI_UNREAD_ABSENT ? FACET_PCI_READ : (uint8_t)unread;
}

static bool is_address(const char *text, size_t length, struct facet_pci_address *ret_address)
{
    char part[FACET_PCI_ADDRESS_SIZE];

    if (length >= sizeof part)
        return false;
    memcpy(part, text, length);
    part[length] = '\0';
    return facet_pci_address_parse(part, ret_address, NULL) == FACET_OK;
}

bool scan_last_address_in(const char *path, struct facet_pci_address *ret_address)
{
    bool found = false;

    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        found = is_address(part, strcspn(part, "/"), ret_address) || found;
    }
    return found;
}

/* Reads the addresses of the bridges above the function from its path, the nearest first. False: no memory. */
static bool read_bridges(int root, const char *name, struct facet_pci_function *function)
{
    char path[64], target[1024];
    struct facet_pci_address *bridges = NULL, address;
    size_t count = 0;

    snprintf(path, sizeof path, SCAN_DEVICES "/%.40s", name);
    if (tree_read_link(root, path, target, sizeof target) != FACET_PCI_READ)
        return true; /* a copied tree may have directories instead of links */
    for (char *end = strrchr(target, '/'); end; end = strrchr(target, '/')) {
        *end = '\0';
        char *part = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
        if (!is_address(part, strlen(part), &address))
            break;
        struct facet_pci_address *bridge = tree_append((void **)&bridges, &count, sizeof *bridges);
        if (!bridge) {
            free(bridges);
            return false;
        }
        *bridge = address;
    }
    function->bridges = bridges;
    function->bridge_count = count;
    return true;
}

int scan_open(int root, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, SCAN_DEVICES "/%.40s", name);
    return tree_open_directory(root, path);
}

bool scan_is_gone(int root, const char *name)
{
    FACET_CLEANUP_FD int directory = scan_open(root, name);

    return directory < 0 && tree_unread(errno) == FACET_PCI_UNREAD_ABSENT;
}

static void read_numbers(int directory, struct facet_pci_function *function)
{
    function->vendor = (uint16_t)read_identity(directory, "vendor", UINT16_MAX, function);
    function->device = (uint16_t)read_identity(directory, "device", UINT16_MAX, function);
    function->class_code = read_identity(directory, "class", 0xffffff, function);
    function->subsystem_vendor = (uint16_t)read_identity(directory, "subsystem_vendor", UINT16_MAX, function);
    function->subsystem_device = (uint16_t)read_identity(directory, "subsystem_device", UINT16_MAX, function);
    function->revision = (uint8_t)read_identity(directory, "revision", UINT8_MAX, function);
    function->unread[FACET_PCI_DRIVER] = read_driver(directory, function);
    function->unread[FACET_PCI_GROUP] = read_group(directory, function);
    function->kind = kind_of(function);
}

enum scan_outcome scan_identity(int root, const char *name, struct facet_pci_function *function)
{
    FACET_CLEANUP_FD int directory = scan_open(root, name);
    enum facet_pci_unread unread = directory < 0 ? tree_unread(errno) : FACET_PCI_READ;

    if (unread == FACET_PCI_UNREAD_ABSENT)
        return SCAN_VANISHED;
    function->size = sizeof *function;
    function->numa_node = -1;
    function->group = -1;
    function->header_type = FACET_PCI_HEADER_UNKNOWN;
    memset(function->unread, FACET_PCI_UNREAD_SKIPPED, sizeof function->unread);
    function->unread[FACET_PCI_IDENTITY] = (uint8_t)unread;
    if (unread != FACET_PCI_READ) {
        function->unread[FACET_PCI_DRIVER] = function->unread[FACET_PCI_GROUP] = (uint8_t)unread;
        return SCAN_DONE;
    }
    read_numbers(directory, function);
    if (function->unread[FACET_PCI_IDENTITY] == FACET_PCI_UNREAD_ABSENT && scan_is_gone(root, name))
        return SCAN_VANISHED;
    return read_bridges(root, name, function) ? SCAN_DONE : SCAN_NO_MEMORY;
}
