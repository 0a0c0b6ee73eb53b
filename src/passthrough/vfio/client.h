/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of VFIO: opens a PCI function that has the driver vfio-pci, and uses it as a virtual machine would.
 *
 * Owns: address spaces (the part of this process's memory that a function may reach) and the functions that are open in
 * them.
 * Never: binds a driver, or chooses a function; a transaction (../bind) does so before.
 *
 *     struct facet_vfio_system system = facet_vfio_system_real(root);
 *     facet_vfio_space_open(&system, FACET_VFIO_ANY, &space, &error);
 *     facet_vfio_device_open(space, "0000:01:00.0", &device, &error);
 *     facet_vfio_space_map(space, iova, memory, bytes, FACET_VFIO_READ | FACET_VFIO_WRITE, &error);
 *     facet_vfio_device_enable(device, &error);
 *     ... facet_vfio_device_map(), facet_vfio_device_interrupt() ...
 *     facet_vfio_device_close(device);
 *     facet_vfio_space_close(space);
 *
 * Thread rule: a space and its devices are for one thread at a time; regions may be read and written from any thread.
 * Outputs are untouched on failure. A message names function, group, step and cause. Errors, besides those named:
 * FACET_INVALID_ARGUMENT, FACET_NO_MEMORY, FACET_IO. Source: the kernel's Documentation/driver-api/vfio.rst and
 * Documentation/userspace-api/iommufd.rst.
 */
#ifndef FACET_PASSTHROUGH_VFIO_CLIENT_H
#define FACET_PASSTHROUGH_VFIO_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

#include "passthrough/vfio/system.h"

/* --- an address space --- */

/* The interface of the kernel through which functions are opened. */
enum facet_vfio_way {
    FACET_VFIO_ANY = 0,   /* iommufd where the kernel has it with character devices, else groups */
    FACET_VFIO_GROUP = 1, /* /dev/vfio/vfio and /dev/vfio/GROUP */
    FACET_VFIO_CDEV = 2,  /* /dev/iommu and /dev/vfio/devices/vfioN; kernels from 6.6 that were built with it */
};

struct facet_vfio_space;

/*
 * FACET_UNSUPPORTED: the kernel lacks this interface, or an IOMMU of type 1. FACET_PERMISSION: this process may not
 * open it.
 */
enum facet_status facet_vfio_space_open(const struct facet_vfio_system *system, enum facet_vfio_way way,
                                        struct facet_vfio_space **ret_space, struct facet_error *error);

/* The devices of the space must be closed before. NULL is allowed. */
void facet_vfio_space_close(struct facet_vfio_space *space);

enum facet_vfio_way facet_vfio_space_way(const struct facet_vfio_space *space);

/* The accesses of a function to the memory. */
#define FACET_VFIO_READ  (UINT32_C(1) << 0)
#define FACET_VFIO_WRITE (UINT32_C(1) << 1)

/*
 * Lets the devices of the space reach `bytes` at `memory` under the address `iova`. All three are multiples of the
 * page size. The memory is pinned until it is unmapped, and counts against the process's limit of locked memory.
 * FACET_QUOTA: the mapping exceeds that limit, which with iommufd counts all processes of the user. FACET_NO_SPACE: no
 * mapping is left. FACET_ALREADY_EXISTS: a mapping overlaps. FACET_OUT_OF_RANGE: the IOMMU cannot reach the address.
 * FACET_BAD_STATE: with groups, no device was opened yet.
 */
enum facet_status facet_vfio_space_map(struct facet_vfio_space *space, uint64_t iova, void *memory, uint64_t bytes,
                                       uint32_t access, struct facet_error *error);

/* Removes whole mappings. FACET_NOT_FOUND: the range has none. FACET_INVALID_ARGUMENT: the range cuts a mapping in two;
 * with iommufd this is FACET_NOT_FOUND, too. */
enum facet_status facet_vfio_space_unmap(struct facet_vfio_space *space, uint64_t iova, uint64_t bytes,
                                         struct facet_error *error);

struct facet_vfio_range {
    uint64_t start;
    uint64_t last;
};

#define FACET_VFIO_RANGES 32u

struct facet_vfio_space_info {
    uint64_t page_sizes;    /* a bit for each size that can be mapped; with iommufd only the smallest */
    uint32_t mappings_left; /* UINT32_MAX: not limited, or unknown */
    uint32_t range_count;   /* may exceed the capacity of `ranges`; 0: unknown */
    struct facet_vfio_range ranges[FACET_VFIO_RANGES];
};

/* FACET_BAD_STATE: with groups, no device was opened yet. */
enum facet_status facet_vfio_space_describe(struct facet_vfio_space *space, struct facet_vfio_space_info *ret_info,
                                            struct facet_error *error);

/* --- a function --- */

struct facet_vfio_device;

/*
 * Opens a function, "0000:01:00.0" as the kernel writes it, in the space. FACET_NOT_FOUND: there is no such function.
 * FACET_UNSUPPORTED: it has no IOMMU. FACET_BAD_STATE: the function, or a member of its group, has another driver than
 * vfio-pci. FACET_BUSY: another process has the function or its group open. FACET_PERMISSION: this process may not open
 * it.
 */
enum facet_status facet_vfio_device_open(struct facet_vfio_space *space, const char *address,
                                         struct facet_vfio_device **ret_device, struct facet_error *error);
void facet_vfio_device_close(struct facet_vfio_device *device); /* NULL is fine */

struct facet_vfio_device_info {
    uint32_t region_count;
    uint32_t interrupt_count; /* kinds of interrupts */
    uint32_t can_reset;       /* alone, without its neighbours */
    int32_t group;            /* -1: not opened by its group */
};

struct facet_vfio_device_info facet_vfio_device_describe(const struct facet_vfio_device *device);

/* --- its regions --- */

enum facet_vfio_region_index {
    FACET_VFIO_BAR = 0, /* BAR 0; BAR i, up to 5, is FACET_VFIO_BAR + i */
    FACET_VFIO_ROM = 6,
    FACET_VFIO_CONFIG = 7,
    FACET_VFIO_VGA = 8,
};

struct facet_vfio_area {
    uint64_t offset;
    uint64_t bytes;
};

struct facet_vfio_region {
    uint64_t bytes;  /* 0: the function has no such region */
    uint64_t offset; /* in the device's file; of no use outside this room */
    uint32_t access; /* FACET_VFIO_READ | FACET_VFIO_WRITE */
    uint32_t can_map;
    const struct facet_vfio_area *areas; /* the only parts that can be mapped, owned by the device; NULL: all of it */
    size_t area_count;
};

/* FACET_OUT_OF_RANGE: no such region. */
enum facet_status facet_vfio_device_region(const struct facet_vfio_device *device, uint32_t region,
                                           struct facet_vfio_region *ret_region, struct facet_error *error);

/* Read and write through the kernel, which works for every region, such as the config space. FACET_OUT_OF_RANGE: the
 * bytes are not all inside the region. */
enum facet_status facet_vfio_device_read(const struct facet_vfio_device *device, uint32_t region, uint64_t offset,
                                         void *ret_data, size_t bytes, struct facet_error *error);
enum facet_status facet_vfio_device_write(struct facet_vfio_device *device, uint32_t region, uint64_t offset,
                                          const void *data, size_t bytes, struct facet_error *error);

/* Enables the function's regions and its access to memory, both of which are off after opening and after a reset. */
enum facet_status facet_vfio_device_enable(struct facet_vfio_device *device, struct facet_error *error);

/* Maps a part of a region, in whole pages, until facet_vfio_unmap(). facet_vfio_device_enable() must come before,
 * because touching the memory while the function's memory is off ends the process with SIGBUS. */
enum facet_status facet_vfio_device_map(const struct facet_vfio_device *device, uint32_t region, uint64_t offset,
                                        size_t bytes, void **ret_memory, struct facet_error *error);
void facet_vfio_unmap(void *memory, size_t bytes); /* NULL is fine */

/* --- its interrupts --- */

enum facet_vfio_interrupt {
    FACET_VFIO_INTX = 0,
    FACET_VFIO_MSI = 1,
    FACET_VFIO_MSIX = 2,
    FACET_VFIO_ERROR = 3,   /* the function reported an uncorrectable error (AER) */
    FACET_VFIO_REQUEST = 4, /* the host asks for the function: close it soon */
};

struct facet_vfio_interrupt_info {
    uint32_t count;       /* 0: the function has none of this kind */
    uint32_t auto_masked; /* masked each time it fires, until facet_vfio_device_unmask() */
};

enum facet_status facet_vfio_device_interrupt_info(const struct facet_vfio_device *device,
                                                   enum facet_vfio_interrupt kind,
                                                   struct facet_vfio_interrupt_info *ret_info,
                                                   struct facet_error *error);

/* Makes interrupt i of a kind add 1 to eventfds[i]; the caller keeps the eventfds. A count of 0 switches the kind off.
 * FACET_OUT_OF_RANGE: the function has fewer interrupts. */
enum facet_status facet_vfio_device_interrupt(struct facet_vfio_device *device, enum facet_vfio_interrupt kind,
                                              const int *eventfds, uint32_t count, struct facet_error *error);
enum facet_status facet_vfio_device_unmask(struct facet_vfio_device *device, enum facet_vfio_interrupt kind,
                                           struct facet_error *error);

/* --- reset --- */

/* Resets the function. FACET_UNSUPPORTED: it cannot be reset alone. */
enum facet_status facet_vfio_device_reset(struct facet_vfio_device *device, struct facet_error *error);

/* Resets all functions below the function's bridge. FACET_BAD_STATE: one of them is in a group that is not open in this
 * space. FACET_UNSUPPORTED: no bridge can reset them. */
enum facet_status facet_vfio_device_reset_bus(struct facet_vfio_device *device, struct facet_error *error);

#endif
