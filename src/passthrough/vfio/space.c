/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: address spaces: opening them, mapping memory, their limits. Never: opens a function. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "passthrough/vfio/inside.h"

#define CONTAINER "dev/vfio/vfio"
#define IOMMUFD   "dev/iommu"

static enum facet_status explain_node(const char *node, int failed, const char *missing, struct facet_error *error)
{
    switch (failed) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
        return facet_error_set(error, FACET_UNSUPPORTED, "/%s is not there: %s", node, missing);
    default:
        return facet_error_errno(error, failed, "opening /%s", node);
    }
}

static enum facet_status open_container(struct facet_vfio_space *space, struct facet_error *error)
{
    int version;

    space->fd = vfio_open(&space->system, CONTAINER, O_RDWR | O_CLOEXEC);
    if (space->fd < 0)
        return explain_node(CONTAINER, errno, "the kernel has no VFIO, or its module vfio is not loaded", error);
    version = vfio_control(space, space->fd, VFIO_GET_API_VERSION, NULL);
    if (version != VFIO_API_VERSION)
        return facet_error_set(error, FACET_UNSUPPORTED, "/%s speaks version %d of VFIO, expected %d", CONTAINER,
                               version, VFIO_API_VERSION);
    if (vfio_control(space, space->fd, VFIO_CHECK_EXTENSION, (void *)(uintptr_t)VFIO_TYPE1v2_IOMMU) <= 0)
        return facet_error_set(error, FACET_UNSUPPORTED,
                               "/%s offers no IOMMU of type 1: is the module vfio_iommu_type1 loaded?", CONTAINER);
    return FACET_OK;
}

static enum facet_status open_iommufd(struct facet_vfio_space *space, struct facet_error *error)
{
    struct vfio_uapi_ioas_alloc alloc = {.size = sizeof alloc};

    space->fd = vfio_open(&space->system, IOMMUFD, O_RDWR | O_CLOEXEC);
    if (space->fd < 0)
        return explain_node(IOMMUFD, errno, "the kernel was built without iommufd, or its module is not loaded", error);
    if (vfio_control(space, space->fd, VFIO_UAPI_IOAS_ALLOC, &alloc) != 0)
        return facet_error_errno(error, errno, "/%s: making an address space", IOMMUFD);
    space->ioas = alloc.out_ioas_id;
    return FACET_OK;
}

/* A kernel may have iommufd without VFIO's character devices; their folder exists once a function is bound. */
static enum facet_vfio_way choose_way(const struct facet_vfio_system *system)
{
    struct stat status;

    if (fstatat(system->root, "dev/vfio/devices", &status, 0) == 0 && fstatat(system->root, IOMMUFD, &status, 0) == 0)
        return FACET_VFIO_CDEV;
    return FACET_VFIO_GROUP;
}

enum facet_status facet_vfio_space_open(const struct facet_vfio_system *system, enum facet_vfio_way way,
                                        struct facet_vfio_space **ret_space, struct facet_error *error)
{
    struct facet_vfio_space *space;
    enum facet_status status;

    if ((unsigned)way > FACET_VFIO_CDEV)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "way", "%u is no way, expected 0 to %u",
                                    (unsigned)way, FACET_VFIO_CDEV);
    space = calloc(1, sizeof *space);
    if (!space)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for an address space");
    space->system = *system;
    space->way = way == FACET_VFIO_ANY ? choose_way(system) : way;
    status = space->way == FACET_VFIO_GROUP ? open_container(space, error) : open_iommufd(space, error);
    if (status != FACET_OK) {
        facet_vfio_space_close(space);
        return status;
    }
    *ret_space = space;
    return FACET_OK;
}

void facet_vfio_space_close(struct facet_vfio_space *space)
{
    if (!space)
        return;
    if (space->fd >= 0)
        close(space->fd);
    free(space);
}

enum facet_vfio_way facet_vfio_space_way(const struct facet_vfio_space *space)
{
    return space->way;
}

/* --- memory --- */

static enum facet_status check_ready(const struct facet_vfio_space *space, struct facet_error *error)
{
    if (space->way == FACET_VFIO_GROUP && !space->has_iommu)
        return facet_error_set(error, FACET_BAD_STATE, "the container has no IOMMU yet: open a device in it first");
    return FACET_OK;
}

static enum facet_status check_run(uint64_t iova, const void *memory, uint64_t bytes, struct facet_error *error)
{
    uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

    if (bytes == 0 || bytes & mask)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "bytes",
                                    "%#" PRIx64 " is not a whole number of pages of %" PRIu64 " bytes", bytes,
                                    mask + 1);
    if (iova & mask || iova + (bytes - 1) < iova)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "iova",
                                    "%#" PRIx64 " is not the start of a page with room for %#" PRIx64 " bytes", iova,
                                    bytes);
    if ((uintptr_t)memory & mask)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "memory", "%p is not the start of a page", memory);
    return FACET_OK;
}

