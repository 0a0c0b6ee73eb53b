/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: allocating blocks: arenas, the slabs of each class in them, and the creation and release of slabs.
 * Never: takes a lock to free a block, except when the slab was full before or is empty now.
 *
 * An arena keeps one small empty slab of a class, so that a program that frees and allocates in turn does not map and
 * unmap pages each time. Empty slabs go when the space is short of memory, and when it is compacted.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/space.h"
#include "memory/unmap_queue.h"

static struct facet_pool_arena *arena_of_thread(struct facet_space *space)
{
    int cpu = sched_getcpu();

    return space->arenas[(cpu < 0 ? 0u : (uint32_t)cpu) % space->arena_count];
}

/* --- slabs come and go; with the arena's lock held ---------------------------------------------------------------- */

/*
 * Reuses a dead slab of the class and level, or makes a new slab. A pool has no more dead slabs than it once had live
 * ones.
 */
static struct facet_slab *dead_or_new_slab(struct facet_space *space, uint32_t class, uint32_t level)
{
    const struct facet_classes *classes = &space->memory->classes;
    struct facet_slab *slab;

    LIST_FOREACH (slab, &space->dead_slabs[class], in_pool)
        if (slab->level == level) {
            LIST_REMOVE(slab, in_pool);
            return slab;
        }
    slab = facet_slab_create(classes->class[class].block_bytes, facet_class_blocks(classes, class, level));
    if (slab) {
        slab->class = class;
        slab->level = level;
        slab->pages = facet_class_pages(&classes->class[class], level);
    }
    return slab;
}

static void enter_slab_in_table(struct facet_space *space, struct facet_pool_arena *arena, struct facet_slab *slab,
                                uint32_t first)
{
    facet_slab_reset(slab, facet_space_address(space, first), first);
    atomic_store(&slab->arena, arena);
    for (uint32_t page = first; page < first + slab->pages; page++) {
        atomic_store_explicit(&space->table.entries[page].state, FACET_PAGE_SLAB, memory_order_relaxed);
        atomic_store_explicit(&space->table.slabs[page], slab, memory_order_release);
    }
}

/* Gives a slab its pages. Called with the space's lock held. */
static enum facet_status place_slab(struct facet_pool_arena *arena, struct facet_slab *slab, struct facet_error *error)
{
    struct facet_space *space = arena->space;
    uint32_t first = facet_table_take(&space->table, slab->pages, 1);

    if (first == FACET_PAGE_NONE)
        return facet_error_set(error, FACET_NO_SPACE, "vGPU %u has no addresses left for blocks", space->id);
    enum facet_status status = facet_space_back(space, first, slab->pages, error);
    if (status == FACET_OK)
        enter_slab_in_table(space, arena, slab, first);
    return status;
}

static enum facet_status add_slab_of(struct facet_pool_arena *arena, uint32_t class, uint32_t level,
                                     struct facet_error *error)
{
    struct facet_space *space = arena->space;
    struct facet_pool *pool = &arena->pools[class];

    pthread_mutex_lock(&space->lock);
    struct facet_slab *slab = dead_or_new_slab(space, class, level);
    enum facet_status status = slab ? place_slab(arena, slab, error)
                                    : facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of blocks");
    if (slab && status != FACET_OK)
        LIST_INSERT_HEAD(&space->dead_slabs[class], slab, in_pool);
    pthread_mutex_unlock(&space->lock);
    if (status != FACET_OK)
        return status;
    atomic_store(&slab->place, FACET_SLAB_CURRENT);
    pool->current = slab;
    pool->pages += slab->pages;
    return FACET_OK;
}

/* A large pool grows by a large slab, or by a small slab if there is no memory for a large one. */
static enum facet_status add_slab(struct facet_pool_arena *arena, uint32_t class, struct facet_error *error)
{
    uint32_t level = facet_classes_level(&arena->space->memory->classes, class, arena->pools[class].pages);
    enum facet_status status = add_slab_of(arena, class, level, error);

    return status != FACET_OK && level ? add_slab_of(arena, class, 0, error) : status;
}

/* With the space's lock held: whether any page of the slab is pinned. */
static bool is_pinned(const struct facet_space *space, const struct facet_slab *slab)
{
    for (uint32_t page = slab->first_page; page < slab->first_page + slab->pages; page++)
        if (space->table.entries[page].pins)
            return true;
    return false;
}

static void give_slab_pages(struct facet_space *space, struct facet_slab *slab)
{
    for (uint32_t page = slab->first_page; page < slab->first_page + slab->pages; page++)
        atomic_store_explicit(&space->table.slabs[page], NULL, memory_order_relaxed);
    facet_space_unback(space, slab->first_page, slab->pages);
    LIST_INSERT_HEAD(&space->dead_slabs[slab->class], slab, in_pool);
}

