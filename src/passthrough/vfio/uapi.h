/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of VFIO's character devices and of iommufd that the kernel headers of Debian 12 (6.1) lack.
 *
 * Owns: these structs and numbers, laid out as in the kernel's include/uapi/linux/vfio.h (6.6) and
 * include/uapi/linux/iommufd.h (6.6), under names of our own so that newer headers do not collide.
 * Never: repeats what linux/vfio.h of 6.1 has.
 */
#ifndef FACET_PASSTHROUGH_VFIO_UAPI_H
#define FACET_PASSTHROUGH_VFIO_UAPI_H

#include <linux/vfio.h>
#include <stdint.h>

/* struct vfio_device_bind_iommufd */
struct vfio_uapi_bind {
    uint32_t argsz;
    uint32_t flags; /* 0 */
    int32_t iommufd;
    uint32_t out_devid;
};
#define VFIO_UAPI_BIND _IO(VFIO_TYPE, VFIO_BASE + 18)

/* struct vfio_device_attach_iommufd_pt, in its first form: without a PASID */
struct vfio_uapi_attach {
    uint32_t argsz;
    uint32_t flags; /* 0 */
    uint32_t pt_id; /* of an address space, or of a page table */
};
#define VFIO_UAPI_ATTACH _IO(VFIO_TYPE, VFIO_BASE + 19)

#define VFIO_UAPI_IOMMUFD ';' /* IOMMUFD_TYPE */

/* struct iommu_ioas_alloc */
struct vfio_uapi_ioas_alloc {
    uint32_t size;
    uint32_t flags; /* 0 */
    uint32_t out_ioas_id;
};
#define VFIO_UAPI_IOAS_ALLOC _IO(VFIO_UAPI_IOMMUFD, 0x81)

/* struct iommu_iova_range */
struct vfio_uapi_range {
    uint64_t start;
    uint64_t last;
};

/* struct iommu_ioas_iova_ranges */
struct vfio_uapi_ioas_ranges {
    uint32_t size;
    uint32_t ioas_id;
    uint32_t num_iovas; /* in: room; out: how many there are */
    uint32_t reserved;
    uint64_t allowed_iovas; /* address of struct vfio_uapi_range[num_iovas] */
    uint64_t out_iova_alignment;
};
#define VFIO_UAPI_IOAS_RANGES _IO(VFIO_UAPI_IOMMUFD, 0x84)

/* struct iommu_ioas_map */
struct vfio_uapi_ioas_map {
    uint32_t size;
    uint32_t flags;
    uint32_t ioas_id;
    uint32_t reserved;
    uint64_t user_va;
    uint64_t length;
    uint64_t iova;
};
#define VFIO_UAPI_IOAS_MAP      _IO(VFIO_UAPI_IOMMUFD, 0x85)
#define VFIO_UAPI_MAP_FIXED     (UINT32_C(1) << 0) /* IOMMU_IOAS_MAP_FIXED_IOVA */
#define VFIO_UAPI_MAP_WRITEABLE (UINT32_C(1) << 1)
#define VFIO_UAPI_MAP_READABLE  (UINT32_C(1) << 2)

/* struct iommu_ioas_unmap */
struct vfio_uapi_ioas_unmap {
    uint32_t size;
    uint32_t ioas_id;
    uint64_t iova;
    uint64_t length; /* out: the unmapped bytes */
};
#define VFIO_UAPI_IOAS_UNMAP _IO(VFIO_UAPI_IOMMUFD, 0x86)

_Static_assert(sizeof(struct vfio_uapi_bind) == 16 && sizeof(struct vfio_uapi_attach) == 12, "as in linux/vfio.h");
_Static_assert(sizeof(struct vfio_uapi_ioas_alloc) == 12 && sizeof(struct vfio_uapi_ioas_ranges) == 32 &&
                   sizeof(struct vfio_uapi_ioas_map) == 40 && sizeof(struct vfio_uapi_ioas_unmap) == 24,
               "as in linux/iommufd.h");

#endif
