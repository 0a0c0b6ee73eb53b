/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a provider's device as a page backend, through a session: chunks are pages of the owner's context, shared with
 * the contexts that spaces are mapped in.
 * Never: launches work, or keeps a copy of state that the provider changes.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include <facet/session.h>

#include "memory/space.h"

struct device {
    const struct facet_memory_ops *ops;
    struct facet_provider_instance *instance;
    uint64_t owner;
    bool can_move_pages;

    uint64_t page_bytes; /* the page size of mappings */

    pthread_mutex_t window_lock; /* protects the window: the owner's addresses at which pages are written and read */
    uint64_t window, window_bytes;
};

/* --- chunks ------------------------------------------------------------------------------------------------------- */

static enum facet_status backend_create_pages(void *data, uint64_t bytes, uint64_t *ret_chunk,
                                              struct facet_error *error)
{
    const struct device *device = data;
    uint64_t chunk;
    enum facet_status status = device->ops->create_pages(device->instance, device->owner, bytes, &chunk, error);

    if (status == FACET_QUOTA) /* the quota of the owner's context: for spaces the device has no more memory */
        return facet_error_set(error, FACET_NO_SPACE, "the device has no %" PRIu64 " more bytes for this memory",
                               bytes);
    if (status != FACET_OK)
        return status;
    status = device->ops->share_pages(device->instance, device->owner, chunk, error);
    if (status != FACET_OK) {
        (void)device->ops->destroy_pages(device->instance, device->owner, chunk, NULL);
        return status;
    }
    *ret_chunk = chunk;
    return FACET_OK;
}

static void backend_destroy_pages(void *data, uint64_t chunk, uint64_t bytes)
{
    const struct device *device = data;

    (void)bytes;
    (void)device->ops->destroy_pages(device->instance, device->owner, chunk, NULL);
}

/* --- a space's context -------------------------------------------------------------------------------------------- */

static enum facet_status reserve_addresses(void *data, uint64_t context, uint64_t bytes, uint64_t align,
                                           uint64_t *ret_address, struct facet_error *error)
{
    const struct device *device = data;

    return device->ops->reserve(device->instance, context, bytes, align, ret_address, error);
}

static bool release_addresses(void *data, uint64_t context, uint64_t address, uint64_t bytes)
{
    const struct device *device = data;

    (void)bytes;
    return device->ops->release(device->instance, context, address, NULL) == FACET_OK;
}

static enum facet_status map_pages(void *data, uint64_t context, uint64_t address, const struct facet_page_place *place,
                                   uint64_t bytes, struct facet_error *error)
{
    const struct device *device = data;

    return device->ops->map(device->instance, context, address, place->pages, place->offset, bytes, error);
}

static enum facet_status unmap_pages(void *data, uint64_t context, uint64_t address, uint64_t bytes)
{
    const struct device *device = data;

    return device->ops->unmap(device->instance, context, address, bytes, NULL);
}

static enum facet_status move_pages(void *data, uint64_t context, uint64_t address, const struct facet_page_move *move,
                                    uint64_t bytes, struct facet_error *error)
{
    const struct facet_page_place *to = &move->to;
    const struct device *device = data;

    if (!device->can_move_pages)
        return facet_error_set(error, FACET_UNSUPPORTED, "this device does not move pages while they are used");
    return device->ops->move(device->instance, context, address, to->pages, to->offset, bytes, error);
}

static enum facet_status write_to(void *data, uint64_t context, uint64_t address, const void *from, uint64_t bytes,
                                  struct facet_error *error)
{
    const struct device *device = data;

    return device->ops->write(device->instance, context, address, from, bytes, error);
}

static enum facet_status read_from(void *data, uint64_t context, uint64_t address, void *ret_data, uint64_t bytes,
                                   struct facet_error *error)
{
    const struct device *device = data;

    return device->ops->read(device->instance, context, address, bytes, ret_data, error);
}

static enum facet_status copy_bytes(void *data, uint64_t context, uint64_t to, uint64_t from, uint64_t bytes,
                                    struct facet_error *error)
{
    const struct device *device = data;

    return device->ops->copy(device->instance, context, to, from, bytes, error);
}

static enum facet_status fill_bytes(void *data, uint64_t context, uint64_t address, uint8_t value, uint64_t bytes,
                                    struct facet_error *error)
{
    const struct device *device = data;

    return device->ops->fill(device->instance, context, address, value, bytes, error);
}

/*
 * --- access through the owner's context
 * ---------------------------------------------------------------------------------------
 */

/*
 * Pages are accessed through a window of the owner's addresses, one access at a time. No work is ever queued in the
 * owner's context, so its calls never wait.
 */
struct access {
    const struct facet_page_place *place;
    uint64_t skip, bytes;
    const void *from;
    void *ret_data; /* NULL: the access writes, from `from` or zeros */
};

/* The caller holds the window's lock. */
static enum facet_status ensure_window(struct device *device, uint64_t bytes, struct facet_error *error)
{
    if (bytes <= device->window_bytes)
        return FACET_OK;
    if (device->window_bytes)
        (void)device->ops->release(device->instance, device->owner, device->window, NULL);
    device->window_bytes = 0;
    enum facet_status status = device->ops->reserve(device->instance, device->owner, bytes, 0, &device->window, error);
    if (status == FACET_OK)
        device->window_bytes = bytes;
    return status;
}

static enum facet_status do_access(const struct device *device, const struct access *access, struct facet_error *error)
{
    const struct facet_memory_ops *ops = device->ops;
    struct facet_provider_instance *instance = device->instance;
    uint64_t address = device->window + access->skip;

