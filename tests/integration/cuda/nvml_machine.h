/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine of the fake libraries for one test program: made in a file that goes with it.
 *
 * Owns: the file, the variables that name it.
 * Never: ships.
 */
#ifndef FACET_TEST_NVML_MACHINE_H
#define FACET_TEST_NVML_MACHINE_H

#include <stdint.h>
#include <sys/types.h>

#include "tests/fake/cuda/state.h"

/* Sets FAKE_CUDA_*; before anything of the fake libraries is called. Aborts when it cannot. */
void test_machine_make(unsigned devices, const char *memory);
void test_machine_remove(void);

/* A child that holds `bytes` of a device until it is told to go; its pid. */
pid_t test_machine_neighbour(uint32_t device, uint64_t bytes);
void test_machine_dismiss(pid_t neighbour);

#endif
