/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: creating, sharing and destroying pages. Never: frees pages that are mapped anywhere.
 *
 * A space's lock guards the list of the pages that it made. Data that several spaces may read is under the pool's lock.
 */
#include "pages.h"

#include <search.h>
#include <stdlib.h>

#include "pool.h"
#include "provider_kit.h"

static int compare_numbers(const void *left, const void *right)
{
    const uint64_t *one = left, *other = right;

    return *one < *other ? -1 : *one > *other;
}

static enum facet_status not_found(uint64_t number, const char *expected, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "pages %" PRIu64 ": expected some of this context%s", number,
                          expected);
}

static struct cpu_pages *find_own(const struct cpu_space *space, uint64_t number)
{
    struct cpu_pages *pages;

    TAILQ_FOREACH (pages, &space->pages, link)
        if (pages->number == number)
            return pages;
    return NULL;
}

/* With the pool's lock held. */
static struct cpu_pages *find_shared(const struct cpu_pool *pool, uint64_t number)
{
    void *const *node = tfind(&number, &pool->shared, compare_numbers);

    return node ? *node : NULL;
}

enum facet_status cpu_pages_create(struct cpu_space *space, uint64_t number, uint64_t bytes, struct facet_error *error)
{
    struct cpu_pages *pages = calloc(1, sizeof *pages + bytes / CPU_PAGE_BYTES * sizeof pages->uses[0]);

    if (!pages)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for pages");
    enum facet_status status = cpu_pool_take(space->pool, bytes, &pages->extent, error);
    if (status != FACET_OK) {
        free(pages);
        return status;
    }
    pages->number = number;
    pages->owner = space;
    pthread_rwlock_wrlock(&space->lock);
    TAILQ_INSERT_TAIL(&space->pages, pages, link);
    pthread_rwlock_unlock(&space->lock);
    return FACET_OK;
}

/* With the pool's lock held. */
static void list_if_unused(struct cpu_pages *pages, struct cpu_pages_list *unused)
{
    if (!pages->owner && pages->mapped_bytes == 0)
        TAILQ_INSERT_TAIL(unused, pages, link);
}

/* Takes the pages out of the lists, so that their number is no longer found. */
static void destroy_pages(struct cpu_pages *pages, struct cpu_pages_list *unused)
{
    struct cpu_pool *pool = pages->owner->pool;

    TAILQ_REMOVE(&pages->owner->pages, pages, link);
    pthread_mutex_lock(&pool->lock);
    pages->owner = NULL;
    if (pages->worker)
        tdelete(pages, &pool->shared, compare_numbers);
    list_if_unused(pages, unused);
    pthread_mutex_unlock(&pool->lock);
}

enum facet_status cpu_pages_destroy(struct cpu_space *space, uint64_t number, struct cpu_pages_list *unused,
                                    struct facet_error *error)
{
    struct cpu_pages *pages = find_own(space, number);

    if (!pages)
        return not_found(number, "", error);
    destroy_pages(pages, unused);
    return FACET_OK;
}

void cpu_pages_close(struct cpu_space *space, struct cpu_pages_list *unused)
{
    while (!TAILQ_EMPTY(&space->pages))
        destroy_pages(TAILQ_FIRST(&space->pages), unused);
}

enum facet_status cpu_pages_share(struct cpu_space *space, uint64_t number, struct cpu_worker *worker,
                                  uint64_t *ret_bytes, struct facet_error *error)
{
    struct cpu_pages *pages = find_own(space, number);
    struct cpu_pool *pool = space->pool;

    if (!pages)
        return not_found(number, "", error);
    if (pages->worker) {
        *ret_bytes = 0;
        return FACET_OK;
    }
    pthread_mutex_lock(&pool->lock);
    bool listed = tsearch(pages, &pool->shared, compare_numbers) != NULL;
    if (listed)
        pages->worker = worker;
    pthread_mutex_unlock(&pool->lock);
    if (!listed)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory to share pages");
    *ret_bytes = pages->extent->bytes;
    return FACET_OK;
}

/* --- mappings; with the pool's lock held --- */

static enum facet_status check_part(const struct cpu_pages *pages, struct cpu_part part, struct facet_error *error)
{
    uint64_t most = pages->extent->bytes;

    if (part.offset % CPU_PAGE_BYTES == 0 && part.offset <= most && part.bytes <= most - part.offset)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "offset %" PRIu64 ", bytes %" PRIu64 ": expected whole pages within %" PRIu64 " bytes",
                          part.offset, part.bytes, most);
}

static bool is_used(const struct cpu_pages *pages, struct cpu_part part)
{
    const uint32_t *uses = &pages->uses[part.offset / CPU_PAGE_BYTES];

    for (uint64_t i = 0; i < part.bytes / CPU_PAGE_BYTES; i++)
        if (uses[i] > 0)
            return true;
    return false;
}

static void count_uses(struct cpu_pages *pages, struct cpu_part part, uint32_t change)
{
    uint32_t *uses = &pages->uses[part.offset / CPU_PAGE_BYTES];

    for (uint64_t i = 0; i < part.bytes / CPU_PAGE_BYTES; i++)
        uses[i] += change;
}

static enum facet_status take_part(struct cpu_pages *pages, struct cpu_part part, bool exclusive,
                                   struct facet_error *error)
{
    enum facet_status status = check_part(pages, part, error);

    if (status != FACET_OK)
        return status;
    if (exclusive && is_used(pages, part))
        return facet_kit_fail(error, FACET_BUSY,
                              "pages %" PRIu64 ", offset %" PRIu64 ", bytes %" PRIu64
                              ": expected nothing of them to be mapped",
                              pages->number, part.offset, part.bytes);
    count_uses(pages, part, 1);
    pages->mapped_bytes += part.bytes;
    return FACET_OK;
}

enum facet_status cpu_pages_take(struct cpu_space *space, uint64_t number, struct cpu_part part, bool exclusive,
                                 struct cpu_pages **ret_pages, struct facet_error *error)
{
    struct cpu_pages *pages = find_own(space, number);
    struct cpu_pool *pool = space->pool;

    pthread_mutex_lock(&pool->lock);
    if (!pages)
        pages = find_shared(pool, number);
    enum facet_status status =
        pages ? take_part(pages, part, exclusive, error) : not_found(number, ", or shared ones", error);
    pthread_mutex_unlock(&pool->lock);
    if (status == FACET_OK)
        *ret_pages = pages;
    return status;
}

void cpu_pages_drop(struct cpu_pool *pool, struct cpu_pages *pages, struct cpu_part part, struct cpu_pages_list *unused)
{
    pthread_mutex_lock(&pool->lock);
    count_uses(pages, part, UINT32_MAX);
    pages->mapped_bytes -= part.bytes;
    list_if_unused(pages, unused);
    pthread_mutex_unlock(&pool->lock);
}
