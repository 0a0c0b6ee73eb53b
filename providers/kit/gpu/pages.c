/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reserved addresses, physical pages, and mappings.
 * Never: keeps the memory of pages that are destroyed and not mapped.
 *
 * The driver maps and unmaps whole handles only, while the ABI maps any part of pages and unmaps any part of a mapping.
 * So pages consist of granules with a handle each, and the driver maps them one by one.
 *
 * A context's lock protects its addresses. The machine's context_lock protects the number of mappings of pages.
 */
#include <search.h>
#include <stdlib.h>

#include "machine.h"
#include "provider_kit.h"

#define SIZE_MOST (UINT64_C(1) << 62)

static int compare_reservations(const void *left, const void *right)
{
    const struct gpu_reservation *a = left, *b = right;

    if (a->address + a->bytes <= b->address)
        return -1;
    return b->address + b->bytes <= a->address;
}

static int compare_pages(const void *left, const void *right)
{
    const struct gpu_pages *a = left, *b = right;

    return a->number < b->number ? -1 : a->number > b->number;
}

static struct gpu_reservation *reservation_at(const struct gpu_context *context, uint64_t address)
{
    const struct gpu_reservation key = {.address = address, .bytes = 1};
    void *const *found = tfind(&key, &context->reservations, compare_reservations);

    return found ? *found : NULL;
}

/* Enters a context whose device supports mapping. */
static enum facet_status enter_context(struct gpu_machine *machine, uint64_t number, enum gpu_use use,
                                       struct gpu_context **ret_context, struct facet_error *error)
{
    enum facet_status status = gpu_context_enter(machine, number, use, ret_context, error);

    if (status != FACET_OK || machine->devices[(*ret_context)->device].granule)
        return status;
    gpu_context_leave(machine, *ret_context);
    return facet_kit_fail(error, FACET_UNSUPPORTED, "the device cannot map memory at reserved addresses");
}

static enum facet_status check_size(const struct gpu_machine *machine, const struct gpu_context *context,
                                    const char *what, uint64_t bytes, struct facet_error *error)
{
    size_t granule = machine->devices[context->device].granule;

    if (bytes && bytes % granule == 0 && bytes <= SIZE_MOST)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s %" PRIu64 ": expected a multiple of %zu", what, bytes,
                          granule);
}

/* --- addresses --- */

/* The driver may align to no more than a granule: then more addresses are reserved, and an aligned part is used. */
static enum facet_status reserve_addresses(struct gpu_machine *machine, struct gpu_reservation *reservation,
                                           uint64_t granule, uint64_t align, struct facet_error *error)
{
    uint64_t more = align > granule ? align - granule : 0;
    uint64_t address = 0;
    enum facet_status status = machine->driver->reserve(machine, reservation->bytes + more, &address, error);

    if (status != FACET_OK)
        return status;
    reservation->whole_address = address;
    reservation->whole_bytes = reservation->bytes + more;
    reservation->address = align ? (address + align - 1) / align * align : address;
    return FACET_OK;
}

static enum facet_status create_reservation(struct gpu_machine *machine, struct gpu_context *context, uint64_t bytes,
                                            uint64_t align, uint64_t *ret_address, struct facet_error *error)
{
    size_t granule = machine->devices[context->device].granule;
    struct gpu_reservation *reservation = calloc(1, sizeof *reservation + bytes / granule * sizeof(struct gpu_mapping));

    if (!reservation)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a reservation");
    reservation->bytes = bytes;
    enum facet_status status = reserve_addresses(machine, reservation, granule, align, error);
    if (status != FACET_OK) {
        free(reservation);
        return status;
    }
    if (!tsearch(reservation, &context->reservations, compare_reservations)) {
        machine->driver->unreserve(machine, reservation->whole_address, reservation->whole_bytes, NULL);
        free(reservation);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a reservation");
    }
    *ret_address = reservation->address;
    return FACET_OK;
}

