/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: host memory as a page backend that counts reserved and mapped bytes, and fails the call that a test names.
 * Never: changes the effect of a call that succeeds.
 */
#ifndef FACET_TESTS_WATCHED_BACKEND_H
#define FACET_TESTS_WATCHED_BACKEND_H

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "memory/space.h"

struct watched {
    struct facet_page_backend inner;
    _Atomic uint64_t mapped_bytes, device_bytes, reserved_bytes, filled_bytes;
    _Atomic uint64_t calls;   /* of functions that can fail */
    _Atomic uint64_t fail_at; /* the number of the call that fails; 0: none */
    _Atomic uint64_t moves;
    bool closed;
    _Atomic uint64_t unmap_calls;   /* calls of unmap */
    _Atomic bool unmap_waits;       /* while it is set, unmap does not return */
    enum facet_status unmap_status; /* the result of unmap, which unmaps only with FACET_OK */
};

static bool watched_fails(struct watched *watched, struct facet_error *error)
{
    uint64_t call = ++watched->calls;

    if (call != watched->fail_at)
        return false;
    facet_error_set(error, FACET_DEVICE_LOST, "call %llu fails, as the test asked", (unsigned long long)call);
    return true;
}

static void watched_close(void *data)
{
    struct watched *watched = data;

    watched->inner.ops->close(watched->inner.data);
    watched->closed = true;
}

static enum facet_status watched_reserve(void *data, uint64_t context, uint64_t bytes, uint64_t align,
                                         uint64_t *ret_address, struct facet_error *error)
{
    struct watched *watched = data;

    if (watched_fails(watched, error))
        return FACET_DEVICE_LOST;
    enum facet_status status =
        watched->inner.ops->reserve(watched->inner.data, context, bytes, align, ret_address, error);
    watched->reserved_bytes += status == FACET_OK ? bytes : 0;
    return status;
}

static bool watched_release(void *data, uint64_t context, uint64_t address, uint64_t bytes)
{
    struct watched *watched = data;

    watched->reserved_bytes -= bytes;
    if (watched->unmap_status != FACET_OK)
        return false;
    return watched->inner.ops->release(watched->inner.data, context, address, bytes);
}

static enum facet_status watched_create(void *data, uint64_t bytes, uint64_t *ret_pages, struct facet_error *error)
{
    struct watched *watched = data;

    if (watched_fails(watched, error))
        return FACET_DEVICE_LOST;
    enum facet_status status = watched->inner.ops->create(watched->inner.data, bytes, ret_pages, error);
    watched->device_bytes += status == FACET_OK ? bytes : 0;
    return status;
}

static void watched_destroy(void *data, uint64_t pages, uint64_t bytes)
{
    struct watched *watched = data;

    watched->inner.ops->destroy(watched->inner.data, pages, bytes);
    watched->device_bytes -= bytes;
}

static enum facet_status watched_map(void *data, uint64_t context, uint64_t address,
                                     const struct facet_page_place *place, uint64_t bytes, struct facet_error *error)
{
    struct watched *watched = data;

    if (watched_fails(watched, error))
        return FACET_DEVICE_LOST;
    enum facet_status status = watched->inner.ops->map(watched->inner.data, context, address, place, bytes, error);
    watched->mapped_bytes += status == FACET_OK ? bytes : 0;
    return status;
}

static enum facet_status watched_unmap(void *data, uint64_t context, uint64_t address, uint64_t bytes)
{
    struct watched *watched = data;

    watched->unmap_calls++;
    while (watched->unmap_waits)
        sched_yield();
    if (watched->unmap_status != FACET_OK)
        return watched->unmap_status;
    watched->mapped_bytes -= bytes;
    return watched->inner.ops->unmap(watched->inner.data, context, address, bytes);
}

static enum facet_status watched_move(void *data, uint64_t context, uint64_t address,
                                      const struct facet_page_move *pages, uint64_t bytes, struct facet_error *error)
{
    struct watched *watched = data;

    if (watched_fails(watched, error))
        return FACET_DEVICE_LOST;
    watched->moves++;
    return watched->inner.ops->move(watched->inner.data, context, address, pages, bytes, error);
}

