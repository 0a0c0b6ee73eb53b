/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the buddy allocator (buddy.h), as in Knowlton, "A fast storage allocator", 1965.
 * Never: searches a list.
 */
#include "buddy.h"

#include <sys/mman.h>

#include "common.h"

#define NO_UNIT UINT32_MAX
#define FREE    0x80u

/* Maps the records, so that those of untouched memory take no memory. */
static void *map_records(uint64_t count, uint64_t bytes)
{
    void *got = mmap(NULL, count * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (got == MAP_FAILED)
        die("buddy", "no memory for its records");
    return got;
}

static void insert_block(struct buddy *buddy, uint32_t unit, uint32_t order)
{
    uint32_t next = buddy->first[order];

    buddy->next[unit] = next;
    buddy->prev[unit] = NO_UNIT;
    if (next != NO_UNIT)
        buddy->prev[next] = unit;
    buddy->first[order] = unit;
    buddy->state[unit] = (uint8_t)(FREE | order);
}

static void withdraw_block(struct buddy *buddy, uint32_t unit, uint32_t order)
{
    uint32_t next = buddy->next[unit], prev = buddy->prev[unit];

    if (next != NO_UNIT)
        buddy->prev[next] = prev;
    if (prev != NO_UNIT)
        buddy->next[prev] = next;
    else
        buddy->first[order] = next;
}

struct buddy *buddy_create(uint64_t bytes, uint64_t least_bytes)
{
    struct buddy *buddy = get_memory(1, sizeof *buddy);
    uint64_t units = bytes / least_bytes, most = UINT64_C(1) << (64 - __builtin_clzll(units - 1));

    buddy->least_bytes = least_bytes;
    buddy->units = most;
    buddy->orders = (uint32_t)__builtin_ctzll(most) + 1;
    buddy->next = map_records(most, sizeof(uint32_t));
    buddy->prev = map_records(most, sizeof(uint32_t));
    buddy->state = map_records(most, 1);
    for (uint32_t order = 0; order < BUDDY_ORDERS; order++)
        buddy->first[order] = NO_UNIT;
    /* A range that is no power of two begins as several blocks, the largest first. */
    for (uint64_t unit = 0; unit < units; unit += UINT64_C(1) << (63 - __builtin_clzll(units - unit)))
        insert_block(buddy, (uint32_t)unit, 63 - (uint32_t)__builtin_clzll(units - unit));
    return buddy;
}

void buddy_destroy(struct buddy *buddy)
{
    munmap(buddy->next, buddy->units * sizeof(uint32_t));
    munmap(buddy->prev, buddy->units * sizeof(uint32_t));
    munmap(buddy->state, buddy->units);
    free(buddy);
}

uint64_t buddy_take(struct buddy *buddy, uint64_t bytes)
{
    uint64_t units = (bytes + buddy->least_bytes - 1) / buddy->least_bytes;
    uint32_t wanted = units > 1 ? 64 - (uint32_t)__builtin_clzll(units - 1) : 0, order = wanted;

    while (order < buddy->orders && buddy->first[order] == NO_UNIT)
        order++;
    if (order >= buddy->orders)
        return BUDDY_NONE;
    uint32_t unit = buddy->first[order];
    withdraw_block(buddy, unit, order);
    while (order > wanted) {
        order--;
        insert_block(buddy, unit + (UINT32_C(1) << order), order);
    }
    buddy->state[unit] = (uint8_t)order;
    return unit * buddy->least_bytes;
}

uint32_t buddy_order(const struct buddy *buddy, uint64_t at)
{
    return buddy->state[at / buddy->least_bytes];
}

uint64_t buddy_give(struct buddy *buddy, uint64_t at)
{
    uint32_t unit = (uint32_t)(at / buddy->least_bytes), order = buddy->state[unit];
    uint64_t bytes = buddy->least_bytes << order;

    for (; order + 1 < buddy->orders; order++) {
        uint32_t other = unit ^ (UINT32_C(1) << order);

        if (buddy->state[other] != (FREE | order))
            break;
        withdraw_block(buddy, other, order);
        buddy->state[other] = 0;
        unit = other < unit ? other : unit;
    }
    insert_block(buddy, unit, order);
    return bytes;
}
