/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table `memory`. Never: takes away memory that a launch may use. */
#include <stdlib.h>

#include "cpu.h"
#include "pages.h"

static enum facet_status memory_create_context(struct facet_provider_instance *instance, uint32_t device,
                                               const char *partition_uuid, const char *worker, uint64_t *ret_context,
                                               struct facet_error *error)
{
    enum facet_status status = cpu_check_device(instance, device, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    CPU_REQUIRE(ret_context, error);
    if (partition_uuid && partition_uuid[0])
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition_uuid '%.63s': expected none, a processor has none",
                              partition_uuid);
    return cpu_context_create(instance, worker, ret_context, error);
}

static enum facet_status memory_destroy_context(struct facet_provider_instance *instance, uint64_t number,
                                                struct facet_error *error)
{
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    cpu_context_end(context);
    cpu_context_drop(context);
    return FACET_OK;
}

static enum facet_status memory_info(struct facet_provider_instance *instance, uint64_t number,
                                     struct facet_memory_info *ret_info, struct facet_error *error)
{
    struct facet_memory_info info = {.size = sizeof info, .page_bytes = CPU_PAGE_BYTES};
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    bool limited = context->worker->valid & FACET_WORKER_HAS_MEMORY;
    info.total_bytes = limited ? context->worker->memory_bytes : instance->info.memory_bytes;
    info.used_bytes = limited ? context->worker->used_bytes : cpu_memory_used(instance);
    pthread_mutex_unlock(&instance->lock);
    cpu_context_drop(context);
    return facet_kit_struct(&info, sizeof info, ret_info, error);
}

static enum facet_status check_bytes(uint64_t bytes, struct facet_error *error)
{
    if (bytes > 0)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE, "bytes 0: expected at least 1");
}

static enum facet_status check_aligned(const char *name, uint64_t value, struct facet_error *error)
{
    if (value % CPU_PAGE_BYTES == 0)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s %" PRIu64 ": expected a multiple of the page, %" PRIu64, name,
                          value, CPU_PAGE_BYTES);
}

static enum facet_status check_pages(uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = check_bytes(bytes, error);

    return status == FACET_OK ? check_aligned("bytes", bytes, error) : status;
}

/* --- plain memory --- */

static enum facet_status alloc_plain(struct cpu_context *context, uint64_t bytes, uint64_t *ret_address,
                                     struct facet_error *error)
{
    uint64_t rounded = (bytes + CPU_BLOCK_BYTES - 1) / CPU_BLOCK_BYTES * CPU_BLOCK_BYTES;

    /* A size whose rounding would overflow is charged as it is, and refused as too large. */
    enum facet_status status = cpu_account_charge(context, rounded < bytes ? bytes : rounded, error);
    if (status != FACET_OK)
        return status;
    pthread_rwlock_wrlock(&context->space.lock);
    status = cpu_space_alloc(&context->space, rounded, bytes, ret_address, error);
    pthread_rwlock_unlock(&context->space.lock);
    if (status == FACET_OK)
        cpu_account_reserve(context, rounded, true);
    else
        cpu_account_uncharge(context, rounded);
    return status;
}

static enum facet_status memory_alloc(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                      uint64_t *ret_address, struct facet_error *error)
{
    struct cpu_context *context = NULL;

    CPU_REQUIRE(ret_address, error);
    enum facet_status status = cpu_context_take(instance, number, &context, error);
    if (status != FACET_OK)
        return status;
    status = check_bytes(bytes, error);
    if (status == FACET_OK)
        status = alloc_plain(context, bytes, ret_address, error);
    cpu_context_drop(context);
    return status;
}

static enum facet_status free_plain(struct cpu_context *context, uint64_t address, struct facet_error *error)
{
    struct cpu_deferred_free *deferred = calloc(1, sizeof *deferred);
    struct cpu_range range;

    if (!deferred)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the record of a deferred free");
    pthread_rwlock_wrlock(&context->space.lock);
    enum facet_status status = cpu_space_free(&context->space, address, &range, error);
    if (status == FACET_OK)
        cpu_deferred_free_add(context, deferred, range);
    else
        free(deferred);
    pthread_rwlock_unlock(&context->space.lock);
    if (status != FACET_OK)
        return status;
    cpu_account_reserve(context, range.end - range.at, false);
    cpu_deferred_free_run(context);
    return FACET_OK;
}

