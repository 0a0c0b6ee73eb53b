/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries: what their code and variables take of a device.
 *
 * Owns: the list of what is loaded, and what each of it was charged on each device.
 * Never: loads anything earlier than the program, or the driver, would have.
 *
 * How much a module takes is known when it has been loaded: it is measured (measure.h) around the driver's call. What
 * the quota does not reach for is unloaded again, and refused: for that moment the vGPU holds more than it may. A
 * driver that loads lazily loads a function when it is asked for, or launched, for the first time: measured then, too,
 * once for each, and added to its module; of what belongs to no module that we know, to the current context. Unloading
 * gives back all that was added. A library is in every context; what it took of a device is given back when it is
 * unloaded, or the device's last context ends.
 *
 * Linking (cuLink*) makes an image in the host's memory: it takes of a device what its module will.
 */
#ifndef FACET_CUDA_CODE_H
#define FACET_CUDA_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "vendor/cuda/execution.h"

/*
 * Around a launch of `function`, when it may be what loads it. False: it was launched before, or the driver does not
 * load so; then there is no end. Between the two the contexts are held (context.h). A kernel of a library that was
 * launched in one context is not looked at again in another. The end returns `result`, the driver's.
 */
bool facet_cuda_code_launch_begin(CUfunction function);
CUresult facet_cuda_code_launch_end(CUfunction function, CUresult result);

/* Held: what a context had loaded went with it; it was the last one of the device. */
void facet_cuda_code_context_ended(CUcontext context, uint32_t device, bool last);

void facet_cuda_code_forked(void);

#endif
