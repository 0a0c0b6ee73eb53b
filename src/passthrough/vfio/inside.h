/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the internal interfaces of the VFIO client. Never: is seen outside this folder. */
#ifndef FACET_PASSTHROUGH_VFIO_INSIDE_H
#define FACET_PASSTHROUGH_VFIO_INSIDE_H

#include <dirent.h>

#include "passthrough/vfio/client.h"
#include "passthrough/vfio/uapi.h"

#define VFIO_ADDRESS_SIZE 24u
#define VFIO_PATH_SIZE    96u

/* An open group, which its space keeps open while a function of the group is open. */
struct vfio_group {
    struct vfio_group *next;
    int number, fd;
    unsigned users; /* open functions of the group */
};

struct facet_vfio_space {
    struct facet_vfio_system system;
    enum facet_vfio_way way;
    int fd;                    /* the container, or the iommufd */
    uint32_t ioas;             /* with iommufd: the id of the address space */
    bool has_iommu;            /* with groups: the container got its IOMMU with its first group */
    struct vfio_group *groups; /* with groups: the open ones */
};

struct facet_vfio_device {
    struct facet_vfio_space *space;
    struct vfio_group *group; /* NULL: not opened by its group */
    int fd;
    char address[VFIO_ADDRESS_SIZE];
    struct vfio_device_info info;
    struct facet_vfio_region *regions; /* an array of info.num_regions */
};

static inline int vfio_control(const struct facet_vfio_space *space, int fd, unsigned long request, void *argument)
{
    return space->system.control(space->system.data, fd, request, argument);
}

static inline int vfio_open(const struct facet_vfio_system *system, const char *path, int flags)
{
    return system->open(system->data, system->root, path, flags);
}

/* --- opening a function: each join fills device->fd, and vfio_group_join() also device->group --- */

enum facet_status vfio_group_join(struct facet_vfio_device *device, struct facet_error *error);
void vfio_group_leave(struct facet_vfio_device *device);
enum facet_status vfio_cdev_join(struct facet_vfio_device *device, struct facet_error *error);

/* The name of a function's own character device, "vfio3"; false: the function has none. */
bool vfio_cdev_name(const struct facet_vfio_device *device, char *ret_name, size_t size);

/* The regions of a function; their areas are freed with them. */
enum facet_status vfio_regions_read(struct facet_vfio_device *device, struct facet_error *error);
void vfio_regions_free(struct facet_vfio_device *device);

/*
 * The offset of the first capability with this id in an answer of the kernel, or 0. `first` is the offset of the chain,
 * `bytes` the length of the answer, `min` the least size of the capability. A chain that leaves the answer, or does not
 * go forward, ends there.
 */
uint32_t vfio_capability_find(const void *answer, uint32_t bytes, uint32_t first, uint16_t id, size_t min);

/* --- why something failed --- */

/* Opens a folder below the root; NULL, with errno: it cannot be opened. */
DIR *vfio_folder_open(const struct facet_vfio_system *system, const char *path);

/* The number of a function's group. */
enum facet_status vfio_group_number(const struct facet_vfio_device *device, int *ret_number, struct facet_error *error);

/* The driver of a function; empty: none. */
void vfio_driver_of(const struct facet_vfio_system *system, const char *address, char *ret_name, size_t size);

enum facet_status vfio_explain_open(const struct facet_vfio_device *device, int failed, const char *node,
                                    struct facet_error *error);
enum facet_status vfio_explain_busy(const struct facet_vfio_device *device, const char *step,
                                    struct facet_error *error);
bool vfio_is_held(const struct facet_vfio_device *device); /* by a process that is visible in /proc */

/* Whether a function of the group has a driver of the host, which is then the reason for a refusal. */
bool vfio_is_driven(const struct facet_vfio_device *device, int group);
enum facet_status vfio_explain_viable(const struct facet_vfio_device *device, int group, struct facet_error *error);
enum facet_status vfio_explain_map(struct facet_vfio_space *space, int failed, uint64_t iova, uint64_t bytes,
                                   struct facet_error *error);

#endif
