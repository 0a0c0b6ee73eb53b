/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of pages that move while they are used (since ABI 1.3). Never: assumes a page size, or how long a
 * move takes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/kernel.h"
#include "conformance/pages.h"

enum { WORD = 64, ROUNDS = 16, MOST_PAGES = 64 };

/* The size of the memory that moves while a kernel writes it. */
#define USED_BYTES (UINT64_C(4) << 20)

/* Five reserved pages at address `at`: two are mapped to pages of `one`, two to pages of `two`; the fifth is unmapped.
 */
struct move {
    struct facet_check *check;
    const struct facet_memory_ops *ops;
    struct facet_provider_instance *instance;
    struct facet_error *error;
    uint64_t context, page, at, one, two, to;
};

static bool begin_move(struct facet_check *check, struct move *ret_move)
{
    struct facet_memory_info info = {.size = sizeof info};
    struct move move = {.check = check, .ops = &check->memory_ops, .instance = check->instance, .error = &check->error};

    if (!facet_check_context(check, FACET_CHECK_WORKER, &move.context))
        return false;
    EXPECT_OK(check, "memory.info: of a context whose pages move",
              move.ops->info(move.instance, move.context, &info, move.error));
    move.page = info.page_bytes;
    *ret_move = move;
    return true;
}

static bool create_pages(struct move *move, uint64_t pages, uint64_t *ret_pages)
{
    return EXPECT_OK(
        move->check, "memory.create_pages: to move from, or to",
        move->ops->create_pages(move->instance, move->context, pages * move->page, ret_pages, move->error));
}

static enum facet_status map_pages(struct move *move, uint64_t at, uint64_t pages, uint64_t offset, uint64_t count)
{
    return move->ops->map(move->instance, move->context, at, pages, offset * move->page, count * move->page,
                          move->error);
}

static enum facet_status move_bytes(struct move *move, uint64_t at, uint64_t pages, uint64_t offset, uint64_t bytes)
{
    return move->ops->move(move->instance, move->context, at, pages, offset, bytes, move->error);
}

static enum facet_status move_pages(struct move *move, uint64_t at, uint64_t offset, uint64_t count)
{
    return move_bytes(move, at, move->to, offset * move->page, count * move->page);
}

/* Fills the end of each page with a different value. */
static bool mark_pages(struct move *move)
{
    enum facet_status status = FACET_OK;

    facet_check_begin(move->check, "memory.fill: each page that will move");
    for (unsigned i = 0; i < 4 && status == FACET_OK; i++)
        status = move->ops->fill(move->instance, move->context, move->at + (i + 1) * move->page - WORD,
                                 (uint8_t)(0xa0 + i), WORD, move->error);
    return facet_check_status(move->check, FACET_OK, status);
}

static void expect_marks(struct move *move, const char *text)
{
    struct facet_check *check = move->check;
    unsigned char bytes[WORD], expected[WORD];

    facet_check_begin(check, "%s", text);
    for (unsigned i = 0; i < 4; i++) {
        memset(expected, (int)(0xa0 + i), sizeof expected);
        enum facet_status status = move->ops->read(move->instance, move->context,
                                                   move->at + (i + 1) * move->page - WORD, WORD, bytes, move->error);
        if (status != FACET_OK) {
            facet_check_status(check, FACET_OK, status);
            return;
        }
        if (memcmp(bytes, expected, sizeof bytes) != 0) {
            facet_check_judge(check, false, "expected: bytes of 0x%02x in page %u\ngot: other bytes, the first 0x%02x",
                              expected[0], i, bytes[0]);
            return;
        }
    }
    facet_check_judge(check, true, "all");
}

static bool prepare_move(struct move *move)
{
    struct facet_check *check = move->check;

    return EXPECT_OK(check, "memory.reserve: where pages will move",
                     move->ops->reserve(move->instance, move->context, 5 * move->page, 0, &move->at, move->error)) &&
           create_pages(move, 2, &move->one) && create_pages(move, 2, &move->two) && create_pages(move, 3, &move->to) &&
           EXPECT_OK(check, "memory.map: a piece that will move", map_pages(move, move->at, move->one, 0, 2)) &&
           EXPECT_OK(check, "memory.map: a neighbouring piece",
                     map_pages(move, move->at + 2 * move->page, move->two, 0, 2)) &&
           mark_pages(move);
}

