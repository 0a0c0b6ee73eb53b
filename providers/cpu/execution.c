/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table `execution`. Never: judges a launch (launch.c), or runs one (executor.h). */
#include <stdlib.h>

#include "compute/pick.h"
#include "cpu.h"

#define SLICE_LEAST_NS UINT64_C(1000)
#define SLICE_MOST_NS  UINT64_C(10000000000)

/* A policy has the same number in the ABI and in the executor, so it is passed on as it is. */
_Static_assert((int)FACET_SCHEDULE_FAIR == (int)FACET_PICK_FAIR &&
                   (int)FACET_SCHEDULE_ROUND_ROBIN == (int)FACET_PICK_ROUND_ROBIN &&
                   (int)FACET_SCHEDULE_PRIORITY == (int)FACET_PICK_PRIORITY &&
                   (int)FACET_SCHEDULE_FIFO == (int)FACET_PICK_FIFO,
               "the ABI's schedules have the numbers of src/compute/pick.h");

static enum facet_status execution_load(struct facet_provider_instance *instance, uint64_t number, const void *image,
                                        uint64_t bytes, uint64_t *ret_module, struct facet_error *error)
{
    struct cpu_context *context = NULL;
    struct cpu_module *module = NULL;

    CPU_REQUIRE(image, error);
    CPU_REQUIRE(ret_module, error);
    enum facet_status status = cpu_context_take(instance, number, &context, error);
    if (status != FACET_OK)
        return status;
    status = cpu_module_load(instance, image, bytes, &module, error);
    if (status == FACET_OK) {
        module->number = *ret_module = cpu_number_next(instance);
        pthread_mutex_lock(&context->lock);
        TAILQ_INSERT_TAIL(&context->modules, module, link);
        pthread_mutex_unlock(&context->lock);
    }
    cpu_context_drop(context);
    return status;
}

/* Takes the module out of the list. NULL: *ret_status is the reason. */
static struct cpu_module *unlist_module(struct cpu_context *context, uint64_t number, enum facet_status *ret_status)
{
    pthread_mutex_lock(&context->lock);
    struct cpu_module *module = cpu_module_find(context, number);
    *ret_status = !module ? FACET_NOT_FOUND : module->pending > 0 ? FACET_BUSY : FACET_OK;
    if (*ret_status == FACET_OK)
        TAILQ_REMOVE(&context->modules, module, link);
    pthread_mutex_unlock(&context->lock);
    return *ret_status == FACET_OK ? module : NULL;
}

static enum facet_status execution_unload(struct facet_provider_instance *instance, uint64_t number,
                                          uint64_t module_number, struct facet_error *error)
{
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    struct cpu_module *module = unlist_module(context, module_number, &status);
    if (module)
        cpu_module_free(module);
    else
        facet_kit_fail(error, status,
                       "module %" PRIu64 ": expected one of this context, none of whose launches is "
                       "under way",
                       module_number);
    cpu_context_drop(context);
    return status;
}

static enum facet_status execution_create_stream(struct facet_provider_instance *instance, uint64_t number,
                                                 uint64_t *ret_stream, struct facet_error *error)
{
    struct cpu_context *context = NULL;

    CPU_REQUIRE(ret_stream, error);
    enum facet_status status = cpu_context_take(instance, number, &context, error);
    if (status != FACET_OK)
        return status;
    status = cpu_queue_create(context, ret_stream, error);
    cpu_context_drop(context);
    return status;
}

static enum facet_status execution_destroy_stream(struct facet_provider_instance *instance, uint64_t context,
                                                  uint64_t stream, struct facet_error *error)
{
    struct cpu_queue *queue = NULL;
    enum facet_status status = cpu_queue_take(instance, context, stream, &queue, error);

    if (status != FACET_OK)
        return status;
    cpu_queue_end(queue);
    cpu_queue_drop(queue);
    return FACET_OK;
}

static enum facet_status execution_launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                          const struct facet_launch *launch, const void *arguments,
                                          struct facet_error *error)
{
    struct cpu_queue *queue = NULL;

    CPU_REQUIRE(launch, error);
    enum facet_status status = cpu_queue_take(instance, context, stream, &queue, error);
    if (status != FACET_OK)
        return status;
    status = cpu_launch(queue, launch, arguments, error);
    cpu_queue_drop(queue);
    return status;
}

/* The finding of a checked launch is reported once, to the first thread that waits. */
static enum facet_status report_finding(struct cpu_queue *queue, struct facet_error *error)
{
    pthread_mutex_lock(&queue->context->lock);
    enum facet_status status = queue->finding;
    if (status != FACET_OK)
        facet_kit_fail(error, status, "%s", queue->finding_text);
    queue->finding = FACET_OK;
    pthread_mutex_unlock(&queue->context->lock);
    return status;
}

