/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reserved addresses, physical pages, and what is mapped where.
 * Never: keeps a handle that nobody can name or has mapped.
 *
 * The driver maps and unmaps whole handles only, while the ABI maps any part of pages and unmaps any part of what is
 * mapped. So pages are granules with a handle each, and the driver is told of them one by one.
 *
 * A context's addresses are under its lock. How often pages are mapped, by whichever context, is under the instance's.
 */
#include <search.h>
#include <stdlib.h>

#include "cuda.h"

#define SIZE_MOST (UINT64_C(1) << 62)

static int compare_reservations(const void *left, const void *right)
{
    const struct cuda_reservation *a = left, *b = right;

    if (a->address + a->bytes <= b->address)
        return -1;
    return b->address + b->bytes <= a->address;
}

static int compare_pages(const void *left, const void *right)
{
    const struct cuda_pages *a = left, *b = right;

    return a->number < b->number ? -1 : a->number > b->number;
}

static struct cuda_reservation *reservation_at(const struct cuda_context *context, uint64_t address)
{
    const struct cuda_reservation key = {.address = address, .bytes = 1};
    void *const *found = tfind(&key, &context->reservations, compare_reservations);

    return found ? *found : NULL;
}

static CUmemAllocationProp properties_of(const struct cuda_device *device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
    };
}

/* Enters a context whose device can map. */
static enum facet_status enter(struct facet_provider_instance *instance, uint64_t number, enum cuda_use use,
                               struct cuda_context **ret_context, struct facet_error *error)
{
    enum facet_status status = cuda_context_enter(instance, number, use, ret_context, error);

    if (status != FACET_OK || instance->devices[(*ret_context)->device].granule)
        return status;
    cuda_context_leave(instance, *ret_context);
    return facet_kit_fail(error, FACET_UNSUPPORTED, "the device cannot map memory at addresses that stay");
}

static enum facet_status check_size(const struct facet_provider_instance *instance, const struct cuda_context *context,
                                    const char *what, uint64_t bytes, struct facet_error *error)
{
    size_t granule = instance->devices[context->device].granule;

    if (bytes && bytes % granule == 0 && bytes <= SIZE_MOST)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s %" PRIu64 ": expected a multiple of %zu", what, bytes,
                          granule);
}

/* --- addresses --- */

/* The driver need not align to more than a granule: then an aligned part of more addresses is taken. */
static CUresult reserve_addresses(const struct cuda_driver *driver, struct cuda_reservation *reservation,
                                  uint64_t granule, uint64_t align)
{
    uint64_t more = align > granule ? align - granule : 0;
    CUdeviceptr address = 0;
    CUresult result = driver->cuMemAddressReserve(&address, reservation->bytes + more, 0, 0, 0);

    if (result != CUDA_SUCCESS)
        return result;
    reservation->whole_address = address;
    reservation->whole_bytes = reservation->bytes + more;
    reservation->address = align ? (address + align - 1) / align * align : address;
    return CUDA_SUCCESS;
}

static enum facet_status reserve(struct facet_provider_instance *instance, struct cuda_context *context, uint64_t bytes,
                                 uint64_t align, uint64_t *ret_address, struct facet_error *error)
{
    size_t granule = instance->devices[context->device].granule;
    struct cuda_reservation *reservation =
        calloc(1, sizeof *reservation + bytes / granule * sizeof(struct cuda_mapping));

    if (!reservation)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a reservation");
    reservation->bytes = bytes;
    CUresult result = reserve_addresses(&instance->driver, reservation, granule, align);
    if (result != CUDA_SUCCESS) {
        free(reservation);
        return cuda_driver_fail(&instance->driver, error, "cuMemAddressReserve", result);
    }
    if (!tsearch(reservation, &context->reservations, compare_reservations)) {
        instance->driver.cuMemAddressFree(reservation->whole_address, reservation->whole_bytes);
        free(reservation);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a reservation");
    }
    *ret_address = reservation->address;
    return FACET_OK;
}

enum facet_status cuda_pages_reserve(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                     uint64_t align, uint64_t *ret_address, struct facet_error *error)
{
    struct cuda_context *context;

    if (!ret_address)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_address: expected a place for it, not NULL");
    enum facet_status status = enter(instance, number, CUDA_USE_CHANGE, &context, error);
    if (status != FACET_OK)
        return status;
    status = check_size(instance, context, "bytes", bytes, error);
    if (status == FACET_OK && align) {
        status = check_size(instance, context, "align", align, error);
        if (status == FACET_OK && (align & (align - 1)))
            status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "align %" PRIu64 ": expected a power of two", align);
    }
    if (status == FACET_OK)
        status = reserve(instance, context, bytes, align, ret_address, error);
    cuda_context_leave(instance, context);
    return status;
}

