/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of its vGPUs a program wants to see, and in which order: the runtime's variables, by the runtime's rules.
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
 * Narrows `chosen`, indices into `addresses` ("amd-..."), to those that `list` names, in its order: an item is an index
 * into what was chosen so far, or a device's uuid ("GPU-...") as far as it is given. The first that names nothing ends
 * the list; one that is named twice leaves none. NULL leaves all. Returns how many.
 */
uint32_t facet_hip_visible_choose(const char *list, const char *const *addresses, uint32_t *chosen, uint32_t count);

/* The devices by their uuids, and as many indices; "-1", which shows nothing, for none. False when it does not fit. */
bool facet_hip_visible_uuids(const char *const *addresses, const uint32_t *chosen, uint32_t count, char *list,
                             size_t size);
bool facet_hip_visible_indices(uint32_t count, char *list, size_t size);

#endif
