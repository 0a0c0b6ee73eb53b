/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: what other calls on a vGPU need of it.
 *
 * Owns: the functions around a call that lets the device use memory, and the checks of addresses against managed
 * memory. Never: declares how pages move (managed/managed.h).
 */
#ifndef FACET_VGPU_MANAGED_ENTER_H
#define FACET_VGPU_MANAGED_ENTER_H

#include <stdint.h>

#include <facet/error.h>

struct facet_driver;
struct facet_managed;
struct facet_vgpu;

/*
 * Begins a call that lets the device read or change memory: managed pages at the host go back to the device first, and
 * come back only after facet_managed_leave(), which takes *ret_entered (it may be NULL). Until that call the caller
 * must not follow a pointer to managed memory.
 */
enum facet_status facet_managed_enter(struct facet_vgpu *vgpu, struct facet_managed **ret_entered,
                                      struct facet_error *error);
void facet_managed_leave(struct facet_managed *entered);
/* Frees an address of the vGPU's space, managed or not. */
enum facet_status facet_managed_free(struct facet_vgpu *vgpu, uint64_t address, struct facet_error *error);
/* Refuses an address in managed memory. */
enum facet_status facet_managed_check_resize(const struct facet_vgpu *vgpu, uint64_t address,
                                             struct facet_error *error);
/* Refuses the host's side of a copy when it is managed memory of any vGPU of the driver. */
enum facet_status facet_managed_check_host(struct facet_driver *driver, const char *argument, uint64_t address,
                                           uint64_t bytes, struct facet_error *error);
/* After the vGPU was resumed: wakes the threads whose page faults stayed unanswered. */
void facet_managed_resumed(struct facet_vgpu *vgpu);
/* Called when no call uses the vGPU any more, and none of its work is queued. */
void facet_managed_end(struct facet_vgpu *vgpu);

#endif
