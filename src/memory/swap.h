/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: host memory for pages that are not on the device: swap slots of one page, and the number of pages reserved on
 * device and slots together. Never: copies a page, or stores to which space a page belongs.
 *
 * Pages are reserved before they are allocated, so that every allocated page has a place. Thread rule: any thread may
 * call any function except create and destroy, because each function that changes the swap takes the swap's own lock.
 */
#ifndef FACET_MEMORY_SWAP_H
#define FACET_MEMORY_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>

#define FACET_SWAP_SLOT_NONE UINT32_MAX

struct facet_swap;

/* `device_pages`: the number of pages on the device, which can be reserved too. */
enum facet_status facet_swap_create(uint64_t bytes, uint64_t page_bytes, uint64_t device_pages,
                                    struct facet_swap **ret_swap, struct facet_error *error);
void facet_swap_destroy(struct facet_swap *swap);

/* FACET_NO_SPACE: all pages of device and swap are reserved already. */
enum facet_status facet_swap_reserve(struct facet_swap *swap, uint64_t pages, struct facet_error *error);
void facet_swap_release(struct facet_swap *swap, uint64_t pages);

/* Takes a swap slot; FACET_SWAP_SLOT_NONE: all are in use. */
uint32_t facet_swap_take(struct facet_swap *swap);
void facet_swap_give(struct facet_swap *swap, uint32_t swap_slot);
void *facet_swap_memory(const struct facet_swap *swap, uint32_t swap_slot);

uint64_t facet_swap_bytes(const struct facet_swap *swap);
uint64_t facet_swap_used_bytes(struct facet_swap *swap);

#endif