/* Returns how many pages it gave back; 0: they are pinned, and the slab stays as it is. */
static uint32_t drop_slab(struct facet_pool_arena *arena, struct facet_slab *slab)
{
    struct facet_space *space = arena->space;
    struct facet_pool *pool = &arena->pools[slab->class];

    pthread_mutex_lock(&space->lock);
    bool pinned = is_pinned(space, slab);
    if (!pinned) {
        if (slab->place == FACET_SLAB_LISTED)
            LIST_REMOVE(slab, in_pool);
        else
            pool->current = NULL;
        atomic_store(&slab->place, FACET_SLAB_DEAD);
        pool->pages -= slab->pages;
        give_slab_pages(space, slab);
    }
    pthread_mutex_unlock(&space->lock);
    return pinned ? 0 : slab->pages;
}

/* --- taking ------------------------------------------------------------------------------------------------------- */

static void list_slab(struct facet_pool *pool, struct facet_slab *slab)
{
    atomic_store(&slab->place, FACET_SLAB_LISTED);
    LIST_INSERT_HEAD(&pool->listed, slab, in_pool);
}

/*
 * The current slab is full: from now on a thread that frees one of its blocks lists the slab. If a block was freed
 * before that thread could see the new place, this function lists the slab: the freeing thread lowers the count before
 * it reads the place, and this function writes the place before it reads the count.
 */
static void retire_current_slab(struct facet_pool *pool)
{
    struct facet_slab *slab = pool->current;

    atomic_store(&slab->place, FACET_SLAB_FULL);
    if (atomic_load(&slab->used_blocks) < slab->blocks)
        list_slab(pool, slab);
}

/* Makes the first listed slab, which may have a free block, the current one. False: no slab is listed. */
static bool use_next_slab(struct facet_pool *pool)
{
    if (pool->current)
        retire_current_slab(pool);
    pool->current = LIST_FIRST(&pool->listed);
    if (!pool->current)
        return false;
    LIST_REMOVE(pool->current, in_pool);
    atomic_store(&pool->current->place, FACET_SLAB_CURRENT);
    return true;
}

/* Called by any thread without a lock: concurrent writes may be lost. */
static void push_recent(struct facet_pool_arena *arena, uint32_t class, uint64_t address)
{
    struct facet_pool *pool = &arena->pools[class];
    uint32_t top = atomic_load_explicit(&pool->recent_end, memory_order_relaxed);

    atomic_store_explicit(&pool->recent[top % FACET_RECENT_BLOCKS], address, memory_order_relaxed);
    atomic_store_explicit(&pool->recent_end, top + 1, memory_order_relaxed);
}

static uint64_t pop_recent(struct facet_pool *pool)
{
    uint32_t top = atomic_load_explicit(&pool->recent_end, memory_order_relaxed) - 1;
    uint64_t address = atomic_load_explicit(&pool->recent[top % FACET_RECENT_BLOCKS], memory_order_relaxed);

    if (!address)
        return 0;
    atomic_store_explicit(&pool->recent[top % FACET_RECENT_BLOCKS], 0, memory_order_relaxed);
    atomic_store_explicit(&pool->recent_end, top, memory_order_relaxed);
    return address;
}

struct block_ref {
    struct facet_slab *slab; /* NULL: none */
    uint32_t block;
};

/* Takes the block that was freed last, if it still is a free block of this arena: slabs stay while the lock is held. */
static struct block_ref take_recent(struct facet_pool_arena *arena, uint32_t class)
{
    const struct facet_space *space = arena->space;
    uint64_t address = pop_recent(&arena->pools[class]);
    const struct block_ref none = {NULL, FACET_BLOCK_NONE};

    if (!address)
        return none;
    struct facet_slab *slab =
        atomic_load_explicit(&space->table.slabs[(address - space->base) >> space->page_shift], memory_order_acquire);
    if (!slab || slab->class != class || atomic_load_explicit(&slab->arena, memory_order_relaxed) != arena)
        return none;
    uint32_t offset = (uint32_t)(address - atomic_load_explicit(&slab->address, memory_order_relaxed));
    uint32_t block = offset / slab->block_bytes;
    return offset % slab->block_bytes || !facet_slab_take_block(slab, block) ? none : (struct block_ref){slab, block};
}

static struct block_ref take_from_slabs(struct facet_pool_arena *arena, uint32_t class)
{
    struct facet_pool *pool = &arena->pools[class];

    while (pool->current || use_next_slab(pool)) {
        uint32_t block = facet_slab_take(pool->current);

        if (block != FACET_BLOCK_NONE)
            return (struct block_ref){pool->current, block};
        if (!use_next_slab(pool))
            break;
    }
    return (struct block_ref){NULL, FACET_BLOCK_NONE};
}

