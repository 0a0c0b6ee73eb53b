/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the addresses of the OpenCL devices that a test sees, as the layer recognises them.
 * Never: ships.
 */
#ifndef FACET_TEST_OPENCL_ADDRESS_H
#define FACET_TEST_OPENCL_ADDRESS_H

#include <stdbool.h>

/* The address of the `index`-th device that this process sees; false when there are fewer. */
bool test_device_address(unsigned index, char address[256]);

/* As test_device_address(), but in a child, so that this process does not use OpenCL yet and can still be given a
 * layer. */
bool test_device_address_apart(unsigned index, char address[256]);

#endif