    if (access->ret_data)
        return ops->read(instance, device->owner, address, access->bytes, access->ret_data, error);
    if (access->from)
        return ops->write(instance, device->owner, address, access->from, access->bytes, error);
    return ops->fill(instance, device->owner, address, 0, access->bytes, error);
}

static enum facet_status access_locked(struct device *device, const struct access *access, struct facet_error *error)
{
    const struct facet_memory_ops *ops = device->ops;
    struct facet_provider_instance *instance = device->instance;
    uint64_t bytes = (access->skip + access->bytes + device->page_bytes - 1) / device->page_bytes * device->page_bytes;
    enum facet_status status = ensure_window(device, bytes, error);

    if (status == FACET_OK)
        status = ops->map(instance, device->owner, device->window, access->place->pages, access->place->offset, bytes,
                          error);
    if (status != FACET_OK)
        return status;
    status = do_access(device, access, error);
    enum facet_status unmapped =
        ops->unmap(instance, device->owner, device->window, bytes, status == FACET_OK ? error : NULL);
    if (unmapped != FACET_OK)
        device->window_bytes = 0; /* the pages are still mapped: these addresses are not used again */
    return status == FACET_OK ? unmapped : status;
}

static enum facet_status access_pages(struct device *device, const struct access *access, struct facet_error *error)
{
    pthread_mutex_lock(&device->window_lock);
    enum facet_status status = access_locked(device, access, error);
    pthread_mutex_unlock(&device->window_lock);
    return status;
}

static enum facet_status put_bytes(void *data, const struct facet_page_place *place, uint64_t skip, const void *from,
                                   uint64_t bytes, struct facet_error *error)
{
    return access_pages(data, &(struct access){.place = place, .skip = skip, .bytes = bytes, .from = from}, error);
}

static enum facet_status get_bytes(void *data, const struct facet_page_place *place, uint64_t skip, void *ret_data,
                                   uint64_t bytes, struct facet_error *error)
{
    return access_pages(data, &(struct access){.place = place, .skip = skip, .bytes = bytes, .ret_data = ret_data},
                        error);
}

static void close_device(void *data)
{
    struct device *device = data;

    if (device->window_bytes)
        (void)device->ops->release(device->instance, device->owner, device->window, NULL);
    pthread_mutex_destroy(&device->window_lock);
    free(device);
}

/* --- the backend -------------------------------------------------------------------------------------------------- */

static const struct facet_page_ops operations = {
    .close = close_device,
    .create = backend_create_pages,
    .destroy = backend_destroy_pages,
    .reserve = reserve_addresses,
    .release = release_addresses,
    .map = map_pages,
    .unmap = unmap_pages,
    .put = put_bytes,
    .get = get_bytes,
    .move = move_pages,
    .write = write_to,
    .read = read_from,
    .copy = copy_bytes,
    .fill = fill_bytes,
};

/* Reads the capabilities that a device declares. */
static enum facet_status find_capabilities(struct facet_session *session, uint32_t number, uint64_t *ret_capabilities,
                                           struct facet_error *error)
{
    const struct facet_device_ops *ops = facet_session_provider(session)->device;
    struct facet_provider_instance *instance = facet_session_instance(session);
    struct facet_device_info *infos = NULL;
    uint32_t count = 0;
    enum facet_status status = ops->list(instance, NULL, sizeof *infos, 0, &count, error);

    while (status == FACET_TOO_SMALL) {
        free(infos);
        infos = calloc(count, sizeof *infos);
        if (!infos)
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of %u devices", count);
        status = ops->list(instance, infos, sizeof *infos, count, &count, error);
    }
    if (status == FACET_OK && number < count)
        *ret_capabilities = infos[number].capabilities;
    else if (status == FACET_OK)
        status = facet_error_argument(error, FACET_NOT_FOUND, "device",
                                      "device: %u, expected less than %u, the number of devices", number, count);
    free(infos);
    return status;
}

enum facet_status facet_page_backend_device(struct facet_session *session, uint32_t number, uint64_t owner,
                                            struct facet_page_backend *ret_backend, struct facet_error *error)
{
    const uint64_t needed = FACET_CAN_MAP_MEMORY | FACET_CAN_SHARE_PAGES;
    const struct facet_memory_ops *ops = facet_session_provider(session)->memory;
    struct facet_memory_info info = {.size = sizeof info};
    uint64_t capabilities = 0;
    enum facet_status status = find_capabilities(session, number, &capabilities, error);

    if (status == FACET_OK && (capabilities & needed) != needed)
        status =
            facet_error_set(error, FACET_UNSUPPORTED,
                            "device %u does not map and share pages, which memory for several vGPUs needs", number);
    if (status == FACET_OK)
        status = ops->info(facet_session_instance(session), owner, &info, error);
    if (status != FACET_OK)
        return status;
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a device's page backend");
    *device = (struct device){
        .ops = ops,
        .instance = facet_session_instance(session),
        .owner = owner,
        .can_move_pages = capabilities & FACET_CAN_MOVE_PAGES,
        .page_bytes = info.page_bytes,
        .window_lock = PTHREAD_MUTEX_INITIALIZER,
    };
    *ret_backend = (struct facet_page_backend){
        .ops = &operations,
        .data = device,
        .page_bytes = info.page_bytes,
        .memory_bytes = info.total_bytes,
        .foreign_addresses = facet_session_place(session) == FACET_SESSION_CHILD,
    };
    return FACET_OK;
}
