/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: resetting a function, alone or with all functions that its bridge resets. Never: resets a function that is not
 * in this space.
 */
#include <errno.h>
#include <linux/pci.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/vfio/inside.h"

#define NEIGHBOURS_MAX 256u /* below one bridge */

enum facet_status facet_vfio_device_reset(struct facet_vfio_device *device, struct facet_error *error)
{
    if (!(device->info.flags & VFIO_DEVICE_FLAGS_RESET))
        return facet_error_set(error, FACET_UNSUPPORTED,
                               "%s: it cannot be reset alone: the kernel has no method for it, or only one that resets "
                               "its neighbours, too",
                               device->address);
    if (vfio_control(device->space, device->fd, VFIO_DEVICE_RESET, NULL) != 0)
        return facet_error_errno(error, errno, "%s: resetting it", device->address);
    return FACET_OK;
}

/* Asks the kernel for the functions below the bridge, with their groups, or with iommufd their numbers in iommufd. */
static enum facet_status ask_for_reset(const struct facet_vfio_device *device,
                                       struct vfio_pci_hot_reset_info **ret_info, struct facet_error *error)
{
    size_t bytes = sizeof **ret_info + NEIGHBOURS_MAX * sizeof(struct vfio_pci_dependent_device);
    FACET_CLEANUP_FREE struct vfio_pci_hot_reset_info *info = calloc(1, bytes);

    if (!info)
        return facet_error_set(error, FACET_NO_MEMORY, "%s: no memory for its neighbours", device->address);
    info->argsz = (uint32_t)bytes;
    if (vfio_control(device->space, device->fd, VFIO_DEVICE_GET_PCI_HOT_RESET_INFO, info) != 0)
        return errno == ENODEV
                   ? facet_error_set(error, FACET_UNSUPPORTED, "%s: there is no bridge above it that can reset it",
                                     device->address)
                   : facet_error_errno(error, errno, "%s: asking which functions a reset would hit", device->address);
    if (info->count > NEIGHBOURS_MAX)
        return facet_error_set(error, FACET_CORRUPT, "%s: VFIO reports %u neighbours, expected at most %u",
                               device->address, info->count, NEIGHBOURS_MAX);
    *ret_info = FACET_TAKE_PTR(info);
    return FACET_OK;
}

static bool has_group(const struct facet_vfio_space *space, uint32_t number)
{
    const struct vfio_group *group = space->groups;

    while (group && (uint32_t)group->number != number)
        group = group->next;
    return group;
}

static enum facet_status check_neighbours(const struct facet_vfio_device *device,
                                          const struct vfio_pci_hot_reset_info *info, struct facet_error *error)
{
    for (uint32_t i = 0; i < info->count; i++) {
        const struct vfio_pci_dependent_device *other = &info->devices[i];

        if (!has_group(device->space, other->group_id))
            return facet_error_set(
                error, FACET_BAD_STATE,
                "%s: resetting its bus would hit %04x:%02x:%02x.%x of group %u, which is not open here",
                device->address, other->segment, other->bus, (unsigned)PCI_SLOT(other->devfn),
                (unsigned)PCI_FUNC(other->devfn), other->group_id);
    }
    return FACET_OK;
}

static uint32_t count_groups(const struct facet_vfio_space *space)
{
    uint32_t count = 0;

    for (const struct vfio_group *group = space->groups; group; group = group->next)
        count++;
    return count;
}

/* With groups, their descriptors prove that this process has all functions. With iommufd the kernel checks that. */
static enum facet_status reset_bus(struct facet_vfio_device *device, struct facet_error *error)
{
    uint32_t count = count_groups(device->space), at = 0;
    size_t bytes = sizeof(struct vfio_pci_hot_reset) + count * sizeof(int32_t);
    FACET_CLEANUP_FREE struct vfio_pci_hot_reset *order = calloc(1, bytes);

    if (!order)
        return facet_error_set(error, FACET_NO_MEMORY, "%s: no memory for a reset", device->address);
    order->argsz = (uint32_t)bytes;
    order->count = count;
    for (const struct vfio_group *group = device->space->groups; group; group = group->next)
        order->group_fds[at++] = group->fd;
    if (vfio_control(device->space, device->fd, VFIO_DEVICE_PCI_HOT_RESET, order) != 0)
        return facet_error_errno(error, errno, "%s: resetting its bus", device->address);
    return FACET_OK;
}

enum facet_status facet_vfio_device_reset_bus(struct facet_vfio_device *device, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct vfio_pci_hot_reset_info *info = NULL;
    enum facet_status status = ask_for_reset(device, &info, error);

    if (status == FACET_OK && device->space->way == FACET_VFIO_GROUP)
        status = check_neighbours(device, info, error);
    return status == FACET_OK ? reset_bus(device, error) : status;
}
