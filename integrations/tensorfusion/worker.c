/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: hard limits of the calling process, and saving processes or devices (snapshot) and bringing them back (resume).
 * Never: leaves processes half saved: when a provider fails, what earlier providers did for the call is undone.
 *
 * The limits of TensorFusion's ABI bind the calling process. So the worker is named after this process, "pid-1234", and
 * its limits end with the last AccelShutdown().
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "facade.h"

/* ---- limits ---- */

static void make_worker_name(char name[FACET_WORKER_SIZE])
{
    snprintf(name, FACET_WORKER_SIZE, "pid-%ld", (long)getpid());
}

static AccelResult set_memory(struct facade_call *call, const char *uuid, uint64_t bytes)
{
    char worker[FACET_WORKER_SIZE];
    struct facade_device device;
    struct facet_error error = {0};

    if (!uuid || !*uuid || bytes == 0)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "expected a device and at least one byte");
    AccelResult result = facade_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    make_worker_name(worker);
    enum facet_status status = facade_device_find(call, uuid, &device, &error);
    if (status == FACET_OK) {
        const struct facade_query query = facade_query_of(&device);

        status = query.provider->limit->set_memory(query.instance, query.device, worker, bytes, &error);
    }
    return status == FACET_OK ? ACCEL_SUCCESS : facade_refuse(call, &error);
}

AccelResult AccelSetMemHardLimit(const char *deviceUUID, uint64_t memoryLimitBytes)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, set_memory(&call, deviceUUID, memoryLimitBytes));
}

static AccelResult set_compute(struct facade_call *call, const char *uuid, uint32_t percent)
{
    char worker[FACET_WORKER_SIZE];
    struct facade_device device;
    struct facet_error error = {0};

    if (!uuid || !*uuid || percent == 0 || percent > 100)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "%u percent: expected a device, and 1 to 100", percent);
    AccelResult result = facade_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    make_worker_name(worker);
    enum facet_status status = facade_device_find(call, uuid, &device, &error);
    if (status == FACET_OK) {
        const struct facade_query query = facade_query_of(&device);

        status = query.provider->limit->set_compute(query.instance, query.device, worker,
                                                    percent * (FACET_MILLI_WHOLE / 100), &error);
    }
    return status == FACET_OK ? ACCEL_SUCCESS : facade_refuse(call, &error);
}

AccelResult AccelSetComputeUnitHardLimit(const char *deviceUUID, uint32_t computeUnitLimit)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, set_compute(&call, deviceUUID, computeUnitLimit));
}

/* ---- snapshot and resume ---- */

enum direction { SNAPSHOT, RESUME }; /* a transfer is one of the two */

static AccelResult transfer_device(struct facade_call *call, enum direction direction, const char *uuid)
{
    struct facade_device device;
    struct facet_error error = {0};
    enum facet_status status = facade_device_find(call, uuid, &device, &error);

    if (status == FACET_OK) {
        const struct facade_query query = facade_query_of(&device);
        const struct facet_snapshot_ops *ops = query.provider->snapshot;

        status = direction == SNAPSHOT ? ops->snapshot(query.instance, query.device, NULL, -1, &error)
                                       : ops->resume(query.instance, query.device, NULL, -1, &error);
    }
    return status == FACET_OK ? ACCEL_SUCCESS : facade_refuse(call, &error);
}

static enum facet_status transfer_at_provider(const struct facade_provider *provider, enum direction direction,
                                              const int32_t *pids, uint32_t count, struct facet_error *error)
{
    const struct facet_snapshot_ops *ops = facet_session_provider(provider->session)->snapshot;
    struct facet_provider_instance *instance = facet_session_instance(provider->session);

    return direction == SNAPSHOT ? ops->snapshot_processes(instance, pids, count, error)
                                 : ops->resume_processes(instance, pids, count, error);
}

/* The providers' answers. That a provider has none of the processes, or cannot save any, is no failure. */
struct outcome {
    uint32_t done; /* the number of providers that did it */
    bool unknown;  /* a provider answered that it has none of the processes */
    struct facet_error error;
};

