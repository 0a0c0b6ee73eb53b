/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the compute driver (KFD) about the fake machine, and about the processes that hold memory of it.
 *
 * Owns: the nodes' numbers and the folder of each process under FAKE_HIP_KFD, which stands for /. Without that variable
 * nothing is written.
 * Never: removes the folder of a process that has ended: a test removes all of FAKE_HIP_KFD.
 */
#ifndef FAKE_HIP_KERNEL_FILES_H
#define FAKE_HIP_KERNEL_FILES_H

#include "tests/fake/cuda/state.h"

void fake_kernel_files_describe(const struct fake_device *device, uint32_t index);
void fake_kernel_files_changed(uint32_t device, uint64_t bytes);

#endif
