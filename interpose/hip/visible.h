/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vGPUs that a program wants to see, and their order: the runtime's variables, by the runtime's rules.
 *
 * Owns: reading the lists and writing those that the runtime understands. Pure: no environment, no runtime.
 * Never: makes more visible than the vGPUs.
 */
#ifndef FACET_HIP_VISIBLE_H
#define FACET_HIP_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Narrows `chosen`, indices into `addresses` ("amd-..."), to the devices that `list` names, in its order. An item is an
 * index into the current `chosen`, or the beginning of a device's uuid ("GPU-..."). The first item that matches none
 * ends the list; a device named twice leaves none. NULL leaves all. Returns how many.
 */
uint32_t facet_hip_visible_choose(const char *list, const char *const *addresses, uint32_t *chosen, uint32_t count);

/*
 * The list of the devices' uuids, and a list of as many indices; "-1", which shows nothing, for none. False when it
 * does not fit.
 */
bool facet_hip_visible_uuids(const char *const *addresses, const uint32_t *chosen, uint32_t count, char *list,
                             size_t size);
bool facet_hip_visible_indices(uint32_t count, char *list, size_t size);

#endif
