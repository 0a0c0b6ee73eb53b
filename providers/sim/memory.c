/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table `memory`: contexts, quotas, addresses, pages, copies. Never: keeps memory itself (engine_space.c). */
#include <stdlib.h>

#include "engine.h"

/* --- contexts --- */

/* Gives a new context its account and its number. */
static enum facet_status enter_context(struct facet_provider_instance *instance, struct sim_context *context,
                                       const char *partition_uuid, const char *worker, struct facet_error *error)
{
    enum facet_status status = sim_account_enter(instance, context, partition_uuid, worker, 0, error);

    if (status != FACET_OK)
        return status;
    status = sim_object_enter(instance, context, &context->object, SIM_KIND_CONTEXT, error);
    if (status != FACET_OK) {
        sim_account_leave(context);
        return status;
    }
    TAILQ_INSERT_TAIL(&instance->engine->contexts, context, link);
    sim_snapshot_worker_returned(instance->engine, context->device, worker);
    return FACET_OK;
}

static enum facet_status memory_create_context(struct facet_provider_instance *instance, uint32_t device,
                                               const char *partition_uuid, const char *worker, uint64_t *ret_context,
                                               struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(ret_context, error);
    enum facet_status status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    SIM_LOCK(instance);
    status = sim_engine_begin(instance, "memory.create_context", device, error);
    if (status == FACET_OK)
        status = sim_context_new(sim_device_model(instance, device)->page_bytes, &context, error);
    if (status != FACET_OK)
        return status;
    context->device = device;
    status = enter_context(instance, context, partition_uuid, worker, error);
    if (status == FACET_OK)
        *ret_context = context->object.number;
    else
        sim_context_free(context);
    return status;
}

/* Works on a lost context, too: it can only be destroyed. */
static enum facet_status memory_destroy_context(struct facet_provider_instance *instance, uint64_t number,
                                                struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "memory.destroy_context", number, &context, error);
    if (status != FACET_OK && !(status == FACET_DEVICE_LOST && context))
        return status;
    sim_context_unlink(instance, context);
    sim_context_free(context);
    return FACET_OK;
}

static enum facet_status memory_info(struct facet_provider_instance *instance, uint64_t number,
                                     struct facet_memory_info *ret_info, struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(ret_info, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "memory.info", number, &context, error);
    if (status == FACET_OK)
        status = sim_context_refresh(instance, context, error);
    if (status != FACET_OK)
        return status;
    const struct sim_account *account = context->account;
    struct sim_use use = sim_engine_use(instance, account->device, account->worker, account->partition_uuid);
    struct facet_memory_info info = {
        .size = sizeof info,
        .page_bytes = context->space.page_bytes,
        .total_bytes = context->share.memory_bytes,
        .used_bytes = context->share.memory_limited ? use.worker
                      : account->partition_uuid[0]  ? use.partition
                                                    : use.device,
    };
    return facet_kit_struct(&info, sizeof info, ret_info, error);
}

/* --- pages, charged to a worker --- */

/* Makes pages that are charged to the context's worker. FACET_QUOTA, FACET_NO_SPACE. */
static enum facet_status make_pages(struct facet_provider_instance *instance, struct sim_context *context,
                                    uint64_t bytes, struct sim_pages **ret_pages, struct facet_error *error)
{
    struct sim_pages *pages = NULL;

    enum facet_status status = sim_account_take(instance, context, bytes, error);
    if (status != FACET_OK)
        return status;
    status = sim_pages_new(context, bytes, &pages, error);
    if (status != FACET_OK)
        goto fail_take;
    status = sim_object_enter(instance, context, &pages->object, SIM_KIND_PAGES, error);
    if (status != FACET_OK)
        goto fail_pages;
    *ret_pages = pages;
    return FACET_OK;

fail_pages:
    sim_space_free_extent(&context->space, pages->extent);
    free(pages);
fail_take:
    context->account->usage->used_bytes -= bytes;
    return status;
}

static enum facet_status check_bytes(uint64_t bytes, struct facet_error *error)
{
    if (bytes > 0)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE, "bytes 0: expected at least 1");
}

static enum facet_status alloc_plain(struct facet_provider_instance *instance, struct sim_context *context,
                                     uint64_t bytes, uint64_t *ret_address, struct facet_error *error)
{
    struct sim_reservation *reservation = NULL;
    struct sim_pages *pages = NULL;

    enum facet_status status = make_pages(instance, context, bytes, &pages, error);
    if (status != FACET_OK)
        return status;
    status = sim_space_reserve(&context->space, bytes, SIM_PLAIN_ALIGN, &reservation, error);
    if (status != FACET_OK)
        goto fail_pages;
    status = sim_space_map(&context->space, reservation->range, pages, 0, error);
    if (status != FACET_OK)
        goto fail_reservation;
    /* The pages are freed with their mapping, because the caller got no number by which to destroy them. */
    pages->destroyed = true;
    reservation->plain = true;
    context->account->usage->reserved_bytes += bytes;
    *ret_address = reservation->range.at;
    return FACET_OK;

fail_reservation:
    sim_space_release(&context->space, reservation);
fail_pages:
    sim_object_drop(instance, &pages->object);
    return status;
}

