/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: finding a memory's space, and rows of frames among a space's pages. Never: changes a space or a frame. */
#include "memory/space.h"

struct facet_space *facet_memory_lock_space(struct facet_memory *memory, uint32_t serial)
{
    struct facet_space *space;

    pthread_mutex_lock(&memory->lock);
    LIST_FOREACH (space, &memory->spaces, in_memory)
        if (space->serial == serial)
            break;
    if (space)
        pthread_mutex_lock(&space->lock);
    pthread_mutex_unlock(&memory->lock);
    return space;
}

uint32_t facet_space_row_of_frames(const struct facet_space *space, uint32_t first, uint32_t count)
{
    uint32_t chunk = space->memory->frames.chunk_frames, row = 1;
    uint32_t frame = facet_entry_frame(&space->table.entries[first]);

    while (row < count && (frame + row) % chunk && facet_entry_frame(&space->table.entries[first + row]) == frame + row)
        row++;
    return row;
}
