/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI, table `memory`: contexts and device memory.
 *
 * Owns: contexts (a worker's presence on a device or partition), pages and their mapping, plain memory, copies.
 * Never: hands out host pointers. Addresses and handles are numbers of the device; 0 is none.
 *
 * There are two ways to allocate memory. With FACET_CAN_MAP_MEMORY a caller reserves virtual addresses, creates pages,
 * and maps them, so that pages can move while their address stays (CUDA VMM is the model). Without this bit there is
 * only plain alloc and free. With FACET_CAN_SHARE_PAGES contexts map each other's pages; with FACET_CAN_MOVE_PAGES
 * mapped pages move while they are used.
 *
 * While a context's worker is off the device (snapshot.h), every operation on it here and in execution.h, even
 * destroy_context, returns FACET_BAD_STATE.
 */
#ifndef FACET_PROVIDER_MEMORY_H
#define FACET_PROVIDER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_provider_instance;

struct facet_memory_info {
    uint32_t size;
    uint32_t page_bytes;  /* granularity of reserve, create, map and unmap; a power of two */
    uint64_t total_bytes; /* the limit of this context: the device, the partition, or the worker's limit */
    uint64_t used_bytes;  /* the part of total_bytes that is used by all contexts under that limit */
};
FACET_STATIC_ASSERT(sizeof(struct facet_memory_info) == 24, "ABI: facet_memory_info");

struct facet_memory_ops {
    uint64_t size; /* of this table, as the provider was built */

    /*
     * Creates a context of `worker` on a device, or on its partition `partition_uuid` (NULL or "": the whole device).
     * The worker's limits apply to the context. The context's number is unique in the instance. FACET_BUSY: the device
     * is partitioned, and no partition is named.
     */
    enum facet_status (*create_context)(struct facet_provider_instance *instance, uint32_t device,
                                        const char *partition_uuid, const char *worker, uint64_t *ret_context,
                                        struct facet_error *error);

    /* Ends the work of the context's streams, and frees all that the context holds. */
    enum facet_status (*destroy_context)(struct facet_provider_instance *instance, uint64_t context,
                                         struct facet_error *error);

    enum facet_status (*info)(struct facet_provider_instance *instance, uint64_t context,
                              struct facet_memory_info *ret_info, struct facet_error *error);

    /* Plain memory, aligned to 256 bytes at least. FACET_QUOTA above the worker's limit, FACET_NO_SPACE above the
     * device's or partition's memory, FACET_OUT_OF_RANGE for 0 bytes. Free takes an address that alloc gave this
     * context: any other is FACET_NOT_FOUND. */
    enum facet_status (*alloc)(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                               uint64_t *ret_address, struct facet_error *error);
    enum facet_status (*free)(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              struct facet_error *error);

    /* Virtual addresses without memory. Sizes and alignments are multiples of the page; `align` 0 means the page. Other
     * sizes and alignments, and 0 bytes, are FACET_OUT_OF_RANGE. Release takes a whole reservation by its address;
     * another address is FACET_NOT_FOUND. FACET_BUSY while pages are mapped in the reservation. */
    enum facet_status (*reserve)(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                                 uint64_t align, uint64_t *ret_address, struct facet_error *error);
    enum facet_status (*release)(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                 struct facet_error *error);

    /* Physical pages. Destroying mapped pages takes effect at the last unmap. Errors as for alloc; unknown pages are
     * FACET_NOT_FOUND. */
    enum facet_status (*create_pages)(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                                      uint64_t *ret_pages, struct facet_error *error);
    enum facet_status (*destroy_pages)(struct facet_provider_instance *instance, uint64_t context, uint64_t pages,
                                       struct facet_error *error);

    /*
     * Maps `bytes` of `pages` from `offset` at `address`, inside one reservation at addresses without a mapping
     * (FACET_BUSY). Unmap takes any page-aligned part of a mapping. A range that is not of whole pages, not inside the
     * pages or the reservation, or not mapped is FACET_OUT_OF_RANGE and changes nothing.
     *
     * Work that was queued before an unmap may use the memory until it completes. Until then unmap returns FACET_BUSY
     * at once; the caller repeats it, and work that was queued later does not delay it. From the first call on, the
     * range is leaving: it is still mapped, but later work may not use it (FACET_OUT_OF_RANGE). Mapping the same pages
     * there again cancels the unmap. A device that cannot distinguish earlier from later work may return FACET_BUSY
     * while any work is queued, or wait, some seconds at most; on FACET_TIMEOUT nothing has changed.
     */
    enum facet_status (*map)(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                             uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error);
    enum facet_status (*unmap)(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                               uint64_t bytes, struct facet_error *error);

    /* These four operations run after all work that the context has queued, and return when they are done. A range that
     * is not wholly memory of the context is FACET_OUT_OF_RANGE, and nothing is touched. The ranges of copy may
     * overlap. */
    enum facet_status (*write)(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                               const void *data, uint64_t bytes, struct facet_error *error);
    enum facet_status (*read)(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              uint64_t bytes, void *ret_data, struct facet_error *error);
    enum facet_status (*copy)(struct facet_provider_instance *instance, uint64_t context, uint64_t to, uint64_t from,
                              uint64_t bytes, struct facet_error *error);
    enum facet_status (*fill)(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              uint8_t value, uint64_t bytes, struct facet_error *error);

    /* Since 1.3. */

    /*
     * Lets every context of this instance on the same device map these pages, and move to them, by the same number. The
     * pages stay charged to the context that created them, until they are destroyed and the last mapping is gone.
     * Destroying that context destroys the pages as destroy_pages does: contexts that have them mapped keep them. Only
     * the creating context can share and destroy the pages; any other context gets FACET_NOT_FOUND. A second call
     * changes nothing.
     */
    enum facet_status (*share_pages)(struct facet_provider_instance *instance, uint64_t context, uint64_t pages,
                                     struct facet_error *error);

    /*
     * Copies the pages that are mapped at `address` to `pages` at `offset`, and maps the copies instead, while launches
     * run and transfers go on. A writer to the range waits for as long as the copy takes; no write is lost, and at no
     * moment is the range unmapped. Other addresses keep the old pages.
     *
     * The range is whole pages of one reservation, wholly mapped, in however many pieces: anything else is
     * FACET_OUT_OF_RANGE, as is a range that is not inside `pages`. FACET_BUSY: some context, perhaps this one, has a
     * part of the target mapped already. FACET_UNSUPPORTED: the device cannot move pages now; the caller can unmap and
     * map while no launch runs. A failure changes nothing but the contents of the target.
     */
    enum facet_status (*move)(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error);
};
FACET_STATIC_ASSERT(sizeof(struct facet_memory_ops) == 144, "ABI: facet_memory_ops 1.3");

#ifdef __cplusplus
}
#endif
#endif
