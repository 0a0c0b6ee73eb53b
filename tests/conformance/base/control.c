/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: bounds, pausing, waiting between streams, cancelling one launch, policies. Never: runs queued work; run.c does.
 */
#include "base.h"

enum facet_status base_set_bounds(struct facet_provider_instance *instance, uint64_t context, uint32_t units,
                                  uint32_t launches, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    if (units > BASE_SLICES)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "units %" PRIu32 ": expected at most %d", units, BASE_SLICES);
    one->units = units;
    one->launches = launches;
    return FACET_OK;
}

/* No work runs between calls, so a pause need not wait for any. */
enum facet_status base_pause(struct facet_provider_instance *instance, uint64_t context, uint32_t paused,
                             struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status == FACET_OK)
        one->paused = paused != 0;
    return status;
}

enum facet_status base_wait(struct facet_provider_instance *instance, uint64_t context, uint64_t stream, uint64_t other,
                            struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL, *awaited = NULL;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    if (status == FACET_OK)
        status = base_require_stream(instance, context, other, &awaited, error);
    if (status != FACET_OK)
        return status;
    const struct base_queued_work wait = {
        .kind = BASE_WAIT, .value = other, .count = one == awaited ? 0 : awaited->state.launched};
    return base_enqueue(instance, one, &wait, error);
}

enum facet_status base_cancel_launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     uint64_t sequence, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < one->queued; i++)
        if (one->queue[i].sequence == sequence) {
            base_finish(one, i, FACET_BAD_STATE, 0);
            return FACET_OK;
        }
    return facet_kit_fail(error, FACET_NOT_FOUND, "launch %" PRIu64 ": expected one that waits in the stream",
                          sequence);
}

/* A launch keeps the device until it ends, which `preempt` 0 demands and `preempt` 1 allows. */
enum facet_status base_set_policy(struct facet_provider_instance *instance, uint32_t device, uint32_t policy,
                                  uint32_t preempt, uint64_t slice_ns, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status == FACET_OK && policy > FACET_SCHEDULE_FIFO)
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "policy %" PRIu32 ": expected 0 to 3", policy);
    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    instance->policy = policy;
    return FACET_OK;
}
