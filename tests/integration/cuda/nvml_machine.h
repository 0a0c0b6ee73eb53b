/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine of the fake libraries for one test program. Its state is in a file that is removed with it. Processes on
 * the machine are neighbours, which are in no vGPU, and tenants.
 *
 * Owns: the file, the variables that name it, the children.
 * Never: is installed.
 */
#ifndef FACET_TEST_NVML_MACHINE_H
#define FACET_TEST_NVML_MACHINE_H

#include <stdint.h>
#include <sys/types.h>

#include "tests/fake/cuda/state.h"

#define TEST_UUID_SIZE 48

/* Makes a machine of `devices` devices, each with `memory` ("8G"), and sets FAKE_CUDA_*, or aborts. Call it before any
 * function of the fake libraries. */
void test_machine_make(unsigned devices, const char *memory);
void test_machine_remove(void);

/* "GPU-..." of a device. */
void test_machine_uuid(uint32_t device, char text[TEST_UUID_SIZE]);

/* Starts a child that holds `bytes` of a device until it is dismissed: killed and waited for. Returns its pid. */
pid_t test_machine_neighbour(uint32_t device, uint64_t bytes);
void test_machine_dismiss(pid_t child);

/* Forks a child that runs `body`. Returns its pid once `body` has written a byte to `ready`; aborts if `body` returns
 * before that. */
pid_t test_machine_child(void (*body)(void *context, int ready), void *context);

#endif
