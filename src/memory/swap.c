/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: swap slots (swap.h).
 * Never: gives memory back to the host before facet_swap_destroy(): a swap slot that was used once will be used again.
 */
#include "memory/swap.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

struct facet_swap {
    pthread_mutex_t lock;
    uint64_t page_bytes;
    uint64_t reserved, reserved_max;   /* in pages; one page is never reserved, so that pages can be exchanged */
    uint32_t slots, used, next_unused; /* next_unused: slots from this one on were never in use */
    char *memory;
    uint32_t *given_back; /* slots that are free again; there are `next_unused` - `used` of them */
};

static void *map_lazily(uint64_t bytes)
{
    void *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return got == MAP_FAILED ? NULL : got;
}

enum facet_status facet_swap_create(uint64_t bytes, uint64_t page_bytes, uint64_t device_pages,
                                    struct facet_swap **ret_swap, struct facet_error *error)
{
    uint64_t slots = bytes / page_bytes;

    if (slots == 0 || slots >= FACET_SWAP_SLOT_NONE)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "swap_bytes",
                                    "swap_bytes: %" PRIu64 "; expected at least one page of %" PRIu64
                                    " bytes, and at most 2^32 - 2 pages",
                                    bytes, page_bytes);
    struct facet_swap *swap = calloc(1, sizeof *swap);
    if (swap) {
        *swap = (struct facet_swap){
            .lock = PTHREAD_MUTEX_INITIALIZER,
            .page_bytes = page_bytes,
            .reserved_max = slots + device_pages - 1,
            .slots = (uint32_t)slots,
            .memory = map_lazily(slots * page_bytes),
            .given_back = map_lazily(slots * sizeof(uint32_t)),
        };
    }
    if (!swap || !swap->memory || !swap->given_back) {
        facet_swap_destroy(swap);
        return facet_error_set(error, FACET_NO_MEMORY, "no %" PRIu64 " bytes of host memory to swap to", bytes);
    }
    *ret_swap = swap;
    return FACET_OK;
}

void facet_swap_destroy(struct facet_swap *swap)
{
    if (!swap)
        return;
    if (swap->memory)
        munmap(swap->memory, swap->slots * swap->page_bytes);
    if (swap->given_back)
        munmap(swap->given_back, swap->slots * sizeof(uint32_t));
    pthread_mutex_destroy(&swap->lock);
    free(swap);
}

enum facet_status facet_swap_reserve(struct facet_swap *swap, uint64_t pages, struct facet_error *error)
{
    pthread_mutex_lock(&swap->lock);
    uint64_t left = swap->reserved_max - swap->reserved;
    bool fits = pages <= left;
    swap->reserved += fits ? pages : 0;
    pthread_mutex_unlock(&swap->lock);
    if (fits)
        return FACET_OK;
    return facet_error_set(error, FACET_NO_SPACE,
                           "device and swap together have %" PRIu64 " bytes left, and %" PRIu64 " were wanted",
                           left * swap->page_bytes, pages * swap->page_bytes);
}

void facet_swap_release(struct facet_swap *swap, uint64_t pages)
{
    pthread_mutex_lock(&swap->lock);
    swap->reserved -= pages;
    pthread_mutex_unlock(&swap->lock);
}

uint32_t facet_swap_take(struct facet_swap *swap)
{
    uint32_t swap_slot = FACET_SWAP_SLOT_NONE;

    pthread_mutex_lock(&swap->lock);
    if (swap->used < swap->next_unused)
        swap_slot = swap->given_back[swap->next_unused - swap->used - 1];
    else if (swap->next_unused < swap->slots)
        swap_slot = swap->next_unused++;
    swap->used += swap_slot != FACET_SWAP_SLOT_NONE;
    pthread_mutex_unlock(&swap->lock);
    return swap_slot;
}

void facet_swap_give(struct facet_swap *swap, uint32_t swap_slot)
{
    pthread_mutex_lock(&swap->lock);
    swap->given_back[swap->next_unused - swap->used] = swap_slot;
    swap->used--;
    pthread_mutex_unlock(&swap->lock);
}

void *facet_swap_memory(const struct facet_swap *swap, uint32_t swap_slot)
{
    return swap->memory + swap_slot * swap->page_bytes;
}

uint64_t facet_swap_bytes(const struct facet_swap *swap)
{
    return swap->slots * swap->page_bytes;
}

uint64_t facet_swap_used_bytes(struct facet_swap *swap)
{
    pthread_mutex_lock(&swap->lock);
    uint64_t used = swap->used * swap->page_bytes;
    pthread_mutex_unlock(&swap->lock);
    return used;
}
