/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: small allocations: slabs of 2 MiB, each cut into pieces of one size. Never: moves or merges pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define CLASSES 12u /* 512 bytes to 1 MiB */
#define PIECES  ((uint32_t)(FAKE_PAGE / FAKE_SMALL_STEP))

struct slab {
    struct slab *next, *previous; /* in the list of slabs of this size and context that have room */
    struct fake_block *block;
    uint32_t size_class, count, used, cursor;
    uint64_t allocated_bytes;     /* of all pieces, each rounded up to whole steps */
    uint32_t piece_bytes[PIECES]; /* as the program asked for them; 0: free */
};

/* A context's slabs, in CUctx_st.memory. */
struct slabs {
    struct slab *with_room[CLASSES];
};

static uint32_t class_of(uint64_t bytes)
{
    uint32_t size_class = 0;

    while (FAKE_SMALL_STEP << size_class < bytes)
        size_class++;
    return size_class;
}

static struct slab **list_for_slab(const struct slab *slab)
{
    struct slabs *slabs = atomic_load(&slab->block->context->memory);

    return &slabs->with_room[slab->size_class];
}

static void link_slab(struct slab *slab)
{
    struct slab **list = list_for_slab(slab);

    slab->previous = NULL;
    slab->next = *list;
    if (*list)
        (*list)->previous = slab;
    *list = slab;
}

static void unlink_slab(struct slab *slab)
{
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        *list_for_slab(slab) = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
}

static struct fake_process_device *process_device(const struct slab *slab)
{
    return &fake_process()->devices[slab->block->physical];
}

/* The bytes of the slab to be charged: the pieces in use, or the whole slab as soon as one piece is in use. */
static uint64_t charged_bytes(const struct slab *slab)
{
    return FAKE_SLAB_CHARGED_WHOLE && slab->allocated_bytes ? FAKE_PAGE : slab->allocated_bytes;
}

/* Counts `added` bytes as given out of the slab; a negative number takes some back. */
static void add_allocated_bytes(struct slab *slab, int64_t added)
{
    uint64_t before = charged_bytes(slab);

    slab->allocated_bytes += (uint64_t)added;
    atomic_fetch_add(&process_device(slab)->slab_charged, charged_bytes(slab) - before);
}

static struct slab *make_slab(CUcontext context, uint32_t size_class)
{
    struct slab *slab;
    struct fake_block *block = NULL;

    if (!fake_memory_reserve(context->physical, FAKE_PLAIN, FAKE_PAGE))
        return NULL;
    slab = calloc(1, sizeof *slab);
    block = slab ? fake_block_make(FAKE_BLOCK_SLAB, FAKE_PAGE) : NULL;
    if (!block) {
        fake_device_release(context->physical, FAKE_PLAIN, FAKE_PAGE);
        free(slab);
        return NULL;
    }
    block->physical = context->physical;
    block->kind = FAKE_PLAIN;
    block->device_bytes = FAKE_PAGE;
    block->context = context;
    block->type_data = slab;
    *slab = (struct slab){.block = block, .size_class = size_class, .count = PIECES >> size_class};
    atomic_fetch_add(&process_device(slab)->slabs, FAKE_PAGE);
    link_slab(slab);
    return slab;
}

static struct slab *slab_with_room(CUcontext context, uint32_t size_class)
{
    struct slabs *slabs = atomic_load(&context->memory);

    if (!slabs) {
        slabs = calloc(1, sizeof *slabs);
        atomic_store(&context->memory, slabs);
    }
    if (!slabs)
        return NULL;
    return slabs->with_room[size_class] ? slabs->with_room[size_class] : make_slab(context, size_class);
}

struct fake_block *fake_slab_allocate(CUcontext context, uint64_t bytes, uint64_t *ret_address)
{
    struct slab *slab = slab_with_room(context, class_of(bytes));

    if (!slab)
        return NULL;
    while (slab->piece_bytes[slab->cursor])
        slab->cursor = (slab->cursor + 1) % slab->count;
    slab->piece_bytes[slab->cursor] = (uint32_t)bytes;
    *ret_address = slab->block->address + slab->cursor * (FAKE_SMALL_STEP << slab->size_class);
    add_allocated_bytes(slab, (int64_t)fake_device_bytes(bytes));
    if (++slab->used == slab->count)
        unlink_slab(slab);
    return slab->block;
}

static uint32_t piece_at(const struct slab *slab, uint64_t address)
{
    return (uint32_t)((address - slab->block->address) / (FAKE_SMALL_STEP << slab->size_class));
}

bool fake_slab_range(const struct fake_block *block, uint64_t address, uint64_t *ret_base, uint64_t *ret_bytes)
{
    const struct slab *slab = block->type_data;
    uint32_t piece = piece_at(slab, address);

    *ret_base = block->address + piece * (FAKE_SMALL_STEP << slab->size_class);
    *ret_bytes = slab->piece_bytes[piece];
    return address - *ret_base < *ret_bytes;
}

void fake_slab_destroy(struct fake_block *block)
{
    struct slab *slab = block->type_data;

    if (slab->used < slab->count)
        unlink_slab(slab);
    atomic_fetch_sub(&process_device(slab)->slab_charged, charged_bytes(slab));
    atomic_fetch_sub(&process_device(slab)->slabs, FAKE_PAGE);
    fake_device_release(block->physical, FAKE_PLAIN, FAKE_PAGE);
    fake_block_free(block);
}

/* The last slab of its size that has room is kept while the context lives, for the next allocation. */
bool fake_slab_free(struct fake_block *block, uint64_t address)
{
    struct slab *slab = block->type_data;
    uint32_t piece = piece_at(slab, address);

    if (address != block->address + piece * (FAKE_SMALL_STEP << slab->size_class) || !slab->piece_bytes[piece])
        return false;
    add_allocated_bytes(slab, -(int64_t)fake_device_bytes(slab->piece_bytes[piece]));
    slab->piece_bytes[piece] = 0;
    if (slab->used-- == slab->count)
        link_slab(slab);
    if (!slab->used && (slab->next || slab->previous))
        fake_slab_destroy(block);
    return true;
}
