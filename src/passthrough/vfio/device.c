/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: open functions, their regions, reading, writing and mapping them. Never: guesses the meaning of a register. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "passthrough/vfio/inside.h"

/* The text becomes a part of paths, so only characters of an address are allowed. */
static enum facet_status check_address(const struct facet_vfio_system *system, const char *address,
                                       struct facet_error *error)
{
    char path[VFIO_PATH_SIZE];
    struct stat status;

    if (strlen(address) < 12 || strlen(address) >= VFIO_ADDRESS_SIZE ||
        strspn(address, "0123456789abcdef:.") != strlen(address) || address[0] == '.')
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "address",
                                    "\"%s\" is no address of a PCI function, expected one like 0000:01:00.0", address);
    snprintf(path, sizeof path, "sys/bus/pci/devices/%s", address);
    if (fstatat(system->root, path, &status, 0) != 0)
        return errno == ENOENT ? facet_error_argument(error, FACET_NOT_FOUND, "address",
                                                      "%s: there is no such PCI function", address)
                               : facet_error_errno(error, errno, "%s: looking for it in /%s", address, path);
    return FACET_OK;
}

static enum facet_status begin_device(struct facet_vfio_device *device, struct facet_error *error)
{
    enum facet_status status;

    status = device->space->way == FACET_VFIO_GROUP ? vfio_group_join(device, error) : vfio_cdev_join(device, error);
    if (status != FACET_OK)
        return status;
    device->info = (struct vfio_device_info){.argsz = sizeof device->info};
    if (vfio_control(device->space, device->fd, VFIO_DEVICE_GET_INFO, &device->info) != 0)
        return facet_error_errno(error, errno, "%s: asking VFIO to describe it", device->address);
    if (!(device->info.flags & VFIO_DEVICE_FLAGS_PCI))
        return facet_error_set(error, FACET_UNSUPPORTED, "%s: VFIO has it, but not as a PCI function", device->address);
    return vfio_regions_read(device, error);
}

enum facet_status facet_vfio_device_open(struct facet_vfio_space *space, const char *address,
                                         struct facet_vfio_device **ret_device, struct facet_error *error)
{
    enum facet_status status = check_address(&space->system, address, error);
    struct facet_vfio_device *device;

    if (status != FACET_OK)
        return status;
    device = calloc(1, sizeof *device);
    if (!device)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a function");
    device->space = space;
    device->fd = -1;
    snprintf(device->address, sizeof device->address, "%s", address);
    status = begin_device(device, error);
    if (status != FACET_OK) {
        facet_vfio_device_close(device);
        return status;
    }
    *ret_device = device;
    return FACET_OK;
}

void facet_vfio_device_close(struct facet_vfio_device *device)
{
    if (!device)
        return;
    /* The function is closed before its group, because it counts as a user of the group in the kernel. */
    if (device->fd >= 0)
        close(device->fd);
    vfio_group_leave(device);
    vfio_regions_free(device);
    free(device);
}

struct facet_vfio_device_info facet_vfio_device_describe(const struct facet_vfio_device *device)
{
    return (struct facet_vfio_device_info){
        .region_count = device->info.num_regions,
        .interrupt_count = device->info.num_irqs,
        .can_reset = !!(device->info.flags & VFIO_DEVICE_FLAGS_RESET),
        .group = device->group ? device->group->number : -1,
    };
}

/* --- regions --- */

/* Bounds beyond which the kernel's answers are refused. */
#define REGIONS_MAX 1024u
#define ANSWER_MAX  (UINT32_C(1) << 16)

static enum facet_status take_areas(const struct facet_vfio_device *device, const struct vfio_region_info *info,
                                    struct facet_vfio_region *region, struct facet_error *error)
{
    struct vfio_region_info_cap_sparse_mmap head;
    struct facet_vfio_area *areas;
    uint32_t at, count;