enum facet_status gpu_pages_reserve(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                    uint64_t align, uint64_t *ret_address, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;

    if (!ret_address)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_address: expected an address, not NULL");
    enum facet_status status = enter_context(machine, number, GPU_USE_CHANGE, &context, error);
    if (status != FACET_OK)
        return status;
    status = check_size(machine, context, "bytes", bytes, error);
    if (status == FACET_OK && align) {
        status = check_size(machine, context, "align", align, error);
        if (status == FACET_OK && (align & (align - 1)))
            status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "align %" PRIu64 ": expected a power of two", align);
    }
    if (status == FACET_OK)
        status = create_reservation(machine, context, bytes, align, ret_address, error);
    gpu_context_leave(machine, context);
    return status;
}

static bool is_empty(const struct gpu_reservation *reservation, size_t granule)
{
    for (uint64_t i = 0; i < reservation->bytes / granule; i++) {
        if (reservation->granules[i].pages)
            return false;
    }
    return true;
}

static enum facet_status destroy_reservation(struct gpu_machine *machine, struct gpu_context *context, uint64_t address,
                                             struct facet_error *error)
{
    struct gpu_reservation *reservation = reservation_at(context, address);

    if (!reservation || reservation->address != address)
        return facet_kit_fail(error, FACET_NOT_FOUND, "nothing was reserved at 0x%" PRIx64, address);
    if (!is_empty(reservation, machine->devices[context->device].granule))
        return facet_kit_fail(error, FACET_BUSY, "0x%" PRIx64 ": something is mapped there", address);
    enum facet_status status =
        machine->driver->unreserve(machine, reservation->whole_address, reservation->whole_bytes, error);
    if (status != FACET_OK)
        return status;
    tdelete(reservation, &context->reservations, compare_reservations);
    free(reservation);
    return FACET_OK;
}

enum facet_status gpu_pages_release(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                    struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    enum facet_status status = enter_context(machine, number, GPU_USE_CHANGE, &context, error);

    if (status != FACET_OK)
        return status;
    status = destroy_reservation(machine, context, address, error);
    gpu_context_leave(machine, context);
    return status;
}

bool gpu_reservations_hold(const struct gpu_machine *machine, const struct gpu_context *context, uint64_t address,
                           uint64_t bytes)
{
    size_t granule = machine->devices[context->device].granule;
    const struct gpu_reservation *reservation = granule ? reservation_at(context, address) : NULL;

    if (!reservation || bytes > reservation->bytes - (address - reservation->address))
        return false;
    uint64_t first = (address - reservation->address) / granule;
    uint64_t end = (address - reservation->address + bytes + granule - 1) / granule;
    for (uint64_t i = first; i < end; i++) {
        if (!reservation->granules[i].pages)
            return false;
    }
    return true;
}

/* --- pages --- */

static void free_pages(struct gpu_machine *machine, struct gpu_pages *pages)
{
    for (uint64_t i = 0; i < pages->count; i++)
        machine->driver->release_memory(machine, pages->granules[i]);
    free(pages);
}

/*
 * With the context lock: removes pages from the list when they are destroyed and not mapped; the caller then frees them
 * without the lock.
 */
static bool remove_if_unused(struct gpu_machine *machine, struct gpu_pages *pages)
{
    if (!pages->destroyed || pages->mappings)
        return false;
    tdelete(pages, &machine->pages, compare_pages);
    pages->worker->used_bytes -= pages->count * machine->devices[pages->device].granule;
    gpu_worker_drop(&machine->devices[pages->device], pages->worker);
    return true;
}

/* With the context lock: pages that `context` may map. */
static struct gpu_pages *find_pages(const struct gpu_machine *machine, const struct gpu_context *context,
                                    uint64_t number)
{
    const struct gpu_pages key = {.number = number};
    void *const *found = tfind(&key, &machine->pages, compare_pages);
    struct gpu_pages *pages = found ? *found : NULL;

    if (!pages || pages->destroyed || pages->device != context->device)
        return NULL;
    return pages->owner == context || pages->shared ? pages : NULL;
}