static void undo_transfers(struct facade_call *call, const bool *transferred, enum direction direction,
                           const int32_t *pids, uint32_t count)
{
    uint32_t provider_count;
    const struct facade_provider *providers = facade_providers(&provider_count);
    struct facet_error error = {0};

    for (uint32_t i = 0; i < provider_count; i++) {
        if (transferred[i] && transfer_at_provider(&providers[i], direction == SNAPSHOT ? RESUME : SNAPSHOT, pids,
                                                   count, &error) != FACET_OK)
            facade_log(call, "ERROR", "%s could not undo what it did before another provider failed: %s",
                       providers[i].path, error.message);
    }
}

static enum facet_status transfer_at_all_providers(enum direction direction, const int32_t *pids, uint32_t count,
                                                   bool *transferred, struct outcome *outcome)
{
    uint32_t provider_count;
    const struct facade_provider *providers = facade_providers(&provider_count);

    for (uint32_t i = 0; i < provider_count; i++) {
        struct facet_error error = {0};
        enum facet_status status = transfer_at_provider(&providers[i], direction, pids, count, &error);

        transferred[i] = status == FACET_OK;
        outcome->done += transferred[i];
        outcome->unknown = outcome->unknown || status == FACET_NOT_FOUND;
        if (status != FACET_OK && (status == FACET_NOT_FOUND || outcome->error.status == FACET_OK))
            outcome->error = error;
        if (status != FACET_OK && status != FACET_NOT_FOUND && status != FACET_UNSUPPORTED) {
            outcome->error = error;
            return status;
        }
    }
    return FACET_OK;
}

static AccelResult transfer_processes(struct facade_call *call, enum direction direction, const int32_t *pids,
                                      uint32_t count)
{
    struct outcome outcome = {0};
    uint32_t provider_count;

    facade_providers(&provider_count);
    FACADE_CLEANUP_FREE bool *transferred = calloc(provider_count + 1, sizeof *transferred);
    if (!transferred)
        return facade_fail(call, ACCEL_ERROR_RESOURCE_EXHAUSTED, "no memory for a snapshot");
    if (transfer_at_all_providers(direction, pids, count, transferred, &outcome) != FACET_OK) {
        undo_transfers(call, transferred, direction, pids, count);
        return facade_refuse(call, &outcome.error);
    }
    if (outcome.done)
        return ACCEL_SUCCESS;
    if (outcome.unknown)
        return facade_refuse(call, &outcome.error);
    return facade_fail(call, ACCEL_ERROR_NOT_SUPPORTED, "no provider can snapshot or resume processes");
}

static AccelResult check_processes(struct facade_call *call, enum direction direction, const SnapshotContext *context)
{
    if (context->processCount > MAX_PROCESSES)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "%zu processes: expected at most %d", context->processCount,
                           MAX_PROCESSES);
    for (size_t i = 0; i < context->processCount; i++) {
        if (context->processIds[i] <= 0)
            return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "process %ld: expected a positive number",
                               (long)context->processIds[i]);
        if (direction == SNAPSHOT && kill(context->processIds[i], 0) != 0 && errno == ESRCH)
            return facade_fail(call, ACCEL_ERROR_NOT_FOUND, "process %ld does not exist", (long)context->processIds[i]);
    }
    return ACCEL_SUCCESS;
}

static AccelResult transfer(struct facade_call *call, enum direction direction, const SnapshotContext *context)
{
    _Static_assert(sizeof(pid_t) == sizeof(int32_t), "pids are handed on as they are");
    bool processes = context && context->processIds && context->processCount;
    AccelResult result = ACCEL_SUCCESS;

    if (processes)
        result = check_processes(call, direction, context);
    else if (!context || !context->deviceUUID || !*context->deviceUUID)
        result = facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "expected processes or a device");
    if (result == ACCEL_SUCCESS)
        result = facade_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    return processes ? transfer_processes(call, direction, context->processIds, (uint32_t)context->processCount)
                     : transfer_device(call, direction, context->deviceUUID);
}

AccelResult AccelSnapshot(SnapshotContext *context)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, transfer(&call, SNAPSHOT, context));
}

AccelResult AccelResume(SnapshotContext *context)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, transfer(&call, RESUME, context));
}
