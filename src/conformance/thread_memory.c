/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the round of memory: in its own context, a thread writes its own pattern and reads it back. Never: uses a
 * worker of another thread. */
#include <string.h>

#include "conformance/thread.h"

enum { PIECE = 8192, WORD = 64 };

static void expect_bytes(struct facet_check_thread *thread, uint64_t context, uint64_t address, size_t bytes,
                         unsigned char value)
{
    unsigned char expected[PIECE], got[PIECE];

    memset(expected, value, bytes);
    memset(got, 0, bytes);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, read, context, address, bytes, got);
    if (memcmp(expected, got, bytes) != 0)
        facet_thread_complain(thread, "memory.read: not what this thread wrote");
}

static void use_allocation(struct facet_check_thread *thread, uint64_t context)
{
    const unsigned char own_value = (unsigned char)(thread->number + 1);
    unsigned char wrote[PIECE];
    uint64_t address = 0;

    memset(wrote, own_value, sizeof wrote);
    if (!FACET_THREAD_EXPECT(thread, FACET_OK, memory, alloc, context, sizeof wrote, &address))
        return;
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, write, context, address, wrote, sizeof wrote);
    expect_bytes(thread, context, address, PIECE, own_value);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, fill, context, address, (uint8_t)(own_value + 100), PIECE / 2);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, copy, context, address + PIECE / 2, address, PIECE / 2);
    expect_bytes(thread, context, address, PIECE, (unsigned char)(own_value + 100));
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, free, context, address);
}

/* Moves a page to other pages and back; its bytes must stay. */
static void move_pages(struct facet_check_thread *thread, uint64_t context, uint64_t address, uint64_t pages,
                       uint64_t page)
{
    const unsigned char own_value = (unsigned char)(thread->number + 50);
    uint64_t to = 0;

    if (!facet_check_claims(&thread->check, FACET_CAN_MOVE_PAGES) ||
        !FACET_THREAD_EXPECT(thread, FACET_OK, memory, create_pages, context, page, &to))
        return;
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, move, context, address, to, 0, page);
    expect_bytes(thread, context, address, WORD, own_value);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, move, context, address, pages, 0, page);
    expect_bytes(thread, context, address, WORD, own_value);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, destroy_pages, context, to);
}

/* Maps the pages, reads them, and unmaps them again. */
static void use_pages(struct facet_check_thread *thread, uint64_t context, uint64_t address, uint64_t page)
{
    const unsigned char own_value = (unsigned char)(thread->number + 50);
    uint64_t pages = 0;

    if (!FACET_THREAD_EXPECT(thread, FACET_OK, memory, create_pages, context, page, &pages))
        return;
    if (facet_check_claims(&thread->check, FACET_CAN_SHARE_PAGES))
        FACET_THREAD_EXPECT(thread, FACET_OK, memory, share_pages, context, pages);
    if (FACET_THREAD_EXPECT(thread, FACET_OK, memory, map, context, address, pages, 0, page)) {
        FACET_THREAD_EXPECT(thread, FACET_OK, memory, fill, context, address, own_value, WORD);
        expect_bytes(thread, context, address, WORD, own_value);
        move_pages(thread, context, address, pages, page);
        FACET_THREAD_EXPECT(thread, FACET_BUSY, memory, release, context, address);
        FACET_THREAD_EXPECT(thread, FACET_OK, memory, unmap, context, address, page);
    }
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, destroy_pages, context, pages);
}

static void use_mapping(struct facet_check_thread *thread, uint64_t context, uint64_t page)
{
    uint64_t address = 0;

    if (!FACET_THREAD_EXPECT(thread, FACET_OK, memory, reserve, context, 2 * page, 0, &address))
        return;
    use_pages(thread, context, address, page);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, release, context, address);
}

void facet_thread_use_memory(struct facet_check_thread *thread)
{
    struct facet_memory_info info = {.size = sizeof info};
    uint64_t context = 0;

    if (!facet_thread_context(thread, &context))
        return;
    use_allocation(thread, context);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, info, context, &info);
    if (facet_check_claims(&thread->check, FACET_CAN_MAP_MEMORY) && info.page_bytes >= WORD)
        use_mapping(thread, context, info.page_bytes);
    facet_thread_drop_context(thread, context);
}
