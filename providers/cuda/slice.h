/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a device's multiprocessors, as green contexts or by MPS.
 *
 * Owns: the groups into which the driver splits a device, and the slice functions of the driver's table.
 * Never: limits another program.
 *
 * If the driver has green contexts (12.5), a slice is a green context. It needs no service and no memory, and works in
 * the address space of the device's primary context. The device is split once, into the smallest groups that the driver
 * makes. A slice is a set of groups, and groups can be returned and reused in any order. If instead each slice were
 * split off what the previous split left, returned slices could not be joined again.
 * Otherwise, if this process is a client of MPS (driver 11.4, Volta), a worker's slice is a context of its own with
 * execution affinity, within the share of this process. Then contexts cannot have bounds.
 */
#ifndef FACET_CUDA_SLICE_H
#define FACET_CUDA_SLICE_H

#include <facet/provider.h>

#include "driver.h"
#include "gpu/machine.h"

#define CUDA_MOST_GROUPS 64u

struct cuda_groups {
    uint32_t count; /* 0: the driver cannot split the device */
    CUdevResource all[CUDA_MOST_GROUPS];
    uint64_t promised;       /* bits of groups reserved for workers; under the machine's context_lock */
    uint32_t promised_units; /* units reserved for workers, with MPS */
};

/* Splits a device; returns the capabilities that this gives (FACET_CAN_*). */
uint64_t cuda_groups_find(const struct cuda_driver *driver, CUdevice ordinal, struct cuda_groups *ret_groups);

enum facet_status cuda_slice_take(struct gpu_machine *machine, uint32_t device, uint32_t units,
                                  gpu_slice_handle *ret_slice, uint32_t *ret_units, struct facet_error *error);
enum facet_status cuda_slice_bound(struct gpu_machine *machine, uint32_t device, gpu_slice_handle within,
                                   uint32_t units, gpu_slice_handle *ret_slice, struct facet_error *error);
void cuda_slice_drop(struct gpu_machine *machine, uint32_t device, gpu_slice_handle slice);
enum facet_status cuda_slice_enter(struct gpu_machine *machine, uint32_t device, gpu_slice_handle slice,
                                   struct facet_error *error);
enum facet_status cuda_slice_stream(struct gpu_machine *machine, gpu_slice_handle slice, gpu_stream_handle *ret_stream,
                                    struct facet_error *error);

#endif