static enum facet_status execution_synchronize(struct facet_provider_instance *instance, uint64_t context,
                                               uint64_t stream, uint64_t timeout_ns, struct facet_error *error)
{
    struct cpu_queue *queue = NULL;
    enum facet_status status = cpu_queue_take(instance, context, stream, &queue, error);

    if (status != FACET_OK)
        return status;
    status = cpu_stream_wait(queue->stream, timeout_ns);
    if (status == FACET_OK)
        status = report_finding(queue, error);
    else
        facet_kit_fail(error, status, "stream %" PRIu64 ": still at work after %" PRIu64 " ns", stream, timeout_ns);
    cpu_queue_drop(queue);
    return status;
}

static enum facet_status execution_query(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                         struct facet_stream_state *ret_state, struct facet_error *error)
{
    struct facet_stream_state state = {.size = sizeof state};
    struct cpu_queue *queue = NULL;

    CPU_REQUIRE(ret_state, error);
    enum facet_status status = cpu_queue_take(instance, context, stream, &queue, error);
    if (status != FACET_OK)
        return status;
    cpu_stream_state(queue->stream, &state);
    cpu_queue_drop(queue);
    return facet_kit_struct(&state, sizeof state, ret_state, error);
}

static enum facet_status execution_cancel(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                          struct facet_error *error)
{
    struct cpu_queue *queue = NULL;
    enum facet_status status = cpu_queue_take(instance, context, stream, &queue, error);

    if (status != FACET_OK)
        return status;
    cpu_stream_cancel(queue->stream);
    cpu_queue_drop(queue);
    return FACET_OK;
}

static enum facet_status queue_transfer(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                        const struct cpu_transfer *transfer, struct facet_error *error)
{
    struct cpu_queue *queue = NULL;
    enum facet_status status = cpu_queue_take(instance, context, stream, &queue, error);

    if (status != FACET_OK)
        return status;
    status = cpu_transfer_queue(queue, transfer, error);
    cpu_queue_drop(queue);
    return status;
}

static enum facet_status execution_write(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                         uint64_t address, const void *data, uint64_t bytes, struct facet_error *error)
{
    CPU_REQUIRE(data, error);
    return queue_transfer(instance, context, stream,
                          &(struct cpu_transfer){.to = address, .data = data, .bytes = bytes, .fill = CPU_NO_FILL},
                          error);
}

static enum facet_status execution_copy(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                        uint64_t to, uint64_t from, uint64_t bytes, struct facet_error *error)
{
    return queue_transfer(instance, context, stream,
                          &(struct cpu_transfer){.to = to, .from = from, .bytes = bytes, .fill = CPU_NO_FILL}, error);
}

static enum facet_status execution_fill(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                        uint64_t address, uint8_t value, uint64_t bytes, struct facet_error *error)
{
    return queue_transfer(instance, context, stream,
                          &(struct cpu_transfer){.to = address, .fill = value, .bytes = bytes}, error);
}

static enum facet_status check_priority(uint32_t priority, struct facet_error *error)
{
    if (priority <= FACET_PRIORITY_HIGH)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE, "priority %" PRIu32 ": expected at most %d", priority,
                          FACET_PRIORITY_HIGH);
}

/* The contexts of a worker with a compute limit have one share together, as they have its units together. */
static enum facet_status execution_set_share(struct facet_provider_instance *instance, uint64_t number,
                                             uint32_t request_milli, uint32_t limit_milli, uint32_t priority,
                                             struct facet_error *error)
{
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    status = check_priority(priority, error);
    if (request_milli > FACET_MILLI_WHOLE || limit_milli == 0 || limit_milli > FACET_MILLI_WHOLE)
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE,
                                "request_milli %" PRIu32 ", limit_milli %" PRIu32
                                ": expected at most %u, and a limit of at least 1",
                                request_milli, limit_milli, FACET_MILLI_WHOLE);
    if (status == FACET_OK)
        cpu_tenant_set_share(context->tenant, request_milli, limit_milli, priority);
    cpu_context_drop(context);
    return status;
}

static enum facet_status execution_set_priority(struct facet_provider_instance *instance, uint64_t context,
                                                uint64_t stream, uint32_t priority, struct facet_error *error)
{
    struct cpu_queue *queue = NULL;
    enum facet_status status = cpu_queue_take(instance, context, stream, &queue, error);

    if (status != FACET_OK)
        return status;
    status = check_priority(priority, error);
    if (status == FACET_OK)
        cpu_stream_set_priority(queue->stream, priority);
    cpu_queue_drop(queue);
    return status;
}

/* Lists the records that existed when they were counted. A record that is completed after that is in the next list. */
static enum facet_status list_records(struct cpu_stream *stream, uint64_t after, void *items, uint32_t item_size,
                                      uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    uint32_t count = cpu_stream_records(stream, after, NULL, 0);
    struct facet_launch_record *records = calloc((size_t)count + 1, sizeof *records);

    if (!records)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " records", count);
    uint32_t found = cpu_stream_records(stream, after, records, count);
    enum facet_status status = facet_kit_list_items(records, sizeof *records, found < count ? found : count, items,
                                                    item_size, capacity, ret_count, error);
    free(records);
    return status;
}