    at = vfio_capability_find(info, info->argsz, info->cap_offset, VFIO_REGION_INFO_CAP_SPARSE_MMAP, sizeof head);
    if (at == 0)
        return FACET_OK;
    memcpy(&head, (const char *)info + at, sizeof head);
    count = (info->argsz - at - (uint32_t)sizeof head) / (uint32_t)sizeof(struct vfio_region_sparse_mmap_area);
    count = head.nr_areas < count ? head.nr_areas : count;
    areas = calloc(count ? count : 1, sizeof *areas);
    if (!areas)
        return facet_error_set(error, FACET_NO_MEMORY, "%s: no memory for the parts of region %u", device->address,
                               info->index);
    for (uint32_t i = 0; i < count; i++) {
        struct vfio_region_sparse_mmap_area area;

        memcpy(&area, (const char *)info + at + sizeof head + i * sizeof area, sizeof area);
        areas[i] = (struct facet_vfio_area){.offset = area.offset, .bytes = area.size};
    }
    region->areas = areas;
    region->area_count = count;
    return FACET_OK;
}

static enum facet_status read_capabilities(const struct facet_vfio_device *device, uint32_t bytes,
                                           const struct vfio_region_info *little, struct facet_vfio_region *region,
                                           struct facet_error *error)
{
    FACET_CLEANUP_FREE struct vfio_region_info *info = calloc(1, bytes);

    if (!info)
        return facet_error_set(error, FACET_NO_MEMORY, "%s: no memory for an answer of %u bytes", device->address,
                               bytes);
    *info = *little;
    info->argsz = bytes;
    if (vfio_control(device->space, device->fd, VFIO_DEVICE_GET_REGION_INFO, info) != 0)
        return facet_error_errno(error, errno, "%s: asking for region %u", device->address, info->index);
    info->argsz = info->argsz < bytes ? info->argsz : bytes;
    return take_areas(device, info, region, error);
}

static enum facet_status read_region(const struct facet_vfio_device *device, uint32_t index,
                                     struct facet_vfio_region *region, struct facet_error *error)
{
    struct vfio_region_info info = {.argsz = sizeof info, .index = index};

    if (vfio_control(device->space, device->fd, VFIO_DEVICE_GET_REGION_INFO, &info) != 0)
        /* EINVAL: the function has no such region, as most have no VGA region. */
        return errno == EINVAL ? FACET_OK
                               : facet_error_errno(error, errno, "%s: asking for region %u", device->address, index);
    region->bytes = info.size;
    region->offset = info.offset;
    region->access = (info.flags & VFIO_REGION_INFO_FLAG_READ ? FACET_VFIO_READ : 0u) |
                     (info.flags & VFIO_REGION_INFO_FLAG_WRITE ? FACET_VFIO_WRITE : 0u);
    region->can_map = !!(info.flags & VFIO_REGION_INFO_FLAG_MMAP);
    if (!(info.flags & VFIO_REGION_INFO_FLAG_CAPS) || info.argsz <= sizeof info || info.argsz > ANSWER_MAX)
        return FACET_OK;
    return read_capabilities(device, info.argsz, &info, region, error);
}

enum facet_status vfio_regions_read(struct facet_vfio_device *device, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (device->info.num_regions > REGIONS_MAX)
        return facet_error_set(error, FACET_CORRUPT, "%s: VFIO reports %u regions, expected at most %u",
                               device->address, device->info.num_regions, REGIONS_MAX);
    device->regions = calloc(device->info.num_regions ? device->info.num_regions : 1, sizeof *device->regions);
    if (!device->regions)
        return facet_error_set(error, FACET_NO_MEMORY, "%s: no memory for its regions", device->address);
    for (uint32_t i = 0; i < device->info.num_regions && status == FACET_OK; i++)
        status = read_region(device, i, &device->regions[i], error);
    return status;
}

void vfio_regions_free(struct facet_vfio_device *device)
{
    for (uint32_t i = 0; device->regions && i < device->info.num_regions; i++)
        free((void *)(uintptr_t)device->regions[i].areas);
    free(device->regions);
}

enum facet_status facet_vfio_device_region(const struct facet_vfio_device *device, uint32_t region,
                                           struct facet_vfio_region *ret_region, struct facet_error *error)
{
    if (region >= device->info.num_regions)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "region", "%s: %u, but it has %u regions",
                                    device->address, region, device->info.num_regions);
    *ret_region = device->regions[region];
    return FACET_OK;
}

/* --- access to regions --- */

static enum facet_status find_region(const struct facet_vfio_device *device, uint32_t index, uint64_t offset,
                                     size_t bytes, struct facet_vfio_region *ret_region, struct facet_error *error)
{
    struct facet_vfio_region region;
    enum facet_status status = facet_vfio_device_region(device, index, &region, error);

    if (status != FACET_OK)
        return status;
    if (bytes > region.bytes || offset > region.bytes - bytes)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "offset",
                                    "%s: %zu bytes at %#" PRIx64 ", but region %u has %#" PRIx64, device->address,
                                    bytes, offset, index, region.bytes);
    *ret_region = region;
    return FACET_OK;
}