static enum facet_status memory_alloc(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                      uint64_t *ret_address, struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(ret_address, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "memory.alloc", number, &context, error);
    if (status == FACET_OK)
        status = check_bytes(bytes, error);
    return status == FACET_OK ? alloc_plain(instance, context, bytes, ret_address, error) : status;
}

static enum facet_status memory_free(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "memory.free", number, &context, error);
    if (status != FACET_OK)
        return status;
    struct sim_reservation *reservation = sim_space_find(&context->space, address);
    if (!reservation || !reservation->plain)
        return facet_kit_fail(error, FACET_NOT_FOUND, "address %#" PRIx64 ": expected one that alloc gave", address);
    status = sim_space_unmap(&context->space, reservation->range, instance, error);
    if (status != FACET_OK)
        return status;
    context->account->usage->reserved_bytes -= reservation->range.bytes;
    sim_space_release(&context->space, reservation);
    return FACET_OK;
}

static enum facet_status check_aligned(const struct sim_context *context, const char *name, uint64_t value,
                                       struct facet_error *error)
{
    if (value % context->space.page_bytes == 0)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s %" PRIu64 ": expected a multiple of the page, %" PRIu32, name,
                          value, context->space.page_bytes);
}

static enum facet_status memory_reserve(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                        uint64_t align, uint64_t *ret_address, struct facet_error *error)
{
    struct sim_reservation *reservation = NULL;
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(ret_address, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "memory.reserve", number, &context, error);
    if (status == FACET_OK)
        status = check_aligned(context, "bytes", bytes, error);
    if (status == FACET_OK)
        status = check_aligned(context, "align", align, error);
    if (status == FACET_OK)
        status =
            sim_space_reserve(&context->space, bytes, align ? align : context->space.page_bytes, &reservation, error);
    if (status != FACET_OK)
        return status;
    context->account->usage->reserved_bytes += bytes;
    *ret_address = reservation->range.at;
    return FACET_OK;
}

static enum facet_status memory_release(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                        struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "memory.release", number, &context, error);
    if (status != FACET_OK)
        return status;
    struct sim_reservation *reservation = sim_space_find(&context->space, address);
    if (!reservation || reservation->plain)
        return facet_kit_fail(error, FACET_NOT_FOUND, "address %#" PRIx64 ": expected the start of a reservation",
                              address);
    if (sim_space_is_mapped(&context->space, reservation->range))
        return facet_kit_fail(error, FACET_BUSY, "address %#" PRIx64 ": expected nothing to be mapped in it", address);
    context->account->usage->reserved_bytes -= reservation->range.bytes;
    sim_space_release(&context->space, reservation);
    return FACET_OK;
}

static enum facet_status memory_create_pages(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                             uint64_t *ret_pages, struct facet_error *error)
{
    struct sim_context *context = NULL;
    struct sim_pages *pages = NULL;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(ret_pages, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "memory.create_pages", number, &context, error);
    if (status == FACET_OK)
        status = check_bytes(bytes, error);
    if (status == FACET_OK)
        status = check_aligned(context, "bytes", bytes, error);
    if (status == FACET_OK)
        status = make_pages(instance, context, bytes, &pages, error);
    if (status == FACET_OK)
        *ret_pages = pages->object.number;
    return status;
}

/* Finds pages of the context that are not destroyed. */
static enum facet_status find_pages(const struct facet_provider_instance *instance, const struct sim_context *context,
                                    uint64_t number, struct sim_pages **ret_pages, struct facet_error *error)
{
    struct sim_pages *pages = sim_object_find(instance, context, SIM_KIND_PAGES, number);

    if (!pages || pages->destroyed)
        return facet_kit_fail(error, FACET_NOT_FOUND, "pages %" PRIu64 ": expected some of this context", number);
    *ret_pages = pages;
    return FACET_OK;
}

static enum facet_status memory_destroy_pages(struct facet_provider_instance *instance, uint64_t number,
                                              uint64_t pages_number, struct facet_error *error)
{
    struct sim_context *context = NULL;
    struct sim_pages *pages = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "memory.destroy_pages", number, &context, error);
    if (status == FACET_OK)
        status = find_pages(instance, context, pages_number, &pages, error);
    if (status != FACET_OK)
        return status;
    pages->destroyed = true;
    if (pages->mappings == 0)
        sim_object_drop(instance, &pages->object);
    return FACET_OK;
}

/* --- mapping --- */

/* Checks for a reservation that contains the whole range and is not plain memory. */
static enum facet_status check_reserved(const struct sim_context *context, struct sim_range range,
                                        struct facet_error *error)
{
    const struct sim_reservation *reservation = sim_space_around(&context->space, range.at);