static enum facet_status execution_records(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                           uint64_t after, void *items, uint32_t item_size, uint32_t capacity,
                                           uint32_t *ret_count, struct facet_error *error)
{
    struct cpu_queue *queue = NULL;
    enum facet_status status = cpu_queue_take(instance, context, stream, &queue, error);

    if (status != FACET_OK)
        return status;
    status = list_records(queue->stream, after, items, item_size, capacity, ret_count, error);
    cpu_queue_drop(queue);
    return status;
}

static enum facet_status execution_set_bounds(struct facet_provider_instance *instance, uint64_t number, uint32_t units,
                                              uint32_t launches, struct facet_error *error)
{
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    if (units > instance->info.compute_units)
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE,
                                "units %" PRIu32 ": expected at most the %" PRIu32 " of the device", units,
                                instance->info.compute_units);
    else
        cpu_tenant_set_bounds(context->tenant, units, launches);
    cpu_context_drop(context);
    return status;
}

static enum facet_status execution_pause(struct facet_provider_instance *instance, uint64_t number, uint32_t paused,
                                         struct facet_error *error)
{
    struct cpu_context *context = NULL;
    enum facet_status status = cpu_context_take(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    if (paused > 1)
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "paused %" PRIu32 ": expected 0 or 1", paused);
    else if (cpu_tenant_pause(context->tenant, paused, CPU_GRACE_NS) != FACET_OK)
        status =
            facet_kit_fail(error, FACET_TIMEOUT, "context %" PRIu64 " is paused, but a work-group still runs", number);
    cpu_context_drop(context);
    return status;
}

/* Both streams are of one context, because each is looked up with the number of that context. */
static enum facet_status execution_wait(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                        uint64_t other_stream, struct facet_error *error)
{
    struct cpu_queue *queue = NULL, *other = NULL;
    enum facet_status status = cpu_queue_take(instance, context, stream, &queue, error);

    if (status != FACET_OK)
        return status;
    status = cpu_queue_take(instance, context, other_stream, &other, error);
    if (status == FACET_OK) {
        status = cpu_stream_await(queue->stream, other->stream, error);
        cpu_queue_drop(other);
    }
    cpu_queue_drop(queue);
    return status;
}

static enum facet_status execution_cancel_launch(struct facet_provider_instance *instance, uint64_t context,
                                                 uint64_t stream, uint64_t sequence, struct facet_error *error)
{
    struct cpu_queue *queue = NULL;
    enum facet_status status = cpu_queue_take(instance, context, stream, &queue, error);

    if (status != FACET_OK)
        return status;
    if (!cpu_stream_cancel_one(queue->stream, sequence))
        status = facet_kit_fail(error, FACET_NOT_FOUND,
                                "launch %" PRIu64 " of stream %" PRIu64 ": expected one that is queued or running",
                                sequence, stream);
    cpu_queue_drop(queue);
    return status;
}

static enum facet_status execution_set_policy(struct facet_provider_instance *instance, uint32_t device,
                                              uint32_t policy, uint32_t preempt, uint64_t slice_ns,
                                              struct facet_error *error)
{
    enum facet_status status = cpu_check_device(instance, device, error);

    if (status != FACET_OK)
        return status;
    if (policy > FACET_SCHEDULE_FIFO || preempt > 1)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "policy %" PRIu32 ", preempt %" PRIu32 ": expected at most %d, and 0 or 1", policy,
                              preempt, FACET_SCHEDULE_FIFO);
    if (slice_ns > SLICE_MOST_NS || (slice_ns > 0 && slice_ns < SLICE_LEAST_NS))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "slice_ns %" PRIu64 ": expected 0, or %" PRIu64 " to %" PRIu64,
                              slice_ns, SLICE_LEAST_NS, SLICE_MOST_NS);
    cpu_executor_set_policy(instance->executor, policy, preempt, slice_ns);
    return FACET_OK;
}

const struct facet_execution_ops cpu_execution_ops = {
    .size = sizeof cpu_execution_ops,
    .load = execution_load,
    .unload = execution_unload,
    .create_stream = execution_create_stream,
    .destroy_stream = execution_destroy_stream,
    .launch = execution_launch,
    .synchronize = execution_synchronize,
    .query = execution_query,
    .cancel = execution_cancel,
    .write = execution_write,
    .copy = execution_copy,
    .fill = execution_fill,
    .set_share = execution_set_share,
    .set_priority = execution_set_priority,
    .records = execution_records,
    .set_bounds = execution_set_bounds,
    .pause = execution_pause,
    .wait = execution_wait,
    .cancel_launch = execution_cancel_launch,
    .set_policy = execution_set_policy,
};
