/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of pages that contexts share (since ABI 1.3). Never: assumes a page size. */
#include <inttypes.h>
#include <string.h>

#include "conformance/pages.h"

enum { WORD = 64 };

/* Two pages of `owner`, and addresses for them in both contexts. */
struct shared {
    struct facet_check *check;
    const struct facet_memory_ops *ops;
    struct facet_provider_instance *instance;
    struct facet_error *error;
    uint64_t owner, other, page, pages, owner_address, other_address;
};

static bool prepare_contexts(struct shared *shared)
{
    struct facet_memory_info info = {.size = sizeof info};
    struct facet_check *check = shared->check;
    const struct facet_memory_ops *ops = shared->ops;

    if (!facet_check_context(check, FACET_CHECK_OTHER, &shared->other) ||
        !facet_check_context(check, FACET_CHECK_WORKER, &shared->owner) ||
        !EXPECT_OK(check, "memory.info: of a context that maps what another shares",
                   ops->info(shared->instance, shared->other, &info, shared->error)))
        return false;
    shared->page = info.page_bytes;
    return EXPECT_OK(check, "memory.reserve: where both will map",
                     ops->reserve(shared->instance, shared->owner, 2 * shared->page, 0, &shared->owner_address,
                                  shared->error)) &&
           EXPECT_OK(check, "memory.reserve: where pages are mapped in another context",
                     ops->reserve(shared->instance, shared->other, 2 * shared->page, 0, &shared->other_address,
                                  shared->error)) &&
           EXPECT_OK(
               check, "memory.create_pages: two, to be shared",
               ops->create_pages(shared->instance, shared->owner, 2 * shared->page, &shared->pages, shared->error));
}

static enum facet_status share_pages(struct shared *shared, uint64_t context, uint64_t pages)
{
    return shared->ops->share_pages(shared->instance, context, pages, shared->error);
}

static enum facet_status map_in_other(struct shared *shared)
{
    return shared->ops->map(shared->instance, shared->other, shared->other_address, shared->pages, 0, 2 * shared->page,
                            shared->error);
}

static void expect_word(struct shared *shared, const char *text, uint64_t address, unsigned char value)
{
    struct facet_check *check = shared->check;
    unsigned char bytes[WORD], expected[WORD];

    memset(bytes, 0, sizeof bytes);
    memset(expected, value, sizeof expected);
    facet_check_begin(check, "%s", text);
    enum facet_status status =
        shared->ops->read(shared->instance, shared->other, address, sizeof bytes, bytes, shared->error);
    if (status != FACET_OK)
        facet_check_status(check, FACET_OK, status);
    else
        facet_check_judge(check, memcmp(bytes, expected, sizeof bytes) == 0,
                          "expected: bytes of 0x%02x\ngot: other bytes, the first 0x%02x", value, bytes[0]);
}

static void check_refusals(struct shared *shared)
{
    struct facet_check *check = shared->check;

    EXPECT_STATUS(check, "memory.map: another context's pages that are not shared are not found", FACET_NOT_FOUND,
                  map_in_other(shared));
    EXPECT_STATUS(check, "memory.share_pages: an unknown context is not found", FACET_NOT_FOUND,
                  share_pages(shared, INT32_MAX, shared->pages));
    EXPECT_STATUS(check, "memory.share_pages: unknown pages are not found", FACET_NOT_FOUND,
                  share_pages(shared, shared->owner, INT32_MAX));
    EXPECT_STATUS(check, "memory.share_pages: another context's pages are not found", FACET_NOT_FOUND,
                  share_pages(shared, shared->other, shared->pages));
}

static bool check_sharing(struct shared *shared)
{
    struct facet_check *check = shared->check;
    const struct facet_memory_ops *ops = shared->ops;

    if (!EXPECT_OK(check, "memory.share_pages: two pages", share_pages(shared, shared->owner, shared->pages)) ||
        !EXPECT_OK(check, "memory.map: shared pages, in another context", map_in_other(shared)) ||
        !EXPECT_OK(check, "memory.map: shared pages, in their own",
                   ops->map(shared->instance, shared->owner, shared->owner_address, shared->pages, 0, 2 * shared->page,
                            shared->error)))
        return false;
    EXPECT_OK(check, "memory.share_pages: a second time", share_pages(shared, shared->owner, shared->pages));
    EXPECT_OK(check, "memory.fill: shared pages, through their own context",
              ops->fill(shared->instance, shared->owner, shared->owner_address, 0x5a, 2 * shared->page, shared->error));
    expect_word(shared, "memory.share_pages: both contexts see the same memory", shared->other_address + shared->page,
                0x5a);
    EXPECT_STATUS(check, "memory.destroy_pages: shared pages are their own context's to destroy", FACET_NOT_FOUND,
                  ops->destroy_pages(shared->instance, shared->other, shared->pages, shared->error));
    return true;
}

/* The context that created the shared pages ends first. */
static void check_pages_outlive_owner(struct shared *shared, uint64_t before)
{
    struct facet_check *check = shared->check;
    uint64_t used;

    facet_check_drop_context(check, shared->owner);
    shared->owner = 0;
    expect_word(shared, "memory.destroy_context: a context that has its shared pages mapped keeps them",
                shared->other_address, 0x5a);
    used = facet_check_used(check, shared->other);
    EXPECT_TRUE(check, "memory.destroy_context: shared pages that are mapped stay in use",
                used >= before + 2 * shared->page, "expected: at least %" PRIu64 " bytes in use\ngot: %" PRIu64,
                before + 2 * shared->page, used);
    EXPECT_OK(check, "memory.unmap: one of two shared pages",
              shared->ops->unmap(shared->instance, shared->other, shared->other_address, shared->page, shared->error));
    EXPECT_STATUS(check, "memory.map: shared pages of a context that is gone are not found", FACET_NOT_FOUND,
                  shared->ops->map(shared->instance, shared->other, shared->other_address, shared->pages, 0,
                                   shared->page, shared->error));
    EXPECT_OK(check, "memory.unmap: the last of two shared pages",
              shared->ops->unmap(shared->instance, shared->other, shared->other_address + shared->page, shared->page,
                                 shared->error));
    EXPECT_NUMBER(check, "memory.unmap: the last mapping frees shared pages", before,
                  facet_check_used(check, shared->other));
}

void facet_check_share_pages(struct facet_check *check)
{
    struct shared shared = {
        .check = check, .ops = &check->memory_ops, .instance = check->instance, .error = &check->error};

    if (prepare_contexts(&shared)) {
        uint64_t before = facet_check_used(check, shared.other) - 2 * shared.page;

        check_refusals(&shared);
        if (check_sharing(&shared))
            check_pages_outlive_owner(&shared, before);
    }
    if (shared.owner)
        facet_check_drop_context(check, shared.owner);
    if (shared.other)
        facet_check_drop_context(check, shared.other);
}