static enum facet_status no_pages(uint64_t number, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND,
                          "pages %" PRIu64 ": expected pages that the context created or that are shared with it",
                          number);
}

static enum facet_status make_pages(struct gpu_machine *machine, const struct gpu_context *context, uint64_t bytes,
                                    struct gpu_pages **ret_pages, struct facet_error *error)
{
    const struct gpu_device *device = &machine->devices[context->device];
    uint64_t count = bytes / device->granule;

    if (bytes > machine->infos[context->device].memory_bytes)
        return facet_kit_fail(error, FACET_NO_SPACE, "%" PRIu64 " bytes: the device has %" PRIu64, bytes,
                              machine->infos[context->device].memory_bytes);
    struct gpu_pages *pages = calloc(1, sizeof *pages + count * sizeof pages->granules[0]);
    if (!pages)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for pages");
    for (; pages->count < count; pages->count++) {
        enum facet_status status = machine->driver->create_memory(machine, context->device, device->granule,
                                                                  &pages->granules[pages->count], error);
        if (status != FACET_OK) {
            free_pages(machine, pages);
            return status;
        }
    }
    *ret_pages = pages;
    return FACET_OK;
}

/* Adds new pages to the machine's tree. False: no memory. */
static bool add_pages(struct gpu_machine *machine, struct gpu_context *context, struct gpu_pages *pages)
{
    pthread_mutex_lock(&machine->context_lock);
    pages->number = ++machine->last_number;
    pages->owner = context;
    pages->worker = context->worker;
    pages->device = context->device;
    bool entered = tsearch(pages, &machine->pages, compare_pages);
    pthread_mutex_unlock(&machine->context_lock);
    return entered;
}

enum facet_status gpu_pages_create(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                   uint64_t *ret_pages, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    struct gpu_pages *pages = NULL;

    if (!ret_pages)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_pages: expected an address, not NULL");
    enum facet_status status = enter_context(machine, number, GPU_USE_READ, &context, error);
    if (status != FACET_OK)
        return status;
    status = check_size(machine, context, "bytes", bytes, error);
    if (status == FACET_OK)
        status = gpu_worker_charge(machine, context, bytes, error);
    bool charged = status == FACET_OK;
    if (charged)
        status = make_pages(machine, context, bytes, &pages, error);
    if (status == FACET_OK && !add_pages(machine, context, pages)) {
        free_pages(machine, pages);
        status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for pages");
    }
    if (charged && status != FACET_OK)
        gpu_worker_refund(machine, context->worker, bytes);
    if (status == FACET_OK)
        *ret_pages = pages->number;
    gpu_context_leave(machine, context);
    return status;
}

enum facet_status gpu_pages_destroy(struct facet_provider_instance *instance, uint64_t number, uint64_t pages_number,
                                    struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    bool is_free = false;
    enum facet_status status = enter_context(machine, number, GPU_USE_READ, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&machine->context_lock);
    struct gpu_pages *pages = find_pages(machine, context, pages_number);
    if (!pages || pages->owner != context) {
        status = no_pages(pages_number, error);
    } else {
        pages->destroyed = true;
        is_free = remove_if_unused(machine, pages);
    }
    pthread_mutex_unlock(&machine->context_lock);
    if (is_free)
        free_pages(machine, pages);
    gpu_context_leave(machine, context);
    return status;
}

enum facet_status gpu_pages_share(struct facet_provider_instance *instance, uint64_t number, uint64_t pages_number,
                                  struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    enum facet_status status = enter_context(machine, number, GPU_USE_READ, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&machine->context_lock);
    struct gpu_pages *pages = find_pages(machine, context, pages_number);
    if (pages && pages->owner == context)
        pages->shared = true;
    else
        status = no_pages(pages_number, error);
    pthread_mutex_unlock(&machine->context_lock);
    gpu_context_leave(machine, context);
    return status;
}

/* --- mapping --- */

