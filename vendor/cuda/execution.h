/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver API's execution: streams, events, modules, launches, graphs.
 *
 * Owns: declarations, as vendor/cuda/driver.h says.
 */
#ifndef VENDOR_CUDA_EXECUTION_H
#define VENDOR_CUDA_EXECUTION_H

#include "vendor/cuda/driver.h"

#endif