static int map_in_container(struct facet_vfio_space *space, uint64_t iova, void *memory, uint64_t bytes,
                            uint32_t access)
{
    struct vfio_iommu_type1_dma_map map = {
        .argsz = sizeof map,
        .flags = (access & FACET_VFIO_READ ? VFIO_DMA_MAP_FLAG_READ : 0u) |
                 (access & FACET_VFIO_WRITE ? VFIO_DMA_MAP_FLAG_WRITE : 0u),
        .vaddr = (uintptr_t)memory,
        .iova = iova,
        .size = bytes,
    };

    return vfio_control(space, space->fd, VFIO_IOMMU_MAP_DMA, &map);
}

static int map_in_ioas(struct facet_vfio_space *space, uint64_t iova, void *memory, uint64_t bytes, uint32_t access)
{
    struct vfio_uapi_ioas_map map = {
        .size = sizeof map,
        .flags = VFIO_UAPI_MAP_FIXED | (access & FACET_VFIO_READ ? VFIO_UAPI_MAP_READABLE : 0u) |
                 (access & FACET_VFIO_WRITE ? VFIO_UAPI_MAP_WRITEABLE : 0u),
        .ioas_id = space->ioas,
        .user_va = (uintptr_t)memory,
        .length = bytes,
        .iova = iova,
    };

    return vfio_control(space, space->fd, VFIO_UAPI_IOAS_MAP, &map);
}

enum facet_status facet_vfio_space_map(struct facet_vfio_space *space, uint64_t iova, void *memory, uint64_t bytes,
                                       uint32_t access, struct facet_error *error)
{
    enum facet_status status = check_run(iova, memory, bytes, error);
    int result;

    if (status == FACET_OK && (access == 0 || access & ~(FACET_VFIO_READ | FACET_VFIO_WRITE)))
        status =
            facet_error_argument(error, FACET_INVALID_ARGUMENT, "access", "%#x: expected read, write or both", access);
    if (status == FACET_OK)
        status = check_ready(space, error);
    if (status != FACET_OK)
        return status;
    result = space->way == FACET_VFIO_GROUP ? map_in_container(space, iova, memory, bytes, access)
                                            : map_in_ioas(space, iova, memory, bytes, access);
    return result == 0 ? FACET_OK : vfio_explain_map(space, errno, iova, bytes, error);
}

/* Unmaps the mappings that lie wholly inside the range, and returns their size. A range may have no mapping. */
static int unmap_in_container(struct facet_vfio_space *space, uint64_t iova, uint64_t bytes, uint64_t *ret_done)
{
    struct vfio_iommu_type1_dma_unmap unmap = {.argsz = sizeof unmap, .iova = iova, .size = bytes};

    if (vfio_control(space, space->fd, VFIO_IOMMU_UNMAP_DMA, &unmap) != 0)
        return errno;
    *ret_done = unmap.size;
    return 0;
}

static int unmap_in_ioas(struct facet_vfio_space *space, uint64_t iova, uint64_t bytes, uint64_t *ret_done)
{
    struct vfio_uapi_ioas_unmap unmap = {.size = sizeof unmap, .ioas_id = space->ioas, .iova = iova, .length = bytes};

    if (vfio_control(space, space->fd, VFIO_UAPI_IOAS_UNMAP, &unmap) != 0)
        return errno == ENOENT ? 0 : errno;
    *ret_done = unmap.length;
    return 0;
}

enum facet_status facet_vfio_space_unmap(struct facet_vfio_space *space, uint64_t iova, uint64_t bytes,
                                         struct facet_error *error)
{
    enum facet_status status = check_run(iova, NULL, bytes, error);
    uint64_t done = 0;
    int failed;

    if (status == FACET_OK)
        status = check_ready(space, error);
    if (status != FACET_OK)
        return status;
    failed = space->way == FACET_VFIO_GROUP ? unmap_in_container(space, iova, bytes, &done)
                                            : unmap_in_ioas(space, iova, bytes, &done);
    if (failed == EINVAL)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "iova",
                                    "unmapping %#" PRIx64 " bytes at %#" PRIx64 " would cut a mapping in two", bytes,
                                    iova);
    if (failed)
        return facet_error_errno(error, failed, "unmapping %#" PRIx64 " bytes at %#" PRIx64, bytes, iova);
    if (done == 0)
        return facet_error_argument(error, FACET_NOT_FOUND, "iova",
                                    "no whole mapping is in %#" PRIx64 " bytes at %#" PRIx64, bytes, iova);
    return FACET_OK;
}

/* --- limits --- */

uint32_t vfio_capability_find(const void *answer, uint32_t bytes, uint32_t first, uint16_t id, size_t min)
{
    uint32_t at = first;

    /* A valid chain goes forward at each step; a step back could go in circles. */
    while (at != 0 && bytes >= sizeof(struct vfio_info_cap_header) &&
           at <= bytes - sizeof(struct vfio_info_cap_header)) {
        struct vfio_info_cap_header header;

        memcpy(&header, (const char *)answer + at, sizeof header);
        if (header.id == id)
            return min <= bytes - at ? at : 0;
        if (header.next <= at)
            return 0;
        at = header.next;
    }
    return 0;
}