static struct block_ref take_from_arena(struct facet_pool_arena *arena, uint32_t class)
{
    struct block_ref ref = take_recent(arena, class);

    if (!ref.slab)
        ref = take_from_slabs(arena, class);
    arena->blocks_taken += ref.slab != NULL;
    return ref;
}

/* Takes a free block from any arena, when the space is short of memory. */
static struct block_ref take_from_any_arena(struct facet_space *space, uint32_t class)
{
    struct block_ref ref = {NULL, FACET_BLOCK_NONE};

    for (uint32_t i = 0; i < space->arena_count && !ref.slab; i++) {
        pthread_mutex_lock(&space->arenas[i]->lock);
        ref = take_from_arena(space->arenas[i], class);
        pthread_mutex_unlock(&space->arenas[i]->lock);
    }
    return ref;
}

static enum facet_status take_or_add_slab(struct facet_pool_arena *arena, uint32_t class, struct block_ref *ret_block,
                                          struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&arena->lock);
    *ret_block = take_from_arena(arena, class);
    if (!ret_block->slab) {
        status = add_slab(arena, class, error);
        if (status == FACET_OK)
            *ret_block = take_from_arena(arena, class);
    }
    pthread_mutex_unlock(&arena->lock);
    return status;
}

static enum facet_status take_block(struct facet_space *space, uint32_t class, struct block_ref *ret_block,
                                    struct facet_error *error)
{
    struct facet_pool_arena *arena = arena_of_thread(space);
    enum facet_status status = take_or_add_slab(arena, class, ret_block, error);

    if (status != FACET_QUOTA && status != FACET_NO_SPACE)
        return status;
    *ret_block = take_from_any_arena(space, class);
    if (ret_block->slab)
        return FACET_OK;
    return facet_pools_trim(space) ? take_or_add_slab(arena, class, ret_block, error) : status;
}

enum facet_status facet_pools_take(struct facet_space *space, uint32_t class, uint32_t bytes, uint32_t tag,
                                   uint64_t *ret_address, struct facet_error *error)
{
    uint64_t time_ns = space->memory->backend.tick_ns(space->memory->backend.data);
    struct block_ref ref;
    enum facet_status status = take_block(space, class, &ref, error);

    if (status != FACET_OK)
        return status;
    facet_slab_record(ref.slab, ref.block, bytes, tag, time_ns);
    *ret_address =
        atomic_load_explicit(&ref.slab->address, memory_order_relaxed) + (uint64_t)ref.block * ref.slab->block_bytes;
    return FACET_OK;
}

/* --- giving ------------------------------------------------------------------------------------------------------- */

/* Locks and returns the arena of a slab; NULL when the slab is dead. */
static struct facet_pool_arena *lock_arena_of(struct facet_slab *slab)
{
    struct facet_pool_arena *arena = atomic_load(&slab->arena);

    pthread_mutex_lock(&arena->lock);
    if (atomic_load(&slab->arena) == arena && slab->place != FACET_SLAB_DEAD)
        return arena;
    pthread_mutex_unlock(&arena->lock);
    return NULL;
}

/*
 * After a free in a full slab, or of a slab's last used block: lists the slab, or drops it when empty. A small current
 * slab stays.
 */
static void list_or_drop_slab(struct facet_slab *slab)
{
    struct facet_pool_arena *arena = lock_arena_of(slab);

    if (!arena)
        return;
    if (slab->place == FACET_SLAB_FULL)
        list_slab(&arena->pools[slab->class], slab);
    if ((slab->place == FACET_SLAB_LISTED || (slab->place == FACET_SLAB_CURRENT && slab->level)) &&
        atomic_load(&slab->used_blocks) == 0)
        drop_slab(arena, slab);
    pthread_mutex_unlock(&arena->lock);
}

static enum facet_status refuse_address(const struct facet_space *space, uint64_t address, const char *what,
                                        struct facet_error *error)
{
    return facet_error_argument(error, FACET_NOT_FOUND, "address", "address: 0x%" PRIx64 " %s of vGPU %u", address,
                                what, space->id);
}

enum facet_status facet_pools_give(struct facet_space *space, struct facet_slab *slab, uint64_t address,
                                   struct facet_error *error)
{
    uint64_t offset = address - atomic_load_explicit(&slab->address, memory_order_relaxed);
    uint32_t block = (uint32_t)offset / slab->block_bytes;