static enum facet_status watched_write(void *data, uint64_t context, uint64_t address, const void *from, uint64_t bytes,
                                       struct facet_error *error)
{
    struct watched *watched = data;

    if (watched_fails(watched, error))
        return FACET_DEVICE_LOST;
    return watched->inner.ops->write(watched->inner.data, context, address, from, bytes, error);
}

static enum facet_status watched_read(void *data, uint64_t context, uint64_t address, void *ret_data, uint64_t bytes,
                                      struct facet_error *error)
{
    struct watched *watched = data;

    if (watched_fails(watched, error))
        return FACET_DEVICE_LOST;
    return watched->inner.ops->read(watched->inner.data, context, address, ret_data, bytes, error);
}

static enum facet_status watched_copy(void *data, uint64_t context, uint64_t to, uint64_t from, uint64_t bytes,
                                      struct facet_error *error)
{
    struct watched *watched = data;

    if (watched_fails(watched, error))
        return FACET_DEVICE_LOST;
    return watched->inner.ops->copy(watched->inner.data, context, to, from, bytes, error);
}

static enum facet_status watched_fill(void *data, uint64_t context, uint64_t address, uint8_t value, uint64_t bytes,
                                      struct facet_error *error)
{
    struct watched *watched = data;

    if (watched_fails(watched, error))
        return FACET_DEVICE_LOST;
    watched->filled_bytes += bytes;
    return watched->inner.ops->fill(watched->inner.data, context, address, value, bytes, error);
}

static uint64_t watched_huge_bytes(void *data)
{
    const struct watched *watched = data;

    return watched->inner.ops->huge_bytes(watched->inner.data);
}

/* Opens a memory of `bytes` on the backend. Its defaults are small: pages of 4 KiB, chunks of 16 pages. */
static inline struct facet_memory *watched_open(struct watched *watched, uint64_t bytes,
                                                struct facet_memory_config config)
{
    static const struct facet_page_ops ops = {
        .close = watched_close,
        .reserve = watched_reserve,
        .release = watched_release,
        .create = watched_create,
        .destroy = watched_destroy,
        .map = watched_map,
        .unmap = watched_unmap,
        .move = watched_move,
        .write = watched_write,
        .read = watched_read,
        .copy = watched_copy,
        .fill = watched_fill,
        .huge_bytes = watched_huge_bytes,
    };
    struct facet_page_backend backend;
    struct facet_memory *memory = NULL;
    struct facet_error error;

    *watched = (struct watched){0};
    assert_int_equal(facet_page_backend_memfd(bytes, config.commit, &watched->inner, &error), FACET_OK);
    backend = watched->inner;
    backend.ops = &ops;
    backend.data = watched;
    config.size = sizeof config;
    config.memory_bytes = bytes;
    config.page_bytes = config.page_bytes ? config.page_bytes : 4096;
    config.chunk_bytes = config.chunk_bytes ? config.chunk_bytes : 16 * config.page_bytes;
    assert_int_equal(facet_memory_open(&backend, &config, &memory, &error), FACET_OK);
    return memory;
}

static inline struct facet_space *watched_space(struct facet_memory *memory, uint32_t id, uint64_t limit_bytes)
{
    const struct facet_space_config config = {
        .size = sizeof config, .id = id, .limit_bytes = limit_bytes, .name = "tenant"};
    struct facet_space *space = NULL;
    struct facet_error error;

    assert_int_equal(facet_space_create(memory, &config, &space, &error), FACET_OK);
    return space;
}

/* Closes the memory, after which the backend must hold nothing. */
static inline void watched_end(struct watched *watched, struct facet_memory *memory)
{
    facet_memory_close(memory);
    assert_true(watched->closed);
    assert_int_equal(watched->mapped_bytes, 0);
    assert_int_equal(watched->device_bytes, 0);
    assert_int_equal(watched->reserved_bytes, 0);
}

#endif
