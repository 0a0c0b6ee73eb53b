/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver API's memory: plain, pitched, arrays, managed, pools, virtual, shared.
 *
 * Owns: declarations, as vendor/cuda/driver.h says.
 */
#ifndef VENDOR_CUDA_MEMORY_H
#define VENDOR_CUDA_MEMORY_H

#include "vendor/cuda/driver.h"

#endif
