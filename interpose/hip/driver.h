/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HIP runtime behind us: opened at the first call of any function.
 *
 * Owns: its handle, and what hooks call of it (hooks.h).
 * Never: is asked for a name twice; is opened before the process has attached.
 *
 * The first call may come from a constructor of the program: hipcc's output registers its code there.
 *
 * Where there is no runtime every function answers hipErrorNoDevice, as a runtime does in whose machine is no GPU. A
 * function that the runtime lacks answers hipErrorNotSupported. Where a vGPU cannot be used all that reaches a device
 * answers hipErrorNotInitialized: this runtime has no first call that could be refused once for all.
 */
#ifndef FACET_HIP_DRIVER_H
#define FACET_HIP_DRIVER_H

#include <stdbool.h>

/* Opens the runtime and fills facet_hip_driver and facet_hip_plain, once. False when there is none. Any thread. */
bool facet_hip_driver_open(void);

/* From within process.c: no child inherits a runtime half opened. */
void facet_hip_driver_before_fork(void);
void facet_hip_driver_after_fork(void);

#endif
