/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page backend is the memory manager's view of a device: it reserves addresses, creates chunks of pages, and maps
 * pages at addresses.
 *
 * Owns: the interface of a page backend: the part of the provider ABI's table `memory` (facet/provider/memory.h) that
 * spaces need.
 * Never: knows spaces or allocations. Addresses and handles are numbers of the device; 0 is none.
 *
 * Sizes, addresses and offsets are multiples of the page size, unless an operation says otherwise. Each operation
 * either does all of its work or fails and changes nothing. Calls come from many threads at once, but never two for the
 * same address.
 */
#ifndef FACET_MEMORY_BACKEND_H
#define FACET_MEMORY_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>

/* The place of pages: a chunk, and the offset from its beginning. */
struct facet_page_place {
    uint64_t pages; /* the chunk's handle */
    uint64_t offset;
};

/* Neither the pages of `from` nor those of `to` go beyond one chunk. */
struct facet_page_move {
    struct facet_page_place from, to;
};

struct facet_session;

struct facet_page_ops {
    void (*close)(void *backend);

    /* A chunk of memory: FACET_NO_SPACE when the device has none. New memory is zero. */
    enum facet_status (*create)(void *backend, uint64_t bytes, uint64_t *ret_chunk, struct facet_error *error);
    void (*destroy)(void *backend, uint64_t chunk, uint64_t bytes);

    /* `context` is the facet_space_config.context of the space that an operation is for. */

    /* Reserves addresses without memory; the first is a multiple of `align`. */
    enum facet_status (*reserve)(void *backend, uint64_t context, uint64_t bytes, uint64_t align, uint64_t *ret_address,
                                 struct facet_error *error);
    /*
     * Releases the addresses, and unmaps the pages that are still mapped there, if the device can. False: some pages
     * stay mapped; the caller must not use those pages again.
     */
    bool (*release)(void *backend, uint64_t context, uint64_t address, uint64_t bytes);

    enum facet_status (*map)(void *backend, uint64_t context, uint64_t address, const struct facet_page_place *place,
                             uint64_t bytes, struct facet_error *error);
    /*
     * Unmaps pages without waiting. FACET_BUSY, FACET_TIMEOUT: earlier queued work may still use the pages, which stay
     * mapped. The caller retries, or goes on using them at the same place. A retry may also succeed after any other
     * failure.
     */
    enum facet_status (*unmap)(void *backend, uint64_t context, uint64_t address, uint64_t bytes);
    /*
     * Write and read `bytes` of pages, mapped or not, beginning `skip` bytes into them, without waiting for queued work
     * of any context. put() with `from` NULL writes zeros. A backend may leave out put() and get(); then its write(),
     * read(), copy() and fill() do not wait for queued work either.
     */
    enum facet_status (*put)(void *backend, const struct facet_page_place *place, uint64_t skip, const void *from,
                             uint64_t bytes, struct facet_error *error);
    enum facet_status (*get)(void *backend, const struct facet_page_place *place, uint64_t skip, void *ret_data,
                             uint64_t bytes, struct facet_error *error);

    /*
     * Copies the pages move->from, which are mapped at `address`, to the pages move->to, and maps these instead. A
     * thread that writes to the address waits meanwhile, no write is lost, and the address is never unmapped.
     */
    enum facet_status (*move)(void *backend, uint64_t context, uint64_t address, const struct facet_page_move *move,
                              uint64_t bytes, struct facet_error *error);

    /* write(), read(), copy() and fill() take any address and size within mapped pages. */
    enum facet_status (*write)(void *backend, uint64_t context, uint64_t address, const void *data, uint64_t bytes,
                               struct facet_error *error);
    enum facet_status (*read)(void *backend, uint64_t context, uint64_t address, void *ret_data, uint64_t bytes,
                              struct facet_error *error);
    enum facet_status (*copy)(void *backend, uint64_t context, uint64_t to, uint64_t from, uint64_t bytes,
                              struct facet_error *error);
    enum facet_status (*fill)(void *backend, uint64_t context, uint64_t address, uint8_t value, uint64_t bytes,
                              struct facet_error *error);

    /* How many bytes of all chunks are in huge pages of the host. NULL: unknown. */
    uint64_t (*huge_bytes)(void *backend);
};

struct facet_page_backend {
    const struct facet_page_ops *ops;
    void *data;
    uint64_t page_bytes; /* the smallest page; a power of two */
    /* The device's memory, the default of facet_memory_config.memory_bytes. 0: the configuration must give it. */
    uint64_t memory_bytes;
    bool host_memory;       /* copies and fills are accesses of this process, which fault where no page is mapped */
    bool foreign_addresses; /* addresses are the device's: a pointer of this process may equal one by chance */
    uint64_t (*now_ns)(void *data);  /* a monotonic clock, to measure steps; NULL: the system's */
    uint64_t (*tick_ns)(void *data); /* the same clock, coarse and cheap: for times of allocation and access */
};

/*
 * memfd.c: at most `bytes` of this process's memory; `commit`: memory is allocated when a chunk is made, not when it is
 * touched.
 */
enum facet_status facet_page_backend_memfd(uint64_t bytes, bool commit, struct facet_page_backend *ret_backend,
                                           struct facet_error *error);

/* device.c: memory of a session's device; `owner` is the context that the pages are charged to. The session stays the
 * caller's. */
enum facet_status facet_page_backend_device(struct facet_session *session, uint32_t device, uint64_t owner,
                                            struct facet_page_backend *ret_backend, struct facet_error *error);

#endif
