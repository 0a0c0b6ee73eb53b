/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real HIP runtime: opened at the first call of any function.
 *
 * Owns: its handle, and the tables of its functions that hooks call (hooks.h).
 * Never: looks a name up twice; is opened before the process has attached.
 *
 * The first call may come from a constructor of the program: hipcc's output registers its code there.
 *
 * Without a runtime every function answers hipErrorNoDevice, as a runtime does on a machine without a GPU. A function
 * that the runtime lacks answers hipErrorNotSupported. When a vGPU cannot be used, every function that reaches a device
 * answers hipErrorNotInitialized: HIP has no initialising call that could be refused instead.
 */
#ifndef FACET_HIP_DRIVER_H
#define FACET_HIP_DRIVER_H

#include <stdbool.h>

/* Opens the runtime and fills facet_hip_driver and facet_hip_unhooked, once. False when there is none. Any thread. */
bool facet_hip_driver_open(void);

/* Called from process.c, so that no child inherits a half-opened runtime. */
void facet_hip_driver_before_fork(void);
void facet_hip_driver_after_fork(void);

#endif