/* Calls twice: the first call returns the size of the answer, the second the whole answer. */
static enum facet_status read_container_info(struct facet_vfio_space *space, struct vfio_iommu_type1_info **ret_info,
                                             struct facet_error *error)
{
    struct vfio_iommu_type1_info little = {.argsz = sizeof little};
    FACET_CLEANUP_FREE struct vfio_iommu_type1_info *info = NULL;
    uint32_t bytes;

    if (vfio_control(space, space->fd, VFIO_IOMMU_GET_INFO, &little) != 0)
        return facet_error_errno(error, errno, "asking the container for its IOMMU");
    bytes = little.argsz < sizeof *info ? (uint32_t)sizeof *info : little.argsz;
    info = calloc(1, bytes);
    if (!info)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for an answer of %u bytes", bytes);
    info->argsz = bytes;
    if (vfio_control(space, space->fd, VFIO_IOMMU_GET_INFO, info) != 0)
        return facet_error_errno(error, errno, "asking the container for its IOMMU");
    info->argsz = info->argsz < bytes ? info->argsz : bytes;
    *ret_info = FACET_TAKE_PTR(info);
    return FACET_OK;
}

static void take_ranges(const struct vfio_iommu_type1_info *info, struct facet_vfio_space_info *into)
{
    struct vfio_iommu_type1_info_cap_iova_range head;
    uint32_t at =
        vfio_capability_find(info, info->argsz, info->cap_offset, VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE, sizeof head);
    uint32_t room;

    if (at == 0)
        return;
    memcpy(&head, (const char *)info + at, sizeof head);
    room = (info->argsz - at - (uint32_t)sizeof head) / (uint32_t)sizeof(struct vfio_iova_range);
    into->range_count = head.nr_iovas < room ? head.nr_iovas : room;
    for (uint32_t i = 0; i < into->range_count && i < FACET_VFIO_RANGES; i++) {
        struct vfio_iova_range range;

        memcpy(&range, (const char *)info + at + sizeof head + i * sizeof range, sizeof range);
        into->ranges[i] = (struct facet_vfio_range){.start = range.start, .last = range.end};
    }
}

static enum facet_status describe_container(struct facet_vfio_space *space, struct facet_vfio_space_info *into,
                                            struct facet_error *error)
{
    FACET_CLEANUP_FREE struct vfio_iommu_type1_info *info = NULL;
    struct vfio_iommu_type1_info_dma_avail left;
    enum facet_status status = read_container_info(space, &info, error);
    uint32_t at;

    if (status != FACET_OK)
        return status;
    if (info->flags & VFIO_IOMMU_INFO_PGSIZES)
        into->page_sizes = info->iova_pgsizes;
    if (!(info->flags & VFIO_IOMMU_INFO_CAPS))
        return FACET_OK;
    take_ranges(info, into);
    at = vfio_capability_find(info, info->argsz, info->cap_offset, VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL, sizeof left);
    if (at != 0) {
        memcpy(&left, (const char *)info + at, sizeof left);
        into->mappings_left = left.avail;
    }
    return FACET_OK;
}

static enum facet_status describe_ioas(struct facet_vfio_space *space, struct facet_vfio_space_info *into,
                                       struct facet_error *error)
{
    struct vfio_uapi_range ranges[FACET_VFIO_RANGES] = {0};
    struct vfio_uapi_ioas_ranges ask = {
        .size = sizeof ask,
        .ioas_id = space->ioas,
        .num_iovas = FACET_VFIO_RANGES,
        .allowed_iovas = (uintptr_t)ranges,
    };

    if (vfio_control(space, space->fd, VFIO_UAPI_IOAS_RANGES, &ask) != 0 && errno != EMSGSIZE)
        return facet_error_errno(error, errno, "asking iommufd for the ranges of an address space");
    into->page_sizes = ask.out_iova_alignment;
    into->range_count = ask.num_iovas;
    for (uint32_t i = 0; i < ask.num_iovas && i < FACET_VFIO_RANGES; i++)
        into->ranges[i] = (struct facet_vfio_range){.start = ranges[i].start, .last = ranges[i].last};
    return FACET_OK;
}

enum facet_status facet_vfio_space_describe(struct facet_vfio_space *space, struct facet_vfio_space_info *ret_info,
                                            struct facet_error *error)
{
    struct facet_vfio_space_info info = {.mappings_left = UINT32_MAX};
    enum facet_status status = check_ready(space, error);

    if (status == FACET_OK)
        status = space->way == FACET_VFIO_GROUP ? describe_container(space, &info, error)
                                                : describe_ioas(space, &info, error);
    if (status == FACET_OK)
        *ret_info = info;
    return status;
}
