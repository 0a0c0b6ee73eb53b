/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies and fills, with both ranges checked before a byte moves, and the marks that they leave in the page
 * table.
 * Never: touches memory that is not wholly inside one allocation of the space that is named.
 */
#include <inttypes.h>
#include <string.h>

#include "base/need.h"
#include "memory/addresses.h"
#include "memory/allocate.h"
#include "memory/host_side.h"
#include "memory/transfer.h"

/* --- ranges ------------------------------------------------------------------------------------------------------- */

enum facet_status facet_space_check_range(struct facet_space *space, const char *argument, uint64_t address,
                                          uint64_t bytes, struct facet_error *error)
{
    struct facet_allocation found;

    if (!facet_space_lookup(space, address, &found))
        return facet_error_argument(error, FACET_OUT_OF_RANGE, argument,
                                    "%s: 0x%" PRIx64 " is in no allocation of vGPU %u", argument, address, space->id);
    uint64_t left = found.address + found.bytes > address ? found.address + found.bytes - address : 0;
    if (bytes <= left)
        return FACET_OK;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, argument,
                                "%s: %" PRIu64 " bytes from 0x%" PRIx64 " on end %" PRIu64
                                " bytes behind their allocation of %" PRIu64,
                                argument, bytes, address, bytes - left, found.bytes);
}

/*
 * A host address must not lie in the memory of a vGPU: where device addresses are pointers, a copy could otherwise
 * access another vGPU's memory.
 */
enum facet_status facet_memory_check_host(struct facet_memory *memory, const char *argument, uint64_t address,
                                          uint64_t bytes, bool detect, struct facet_error *error)
{
    const struct facet_space *other;
    uint32_t owner = 0;
    bool owned = false;

    if (!facet_host_can_have(address, bytes))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, argument, "%s: 0x%" PRIx64 " is no host memory",
                                    argument, address);
    if (memory->backend.foreign_addresses && !detect)
        return FACET_OK;
    pthread_mutex_lock(&memory->lock);
    LIST_FOREACH (other, &memory->spaces, in_memory)
        if (address < other->base + other->address_bytes && address + bytes > other->base) {
            owner = other->id;
            owned = true;
        }
    pthread_mutex_unlock(&memory->lock);
    if (!owned)
        return FACET_OK;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, argument,
                                "%s: 0x%" PRIx64 " is memory of vGPU %u; expected the host's, or the copying vGPU's",
                                argument, address, owner);
}

/* Finds the side of an address that the caller did not name. */
static enum facet_status detect_side(const struct facet_space *space, const char *argument, uint64_t address,
                                     bool *ret_is_device, struct facet_error *error)
{
    bool is_device = address - space->base < space->address_bytes;

    if (is_device && facet_addresses_are_doubtful(space, address))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kind",
                                    "%s: 0x%" PRIx64 " is an address of vGPU %u, and one of this process as well: "
                                    "expected a kind that says which is meant, not FACET_COPY_DETECT",
                                    argument, address, space->id);
    *ret_is_device = is_device;
    return FACET_OK;
}

/* --- marks -------------------------------------------------------------------------------------------------------- */

void facet_space_mark(struct facet_space *space, uint64_t address, uint64_t bytes, uint8_t marks)
{
    uint32_t first = (uint32_t)((address - space->base) >> space->page_shift);
    uint32_t last = (uint32_t)((address + bytes - 1 - space->base) >> space->page_shift);
    uint64_t now = space->memory->backend.tick_ns(space->memory->backend.data);

    for (uint32_t page = first; page <= last; page++) {
        struct facet_entry *entry = &space->table.entries[page];

        if ((atomic_load_explicit(&entry->marks, memory_order_relaxed) & marks) != marks)
            atomic_fetch_or_explicit(&entry->marks, marks, memory_order_relaxed);
        atomic_store_explicit(&entry->access_ns, now, memory_order_relaxed);
    }
}

/* --- the calls ---------------------------------------------------------------------------------------------------- */

struct transfer {
    uint64_t to, from, bytes;
    bool to_device, from_device;
    bool detect; /* the caller did not say which address is the host's */
};

static enum facet_status check_transfer(struct facet_space *space, const struct transfer *transfer,
                                        struct facet_error *error)
{
    struct facet_memory *memory = space->memory;
    uint64_t bytes = transfer->bytes;
    enum facet_status status =
        transfer->to_device ? facet_space_check_range(space, "to", transfer->to, bytes, error)
                            : facet_memory_check_host(memory, "to", transfer->to, bytes, transfer->detect, error);

    if (status != FACET_OK)
        return status;
    return transfer->from_device
               ? facet_space_check_range(space, "from", transfer->from, bytes, error)
               : facet_memory_check_host(memory, "from", transfer->from, bytes, transfer->detect, error);
}

static void *host_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
}

static enum facet_status run_transfer_once(struct facet_space *space, const struct transfer *transfer,
                                           struct facet_error *error)
{
    const struct facet_page_backend *backend = &space->memory->backend;

