/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries: the device memory of their code and variables.
 *
 * Owns: the list of loaded images, and the charge of each on each device.
 * Never: loads anything earlier than the program or the driver would have.
 *
 * The size of a module is known only after loading, so it is measured (measure.h) around the driver's call. If the
 * quota has too little left, the module is unloaded again and refused: until then the vGPU exceeds its quota. A driver
 * that loads lazily loads a function when the program first asks for it or launches it. That is measured too, once for
 * each function, and added to its module, or to the current context if no known module has it. Unloading a module
 * releases its whole charge. A library is in every context; its charge on a device is released when it is unloaded, or
 * when the device's last context ends.
 *
 * Linking (cuLink*) makes an image in host memory; device memory is used only when that image is loaded.
 */
#ifndef FACET_CUDA_CODE_H
#define FACET_CUDA_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "vendor/cuda/execution.h"

/*
 * Called before and after a launch that may load `function`. `_begin` is false if the function was launched before, or
 * if the driver does not load lazily: then `_end` is not called. Between the two calls the contexts are locked
 * (context.h). A kernel of a library that was launched in one context is not measured again in another. `_end` returns
 * `result`, the driver's result of the launch.
 */
bool facet_cuda_code_launch_begin(CUfunction function);
CUresult facet_cuda_code_launch_end(CUfunction function, CUresult result);

/*
 * With the contexts locked: releases the images of a context that has ended. `last`: it was the device's last
 * context.
 */
void facet_cuda_code_context_ended(CUcontext context, uint32_t device, bool last);

void facet_cuda_code_forked(void);

#endif
