/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping a vGPU's memory on the device while a launch runs, where memory swaps.
 *
 * Owns: a vGPU's pins. Never: keeps a pin beyond its launch, or beyond the vGPU.
 */
#ifndef FACET_VGPU_PIN_H
#define FACET_VGPU_PIN_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>

struct facet_pin;
struct facet_vgpu;

/* The longest that a launch waits for its vGPU's memory to be on the device. */
#define FACET_VGPU_PIN_NS UINT64_C(30000000000) /* 30 s */

/* Brings in and pins all memory of the vGPU if its memory swaps; else *ret_pin is NULL. */
enum facet_status facet_vgpu_pin_all(struct facet_vgpu *vgpu, struct facet_pin **ret_pin, struct facet_error *error);
/* The pin is released when the launch is over; or at once, when `execution` is 0. */
void facet_vgpu_pin_follow(struct facet_vgpu *vgpu, struct facet_pin *pin, uint64_t execution);
/* Releases the pins whose launches are over, or with `all`, for the vGPU's end, every launch's pin. */
void facet_vgpu_pins_release(struct facet_vgpu *vgpu, bool all);
/* Releases the program's pins at the vGPU's end. */
void facet_vgpu_program_pins_release(struct facet_vgpu *vgpu);

#endif
