/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects: the device memory of their code and variables.
 *
 * Owns: the list of loaded images, the charge of each, and the charge of code that belongs to no known module.
 * Never: loads anything earlier than the program or the runtime would have.
 *
 * The size of a module is known only after loading, so it is measured (measure.h) around the runtime's call. If the
 * quota has too little left, the module is unloaded again and refused: until then the vGPU exceeds its quota. A library
 * is loaded when something of it is first asked for. Code that hipcc's output registers is loaded when one of its
 * kernels is first launched, or asked for, on a device. It is measured then, once for each kernel; if the quota has too
 * little left, the next charge includes it. Unloading the code or resetting the device releases the charge.
 */
#ifndef FACET_HIP_CODE_H
#define FACET_HIP_CODE_H

#include "charge.h"

/*
 * Called before and after a launch of a host's symbol that may load its code. `_begin` is false if the symbol was
 * launched on that device before: then `_end` is not called. The devices are locked between the two calls
 * (initialize.h). `_end` returns `result`.
 */
bool facet_hip_code_launch_begin(const void *host, hipStream_t stream);
hipError_t facet_hip_code_launch_end(hipError_t result);

/*
 * With the devices locked, for code of no known module: `_charge_later` adds loaded code to the next charge;
 * `_unloaded` releases unloaded code.
 */
void facet_hip_code_charge_later(uint32_t device, uint64_t bytes);
void facet_hip_code_unloaded(uint32_t device, uint64_t bytes);

/* With the devices locked: releases the images of a device that was reset. */
void facet_hip_code_device_ended(uint32_t device);

void facet_hip_code_forked(void);
void facet_hip_registered_forked(void);

#endif
