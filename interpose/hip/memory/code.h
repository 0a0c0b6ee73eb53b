/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects: what their code and variables take of a device.
 *
 * Owns: the list of what is loaded, what each of it was charged, and what no module is known for.
 * Never: loads anything earlier than the program, or the runtime, would have.
 *
 * How much a module takes is known when it has been loaded: it is measured (measure.h) around the runtime's call. What
 * the quota does not reach for is unloaded again, and refused: for that moment the vGPU holds more than it may. A
 * library is loaded when something is first asked of it. What hipcc's output registers is loaded when a kernel of it is
 * first launched, or asked for, on a device: measured then, once for each kernel; what the quota does not reach for is
 * asked for again with the next that is loaded. Unloading gives back what was charged, as does the device's reset.
 */
#ifndef FACET_HIP_CODE_H
#define FACET_HIP_CODE_H

#include "charge.h"

/*
 * Around a launch of what a host's symbol stands for, when it may be what loads it. False: it was launched there
 * before; then there is no end. Between the two the devices are held (begin.h). The end returns `result`.
 */
bool facet_hip_code_launch_begin(const void *host, hipStream_t stream);
hipError_t facet_hip_code_launch_end(hipError_t result);

/* With the devices held: something that no module is known for was taken and not charged; or is there no more. */
void facet_hip_code_owes(uint32_t device, uint64_t bytes);
void facet_hip_code_unloaded(uint32_t device, uint64_t bytes);

/* With the devices held: what was loaded on a device went with it. */
void facet_hip_code_device_ended(uint32_t device);

void facet_hip_code_forked(void);
void facet_hip_registered_forked(void);

#endif