static bool is_empty(const struct cuda_reservation *reservation, size_t granule)
{
    for (uint64_t i = 0; i < reservation->bytes / granule; i++) {
        if (reservation->granules[i].pages)
            return false;
    }
    return true;
}

static enum facet_status release(struct facet_provider_instance *instance, struct cuda_context *context,
                                 uint64_t address, struct facet_error *error)
{
    struct cuda_reservation *reservation = reservation_at(context, address);

    if (!reservation || reservation->address != address)
        return facet_kit_fail(error, FACET_NOT_FOUND, "nothing was reserved at 0x%" PRIx64, address);
    if (!is_empty(reservation, instance->devices[context->device].granule))
        return facet_kit_fail(error, FACET_BUSY, "0x%" PRIx64 ": something is mapped there", address);
    CUresult result = instance->driver.cuMemAddressFree(reservation->whole_address, reservation->whole_bytes);
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(&instance->driver, error, "cuMemAddressFree", result);
    tdelete(reservation, &context->reservations, compare_reservations);
    free(reservation);
    return FACET_OK;
}

enum facet_status cuda_pages_release(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     struct facet_error *error)
{
    struct cuda_context *context;
    enum facet_status status = enter(instance, number, CUDA_USE_CHANGE, &context, error);

    if (status != FACET_OK)
        return status;
    status = release(instance, context, address, error);
    cuda_context_leave(instance, context);
    return status;
}

bool cuda_reservations_hold(const struct facet_provider_instance *instance, const struct cuda_context *context,
                            uint64_t address, uint64_t bytes)
{
    size_t granule = instance->devices[context->device].granule;
    const struct cuda_reservation *reservation = granule ? reservation_at(context, address) : NULL;

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

static void free_pages(struct facet_provider_instance *instance, struct cuda_pages *pages)
{
    for (uint64_t i = 0; i < pages->count; i++)
        instance->driver.cuMemRelease(pages->granules[i]);
    free(pages);
}

/* With the instance's lock: takes pages out of its list when nobody can name them or has them mapped; then they are the
 * caller's to free, without the lock. */
static bool is_gone(struct facet_provider_instance *instance, struct cuda_pages *pages)
{
    if (!pages->destroyed || pages->mappings)
        return false;
    tdelete(pages, &instance->pages, compare_pages);
    pages->worker->used_bytes -= pages->count * instance->devices[pages->device].granule;
    cuda_worker_drop(&instance->devices[pages->device], pages->worker);
    return true;
}

/* With the instance's lock: pages that `context` may map. */
static struct cuda_pages *find_pages(const struct facet_provider_instance *instance, const struct cuda_context *context,
                                     uint64_t number)
{
    const struct cuda_pages key = {.number = number};
    void *const *found = tfind(&key, &instance->pages, compare_pages);
    struct cuda_pages *pages = found ? *found : NULL;

    if (!pages || pages->destroyed || pages->device != context->device)
        return NULL;
    return pages->owner == context || pages->shared ? pages : NULL;
}

static enum facet_status no_pages(uint64_t number, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "there are no pages %" PRIu64, number);
}

static enum facet_status make_pages(struct facet_provider_instance *instance, const struct cuda_context *context,
                                    uint64_t bytes, struct cuda_pages **ret_pages, struct facet_error *error)
{
    const struct cuda_device *device = &instance->devices[context->device];
    const CUmemAllocationProp properties = properties_of(device);
    uint64_t count = bytes / device->granule;

    if (bytes > instance->infos[context->device].memory_bytes)
        return facet_kit_fail(error, FACET_NO_SPACE, "%" PRIu64 " bytes: the device has %" PRIu64, bytes,
                              instance->infos[context->device].memory_bytes);
    struct cuda_pages *pages = calloc(1, sizeof *pages + count * sizeof pages->granules[0]);
    if (!pages)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for pages");
    for (; pages->count < count; pages->count++) {
        CUresult result = instance->driver.cuMemCreate(&pages->granules[pages->count], device->granule, &properties, 0);
        if (result != CUDA_SUCCESS) {
            free_pages(instance, pages);
            return cuda_driver_fail(&instance->driver, error, "cuMemCreate", result);
        }
    }
    *ret_pages = pages;
    return FACET_OK;
}

/* False when memory is out. */
static bool enter_pages(struct facet_provider_instance *instance, struct cuda_context *context,
                        struct cuda_pages *pages)
{
    pthread_mutex_lock(&instance->context_lock);
    pages->number = ++instance->last_number;
    pages->owner = context;
    pages->worker = context->worker;
    pages->device = context->device;
    bool entered = tsearch(pages, &instance->pages, compare_pages);
    if (entered)
        context->worker->used_bytes += pages->count * instance->devices[context->device].granule;
    pthread_mutex_unlock(&instance->context_lock);
    return entered;
}

