/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vGPUs that a program wants to see, and their order: CUDA_VISIBLE_DEVICES, by the driver's rules.
 *
 * Owns: reading the list and writing one that the driver understands.
 * Never: makes more visible than the vGPUs; reads the environment or calls the driver.
 */
#ifndef FACET_CUDA_VISIBLE_H
#define FACET_CUDA_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The vGPUs that `list` names, as indices into `addresses` ("GPU-..." or "MIG-..."). An item is an index, or the
 * beginning of exactly one address. The first item that matches no vGPU ends the list. If a vGPU is named twice, none
 * is visible. NULL names all. Returns how many vGPUs are chosen; `chosen` has room for `count`.
 */
uint32_t facet_cuda_visible_choose(const char *list, const char *const *addresses, uint32_t count, uint32_t *chosen);

/* Writes the list for the driver; without an address "-1", which shows no device. False when it does not fit. */
bool facet_cuda_visible_write(const char *const *addresses, uint32_t count, char *list, size_t size);

#endif