static void check_refusals(struct move *move)
{
    struct facet_check *check = move->check;
    uint64_t page = move->page;

    EXPECT_STATUS(check, "memory.move: an unknown context is not found", FACET_NOT_FOUND,
                  move->ops->move(move->instance, INT32_MAX, move->at, move->to, 0, page, move->error));
    EXPECT_STATUS(check, "memory.move: unknown pages are not found", FACET_NOT_FOUND,
                  move_bytes(move, move->at, INT32_MAX, 0, page));
    EXPECT_STATUS(check, "memory.move: 0 bytes are out of range", FACET_OUT_OF_RANGE, move_pages(move, move->at, 0, 0));
    EXPECT_STATUS(check, "memory.move: half a page is out of range", FACET_OUT_OF_RANGE,
                  move_bytes(move, move->at, move->to, 0, page / 2));
    EXPECT_STATUS(check, "memory.move: from the middle of a page is out of range", FACET_OUT_OF_RANGE,
                  move_bytes(move, move->at + page / 2, move->to, 0, page));
    EXPECT_STATUS(check, "memory.move: to the middle of a page is out of range", FACET_OUT_OF_RANGE,
                  move_bytes(move, move->at, move->to, page / 2, page));
    EXPECT_STATUS(check, "memory.move: beyond the pages is out of range", FACET_OUT_OF_RANGE,
                  move_pages(move, move->at, 2, 2));
    EXPECT_STATUS(check, "memory.move: what is not wholly mapped is out of range", FACET_OUT_OF_RANGE,
                  move_pages(move, move->at + 3 * page, 0, 2));
    EXPECT_STATUS(check, "memory.move: beyond the reservation is out of range", FACET_OUT_OF_RANGE,
                  move_pages(move, move->at + 3 * page, 0, 3));
    EXPECT_STATUS(check, "memory.move: to pages that are mapped there is busy", FACET_BUSY,
                  move_bytes(move, move->at, move->one, 0, page));
    EXPECT_STATUS(check, "memory.move: to pages that are mapped elsewhere is busy", FACET_BUSY,
                  move_bytes(move, move->at, move->two, page, page));
    expect_marks(move, "memory.move: what was refused changed nothing");
}

static void check_moving(struct move *move)
{
    struct facet_check *check = move->check;
    uint64_t page = move->page, used;
    unsigned char bytes[WORD];

    if (!EXPECT_OK(check, "memory.move: parts of two pieces", move_pages(move, move->at + page, 0, 2)) ||
        !EXPECT_OK(check, "memory.move: the rest of one", move_pages(move, move->at + 3 * page, 2, 1)))
        return;
    expect_marks(move, "memory.move: contents move with their pages, and neighbours stay");
    used = facet_check_used(check, move->context);
    EXPECT_OK(check, "memory.destroy_pages: of which all moved away",
              move->ops->destroy_pages(move->instance, move->context, move->two, move->error));
    EXPECT_TRUE(check, "memory.move: the old pages are free", facet_check_used(check, move->context) < used,
                "expected: less than %" PRIu64 " bytes in use\ngot: %" PRIu64 " bytes", used,
                facet_check_used(check, move->context));
    EXPECT_OK(check, "memory.fill: what moved",
              move->ops->fill(move->instance, move->context, move->at + page, 0x11, page, move->error));
    EXPECT_OK(check, "memory.map: an old page elsewhere", map_pages(move, move->at + 4 * page, move->one, 1, 1));
    EXPECT_OK(check, "memory.read: the old page",
              move->ops->read(move->instance, move->context, move->at + 5 * page - WORD, WORD, bytes, move->error));
    EXPECT_TRUE(check, "memory.move: what is written afterwards is in the new page alone", bytes[0] == 0xa1,
                "expected: 0xa1 in the old page\ngot: 0x%02x", bytes[0]);
    EXPECT_OK(check, "memory.unmap: pieces that moved and pieces that did not",
              move->ops->unmap(move->instance, move->context, move->at, 5 * page, move->error));
    EXPECT_OK(check, "memory.release: where pages moved",
              move->ops->release(move->instance, move->context, move->at, move->error));
}

