/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making several functions out of one: SR-IOV virtual functions, mediated devices, and vendors' virtual GPU types.
 *
 * Owns: writing the kernel's files that make such functions, verifying the effect, and undoing a half-done change.
 * Never: takes a virtual function away from a VM that has it open, or from a driver that it was not told to evict.
 *
 *     int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
 *     facet_sriov_set(root, &gpu, 4, FACET_SRIOV_NO_PROBE, &error);
 *     facet_vendor_type_set(root, &virtual_function, 557, &error);
 *     facet_mdev_create(root, &(struct facet_mdev_request){.size = sizeof(struct facet_mdev_request), .parent = gpu,
 *                       .type = "i915-GVTg_V5_4", .count = 1}, uuids, &error);
 *
 * The snapshot of facet/pci.h has the present functions and the possible types. All files are below `root`, a
 * descriptor of the directory that holds sys, proc and dev. Each call is all or nothing: when the kernel refuses a
 * later write, the former state is restored, and the message names the parts that could not be restored. A call has no
 * time limit: a write returns when the driver is done.
 *
 * Thread rule: any thread may call, but only one at a time for one physical function. Errors, besides those named:
 * FACET_INVALID_ARGUMENT, FACET_NOT_FOUND (no such function), FACET_PERMISSION, FACET_IO. Outputs are untouched on
 * failure. Source: the kernel's Documentation/ABI/testing/sysfs-bus-pci and -sysfs-bus-vfio-mdev; NVIDIA's Virtual GPU
 * Software documentation for vendor-specific VFIO.
 */
#ifndef FACET_VIRTUAL_H
#define FACET_VIRTUAL_H

#include <facet/pci.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- SR-IOV --- */

#define FACET_SRIOV_NO_PROBE                                                                                           \
    (UINT32_C(1) << 0) /* no driver of the host takes the new functions; the setting stays on                          \
                          success */
#define FACET_SRIOV_EVICT                                                                                              \
    (UINT32_C(1) << 1) /* present virtual functions that no process has open may be taken from                         \
                          drivers of the host */

/*
 * Gives a physical function `count` virtual functions; 0 removes them. The kernel changes the number only through 0, so
 * present virtual functions must be free: without a driver and without a vendor's type. If the function has `count`
 * already nothing is written. FACET_UNSUPPORTED: the function has no SR-IOV. FACET_OUT_OF_RANGE: more than it can have.
 * FACET_BUSY: present virtual functions are in use; the message names them and their users. FACET_BAD_STATE: the kernel
 * made fewer.
 */
FACET_API enum facet_status facet_sriov_set(int root, const struct facet_pci_address *physical, uint32_t count,
                                            uint32_t flags, struct facet_error *error);

/* --- mediated devices --- */

#define FACET_MDEV_COUNT     32u
#define FACET_MDEV_UUID_SIZE 37u

struct facet_mdev_request {
    uint32_t size;
    uint32_t count; /* 1 to FACET_MDEV_COUNT */
    struct facet_pci_address parent;
    const char *type;         /* "nvidia-222"; struct facet_pci_type.id */
    const char *const *uuids; /* one for each device; NULL: random UUIDs */
};

/* FACET_UNSUPPORTED: the parent makes no mediated devices, or none of this type; the message names the types that it
 * makes. FACET_NO_SPACE: fewer can still be made. FACET_ALREADY_EXISTS: a UUID is in use. */
FACET_API enum facet_status facet_mdev_create(int root, const struct facet_mdev_request *request,
                                              char (*ret_uuids)[FACET_MDEV_UUID_SIZE], struct facet_error *error);

/* FACET_BUSY: a process has the device open, and the kernel would wait for that process. */
FACET_API enum facet_status facet_mdev_remove(int root, const char *uuid, struct facet_error *error);

/* --- vendors' types of virtual functions --- */

/*
 * Sets the vendor's type of virtual GPU of a virtual function; 0 removes the type. If the function has `type` already
 * nothing is written. FACET_UNSUPPORTED: the driver has no such types, or cannot make this type now; the message names
 * the types that it can make. FACET_BAD_STATE: the function has another type; set 0 first. FACET_BUSY: a process has
 * the function open.
 */
FACET_API enum facet_status facet_vendor_type_set(int root, const struct facet_pci_address *function, uint32_t type,
                                                  struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
