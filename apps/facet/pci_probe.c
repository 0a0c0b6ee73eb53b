/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the steps of a probe. Never: lets the function reach memory that is not the probe's own. */
#include "pci_probe.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "passthrough/vfio/client.h"

#define IOVA_DEFAULT (UINT64_C(1) << 20) /* the page's address when the IOMMU's ranges are unknown */

struct probe {
    struct facet_vfio_space *space;
    struct facet_vfio_device *device;
    uint16_t id[2]; /* vendor and device */
};

static enum facet_status read_identity(struct probe *probe, struct facet_error *error)
{
    enum facet_status status =
        facet_vfio_device_read(probe->device, FACET_VFIO_CONFIG, 0, probe->id, sizeof probe->id, error);

    if (status == FACET_OK && probe->id[0] == UINT16_MAX)
        return facet_error_set(error, FACET_DEVICE_LOST,
                               "the config space reads as ones only: the function does not answer");
    return status;
}

/* Chooses an address for one page from the ranges that the IOMMU accepts. */
static uint64_t choose_iova(const struct probe *probe, uint64_t page)
{
    struct facet_vfio_space_info info = {0};

    if (facet_vfio_space_describe(probe->space, &info, NULL) != FACET_OK || info.range_count == 0)
        return IOVA_DEFAULT;
    return (info.ranges[0].start + page - 1) / page * page;
}

/* Maps a page for reading by the function, which never reads it, because it is not enabled. */
static enum facet_status map_page(struct probe *probe, struct facet_error *error)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), iova = choose_iova(probe, page);
    void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a page to map");
    enum facet_status status = facet_vfio_space_map(probe->space, iova, memory, page, FACET_VFIO_READ, error);
    if (status == FACET_OK)
        status = facet_vfio_space_unmap(probe->space, iova, page, error);
    munmap(memory, page);
    return status;
}

static uint32_t count_interrupts(const struct probe *probe, enum facet_vfio_interrupt kind)
{
    struct facet_vfio_interrupt_info info = {0};

    return facet_vfio_device_interrupt_info(probe->device, kind, &info, NULL) == FACET_OK ? info.count : 0;
}

static unsigned count_bars(const struct probe *probe)
{
    struct facet_vfio_region region;
    unsigned count = 0;

    for (uint32_t i = FACET_VFIO_BAR; i < FACET_VFIO_ROM; i++)
        count += facet_vfio_device_region(probe->device, i, &region, NULL) == FACET_OK && region.bytes;
    return count;
}

static void describe_device(const struct probe *probe, const char *name, char ret_text[PCI_PROBE_TEXT])
{
    struct facet_vfio_device_info info = facet_vfio_device_describe(probe->device);
    uint32_t msix = count_interrupts(probe, FACET_VFIO_MSIX), msi = count_interrupts(probe, FACET_VFIO_MSI);
    bool is_group = facet_vfio_space_way(probe->space) == FACET_VFIO_GROUP;

    snprintf(ret_text, PCI_PROBE_TEXT, "%s (%04x:%04x) opens %s; memory regions: %u, interrupts: %u (%s); %s", name,
             probe->id[0], probe->id[1], is_group ? "through its group" : "through iommufd", count_bars(probe),
             msix ? msix : msi,
             msix  ? "MSI-X"
             : msi ? "MSI"
                   : "the legacy one",
             info.can_reset ? "resets alone" : "resets with its bus only");
}

enum facet_status pci_probe(int root, const struct facet_pci_address *address, char ret_text[PCI_PROBE_TEXT],
                            struct facet_error *error)
{
    struct facet_vfio_system system = facet_vfio_system_real(root);
    char name[FACET_PCI_ADDRESS_SIZE];
    struct probe probe = {0};

    facet_pci_address_print(address, name);
    enum facet_status status = facet_vfio_space_open(&system, FACET_VFIO_ANY, &probe.space, error);
    if (status == FACET_OK)
        status = facet_vfio_device_open(probe.space, name, &probe.device, error);
    if (status == FACET_OK)
        status = read_identity(&probe, error);
    if (status == FACET_OK)
        status = map_page(&probe, error);
    if (status == FACET_OK)
        describe_device(&probe, name, ret_text);
    facet_vfio_device_close(probe.device);
    facet_vfio_space_close(probe.space);
    return status;
}