static enum facet_status memory_free(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     struct facet_error *error)
{
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    status = free_plain(context, address, error);
    cpu_context_drop(context);
    return status;
}

/* --- addresses and pages --- */

static enum facet_status reserve_addresses(struct cpu_context *context, uint64_t bytes, uint64_t align,
                                           uint64_t *ret_address, struct facet_error *error)
{
    enum facet_status status = check_pages(bytes, error);

    if (status == FACET_OK)
        status = check_aligned("align", align, error);
    if (status == FACET_OK && (align & (align - 1)))
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "align %" PRIu64 ": expected a power of two", align);
    if (status != FACET_OK)
        return status;
    pthread_rwlock_wrlock(&context->space.lock);
    status = cpu_space_reserve(&context->space, bytes, align ? align : CPU_PAGE_BYTES, ret_address, error);
    pthread_rwlock_unlock(&context->space.lock);
    if (status == FACET_OK)
        cpu_account_reserve(context, bytes, true);
    return status;
}

static enum facet_status memory_reserve(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                        uint64_t align, uint64_t *ret_address, struct facet_error *error)
{
    struct cpu_context *context = NULL;

    CPU_REQUIRE(ret_address, error);
    enum facet_status status = cpu_context_take(instance, number, &context, error);
    if (status != FACET_OK)
        return status;
    status = reserve_addresses(context, bytes, align, ret_address, error);
    cpu_context_drop(context);
    return status;
}

static enum facet_status memory_release(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                        struct facet_error *error)
{
    struct cpu_context *context = NULL;
    uint64_t bytes = 0;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_rwlock_wrlock(&context->space.lock);
    status = cpu_space_release(&context->space, address, &bytes, error);
    pthread_rwlock_unlock(&context->space.lock);
    if (status == FACET_OK)
        cpu_account_reserve(context, bytes, false);
    cpu_context_drop(context);
    return status;
}

static enum facet_status create_pages(struct cpu_context *context, uint64_t bytes, uint64_t *ret_pages,
                                      struct facet_error *error)
{
    enum facet_status status = check_pages(bytes, error);

    if (status == FACET_OK)
        status = cpu_account_charge(context, bytes, error);
    if (status != FACET_OK)
        return status;
    uint64_t number = cpu_number_next(context->instance);
    status = cpu_pages_create(&context->space, number, bytes, error);
    if (status == FACET_OK)
        *ret_pages = number;
    else
        cpu_account_uncharge(context, bytes);
    return status;
}

static enum facet_status memory_create_pages(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                             uint64_t *ret_pages, struct facet_error *error)
{
    struct cpu_context *context = NULL;

    CPU_REQUIRE(ret_pages, error);
    enum facet_status status = cpu_context_take(instance, number, &context, error);
    if (status != FACET_OK)
        return status;
    status = create_pages(context, bytes, ret_pages, error);
    cpu_context_drop(context);
    return status;
}

static enum facet_status memory_destroy_pages(struct facet_provider_instance *instance, uint64_t number, uint64_t pages,
                                              struct facet_error *error)
{
    struct cpu_pages_list unused = TAILQ_HEAD_INITIALIZER(unused);
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_rwlock_wrlock(&context->space.lock);
    status = cpu_pages_destroy(&context->space, pages, &unused, error);
    pthread_rwlock_unlock(&context->space.lock);
    cpu_account_free_pages(context, &unused);
    cpu_context_drop(context);
    return status;
}

static enum facet_status memory_share_pages(struct facet_provider_instance *instance, uint64_t number, uint64_t pages,
                                            struct facet_error *error)
{
    struct cpu_context *context = NULL;
    uint64_t bytes = 0;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_rwlock_wrlock(&context->space.lock);
    status = cpu_pages_share(&context->space, pages, context->worker, &bytes, error);
    if (bytes > 0)
        cpu_account_share(context, bytes);
    pthread_rwlock_unlock(&context->space.lock);
    cpu_context_drop(context);
    return status;
}