    if (offset > UINT32_MAX || block >= slab->blocks)
        return refuse_address(space, address, "is no allocation", error);
    if ((uint32_t)offset % slab->block_bytes)
        return refuse_address(space, address, "is inside a block", error);
    struct facet_pool_arena *owner = atomic_load_explicit(&slab->arena, memory_order_relaxed);
    enum facet_slab_free_result given = facet_slab_give(slab, block);
    if (given == FACET_BLOCK_WAS_FREE)
        return refuse_address(space, address, "is a block that is free already", error);
    atomic_fetch_add_explicit(&arena_of_thread(space)->blocks_given, 1, memory_order_relaxed);
    push_recent(owner, slab->class, address);
    if (given == FACET_BLOCK_FREED_LAST ||
        (given == FACET_BLOCK_FREED_OF_FULL && atomic_load(&slab->place) == FACET_SLAB_FULL))
        list_or_drop_slab(slab);
    return FACET_OK;
}

enum facet_status facet_pools_resize(struct facet_space *space, uint64_t address, uint64_t bytes)
{
    const struct facet_classes *classes = &space->memory->classes;
    struct facet_slab *slab = atomic_load(&space->table.slabs[(address - space->base) >> space->page_shift]);

    if (!slab || facet_classes_find(classes, bytes, 1) != slab->class)
        return FACET_TOO_SMALL;
    uint64_t start = atomic_load_explicit(&slab->address, memory_order_relaxed);
    uint32_t block = (uint32_t)((address - start) / slab->block_bytes);
    atomic_store_explicit(&slab->records[block].bytes, (uint32_t)bytes, memory_order_relaxed);
    return FACET_OK;
}

/* --- all slabs of a space
 * ------------------------------------------------------------------------------------------------- */

static uint64_t trim_pool(struct facet_pool_arena *arena, struct facet_pool *pool)
{
    struct facet_slab *slab, *next;
    uint64_t pages = 0;

    if (pool->current && atomic_load(&pool->current->used_blocks) == 0)
        pages += drop_slab(arena, pool->current);
    for (slab = LIST_FIRST(&pool->listed); slab; slab = next) {
        next = LIST_NEXT(slab, in_pool);
        if (atomic_load(&slab->used_blocks) == 0)
            pages += drop_slab(arena, slab);
    }
    return pages;
}

uint64_t facet_pools_trim(struct facet_space *space)
{
    uint64_t pages = 0;

    for (uint32_t i = 0; i < space->arena_count; i++) {
        struct facet_pool_arena *arena = space->arenas[i];

        pthread_mutex_lock(&arena->lock);
        for (uint32_t class = 0; class < space->memory->classes.count; class ++)
            pages += trim_pool(arena, &arena->pools[class]);
        pthread_mutex_unlock(&arena->lock);
    }
    return facet_space_unmap_freed(space) + pages;
}

static struct facet_pool_arena *create_arena(struct facet_space *space)
{
    uint32_t classes = space->memory->classes.count;
    size_t bytes = sizeof(struct facet_pool_arena) + classes * sizeof(struct facet_pool);
    struct facet_pool_arena *arena = aligned_alloc(_Alignof(struct facet_pool_arena), (bytes + 63) & ~(size_t)63);

    if (!arena)
        return NULL;
    memset(arena, 0, bytes);
    pthread_mutex_init(&arena->lock, NULL);
    arena->space = space;
    return arena;
}

enum facet_status facet_pools_create(struct facet_space *space, struct facet_error *error)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t count = cpus < 1 ? 1 : cpus > FACET_POOL_ARENAS_MAX ? FACET_POOL_ARENAS_MAX : (uint32_t)cpus;

    while (space->arena_count < count) {
        space->arenas[space->arena_count] = create_arena(space);
        if (!space->arenas[space->arena_count])
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for the pools of vGPU %u", space->id);
        space->arena_count++;
    }
    return FACET_OK;
}

static void free_slabs(struct facet_slab_list *list)
{
    while (!LIST_EMPTY(list)) {
        struct facet_slab *slab = LIST_FIRST(list);

        LIST_REMOVE(slab, in_pool);
        facet_slab_destroy(slab);
    }
}

/* Full slabs are on no list, so slabs are found by the page table. */
void facet_pools_clear(struct facet_space *space)
{
    for (uint32_t page = 0; page < space->table.count && space->pages; page++) {
        struct facet_slab *slab = atomic_load(&space->table.slabs[page]);

        if (!slab)
            continue;
        if (slab->place == FACET_SLAB_FULL)
            list_slab(&atomic_load(&slab->arena)->pools[slab->class], slab);
        drop_slab(atomic_load(&slab->arena), slab);
    }
}

void facet_pools_destroy(struct facet_space *space)
{
    facet_pools_clear(space);
    for (uint32_t class = 0; class < FACET_MEMORY_POOLS; class ++)
        free_slabs(&space->dead_slabs[class]);
    for (uint32_t i = 0; i < space->arena_count; i++) {
        pthread_mutex_destroy(&space->arenas[i]->lock);
        free(space->arenas[i]);
    }
    space->arena_count = 0;
}