void facet_check_move_pages(struct facet_check *check)
{
    struct move move;

    if (!begin_move(check, &move))
        return;
    if (prepare_move(&move)) {
        check_refusals(&move);
        check_moving(&move);
    }
    facet_check_drop_context(check, move.context);
}

/* --- under launches --- */

/* A mapped range of `count` pages that moves between two sets of pages. */
struct page_sets {
    struct move *move;
    struct facet_check_kernel kernel;
    uint64_t count, sets[2];
    uint64_t *words; /* the content of the range, as it was read */
};

static bool prepare_sets(struct page_sets *page_sets)
{
    struct move *move = page_sets->move;
    uint64_t fit = USED_BYTES / move->page;

    page_sets->count = fit < 2 ? 2 : fit > MOST_PAGES ? MOST_PAGES : fit;
    page_sets->words = malloc(page_sets->count * move->page);
    return EXPECT_TRUE(move->check, "memory.move: there is memory to see what a kernel wrote", page_sets->words != NULL,
                       "expected: %" PRIu64 " bytes of host memory\ngot: none", page_sets->count * move->page) &&
           EXPECT_OK(move->check, "memory.reserve: where a kernel will write",
                     move->ops->reserve(move->instance, move->context, page_sets->count * move->page, 0, &move->at,
                                        move->error)) &&
           create_pages(move, page_sets->count, &page_sets->sets[0]) &&
           create_pages(move, page_sets->count, &page_sets->sets[1]) &&
           EXPECT_OK(move->check, "memory.map: where a kernel will write",
                     map_pages(move, move->at, page_sets->sets[0], 0, page_sets->count));
}

/* Launches a kernel that writes `value` to all words; meanwhile half of the pages move one by one, the rest together.
 */
static enum facet_status move_under_launch(struct page_sets *page_sets, uint64_t value, uint64_t to)
{
    struct move *move = page_sets->move;
    uint64_t page = move->page, half = page_sets->count / 2, bytes = page_sets->count * page;
    enum facet_status status =
        facet_check_kernel_launch(move->check, &page_sets->kernel, move->at, bytes / sizeof(uint64_t), value);

    for (uint64_t i = 0; i < half && status == FACET_OK; i++)
        status = move_bytes(move, move->at + i * page, to, i * page, page);
    if (status == FACET_OK)
        status = move_bytes(move, move->at + half * page, to, half * page, bytes - half * page);
    if (status == FACET_OK)
        status = move->check->execution_ops.synchronize(move->instance, move->context, page_sets->kernel.stream,
                                                        FACET_CHECK_KERNEL_NS, move->error);
    if (status == FACET_OK)
        status = move->ops->read(move->instance, move->context, move->at, bytes, page_sets->words, move->error);
    return status;
}

static bool has_only_words(const struct page_sets *page_sets, uint64_t value)
{
    uint64_t count = page_sets->count * page_sets->move->page / sizeof(uint64_t);

    for (uint64_t i = 0; i < count; i++)
        if (page_sets->words[i] != value)
            return false;
    return true;
}

static void move_often(struct page_sets *page_sets)
{
    struct facet_check *check = page_sets->move->check;

    facet_check_begin(check, "memory.move: nothing is lost that a kernel writes meanwhile");
    for (uint64_t i = 0; i < ROUNDS; i++) {
        enum facet_status status = move_under_launch(page_sets, i + 1, page_sets->sets[(i + 1) % 2]);

        if (status != FACET_OK) {
            facet_check_status(check, FACET_OK, status);
            return;
        }
        if (!has_only_words(page_sets, i + 1)) {
            facet_check_judge(check, false, "expected: all words that launch %" PRIu64 " wrote\ngot: other words",
                              i + 1);
            return;
        }
    }
    facet_check_judge(check, true, "all");
}

void facet_check_move_under_launches(struct facet_check *check)
{
    struct page_sets page_sets = {0};
    struct move move;

    if (!facet_check_kernel_published(check)) {
        facet_check_skip(check, "memory.move: nothing is lost that a kernel writes meanwhile",
                         "no property conformance_kernel is published");
        return;
    }
    if (!begin_move(check, &move))
        return;
    page_sets.move = &move;
    if (facet_check_kernel_open(check, move.context, &page_sets.kernel) && prepare_sets(&page_sets))
        move_often(&page_sets);
    free(page_sets.words);
    facet_check_drop_context(check, move.context);
}