enum facet_status cuda_pages_create(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                    uint64_t *ret_pages, struct facet_error *error)
{
    struct cuda_context *context;
    struct cuda_pages *pages = NULL;

    if (!ret_pages)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_pages: expected a place for it, not NULL");
    enum facet_status status = enter(instance, number, CUDA_USE_READ, &context, error);
    if (status != FACET_OK)
        return status;
    status = check_size(instance, context, "bytes", bytes, error);
    if (status == FACET_OK)
        status = make_pages(instance, context, bytes, &pages, error);
    if (status == FACET_OK && !enter_pages(instance, context, pages)) {
        free_pages(instance, pages);
        status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for pages");
    }
    if (status == FACET_OK)
        *ret_pages = pages->number;
    cuda_context_leave(instance, context);
    return status;
}

enum facet_status cuda_pages_destroy(struct facet_provider_instance *instance, uint64_t number, uint64_t pages_number,
                                     struct facet_error *error)
{
    struct cuda_context *context;
    bool gone = false;
    enum facet_status status = enter(instance, number, CUDA_USE_READ, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->context_lock);
    struct cuda_pages *pages = find_pages(instance, context, pages_number);
    if (!pages || pages->owner != context) {
        status = no_pages(pages_number, error);
    } else {
        pages->destroyed = true;
        gone = is_gone(instance, pages);
    }
    pthread_mutex_unlock(&instance->context_lock);
    if (gone)
        free_pages(instance, pages);
    cuda_context_leave(instance, context);
    return status;
}

enum facet_status cuda_pages_share(struct facet_provider_instance *instance, uint64_t number, uint64_t pages_number,
                                   struct facet_error *error)
{
    struct cuda_context *context;
    enum facet_status status = enter(instance, number, CUDA_USE_READ, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->context_lock);
    struct cuda_pages *pages = find_pages(instance, context, pages_number);
    if (pages && pages->owner == context)
        pages->shared = true;
    else
        status = no_pages(pages_number, error);
    pthread_mutex_unlock(&instance->context_lock);
    cuda_context_leave(instance, context);
    return status;
}

/* --- mapping --- */

/* Whole granules inside one reservation. */
static enum facet_status check_place(const struct facet_provider_instance *instance, const struct cuda_context *context,
                                     uint64_t address, uint64_t bytes, struct cuda_reservation **ret_reservation,
                                     struct facet_error *error)
{
    size_t granule = instance->devices[context->device].granule;
    struct cuda_reservation *reservation = reservation_at(context, address);
    enum facet_status status = check_size(instance, context, "bytes", bytes, error);

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

static void unmap_granules(struct facet_provider_instance *instance, uint64_t address, uint64_t count, size_t granule)
{
    for (uint64_t i = 0; i < count; i++)
        instance->driver.cuMemUnmap(address + i * granule, granule);
}

static enum facet_status map_granules(struct facet_provider_instance *instance, const struct cuda_device *device,
                                      uint64_t address, const CUmemGenericAllocationHandle *handles, uint64_t count,
                                      struct facet_error *error)
{
    const CUmemAccessDesc access = {.location = properties_of(device).location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const char *call = "cuMemMap";
    CUresult result = CUDA_SUCCESS;
    uint64_t done = 0;

    for (; done < count && result == CUDA_SUCCESS; done += result == CUDA_SUCCESS)
        result = instance->driver.cuMemMap(address + done * device->granule, device->granule, 0, handles[done], 0);
    if (result == CUDA_SUCCESS) {
        call = "cuMemSetAccess";
        result = instance->driver.cuMemSetAccess(address, count * device->granule, &access, 1);
    }
    if (result == CUDA_SUCCESS)
        return FACET_OK;
    unmap_granules(instance, address, done, device->granule);
    return cuda_driver_fail(&instance->driver, error, call, result);
}

/* Finds the pages and counts them mapped, so that they stay while the driver works. */
static enum facet_status hold_pages(struct facet_provider_instance *instance, const struct cuda_context *context,
                                    uint64_t number, uint64_t offset, uint64_t bytes, struct cuda_pages **ret_pages,
                                    struct facet_error *error)
{
    size_t granule = instance->devices[context->device].granule;
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&instance->context_lock);
    struct cuda_pages *pages = find_pages(instance, context, number);
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
    pthread_mutex_unlock(&instance->context_lock);
    if (status == FACET_OK)
        *ret_pages = pages;
    return status;
}

static void drop_pages(struct facet_provider_instance *instance, struct cuda_pages *pages, uint64_t mappings)
{
    pthread_mutex_lock(&instance->context_lock);
    pages->mappings -= mappings;
    bool gone = is_gone(instance, pages);
    pthread_mutex_unlock(&instance->context_lock);
    if (gone)
        free_pages(instance, pages);
}

static enum facet_status map(struct facet_provider_instance *instance, struct cuda_context *context, uint64_t address,
                             uint64_t number, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    const struct cuda_device *device = &instance->devices[context->device];
    struct cuda_reservation *reservation;
    struct cuda_pages *pages;
    enum facet_status status = check_place(instance, context, address, bytes, &reservation, error);

    if (status != FACET_OK)
        return status;
    uint64_t first = (address - reservation->address) / device->granule, count = bytes / device->granule;
    for (uint64_t i = 0; i < count; i++) {
        if (reservation->granules[first + i].pages)
            return facet_kit_fail(error, FACET_BUSY, "0x%" PRIx64 ": something is mapped there",
                                  address + i * device->granule);
    }
    status = hold_pages(instance, context, number, offset, bytes, &pages, error);
    if (status != FACET_OK)
        return status;
    status = map_granules(instance, device, address, &pages->granules[offset / device->granule], count, error);
    if (status != FACET_OK) {
        drop_pages(instance, pages, count);
        return status;
    }
    for (uint64_t i = 0; i < count; i++)
        reservation->granules[first + i].pages = pages;
    return FACET_OK;
}

enum facet_status cuda_pages_map(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                 uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    struct cuda_context *context;
    enum facet_status status = enter(instance, number, CUDA_USE_CHANGE, &context, error);

    if (status != FACET_OK)
        return status;
    status = map(instance, context, address, pages, offset, bytes, error);
    cuda_context_leave(instance, context);
    return status;
}

/* What is mapped at `count` granules from `first`, and is, goes; the driver is done with it before. */
static void unmap_range(struct facet_provider_instance *instance, struct cuda_reservation *reservation, size_t granule,
                        uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        struct cuda_pages *pages = reservation->granules[i].pages;

        if (!pages)
            continue;
        instance->driver.cuMemUnmap(reservation->address + i * granule, granule);
        reservation->granules[i].pages = NULL;
        drop_pages(instance, pages, 1);
    }
}

