/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening a function by its own character device, in an address space of iommufd. Never: opens a group. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/vfio/inside.h"

/* The name is the entry of the folder vfio-dev that vfio-pci makes for a function. */
bool vfio_cdev_name(const struct facet_vfio_device *device, char *ret_name, size_t size)
{
    FACET_CLEANUP_DIR DIR *folder = NULL;
    char path[VFIO_PATH_SIZE];

    snprintf(path, sizeof path, "sys/bus/pci/devices/%s/vfio-dev", device->address);
    folder = vfio_folder_open(&device->space->system, path);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder))
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < size) {
            snprintf(ret_name, size, "%s", entry->d_name);
            return true;
        }
    return false;
}

static enum facet_status explain_no_name(const struct facet_vfio_device *device, struct facet_error *error)
{
    char driver[64];

    vfio_driver_of(&device->space->system, device->address, driver, sizeof driver);
    if (strncmp(driver, "vfio", 4) == 0)
        return facet_error_set(error, FACET_UNSUPPORTED, "%s: the kernel has no character devices of VFIO, only groups",
                               device->address);
    return facet_error_set(error, FACET_BAD_STATE, "%s: it has %s%s, not vfio-pci", device->address,
                           driver[0] ? "the driver " : "no driver", driver);
}

static enum facet_status explain_bind(const struct facet_vfio_device *device, int failed, struct facet_error *error)
{
    int group;

    switch (failed) {
    case EBUSY:
    case EPERM: /* a driver or another process has the group; or the machine cannot isolate it */
        if (vfio_group_number(device, &group, NULL) == FACET_OK && vfio_is_driven(device, group))
            return vfio_explain_viable(device, group, error);
        if (failed == EBUSY || vfio_is_held(device))
            return vfio_explain_busy(device, "joining iommufd", error);
        return facet_error_set(
            error, FACET_UNSUPPORTED,
            "%s: joining iommufd: interrupts are not remapped, so the function could raise any interrupt of the host",
            device->address);
    case EINVAL: /* the kernel's error for a function that is open already */
        return vfio_explain_busy(device, "joining iommufd", error);
    default:
        return facet_error_errno(error, failed, "%s: joining iommufd", device->address);
    }
}

static enum facet_status enter_iommufd(const struct facet_vfio_device *device, struct facet_error *error)
{
    struct facet_vfio_space *space = device->space;
    struct vfio_uapi_bind bind = {.argsz = sizeof bind, .iommufd = space->fd};
    struct vfio_uapi_attach attach = {.argsz = sizeof attach, .pt_id = space->ioas};

    if (vfio_control(space, device->fd, VFIO_UAPI_BIND, &bind) != 0)
        return explain_bind(device, errno, error);
    if (vfio_control(space, device->fd, VFIO_UAPI_ATTACH, &attach) != 0)
        return facet_error_errno(error, errno, "%s: entering the address space %u of iommufd", device->address,
                                 space->ioas);
    return FACET_OK;
}

enum facet_status vfio_cdev_join(struct facet_vfio_device *device, struct facet_error *error)
{
    char name[32], node[VFIO_PATH_SIZE];

    if (!vfio_cdev_name(device, name, sizeof name))
        return explain_no_name(device, error);
    snprintf(node, sizeof node, "dev/vfio/devices/%s", name);
    device->fd = vfio_open(&device->space->system, node, O_RDWR | O_CLOEXEC);
    return device->fd < 0 ? vfio_explain_open(device, errno, node, error) : enter_iommufd(device, error);
}
