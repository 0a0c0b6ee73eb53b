/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vGPUs that a program wants to see, and their order: the runtime's variables, by the runtime's rules.
 *
 * Owns: reading the lists and writing lists that the runtime understands.
 * Never: makes more visible than the vGPUs; reads the environment or calls the runtime.
 */
#ifndef FACET_HIP_VISIBLE_H
#define FACET_HIP_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Narrows `chosen`, indices into `addresses` ("amd-..."), to the devices that `list` names, in its order. An item is an
 * index into the current `chosen`, or the beginning of a device's uuid ("GPU-..."). The first item that matches no
 * device ends the list. If a device is named twice, none is left. NULL leaves all. Returns how many are left.
 */
uint32_t facet_hip_visible_choose(const char *list, const char *const *addresses, uint32_t *chosen, uint32_t count);

/*
 * `_uuids` writes the list of the devices' uuids, `_indices` the list of the indices from 0 to `count` - 1. Without a
 * device, both write "-1", which shows no device. False when the list does not fit.
 */
bool facet_hip_visible_uuids(const char *const *addresses, const uint32_t *chosen, uint32_t count, char *list,
                             size_t size);
bool facet_hip_visible_indices(uint32_t count, char *list, size_t size);

#endif