static enum facet_status unmap(struct facet_provider_instance *instance, struct cuda_context *context, uint64_t address,
                               uint64_t bytes, struct facet_error *error)
{
    struct cuda_reservation *reservation;
    enum facet_status status = check_place(instance, context, address, bytes, &reservation, error);

    if (status != FACET_OK)
        return status;
    if (!cuda_reservations_hold(instance, context, address, bytes))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%" PRIu64 " bytes at 0x%" PRIx64 ": not all of it is mapped",
                              bytes, address);
    CUresult result = instance->driver.cuCtxSynchronize();
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(&instance->driver, error, "cuCtxSynchronize", result);
    size_t granule = instance->devices[context->device].granule;
    unmap_range(instance, reservation, granule, (address - reservation->address) / granule, bytes / granule);
    return FACET_OK;
}

enum facet_status cuda_pages_unmap(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                   uint64_t bytes, struct facet_error *error)
{
    struct cuda_context *context;
    enum facet_status status = enter(instance, number, CUDA_USE_TAKE, &context, error);

    if (status != FACET_OK)
        return status;
    status = unmap(instance, context, address, bytes, error);
    cuda_context_leave(instance, context);
    return status;
}

/* --- the end of a context --- */

void cuda_reservations_free(struct facet_provider_instance *instance, struct cuda_context *context)
{
    size_t granule = instance->devices[context->device].granule;

    while (context->reservations) {
        struct cuda_reservation *reservation = *(struct cuda_reservation **)context->reservations;

        unmap_range(instance, reservation, granule, 0, reservation->bytes / granule);
        instance->driver.cuMemAddressFree(reservation->whole_address, reservation->whole_bytes);
        tdelete(reservation, &context->reservations, compare_reservations);
        free(reservation);
    }
}

struct orphanage {
    struct cuda_context *context;
    struct cuda_pages *found;
};

static void find_owned(const void *node, VISIT visit, void *closure)
{
    struct cuda_pages *pages = *(struct cuda_pages *const *)node;
    struct orphanage *search = closure;

    if ((visit == postorder || visit == leaf) && pages->owner == search->context)
        search->found = pages;
}

void cuda_pages_orphan(struct facet_provider_instance *instance, struct cuda_context *context)
{
    for (;;) {
        struct orphanage search = {.context = context};

        pthread_mutex_lock(&instance->context_lock);
        twalk_r(instance->pages, find_owned, &search);
        bool gone = false;
        if (search.found) {
            search.found->owner = NULL;
            search.found->destroyed = true;
            gone = is_gone(instance, search.found);
        }
        pthread_mutex_unlock(&instance->context_lock);
        if (gone)
            free_pages(instance, search.found);
        if (!search.found)
            return;
    }
}
