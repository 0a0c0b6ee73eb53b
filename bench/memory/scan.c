/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of blocks (scan.h).
 * Never: leaves two adjacent free pieces unmerged.
 */
#include "scan.h"

#include <string.h>

#include "common.h"

struct scan *scan_create(uint64_t bytes)
{
    struct scan *scan = get_memory(1, sizeof *scan);

    scan->capacity = 1024;
    scan->blocks = get_memory(scan->capacity, sizeof *scan->blocks);
    scan->blocks[0] = (struct scan_block){.bytes = bytes};
    scan->count = 1;
    return scan;
}

void scan_destroy(struct scan *scan)
{
    free(scan->blocks);
    free(scan);
}

static void insert_block(struct scan *scan, uint32_t index, struct scan_block block)
{
    if (scan->count == scan->capacity) {
        scan->capacity *= 2;
        scan->blocks = realloc(scan->blocks, scan->capacity * sizeof block);
        if (!scan->blocks)
            die("scan", "no memory");
    }
    memmove(scan->blocks + index + 1, scan->blocks + index, (scan->count - index) * sizeof block);
    scan->blocks[index] = block;
    scan->count++;
}

static void withdraw_block(struct scan *scan, uint32_t index)
{
    scan->count--;
    memmove(scan->blocks + index, scan->blocks + index + 1, (scan->count - index) * sizeof *scan->blocks);
}

static uint32_t find_block(const struct scan *scan, uint64_t bytes, bool best)
{
    uint32_t found = UINT32_MAX;

    for (uint32_t i = 0; i < scan->count; i++) {
        const struct scan_block *block = &scan->blocks[i];

        if (block->is_used || block->bytes < bytes)
            continue;
        if (!best)
            return i;
        if (found == UINT32_MAX || block->bytes < scan->blocks[found].bytes)
            found = i;
    }
    return found;
}

uint64_t scan_take(struct scan *scan, uint64_t bytes, bool best)
{
    uint32_t index = find_block(scan, bytes, best);

    if (index == UINT32_MAX)
        return SCAN_NONE;
    struct scan_block *block = &scan->blocks[index];
    const struct scan_block rest = {.at = block->at + bytes, .bytes = block->bytes - bytes};
    uint64_t at = block->at;
    *block = (struct scan_block){.at = at, .bytes = bytes, .is_used = true};
    if (rest.bytes)
        insert_block(scan, index + 1, rest);
    return at;
}

void scan_give(struct scan *scan, uint64_t at)
{
    uint32_t i = 0;

    while (i < scan->count && scan->blocks[i].at != at)
        i++;
    if (i == scan->count)
        die("scan", "the address is of no taken block");
    scan->blocks[i].is_used = false;
    if (i + 1 < scan->count && !scan->blocks[i + 1].is_used) {
        scan->blocks[i].bytes += scan->blocks[i + 1].bytes;
        withdraw_block(scan, i + 1);
    }
    if (i > 0 && !scan->blocks[i - 1].is_used) {
        scan->blocks[i - 1].bytes += scan->blocks[i].bytes;
        withdraw_block(scan, i);
    }
}

uint64_t scan_end(const struct scan *scan)
{
    const struct scan_block *last = &scan->blocks[scan->count - 1];

    return last->is_used ? last->at + last->bytes : last->at;
}
