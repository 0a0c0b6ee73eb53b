/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading the host's support for passthrough, and listing accelerators that are not on PCI. Never: takes an
 * unknown answer for "no".
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

static uint32_t yes_or_no(bool yes)
{
    return yes ? FACET_PCI_YES : FACET_PCI_NO;
}

/* ---- the IOMMU ---- */

static bool count_entry(void *context, char *name)
{
    (void)name;
    ++*(uint32_t *)context;
    return true;
}

static bool has_word(const char *line, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = strstr(line, word); at; at = strstr(at + 1, word))
        if ((at == line || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static void read_command_line(int root, struct facet_pci_host *host)
{
    char line[4096];

    if (tree_read_text_cut(root, "proc/cmdline", line, sizeof line) != FACET_PCI_READ)
        return;
    host->iommu_off = yes_or_no(has_word(line, "intel_iommu=off") || has_word(line, "amd_iommu=off") ||
                                has_word(line, "iommu=off") || has_word(line, "iommu.off"));
    host->acs_override = yes_or_no(strstr(line, "pcie_acs_override=") != NULL);
}

/* On x86, names of remapped interrupts begin with IR. On Arm, the interrupt controller (ITS) isolates devices. */
static bool take_interrupt(void *context, char *line)
{
    uint32_t *remapping = context;

    if (strstr(line, " IR-") || strstr(line, "ITS-")) {
        *remapping = FACET_PCI_YES;
        return false;
    }
    if (strstr(line, "IO-APIC") || strstr(line, "PCI-MSI"))
        *remapping = FACET_PCI_NO;
    return true;
}

/* ---- VFIO ---- */

/* The parameter of a module; unknown when the module is not loaded. */
static uint32_t read_parameter(int root, const char *path)
{
    char text[8];

    if (tree_read_text(root, path, text, sizeof text) != FACET_PCI_READ)
        return FACET_PCI_UNKNOWN;
    return yes_or_no(text[0] == 'Y' || text[0] == '1');
}

static bool take_module(void *context, char *line)
{
    *(bool *)context = strstr(line, "/vfio-pci.ko") != NULL;
    return !*(bool *)context;
}

static uint32_t find_vfio_pci(int root)
{
    static const char *const lists[] = {"modules.builtin", "modules.dep"};
    char release[96], path[160];
    bool found = false, read = false, gap = false;

    if (tree_exists(root, "sys/bus/pci/drivers/vfio-pci"))
        return FACET_PCI_YES;
    if (tree_read_text(root, "proc/sys/kernel/osrelease", release, sizeof release) != FACET_PCI_READ)
        return FACET_PCI_UNKNOWN;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0] && !found; i++) {
        snprintf(path, sizeof path, "lib/modules/%s/%s", release, lists[i]);
        enum facet_pci_unread unread = tree_each_line(root, path, take_module, &found);
        read = read || unread == FACET_PCI_READ;
        gap = gap || (unread != FACET_PCI_READ && unread != FACET_PCI_UNREAD_ABSENT);
    }
    return found || (read && !gap) ? yes_or_no(found) : FACET_PCI_UNKNOWN;
}

static void read_vfio(int root, struct facet_pci_host *host)
{
    uint64_t entries = 0;

    host->has_vfio_pci = find_vfio_pci(root);
    host->has_iommufd = yes_or_no(tree_exists(root, "dev/iommu"));
    host->has_noiommu = read_parameter(root, "sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    host->unsafe_interrupts = read_parameter(root, "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts");
    host->disable_idle_d3 = read_parameter(root, "sys/module/vfio_pci/parameters/disable_idle_d3");
    if (tree_read_number(root, "sys/module/vfio_iommu_type1/parameters/dma_entry_limit", 10, UINT32_MAX, &entries) ==
        FACET_PCI_READ)
        host->dma_entries = entries;
}

/* ---- memory ---- */

static bool take_memory(void *context, char *line)
{
    uint64_t kibibytes;

    if (sscanf(line, "MemTotal: %15" SCNu64 " kB", &kibibytes) != 1)
        return true;
    *(uint64_t *)context = kibibytes << 10;
    return false;
}

struct regions {
    struct facet_pci_host *host;
    bool hidden;
    bool failed;
};

/* "  c0000000-c0ffffff : efifb"; an unprivileged reader gets zeros. */
static bool take_region(void *context, char *line)
{
    static const char *const owners[] = {"efifb",  "vesafb",  "simplefb", "simple-framebuffer", "BOOTFB", "simpledrm",
                                         "efidrm", "vesadrm", "ofdrm"};
    struct regions *regions = context;
    struct facet_pci_region region = {0};
    bool is_console = false;

    if (sscanf(line, " %16" SCNx64 "-%16" SCNx64 " : %31s", &region.start, &region.end, region.owner) != 3)
        return true;
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++)
        is_console = is_console || strcmp(region.owner, owners[i]) == 0;
    regions->hidden = regions->hidden || (is_console && region.end == 0);
    if (!is_console || region.end == 0)
        return true;

    void *array = (void *)regions->host->regions;
    struct facet_pci_region *added = tree_append(&array, &regions->host->region_count, sizeof *added);
    regions->host->regions = array;
    regions->failed = !added;
    if (added)
        *added = region;
    return added != NULL;
}