    if (transfer->to_device && transfer->from_device)
        return backend->ops->copy(backend->data, space->context, transfer->to, transfer->from, transfer->bytes, error);
    if (transfer->to_device)
        return backend->ops->write(backend->data, space->context, transfer->to, host_pointer(transfer->from),
                                   transfer->bytes, error);
    if (transfer->from_device)
        return backend->ops->read(backend->data, space->context, transfer->from, host_pointer(transfer->to),
                                  transfer->bytes, error);
    memmove(host_pointer(transfer->to), host_pointer(transfer->from), transfer->bytes);
    return FACET_OK;
}

/*
 * The copy runs after all queued work of the space's context. FACET_TIMEOUT is retried: the provider gives up after
 * seconds, but this call waits until the copy completes.
 */
static enum facet_status run_transfer(struct facet_space *space, const struct transfer *transfer,
                                      struct facet_error *error)
{
    enum facet_status status = FACET_TIMEOUT;

    if (!space->memory->backend.host_memory) {
        while (status == FACET_TIMEOUT)
            status = run_transfer_once(space, transfer, error);
        return status;
    }
    /* Another thread may have freed the source or target since the check. */
    pthread_rwlock_rdlock(&space->transfer_lock);
    status = check_transfer(space, transfer, error);
    if (status == FACET_OK)
        status = run_transfer_once(space, transfer, error);
    pthread_rwlock_unlock(&space->transfer_lock);
    return status;
}

static enum facet_status run_pinned(struct facet_space *space, const struct transfer *transfer,
                                    struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (transfer->to_device)
        status = facet_space_pin_range(space, transfer->to, transfer->bytes, error);
    if (status != FACET_OK)
        return status;
    if (transfer->from_device)
        status = facet_space_pin_range(space, transfer->from, transfer->bytes, error);
    if (status == FACET_OK) {
        status = run_transfer(space, transfer, error);
        if (transfer->from_device)
            facet_space_unpin_range(space, transfer->from, transfer->bytes);
    }
    if (transfer->to_device)
        facet_space_unpin_range(space, transfer->to, transfer->bytes);
    return status;
}

static enum facet_status choose_sides(const struct facet_space *space, enum facet_copy kind, struct transfer *transfer,
                                      struct facet_error *error)
{
    if ((unsigned)kind > FACET_COPY_DETECT)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kind", "kind: %d is no enum facet_copy", (int)kind);
    transfer->detect = kind == FACET_COPY_DETECT;
    transfer->to_device = kind == FACET_COPY_TO_DEVICE || kind == FACET_COPY_ON_DEVICE;
    transfer->from_device = kind == FACET_COPY_TO_HOST || kind == FACET_COPY_ON_DEVICE;
    if (!transfer->detect)
        return FACET_OK;
    enum facet_status status = detect_side(space, "to", transfer->to, &transfer->to_device, error);
    return status == FACET_OK ? detect_side(space, "from", transfer->from, &transfer->from_device, error) : status;
}

enum facet_status facet_space_copy(struct facet_space *space, uint64_t to, uint64_t from, uint64_t bytes,
                                   enum facet_copy kind, struct facet_error *error)
{
    struct transfer transfer = {.to = to, .from = from, .bytes = bytes};

    FACET_NEED(space, error);
    enum facet_status status = choose_sides(space, kind, &transfer, error);

    if (status == FACET_OK)
        status = check_transfer(space, &transfer, error);
    if (status != FACET_OK || bytes == 0)
        return status;
    status = run_pinned(space, &transfer, error);
    if (status != FACET_OK)
        return status;
    if (transfer.to_device)
        facet_space_mark(space, to, bytes, FACET_PAGE_DIRTY | FACET_PAGE_ACCESSED);
    if (transfer.from_device)
        facet_space_mark(space, from, bytes, FACET_PAGE_ACCESSED);
    return FACET_OK;
}

enum facet_status facet_space_fill(struct facet_space *space, uint64_t address, uint8_t value, uint64_t bytes,
                                   struct facet_error *error)
{
    FACET_NEED(space, error);
    const struct facet_page_backend *backend = &space->memory->backend;
    enum facet_status status = facet_space_check_range(space, "address", address, bytes, error);

    if (status != FACET_OK || bytes == 0)
        return status;
    status = facet_space_pin_range(space, address, bytes, error);
    if (status != FACET_OK)
        return status;
    if (backend->host_memory)
        pthread_rwlock_rdlock(&space->transfer_lock);
    if (backend->host_memory)
        status = facet_space_check_range(space, "address", address, bytes, error);
    if (status == FACET_OK)
        do /* as in run_transfer() */
            status = backend->ops->fill(backend->data, space->context, address, value, bytes, error);
        while (status == FACET_TIMEOUT);
    if (backend->host_memory)
        pthread_rwlock_unlock(&space->transfer_lock);
    facet_space_unpin_range(space, address, bytes);
    if (status == FACET_OK)
        facet_space_mark(space, address, bytes, FACET_PAGE_DIRTY | FACET_PAGE_ACCESSED);
    return status;
}