typedef enum facet_status (*place_func)(struct cpu_space *space, struct cpu_range range, uint64_t pages,
                                        uint64_t offset, struct cpu_pages_list *unused, struct facet_error *error);

/* Maps or moves pages with `func`. */
static enum facet_status place_pages(place_func func, struct facet_provider_instance *instance, uint64_t number,
                                     struct cpu_range range, uint64_t pages, uint64_t offset, struct facet_error *error)
{
    struct cpu_pages_list unused = TAILQ_HEAD_INITIALIZER(unused);
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_rwlock_wrlock(&context->space.lock);
    status = func(&context->space, range, pages, offset, &unused, error);
    pthread_rwlock_unlock(&context->space.lock);
    cpu_account_free_pages(context, &unused);
    cpu_context_drop(context);
    return status;
}

static enum facet_status memory_map(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                    uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    return place_pages(cpu_space_map, instance, number, (struct cpu_range){address, address + bytes}, pages, offset,
                       error);
}

static enum facet_status memory_move(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    return place_pages(cpu_space_move, instance, number, (struct cpu_range){address, address + bytes}, pages, offset,
                       error);
}

static enum facet_status memory_unmap(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                      uint64_t bytes, struct facet_error *error)
{
    struct cpu_pages_list unused = TAILQ_HEAD_INITIALIZER(unused);
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    status = cpu_unmap(context, (struct cpu_range){address, address + bytes}, &unused, error);
    cpu_account_free_pages(context, &unused);
    cpu_context_drop(context);
    return status;
}

/* --- copies: after all queued work --- */

static enum facet_status transfer_now(struct facet_provider_instance *instance, uint64_t number,
                                      const struct cpu_transfer *transfer, struct facet_error *error)
{
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    status = cpu_context_drain(context, CPU_DRAIN_NS, error);
    if (status == FACET_OK)
        status = cpu_transfer_run(context, transfer, error);
    cpu_context_drop(context);
    return status;
}

static enum facet_status memory_write(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                      const void *data, uint64_t bytes, struct facet_error *error)
{
    CPU_REQUIRE(data, error);
    return transfer_now(instance, number,
                        &(struct cpu_transfer){.to = address, .data = data, .bytes = bytes, .fill = CPU_NO_FILL},
                        error);
}

static enum facet_status memory_copy(struct facet_provider_instance *instance, uint64_t number, uint64_t to,
                                     uint64_t from, uint64_t bytes, struct facet_error *error)
{
    return transfer_now(instance, number,
                        &(struct cpu_transfer){.to = to, .from = from, .bytes = bytes, .fill = CPU_NO_FILL}, error);
}

static enum facet_status memory_fill(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     uint8_t value, uint64_t bytes, struct facet_error *error)
{
    return transfer_now(instance, number, &(struct cpu_transfer){.to = address, .fill = value, .bytes = bytes}, error);
}

static enum facet_status memory_read(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     uint64_t bytes, void *ret_data, struct facet_error *error)
{
    struct cpu_context *context = NULL;

    CPU_REQUIRE(ret_data, error);
    enum facet_status status = cpu_context_take(instance, number, &context, error);
    if (status != FACET_OK)
        return status;
    status = cpu_context_drain(context, CPU_DRAIN_NS, error);
    if (status == FACET_OK) {
        pthread_rwlock_rdlock(&context->space.lock);
        status = cpu_space_check(&context->space, address, bytes, error);
        if (status == FACET_OK)
            memcpy(ret_data, (const void *)address, bytes);
        pthread_rwlock_unlock(&context->space.lock);
    }
    cpu_context_drop(context);
    return status;
}

const struct facet_memory_ops cpu_memory_ops = {
    .size = sizeof cpu_memory_ops,
    .create_context = memory_create_context,
    .destroy_context = memory_destroy_context,
    .info = memory_info,
    .alloc = memory_alloc,
    .free = memory_free,
    .reserve = memory_reserve,
    .release = memory_release,
    .create_pages = memory_create_pages,
    .destroy_pages = memory_destroy_pages,
    .map = memory_map,
    .unmap = memory_unmap,
    .share_pages = memory_share_pages,
    .move = memory_move,
    .write = memory_write,
    .read = memory_read,
    .copy = memory_copy,
    .fill = memory_fill,
};
