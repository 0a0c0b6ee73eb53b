/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the addresses of the OpenCL devices that a test sees, as the layer recognises them.
 * Never: is installed.
 */
#ifndef FACET_TEST_OPENCL_ADDRESS_H
#define FACET_TEST_OPENCL_ADDRESS_H

#include <stdbool.h>

/* Writes the address of the `index`-th device that this process sees, from 0. Returns false if there are fewer. */
bool test_device_address(unsigned index, char address[256]);

/* Calls test_device_address() in a child: this process does not use OpenCL yet and can still be given a layer. */
bool test_device_address_apart(unsigned index, char address[256]);

#endif
