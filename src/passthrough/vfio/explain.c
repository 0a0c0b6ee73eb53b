/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: messages about why VFIO refused: holders, drivers, members of the group, locked memory.
 * Never: changes anything, or fails because it could not find a reason.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "passthrough/driver.h"
#include "passthrough/vfio/inside.h"

DIR *vfio_folder_open(const struct facet_vfio_system *system, const char *path)
{
    FACET_CLEANUP_FD int fd = openat(system->root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (folder)
        (void)FACET_TAKE_FD(fd);
    return folder;
}

/* The last part of a link's target; false, with errno: there is no link, or no room for the name. */
static bool last_of_link(int directory, const char *path, char *ret_name, size_t size)
{
    char target[512];
    ssize_t length = readlinkat(directory, path, target, sizeof target - 1);
    const char *slash;

    if (length < 0)
        return false;
    target[length] = '\0';
    slash = strrchr(target, '/');
    if ((size_t)snprintf(ret_name, size, "%s", slash ? slash + 1 : target) < size)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

void vfio_driver_of(const struct facet_vfio_system *system, const char *address, char *ret_name, size_t size)
{
    char path[VFIO_PATH_SIZE];

    snprintf(path, sizeof path, "sys/bus/pci/devices/%.32s/driver", address);
    if (!last_of_link(system->root, path, ret_name, size))
        ret_name[0] = '\0';
}

enum facet_status vfio_group_number(const struct facet_vfio_device *device, int *ret_number, struct facet_error *error)
{
    char path[VFIO_PATH_SIZE], name[32], *end;
    long number;

    snprintf(path, sizeof path, "sys/bus/pci/devices/%s/iommu_group", device->address);
    if (!last_of_link(device->space->system.root, path, name, sizeof name))
        return errno == ENOENT
                   ? facet_error_set(error, FACET_UNSUPPORTED,
                                     "%s: it is in no IOMMU group: the machine has no IOMMU, or it is switched off",
                                     device->address)
                   : facet_error_errno(error, errno, "%s: looking for its IOMMU group", device->address);
    errno = 0;
    number = strtol(name, &end, 10);
    if (!isdigit((unsigned char)name[0]) || *end || errno || number > INT32_MAX)
        return facet_error_set(error, FACET_CORRUPT, "%s: its IOMMU group is \"%s\", expected a number",
                               device->address, name);
    *ret_number = (int)number;
    return FACET_OK;
}

/* --- the holders of a node --- */

/* The nodes of a function, either of which may be held: its group, and its own character device. */
struct nodes {
    char group[VFIO_PATH_SIZE];
    char device_node[VFIO_PATH_SIZE];
};

static void find_nodes(const struct facet_vfio_device *device, struct nodes *into)
{
    char name[32];
    int number;

    *into = (struct nodes){0};
    if (vfio_group_number(device, &number, NULL) == FACET_OK)
        snprintf(into->group, sizeof into->group, "/dev/vfio/%d", number);
    if (vfio_cdev_name(device, name, sizeof name))
        snprintf(into->device_node, sizeof into->device_node, "/dev/vfio/devices/%s", name);
}

/* Whether a process has one of the nodes open. In this process, the descriptor of `device` itself does not count. */
static bool process_holds(const struct facet_vfio_device *device, const char *pid, const struct nodes *nodes)
{
    long own_fd = strtol(pid, NULL, 10) == getpid() ? device->fd : -1;
    FACET_CLEANUP_DIR DIR *folder = NULL;
    char path[VFIO_PATH_SIZE], target[256];

    snprintf(path, sizeof path, "proc/%.20s/fd", pid);
    folder = vfio_folder_open(&device->space->system, path);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);

        if (length <= 0 || (own_fd >= 0 && strtol(entry->d_name, NULL, 10) == own_fd))
            continue;
        target[length] = '\0';
        if (strcmp(target, nodes->group) == 0 || strcmp(target, nodes->device_node) == 0)
            return true;
    }
    return false;
}