static enum facet_status check_region(const struct facet_vfio_device *device, const char *step, uint32_t region,
                                      uint64_t offset, size_t bytes, ssize_t done, struct facet_error *error)
{
    if (done == (ssize_t)bytes)
        return FACET_OK;
    if (done < 0 && errno == EIO && region < FACET_VFIO_CONFIG)
        return facet_error_set(error, FACET_IO,
                               "%s: %s region %u: it does not answer: its memory is off, or it is gone",
                               device->address, step, region);
    if (done < 0)
        return facet_error_errno(error, errno, "%s: %s %zu bytes at %#" PRIx64 " of region %u", device->address, step,
                                 bytes, offset, region);
    return facet_error_set(error, FACET_IO, "%s: %s region %u at %#" PRIx64 ": only %zd of %zu bytes", device->address,
                           step, region, offset, done, bytes);
}

enum facet_status facet_vfio_device_read(const struct facet_vfio_device *device, uint32_t region, uint64_t offset,
                                         void *ret_data, size_t bytes, struct facet_error *error)
{
    struct facet_vfio_region place = {0};
    enum facet_status status = find_region(device, region, offset, bytes, &place, error);

    if (status != FACET_OK)
        return status;
    return check_region(device, "reading", region, offset, bytes,
                        pread(device->fd, ret_data, bytes, (off_t)(place.offset + offset)), error);
}

enum facet_status facet_vfio_device_write(struct facet_vfio_device *device, uint32_t region, uint64_t offset,
                                          const void *data, size_t bytes, struct facet_error *error)
{
    struct facet_vfio_region place = {0};
    enum facet_status status = find_region(device, region, offset, bytes, &place, error);

    if (status != FACET_OK)
        return status;
    return check_region(device, "writing", region, offset, bytes,
                        pwrite(device->fd, data, bytes, (off_t)(place.offset + offset)), error);
}

enum facet_status facet_vfio_device_enable(struct facet_vfio_device *device, struct facet_error *error)
{
    uint8_t command[2]; /* little-endian, as all of the config space */
    enum facet_status status;

    status = facet_vfio_device_read(device, FACET_VFIO_CONFIG, PCI_COMMAND, command, sizeof command, error);
    if (status != FACET_OK)
        return status;
    command[0] |= PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
    return facet_vfio_device_write(device, FACET_VFIO_CONFIG, PCI_COMMAND, command, sizeof command, error);
}

static bool may_map(const struct facet_vfio_region *region, uint64_t offset, size_t bytes)
{
    bool inside = region->can_map && !region->areas;

    for (size_t i = 0; region->can_map && i < region->area_count; i++) {
        const struct facet_vfio_area *area = &region->areas[i];

        inside |= offset >= area->offset && bytes <= area->bytes && offset - area->offset <= area->bytes - bytes;
    }
    return inside;
}

enum facet_status facet_vfio_device_map(const struct facet_vfio_device *device, uint32_t region, uint64_t offset,
                                        size_t bytes, void **ret_memory, struct facet_error *error)
{
    const struct facet_vfio_system *system = &device->space->system;
    struct facet_vfio_region place = {0};
    enum facet_status status = find_region(device, region, offset, bytes, &place, error);
    void *memory;

    if (status != FACET_OK)
        return status;
    if (!may_map(&place, offset, bytes))
        return facet_error_argument(error, FACET_UNSUPPORTED, "region",
                                    "%s: region %u cannot be mapped %s: read and write it instead", device->address,
                                    region, place.areas ? "in whole, see its areas" : "on this machine");
    memory = system->map(system->data, device->fd, place.offset + offset, bytes,
                         (place.access & FACET_VFIO_READ ? PROT_READ : 0) |
                             (place.access & FACET_VFIO_WRITE ? PROT_WRITE : 0));
    if (memory == MAP_FAILED)
        return facet_error_errno(error, errno, "%s: mapping %zu bytes at %#" PRIx64 " of region %u", device->address,
                                 bytes, offset, region);
    *ret_memory = memory;
    return FACET_OK;
}

void facet_vfio_unmap(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}