/* Checks for whole granules inside one reservation. */
static enum facet_status check_place(const struct gpu_machine *machine, const struct gpu_context *context,
                                     uint64_t address, uint64_t bytes, struct gpu_reservation **ret_reservation,
                                     struct facet_error *error)
{
    size_t granule = machine->devices[context->device].granule;
    struct gpu_reservation *reservation = reservation_at(context, address);
    enum facet_status status = check_size(machine, context, "bytes", bytes, error);

    if (status != FACET_OK)
        return status;
    if (!reservation || (address - reservation->address) % granule ||
        bytes > reservation->bytes - (address - reservation->address))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "%" PRIu64 " bytes at 0x%" PRIx64 ": expected whole pages inside one reservation", bytes,
                              address);
    *ret_reservation = reservation;
    return FACET_OK;
}

static void unmap_granules(struct gpu_machine *machine, uint64_t address, uint64_t count, size_t granule)
{
    for (uint64_t i = 0; i < count; i++)
        machine->driver->unmap(machine, address + i * granule, granule);
}

static enum facet_status map_granules(struct gpu_machine *machine, uint32_t device, uint64_t address,
                                      const gpu_memory_handle *handles, uint64_t count, struct facet_error *error)
{
    size_t granule = machine->devices[device].granule;
    enum facet_status status = FACET_OK;
    uint64_t done = 0;

    for (; done < count && status == FACET_OK; done += status == FACET_OK)
        status = machine->driver->map(machine, address + done * granule, granule, handles[done], error);
    if (status == FACET_OK)
        status = machine->driver->allow(machine, device, address, count * granule, error);
    if (status != FACET_OK)
        unmap_granules(machine, address, done, granule);
    return status;
}

/* Finds the pages and counts them as mapped, so that they are not freed during the driver's call. */
static enum facet_status hold_pages(struct gpu_machine *machine, const struct gpu_context *context, uint64_t number,
                                    uint64_t offset, uint64_t bytes, struct gpu_pages **ret_pages,
                                    struct facet_error *error)
{
    size_t granule = machine->devices[context->device].granule;
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&machine->context_lock);
    struct gpu_pages *pages = find_pages(machine, context, number);
    uint64_t size = pages ? pages->count * granule : 0;
    if (!pages)
        status = no_pages(number, error);
    else if (offset % granule || offset > size || bytes > size - offset)
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE,
                                "%" PRIu64 " bytes from %" PRIu64 " of pages %" PRIu64
                                ": expected whole pages of %" PRIu64 " bytes",
                                bytes, offset, number, size);
    else
        pages->mappings += bytes / granule;
    pthread_mutex_unlock(&machine->context_lock);
    if (status == FACET_OK)
        *ret_pages = pages;
    return status;
}

static void drop_pages(struct gpu_machine *machine, struct gpu_pages *pages, uint64_t mappings)
{
    pthread_mutex_lock(&machine->context_lock);
    pages->mappings -= mappings;
    bool is_free = remove_if_unused(machine, pages);
    pthread_mutex_unlock(&machine->context_lock);
    if (is_free)
        free_pages(machine, pages);
}

static enum facet_status map_pages(struct gpu_machine *machine, struct gpu_context *context, uint64_t address,
                                   uint64_t number, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    const struct gpu_device *device = &machine->devices[context->device];
    struct gpu_reservation *reservation;
    struct gpu_pages *pages;
    enum facet_status status = check_place(machine, context, address, bytes, &reservation, error);

    if (status != FACET_OK)
        return status;
    uint64_t first = (address - reservation->address) / device->granule, count = bytes / device->granule;
    for (uint64_t i = 0; i < count; i++) {
        if (reservation->granules[first + i].pages)
            return facet_kit_fail(error, FACET_BUSY, "0x%" PRIx64 ": something is mapped there",
                                  address + i * device->granule);
    }
    status = hold_pages(machine, context, number, offset, bytes, &pages, error);
    if (status != FACET_OK)
        return status;
    status = map_granules(machine, context->device, address, &pages->granules[offset / device->granule], count, error);
    if (status != FACET_OK) {
        drop_pages(machine, pages, count);
        return status;
    }
    for (uint64_t i = 0; i < count; i++)
        reservation->granules[first + i].pages = pages;
    return FACET_OK;
}