static void name_process(const struct facet_vfio_system *system, const char *pid, char *ret_text, size_t size)
{
    FACET_CLEANUP_FD int fd = -1;
    char path[VFIO_PATH_SIZE], command[32] = "";
    ssize_t length;

    snprintf(path, sizeof path, "proc/%.20s/comm", pid);
    fd = openat(system->root, path, O_RDONLY | O_CLOEXEC);
    length = fd < 0 ? 0 : read(fd, command, sizeof command - 1);
    command[length > 0 ? length : 0] = '\0';
    command[strcspn(command, "\n")] = '\0';
    snprintf(ret_text, size, "process %.20s (%s)", pid, command[0] ? command : "?");
}

/* Names the process that holds the device, "process 12 (qemu)"; false, with "another process": it was not found. */
static bool name_holder(const struct facet_vfio_device *device, char *ret_text, size_t size)
{
    const struct facet_vfio_system *system = &device->space->system;
    FACET_CLEANUP_DIR DIR *folder = vfio_folder_open(system, "proc");
    struct nodes nodes;

    find_nodes(device, &nodes);
    snprintf(ret_text, size, "another process");
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder))
        if (isdigit((unsigned char)entry->d_name[0]) && process_holds(device, entry->d_name, &nodes)) {
            name_process(system, entry->d_name, ret_text, size);
            return true;
        }
    return false;
}

bool vfio_is_held(const struct facet_vfio_device *device)
{
    char holder[96];

    return name_holder(device, holder, sizeof holder);
}

enum facet_status vfio_explain_busy(const struct facet_vfio_device *device, const char *step, struct facet_error *error)
{
    char holder[96];

    name_holder(device, holder, sizeof holder);
    return facet_error_set(error, FACET_BUSY, "%s: %s: %s has it open", device->address, step, holder);
}

enum facet_status vfio_explain_open(const struct facet_vfio_device *device, int failed, const char *node,
                                    struct facet_error *error)
{
    const struct facet_vfio_system *system = &device->space->system;
    char text[VFIO_PATH_SIZE + 16];

    switch (failed) {
    case EBUSY:
        snprintf(text, sizeof text, "opening /%s", node);
        return vfio_explain_busy(device, text, error);
    case ENOENT:
    case ENODEV:
        vfio_driver_of(system, device->address, text, sizeof text);
        return facet_error_set(error, FACET_BAD_STATE, "%s: /%s is not there: the function has %s%s, not vfio-pci",
                               device->address, node, text[0] ? "the driver " : "no driver", text);
    default:
        return facet_error_errno(error, failed, "%s: opening /%s", device->address, node);
    }
}

/* --- members of the group that the host drives --- */

