/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: allocations smaller than a block: slabs of 2 MiB, each cut into pieces of one size. Never: moves or merges any.
 */
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define CLASSES 12u /* 512 bytes to 1 MiB */
#define PIECES  ((uint32_t)(FAKE_PAGE / FAKE_SMALL_STEP))

struct slab {
    struct slab *next, *previous; /* of those of its size in its context that have room */
    struct fake_block *block;
    uint32_t size_class, count, used, cursor;
    uint64_t asked;         /* in all, in steps */
    uint32_t bytes[PIECES]; /* asked; 0: free */
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

static struct slab **list_of(const struct slab *slab)
{
    struct slabs *slabs = atomic_load(&slab->block->context->memory);

    return &slabs->with_room[slab->size_class];
}

static void link_in(struct slab *slab)
{
    struct slab **list = list_of(slab);

    slab->previous = NULL;
    slab->next = *list;
    if (*list)
        (*list)->previous = slab;
    *list = slab;
}

static void take_out(struct slab *slab)
{
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        *list_of(slab) = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
}

static struct fake_process_device *process_device(const struct slab *slab)
{
    return &fake_process()->devices[slab->block->physical];
}

/* The part of it to be charged: the pieces in use, or all of it as soon as one is. */
static uint64_t charged_bytes(const struct slab *slab)
{
    return FAKE_WHOLE && slab->asked ? FAKE_PAGE : slab->asked;
}

/* Adds `more` bytes, or less than 0, to those given out of the slab. */
static void count_bytes(struct slab *slab, int64_t more)
{
    uint64_t before = charged_bytes(slab);

    slab->asked += (uint64_t)more;
    atomic_fetch_add(&process_device(slab)->small, charged_bytes(slab) - before);
}

static struct slab *make_slab(CUcontext context, uint32_t size_class)
{
    struct slab *slab;
    struct fake_block *block = NULL;

    if (!fake_memory_take(context->physical, FAKE_PLAIN, FAKE_PAGE))
        return NULL;
    slab = calloc(1, sizeof *slab);
    block = slab ? fake_block_make(FAKE_BLOCK_SLAB, FAKE_PAGE) : NULL;
    if (!block) {
        fake_give(context->physical, FAKE_PLAIN, FAKE_PAGE);
        free(slab);
        return NULL;
    }
    block->physical = context->physical;
    block->kind = FAKE_PLAIN;
    block->taken = FAKE_PAGE;
    block->context = context;
    block->detail = slab;
    *slab = (struct slab){.block = block, .size_class = size_class, .count = PIECES >> size_class};
    atomic_fetch_add(&process_device(slab)->slabs, FAKE_PAGE);
    link_in(slab);
    return slab;
}

static struct slab *with_room(CUcontext context, uint32_t size_class)
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

struct fake_block *fake_slab_take(CUcontext context, uint64_t bytes, uint64_t *ret_address)
{
    struct slab *slab = with_room(context, class_of(bytes));

    if (!slab)
        return NULL;
    while (slab->bytes[slab->cursor])
        slab->cursor = (slab->cursor + 1) % slab->count;
    slab->bytes[slab->cursor] = (uint32_t)bytes;
    *ret_address = slab->block->address + slab->cursor * (FAKE_SMALL_STEP << slab->size_class);
    count_bytes(slab, (int64_t)fake_granted(bytes));
    if (++slab->used == slab->count)
        take_out(slab);
    return slab->block;
}

static uint32_t piece_at(const struct slab *slab, uint64_t address)
{
    return (uint32_t)((address - slab->block->address) / (FAKE_SMALL_STEP << slab->size_class));
}

bool fake_slab_range(const struct fake_block *block, uint64_t address, uint64_t *ret_base, uint64_t *ret_bytes)
{
    const struct slab *slab = block->detail;
    uint32_t piece = piece_at(slab, address);

    *ret_base = block->address + piece * (FAKE_SMALL_STEP << slab->size_class);
    *ret_bytes = slab->bytes[piece];
    return address - *ret_base < *ret_bytes;
}

void fake_slab_gone(struct fake_block *block)
{
    struct slab *slab = block->detail;

    if (slab->used < slab->count)
        take_out(slab);
    atomic_fetch_sub(&process_device(slab)->small, charged_bytes(slab));
    atomic_fetch_sub(&process_device(slab)->slabs, FAKE_PAGE);
    fake_give(block->physical, FAKE_PLAIN, FAKE_PAGE);
    fake_block_free(block);
}

/* The last slab of its size with room is kept while the context lives, as a program that allocates again wants it. */
bool fake_slab_give(struct fake_block *block, uint64_t address)
{
    struct slab *slab = block->detail;
    uint32_t piece = piece_at(slab, address);

    if (address != block->address + piece * (FAKE_SMALL_STEP << slab->size_class) || !slab->bytes[piece])
        return false;
    count_bytes(slab, -(int64_t)fake_granted(slab->bytes[piece]));
    slab->bytes[piece] = 0;
    if (slab->used-- == slab->count)
        link_in(slab);
    if (!slab->used && (slab->next || slab->previous))
        fake_slab_gone(block);
    return true;
}