enum facet_status gpu_pages_map(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    enum facet_status status = enter_context(machine, number, GPU_USE_CHANGE, &context, error);

    if (status != FACET_OK)
        return status;
    status = map_pages(machine, context, address, pages, offset, bytes, error);
    gpu_context_leave(machine, context);
    return status;
}

/* Unmaps those of the `count` granules from `first` that are mapped. The device has no work left that may use them. */
static void unmap_range(struct gpu_machine *machine, struct gpu_reservation *reservation, size_t granule,
                        uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        struct gpu_pages *pages = reservation->granules[i].pages;

        if (!pages)
            continue;
        machine->driver->unmap(machine, reservation->address + i * granule, granule);
        reservation->granules[i].pages = NULL;
        drop_pages(machine, pages, 1);
    }
}

static enum facet_status unmap_pages(struct gpu_machine *machine, struct gpu_context *context, uint64_t address,
                                     uint64_t bytes, struct facet_error *error)
{
    struct gpu_reservation *reservation;
    enum facet_status status = check_place(machine, context, address, bytes, &reservation, error);

    if (status != FACET_OK)
        return status;
    if (!gpu_reservations_hold(machine, context, address, bytes))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%" PRIu64 " bytes at 0x%" PRIx64 ": not all of it is mapped",
                              bytes, address);
    /* While the context's lock is held exclusively, nothing more is submitted to the driver. */
    status = gpu_executor_check_idle(machine, context, error);
    if (status == FACET_OK)
        status = machine->driver->synchronize(machine, error);
    if (status != FACET_OK)
        return status;
    size_t granule = machine->devices[context->device].granule;
    unmap_range(machine, reservation, granule, (address - reservation->address) / granule, bytes / granule);
    return FACET_OK;
}

enum facet_status gpu_pages_unmap(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                  uint64_t bytes, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    enum facet_status status = enter_context(machine, number, GPU_USE_CHANGE, &context, error);

    if (status != FACET_OK)
        return status;
    status = unmap_pages(machine, context, address, bytes, error);
    gpu_context_leave(machine, context);
    return status;
}

/* --- the end of a context --- */

void gpu_reservations_free(struct gpu_machine *machine, struct gpu_context *context)
{
    size_t granule = machine->devices[context->device].granule;

    while (context->reservations) {
        struct gpu_reservation *reservation = *(struct gpu_reservation **)context->reservations;

        unmap_range(machine, reservation, granule, 0, reservation->bytes / granule);
        machine->driver->unreserve(machine, reservation->whole_address, reservation->whole_bytes, NULL);
        tdelete(reservation, &context->reservations, compare_reservations);
        free(reservation);
    }
}

struct owned_search {
    struct gpu_context *context;
    struct gpu_pages *found;
};

static void find_owned(const void *node, VISIT visit, void *closure)
{
    struct gpu_pages *pages = *(struct gpu_pages *const *)node;
    struct owned_search *search = closure;

    if ((visit == postorder || visit == leaf) && pages->owner == search->context)
        search->found = pages;
}

void gpu_pages_drop_owner(struct gpu_machine *machine, struct gpu_context *context)
{
    for (;;) {
        struct owned_search search = {.context = context};

        pthread_mutex_lock(&machine->context_lock);
        twalk_r(machine->pages, find_owned, &search);
        bool is_free = false;
        if (search.found) {
            search.found->owner = NULL;
            search.found->destroyed = true;
            is_free = remove_if_unused(machine, search.found);
        }
        pthread_mutex_unlock(&machine->context_lock);
        if (is_free)
            free_pages(machine, search.found);
        if (!search.found)
            return;
    }
}
