/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device an example runs on, where one that can hold virtual GPUs is not enough.
 *
 * Owns: looking through the devices of this machine. Never: opens one.
 */
#ifndef EXAMPLES_CHOOSE_H
#define EXAMPLES_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The id of the first device that has operations of mathematics (facet/provider/math.h) as well: a GPU may lack its
 * vendor's library of them. False when none has; the driver's own choice then says what is missing.
 */
bool choose_device_with_math(char *ret_id, size_t size);

#endif
