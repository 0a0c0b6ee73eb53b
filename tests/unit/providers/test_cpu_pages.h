/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions for mapped memory of the cpu provider, for the tests of moving and sharing. They count in pages.
 *
 * Owns: calls of the memory operations. Never: asserts more than their success.
 */
#ifndef TEST_CPU_PAGES_H
#define TEST_CPU_PAGES_H

#include "test_cpu_world.h"

#define MEMORY   (world.provider->memory)
#define LIMIT    (world.provider->limit)
#define INSTANCE world.instance
#define PAGE     UINT64_C(65536)

static struct world world;

static inline uint64_t capabilities(void)
{
    struct facet_device_info info = {.size = sizeof info};
    uint32_t count = 0;

    OK(&world, world.provider->device->list(INSTANCE, &info, sizeof info, 1, &count, &world.error));
    return info.capabilities;
}

/* True on old kernels, where pages cannot move. */
static inline bool cannot_move(void)
{
    if (capabilities() & FACET_CAN_MOVE_PAGES)
        return false;
    print_message("this kernel has no userfaultfd for shared memory\n");
    return true;
}

static inline uint64_t reserve(uint64_t context, uint64_t pages)
{
    uint64_t at = 0;

    OK(&world, MEMORY->reserve(INSTANCE, context, pages * PAGE, 0, &at, &world.error));
    return at;
}

static inline uint64_t create(uint64_t context, uint64_t pages)
{
    uint64_t number = 0;

    OK(&world, MEMORY->create_pages(INSTANCE, context, pages * PAGE, &number, &world.error));
    return number;
}

/* These functions count in pages. */
static inline enum facet_status map(uint64_t context, uint64_t at, uint64_t pages, uint64_t offset, uint64_t count)
{
    return MEMORY->map(INSTANCE, context, at, pages, offset * PAGE, count * PAGE, &world.error);
}

static inline enum facet_status move(uint64_t at, uint64_t pages, uint64_t offset, uint64_t count)
{
    return MEMORY->move(INSTANCE, world.context, at, pages, offset * PAGE, count * PAGE, &world.error);
}

static inline enum facet_status unmap(uint64_t context, uint64_t at, uint64_t count)
{
    return MEMORY->unmap(INSTANCE, context, at, count * PAGE, &world.error);
}

static inline void destroy(uint64_t context, uint64_t pages)
{
    OK(&world, MEMORY->destroy_pages(INSTANCE, context, pages, &world.error));
}

static inline uint64_t word_at(uint64_t context, uint64_t address)
{
    uint64_t word = 0;

    OK(&world, MEMORY->read(INSTANCE, context, address, sizeof word, &word, &world.error));
    return word;
}

static inline void put_word(uint64_t context, uint64_t address, uint64_t word)
{
    OK(&world, MEMORY->write(INSTANCE, context, address, &word, sizeof word, &world.error));
}

#endif
