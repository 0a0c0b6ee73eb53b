/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening a function by its group, in a container. Never: keeps a group open when no function of it is. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "passthrough/vfio/inside.h"

static struct vfio_group *find_group(const struct facet_vfio_space *space, int number)
{
    struct vfio_group *group = space->groups;

    while (group && group->number != number)
        group = group->next;
    return group;
}

static enum facet_status check_viable(const struct facet_vfio_device *device, const struct vfio_group *group,
                                      struct facet_error *error)
{
    struct vfio_group_status status = {.argsz = sizeof status};

    if (vfio_control(device->space, group->fd, VFIO_GROUP_GET_STATUS, &status) != 0)
        return facet_error_errno(error, errno, "%s: asking for the state of group %d", device->address, group->number);
    if (!(status.flags & VFIO_GROUP_FLAGS_VIABLE))
        return vfio_explain_viable(device, group->number, error);
    if (status.flags & VFIO_GROUP_FLAGS_CONTAINER_SET)
        return facet_error_set(error, FACET_BUSY, "%s: group %d is in another address space", device->address,
                               group->number);
    return FACET_OK;
}

/* A container gets its IOMMU with its first group, and loses it with its last. */
static enum facet_status enter_group(const struct facet_vfio_device *device, const struct vfio_group *group,
                                     struct facet_error *error)
{
    struct facet_vfio_space *space = device->space;

    if (vfio_control(space, group->fd, VFIO_GROUP_SET_CONTAINER, &space->fd) != 0)
        return facet_error_errno(error, errno, "%s: putting group %d into the address space", device->address,
                                 group->number);
    if (space->has_iommu)
        return FACET_OK;
    if (vfio_control(space, space->fd, VFIO_SET_IOMMU, (void *)(uintptr_t)VFIO_TYPE1v2_IOMMU) != 0)
        return facet_error_errno(error, errno,
                                 "%s: giving the address space of group %d its IOMMU (without interrupt remapping "
                                 "the kernel refuses, see its log)",
                                 device->address, group->number);
    space->has_iommu = true;
    return FACET_OK;
}

static enum facet_status open_group(const struct facet_vfio_device *device, int number, struct vfio_group **ret_group,
                                    struct facet_error *error)
{
    FACET_CLEANUP_FREE struct vfio_group *group = calloc(1, sizeof *group);
    char node[VFIO_PATH_SIZE];
    enum facet_status status;

    if (!group)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for group %d", number);
    snprintf(node, sizeof node, "dev/vfio/%d", number);
    group->number = number;
    group->fd = vfio_open(&device->space->system, node, O_RDWR | O_CLOEXEC);
    if (group->fd < 0)
        return vfio_explain_open(device, errno, node, error);
    status = check_viable(device, group, error);
    if (status == FACET_OK)
        status = enter_group(device, group, error);
    if (status != FACET_OK) {
        close(group->fd);
        return status;
    }
    *ret_group = FACET_TAKE_PTR(group);
    return FACET_OK;
}

static enum facet_status take_group(struct facet_vfio_device *device, struct facet_error *error)
{
    struct facet_vfio_space *space = device->space;
    enum facet_status status;
    int number;

    status = vfio_group_number(device, &number, error);
    if (status != FACET_OK)
        return status;
    device->group = find_group(space, number);
    if (!device->group) {
        status = open_group(device, number, &device->group, error);
        if (status != FACET_OK)
            return status;
        device->group->next = space->groups;
        space->groups = device->group;
    }
    device->group->users++;
    return FACET_OK;
}

static enum facet_status explain_descriptor(const struct facet_vfio_device *device, int failed,
                                            struct facet_error *error)
{
    char driver[64];

    vfio_driver_of(&device->space->system, device->address, driver, sizeof driver);
    switch (failed) {
    case ENODEV: /* other members of the group may have no driver, but this function must have vfio-pci */
        return facet_error_set(error, FACET_BAD_STATE, "%s: group %d is open, but this function has %s%s, not vfio-pci",
                               device->address, device->group->number, driver[0] ? "the driver " : "no driver", driver);
    case EBUSY:
        return facet_error_set(error, FACET_BUSY, "%s: group %d is open, but another process has this function open",
                               device->address, device->group->number);
    default:
        return facet_error_errno(error, failed, "%s: opening the function in group %d", device->address,
                                 device->group->number);
    }
}

enum facet_status vfio_group_join(struct facet_vfio_device *device, struct facet_error *error)
{
    enum facet_status status = take_group(device, error);

    if (status != FACET_OK)
        return status;
    device->fd = vfio_control(device->space, device->group->fd, VFIO_GROUP_GET_DEVICE_FD, device->address);
    if (device->fd >= 0)
        return FACET_OK;
    status = explain_descriptor(device, errno, error);
    vfio_group_leave(device);
    return status;
}

void vfio_group_leave(struct facet_vfio_device *device)
{
    struct facet_vfio_space *space = device->space;
    struct vfio_group *group = FACET_TAKE_PTR(device->group), **link = &space->groups;

    if (!group || --group->users > 0)
        return;
    while (*link != group)
        link = &(*link)->next;
    *link = group->next;
    close(group->fd);
    free(group);
    if (!space->groups)
        space->has_iommu = false;
}
