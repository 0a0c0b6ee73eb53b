/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page backend, as the memory manager sees a device: addresses, pages, and mapping one at the other.
 *
 * Owns: the shape of a page backend; the provider ABI's table `memory` (facet/provider/memory.h), as spaces need it.
 * Never: knows spaces or allocations. Addresses and handles are numbers of the device; 0 is none.
 *
 * Bytes, addresses and offsets are those of whole pages, except the last operations, which say so. Each either does
 * all of it or fails and changes nothing. Calls come from many threads at once; two for the same address never.
 */
#ifndef FACET_MEMORY_BACKEND_H
#define FACET_MEMORY_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>

/* The place of pages: in a chunk, at an offset from its begin. */
struct facet_page_place {
    uint64_t pages; /* the chunk's handle */
    uint64_t offset;
};

/* Both in one chunk each. */
struct facet_page_move {
    struct facet_page_place from, to;
};

struct facet_session;

struct facet_page_ops {
    void (*close)(void *backend);

    /* A chunk of memory: FACET_NO_SPACE when the device has none. New memory is zero. */
    enum facet_status (*create)(void *backend, uint64_t bytes, uint64_t *ret_pages, struct facet_error *error);
    void (*destroy)(void *backend, uint64_t pages, uint64_t bytes);

    /* The rest is for a space: `context` is its facet_space_config.context. */

    /* Addresses without memory, the first a multiple of `align`. */
    enum facet_status (*reserve)(void *backend, uint64_t context, uint64_t bytes, uint64_t align, uint64_t *ret_address,
                                 struct facet_error *error);
    /* With all that is mapped in them, where the device can. False: something still is, and those pages must not be
     * used again. */
    bool (*release)(void *backend, uint64_t context, uint64_t address, uint64_t bytes);

    enum facet_status (*map)(void *backend, uint64_t context, uint64_t address, const struct facet_page_place *place,
                             uint64_t bytes, struct facet_error *error);
    /*
     * At once. FACET_BUSY, FACET_TIMEOUT: earlier queued work may still use the pages, and the caller retries; or the
     * caller maps them again at the same place, and they stay. Any other failure may go away, too.
     */
    enum facet_status (*unmap)(void *backend, uint64_t context, uint64_t address, uint64_t bytes);
    /*
     * Writes and reads `bytes` of pages, from `skip` bytes into them on, mapped or not, without waiting for any
     * context's queued work; `from` NULL: zeros. May be NULL, both: then the operations at the end, by addresses, wait
     * for nothing either.
     */
    enum facet_status (*put)(void *backend, const struct facet_page_place *place, uint64_t skip, const void *from,
                             uint64_t bytes, struct facet_error *error);
    enum facet_status (*get)(void *backend, const struct facet_page_place *place, uint64_t skip, void *ret_data,
                             uint64_t bytes, struct facet_error *error);

    /*
     * Copies the pages that are mapped at `address`, which are those of `from`, to other ones and maps those instead. A
     * writer to the address waits meanwhile; no write is lost; at no moment is the address unmapped.
     */
    enum facet_status (*move)(void *backend, uint64_t context, uint64_t address, const struct facet_page_move *pages,
                              uint64_t bytes, struct facet_error *error);

    /* Any addresses and sizes within mapped pages. */
    enum facet_status (*write)(void *backend, uint64_t context, uint64_t address, const void *data, uint64_t bytes,
                               struct facet_error *error);
    enum facet_status (*read)(void *backend, uint64_t context, uint64_t address, void *ret_data, uint64_t bytes,
                              struct facet_error *error);
    enum facet_status (*copy)(void *backend, uint64_t context, uint64_t to, uint64_t from, uint64_t bytes,
                              struct facet_error *error);
    enum facet_status (*fill)(void *backend, uint64_t context, uint64_t address, uint8_t value, uint64_t bytes,
                              struct facet_error *error);

    /* How many bytes of all chunks are in huge pages of the host. May be NULL: that is not known. */
    uint64_t (*huge_bytes)(void *backend);
};

struct facet_page_backend {
    const struct facet_page_ops *ops;
    void *data;
    uint64_t page_bytes;    /* the smallest page; a power of two */
    uint64_t memory_bytes;  /* all that the device has, the default; 0: a configuration must name its size */
    bool host_memory;       /* its copies and fills are accesses of this process, which fault where nothing is mapped */
    bool foreign_addresses; /* addresses are the device's: a pointer of this process may be equal to one by chance */
    uint64_t (*now_ns)(void *data);  /* a monotonic clock, for how long steps take; NULL: the system's */
    uint64_t (*tick_ns)(void *data); /* the same to a tick, and cheap: when things were allocated and touched */
};

/* memfd.c: memory of this process, `bytes` of it at most; `commit`: had when chunks are made, not as it is touched. */
enum facet_status facet_page_backend_memfd(uint64_t bytes, bool commit, struct facet_page_backend *ret_backend,
                                           struct facet_error *error);

/* device.c: memory of a session's device; `owner` is the context that the pages are charged to. The session stays the
 * caller's. */
enum facet_status facet_page_backend_device(struct facet_session *session, uint32_t device, uint64_t owner,
                                            struct facet_page_backend *ret_backend, struct facet_error *error);

#endif