static bool read_regions(int root, struct facet_pci_host *host)
{
    struct regions regions = {.host = host};
    enum facet_pci_unread unread = tree_each_line(root, "proc/iomem", take_region, &regions);

    host->regions_unread = unread == FACET_PCI_READ && regions.hidden ? FACET_PCI_UNREAD_PERMISSION : unread;
    return !regions.failed;
}

/* ---- accelerators of the platform ---- */

struct platforms {
    struct facet_pci_host *host;
    int root;
    const char *class;
    const char *word; /* the file, or link, whose content describes the accelerator */
    bool failed;
};

static bool take_platform(void *context, char *name)
{
    struct platforms *platforms = context;
    struct facet_pci_platform platform = {0};
    struct facet_pci_address address;
    char path[320], target[1024];

    snprintf(path, sizeof path, "%s/%.255s", platforms->class, name);
    if (!tree_exists(platforms->root, path) ||
        (tree_read_link(platforms->root, path, target, sizeof target) == FACET_PCI_READ &&
         scan_last_address_in(target, &address)))
        return true; /* the device is gone, or is a PCI function, which is listed as such */
    snprintf(platform.name, sizeof platform.name, "%.63s", name);
    snprintf(path, sizeof path, "%s/%.255s/device", platforms->class, name);
    tree_read_link_name(platforms->root, path, platform.device, sizeof platform.device);
    snprintf(path, sizeof path, "%s/%.255s/%s", platforms->class, name, platforms->word);
    if (strcmp(platforms->word, "name") == 0)
        tree_read_text_cut(platforms->root, path, platform.device, sizeof platform.device);
    else
        tree_read_link_name(platforms->root, path, platform.driver, sizeof platform.driver);

    void *array = (void *)platforms->host->platforms;
    struct facet_pci_platform *added = tree_append(&array, &platforms->host->platform_count, sizeof *added);
    platforms->host->platforms = array;
    platforms->failed = !added;
    if (added)
        *added = platform;
    return added != NULL;
}

static int compare_platforms(const void *a, const void *b)
{
    return strcmp(((const struct facet_pci_platform *)a)->name, ((const struct facet_pci_platform *)b)->name);
}

/* A remote processor has a file with its name ("adsp"); an accelerator has a link to its driver. */
static bool read_platforms(int root, struct facet_pci_host *host)
{
    static const struct {
        const char *class, *word;
    } classes[] = {{"sys/class/accel", "device/driver"}, {"sys/class/remoteproc", "name"}};
    struct platforms platforms = {.host = host, .root = root};

    for (size_t i = 0; i < sizeof classes / sizeof classes[0] && !platforms.failed; i++) {
        platforms.class = classes[i].class;
        platforms.word = classes[i].word;
        tree_each_name(root, platforms.class, take_platform, &platforms);
    }
    if (host->platform_count > 1)
        qsort((void *)host->platforms, host->platform_count, sizeof *host->platforms, compare_platforms);
    return !platforms.failed;
}

bool scan_host(int root, struct facet_pci_host *host)
{
    *host = (struct facet_pci_host){.size = sizeof *host};
    tree_each_name(root, "sys/class/iommu", count_entry, &host->iommus);
    read_command_line(root, host);
    tree_each_line(root, "proc/interrupts", take_interrupt, &host->interrupt_remapping);
    read_vfio(root, host);
    tree_each_line(root, "proc/meminfo", take_memory, &host->memory_bytes);
    return read_regions(root, host) && read_platforms(root, host);
}

void scan_host_free(struct facet_pci_host *host)
{
    free((void *)host->regions);
    free((void *)host->platforms);
}