static bool may_stay(const char *driver)
{
    return driver_is_harmless(driver) || driver_is_port(driver);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_member(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Lists members with a driver of the host: "0000:01:00.1 (snd_hda_intel), 0000:01:00.2 (xhci_hcd)" */
static void list_members(const struct facet_vfio_system *system, int group, char *ret_text, size_t size)
{
    struct dirent **entries = NULL;
    char path[VFIO_PATH_SIZE], driver[64];
    size_t used = 0;
    int count;

    ret_text[0] = '\0';
    snprintf(path, sizeof path, "sys/kernel/iommu_groups/%d/devices", group);
    count = scandirat(system->root, path, &entries, is_member, by_name);
    for (int i = 0; i < count; i++) {
        vfio_driver_of(system, entries[i]->d_name, driver, sizeof driver);
        if (!may_stay(driver) && used < size)
            used += (size_t)snprintf(ret_text + used, size - used, "%s%s (%s)", used ? ", " : "", entries[i]->d_name,
                                     driver);
        free(entries[i]);
    }
    free(entries);
}

bool vfio_is_driven(const struct facet_vfio_device *device, int group)
{
    char members[200];

    list_members(&device->space->system, group, members, sizeof members);
    return members[0] != '\0';
}

enum facet_status vfio_explain_viable(const struct facet_vfio_device *device, int group, struct facet_error *error)
{
    char members[200];

    list_members(&device->space->system, group, members, sizeof members);
    return facet_error_set(error, FACET_BAD_STATE, "%s: group %d is not viable: %s%s; bind the whole group to vfio-pci",
                           device->address, group, members[0] ? "the host still drives " : "the host drives a member",
                           members);
}

/* --- why memory was not mapped --- */

struct locked {
    uint64_t bytes;    /* this process's locked memory (groups), or its pinned memory (iommufd) */
    bool is_unlimited; /* the process has CAP_IPC_LOCK */
};

static uint64_t number_of(const char *text, const char *name, int base)
{
    const char *line = strstr(text, name);

    return line ? strtoull(line + strlen(name), NULL, base) : 0;
}

static struct locked locked_memory(const struct facet_vfio_space *space)
{
    FACET_CLEANUP_FD int fd = openat(space->system.root, "proc/self/status", O_RDONLY | O_CLOEXEC);
    char text[4096] = "";
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    const char *name = space->way == FACET_VFIO_GROUP ? "\nVmLck:" : "\nVmPin:";

    text[length > 0 ? length : 0] = '\0';
    return (struct locked){
        .bytes = number_of(text, name, 10) * 1024,
        .is_unlimited = number_of(text, "\nCapEff:", 16) >> CAP_IPC_LOCK & 1,
    };
}

static enum facet_status explain_no_memory(struct facet_vfio_space *space, uint64_t iova, uint64_t bytes,
                                           struct facet_error *error)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    struct locked locked = locked_memory(space);
    bool fits;

    getrlimit(RLIMIT_MEMLOCK, &limit);
    fits = locked.bytes <= limit.rlim_cur && bytes <= limit.rlim_cur - locked.bytes;
    if (locked.is_unlimited || limit.rlim_cur == RLIM_INFINITY || (fits && space->way == FACET_VFIO_GROUP))
        return facet_error_set(error, FACET_NO_MEMORY,
                               "mapping %" PRIu64 " bytes at %#" PRIx64 ": the kernel has no memory to pin them", bytes,
                               iova);
    return facet_error_set(error, FACET_QUOTA,
                           "mapping %" PRIu64 " bytes at %#" PRIx64 ": the process may lock %" PRIu64
                           " bytes of memory (memlock) and has locked %" PRIu64 "%s; raise memlock to %" PRIu64
                           " or more",
                           bytes, iova, (uint64_t)limit.rlim_cur, locked.bytes,
                           fits ? ", and other processes of its user have locked more" : "", locked.bytes + bytes);
}

static enum facet_status explain_no_mapping(struct facet_vfio_space *space, uint64_t iova, uint64_t bytes,
                                            struct facet_error *error)
{
    struct facet_vfio_space_info info = {.mappings_left = UINT32_MAX};

    facet_vfio_space_describe(space, &info, NULL);
    return facet_error_set(error, FACET_NO_SPACE,
                           "mapping %" PRIu64 " bytes at %#" PRIx64
                           ": mappings left: %u; use fewer and larger ones, or "
                           "raise dma_entry_limit of the module vfio_iommu_type1",
                           bytes, iova, info.mappings_left == UINT32_MAX ? 0 : info.mappings_left);
}

static bool is_reachable(const struct facet_vfio_space_info *info, uint64_t iova, uint64_t bytes)
{
    bool reachable = info->range_count == 0 || info->range_count > FACET_VFIO_RANGES;

    for (uint32_t i = 0; i < info->range_count && i < FACET_VFIO_RANGES; i++)
        reachable |= iova >= info->ranges[i].start && iova + (bytes - 1) <= info->ranges[i].last;
    return reachable;
}

enum facet_status vfio_explain_map(struct facet_vfio_space *space, int failed, uint64_t iova, uint64_t bytes,
                                   struct facet_error *error)
{
    struct facet_vfio_space_info info = {.range_count = 0};

    switch (failed) {
    case ENOMEM:
        return explain_no_memory(space, iova, bytes, error);
    case ENOSPC:
        return explain_no_mapping(space, iova, bytes, error);
    case EEXIST:
    case EADDRINUSE:
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "iova",
                                    "something is mapped in %#" PRIx64 " bytes at %#" PRIx64 " already", bytes, iova);
    default:
        break;
    }
    if (facet_vfio_space_describe(space, &info, NULL) == FACET_OK && !is_reachable(&info, iova, bytes))
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "iova",
                                    "the IOMMU reaches no %#" PRIx64 " bytes at %#" PRIx64
                                    ": the first range is %#" PRIx64 " to %#" PRIx64,
                                    bytes, iova, info.ranges[0].start, info.ranges[0].last);
    return facet_error_errno(error, failed, "mapping %" PRIu64 " bytes at %#" PRIx64, bytes, iova);
}