    if (reservation && !reservation->plain &&
        range.bytes <= reservation->range.bytes - (range.at - reservation->range.at))
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "address %#" PRIx64 ", bytes %" PRIu64 ": expected it inside one reservation", range.at,
                          range.bytes);
}

static enum facet_status check_range(const struct sim_context *context, struct sim_range range,
                                     struct facet_error *error)
{
    enum facet_status status = check_bytes(range.bytes, error);

    if (status == FACET_OK)
        status = check_aligned(context, "address", range.at, error);
    if (status == FACET_OK)
        status = check_aligned(context, "bytes", range.bytes, error);
    return status == FACET_OK ? check_reserved(context, range, error) : status;
}

static enum facet_status map_pages(struct sim_context *context, struct sim_range range, struct sim_pages *pages,
                                   uint64_t offset, struct facet_error *error)
{
    enum facet_status status = check_range(context, range, error);

    if (status == FACET_OK)
        status = check_aligned(context, "offset", offset, error);
    if (status != FACET_OK)
        return status;
    if (offset > pages->bytes || range.bytes > pages->bytes - offset)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "offset %" PRIu64 ", bytes %" PRIu64 ": expected at most the "
                              "pages' %" PRIu64,
                              offset, range.bytes, pages->bytes);
    if (sim_space_is_mapped(&context->space, range))
        return facet_kit_fail(error, FACET_BUSY, "address %#" PRIx64 ": expected nothing to be mapped there", range.at);
    return sim_space_map(&context->space, range, pages, offset, error);
}

static enum facet_status memory_map(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                    uint64_t pages_number, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    struct sim_context *context = NULL;
    struct sim_pages *pages = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "memory.map", number, &context, error);
    if (status == FACET_OK)
        status = find_pages(instance, context, pages_number, &pages, error);
    if (status != FACET_OK)
        return status;
    return map_pages(context, (struct sim_range){address, bytes}, pages, offset, error);
}

static enum facet_status memory_unmap(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                      uint64_t bytes, struct facet_error *error)
{
    const struct sim_range range = {address, bytes};
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "memory.unmap", number, &context, error);
    if (status == FACET_OK)
        status = check_range(context, range, error);
    if (status != FACET_OK)
        return status;
    return sim_space_unmap(&context->space, range, instance, error);
}

/* --- copies --- */

/* Waits for the context's queued work; looks the context up again, because another thread may destroy it meanwhile. */
static enum facet_status drain_context(struct facet_provider_instance *instance, const char *operation, uint64_t number,
                                       struct sim_context **ret_context, struct facet_error *error)
{
    enum facet_status status = sim_context_find(instance, operation, number, ret_context, error);

    if (status == FACET_OK)
        status = sim_context_drain(instance, number, SIM_DRAIN_LIMIT_NS, error);
    return status == FACET_OK ? sim_context_find(instance, NULL, number, ret_context, error) : status;
}

static void count_traffic(struct facet_provider_instance *instance, const struct sim_context *context, uint64_t rx,
                          uint64_t tx)
{
    struct sim_load *load = &instance->engine->loads[context->device];

    load->rx_bytes += rx;
    load->tx_bytes += tx;
}

static enum facet_status memory_write(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                      const void *data, uint64_t bytes, struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(data, error);
    SIM_LOCK(instance);
    enum facet_status status = drain_context(instance, "memory.write", number, &context, error);
    if (status == FACET_OK)
        status = sim_space_write(&context->space, address, data, bytes, error);
    if (status == FACET_OK)
        count_traffic(instance, context, bytes, 0);
    return status;
}

static enum facet_status memory_read(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     uint64_t bytes, void *ret_data, struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(ret_data, error);
    SIM_LOCK(instance);
    enum facet_status status = drain_context(instance, "memory.read", number, &context, error);
    if (status == FACET_OK)
        status = sim_space_read(&context->space, address, bytes, ret_data, error);
    if (status == FACET_OK)
        count_traffic(instance, context, 0, bytes);
    return status;
}

static enum facet_status memory_copy(struct facet_provider_instance *instance, uint64_t number, uint64_t to,
                                     uint64_t from, uint64_t bytes, struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = drain_context(instance, "memory.copy", number, &context, error);
    return status == FACET_OK ? sim_space_copy(&context->space, to, from, bytes, error) : status;
}

static enum facet_status memory_fill(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     uint8_t value, uint64_t bytes, struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = drain_context(instance, "memory.fill", number, &context, error);
    return status == FACET_OK ? sim_space_fill(&context->space, address, value, bytes, error) : status;
}

const struct facet_memory_ops sim_memory_ops = {
    .size = sizeof sim_memory_ops,
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
    .write = memory_write,
    .read = memory_read,
    .copy = memory_copy,
    .fill = memory_fill,
};
