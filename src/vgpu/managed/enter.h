/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory, as the calls on a vGPU see it.
 *
 * Owns: the bracket around what lets the device see memory. Never: shows how pages move (managed/managed.h).
 */
#ifndef FACET_VGPU_MANAGED_ENTER_H
#define FACET_VGPU_MANAGED_ENTER_H

#include <stdint.h>

#include <facet/error.h>

struct facet_driver;
struct facet_managed;
struct facet_vgpu;

/*
 * Brackets every call that lets the device see or change memory: managed pages at the host go back first, and come
 * again only after the end. *ret_entered is for leave, and NULL when there is nothing to leave. No pointer that the
 * caller follows in between may be to managed memory.
 */
enum facet_status facet_managed_enter(struct facet_vgpu *vgpu, struct facet_managed **ret_entered,
                                      struct facet_error *error);
void facet_managed_leave(struct facet_managed *entered);
/* Frees an address of the vGPU's space, managed or not. */
enum facet_status facet_managed_free(struct facet_vgpu *vgpu, uint64_t address, struct facet_error *error);
enum facet_status facet_managed_check_resize(const struct facet_vgpu *vgpu, uint64_t address,
                                             struct facet_error *error);
/* The host's side of a copy: refused when it is managed memory of any vGPU of the driver. */
enum facet_status facet_managed_check_host(struct facet_driver *driver, const char *argument, uint64_t address,
                                           uint64_t bytes, struct facet_error *error);
void facet_managed_resumed(struct facet_vgpu *vgpu);
/* When no call uses the vGPU any more, and nothing of it is queued. */
void facet_managed_end(struct facet_vgpu *vgpu);

#endif
