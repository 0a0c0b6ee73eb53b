/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the hooks' side of TensorFusion's limiter: admitting memory and compute, and freezing.
 * Never: guesses the worker of a process. A check for a process that is in no worker is refused, and AddWorkerProcess()
 * adds one only if the device has just one worker.
 *
 * These functions work in the process that called LimiterInit(): one process manages a folder of segments. Programs
 * elsewhere are limited by Facet's interposers, which share the same segments.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "limiter.h"

#define NS_PER_TOKEN    UINT64_C(1000)
#define NS_PER_MS       UINT64_C(1000000)
#define DEFAULT_IDLE_MS 60000u
#define MAX_IDLE_MS     (UINT64_C(24) * 3600 * 1000)
#define ALL_RESOURCES   (FACET_RESOURCE_MEMORY | FACET_RESOURCE_COMPUTE)

/* ---- processes and their workers ---- */

static bool parse_pid(const char *text, int32_t *ret_pid)
{
    char *end = NULL;

    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    long pid = strtol(text, &end, 10);
    if (errno || *end || pid <= 0 || pid > INT32_MAX)
        return false;
    *ret_pid = (int32_t)pid;
    return true;
}

static AccelResult check_request(struct facade_call *call, const char *process, const char *uuid, const void *record,
                                 int32_t *ret_pid)
{
    if (!uuid || !*uuid || !record)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "expected a device, and an address for each result");
    if (!parse_pid(process, ret_pid))
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "process '%.32s': expected a pid in decimal",
                           process ? process : "NULL");
    return ACCEL_SUCCESS;
}

/* The part of device `uuid` that follows `after` in the order of the workers; the first one if `after` is NULL. */
static const struct tf_part *next_part(const char *uuid, const struct tf_part *after)
{
    bool found_previous = !after;

    for (const struct tf_worker *worker = tf_workers(); worker; worker = worker->next) {
        for (size_t i = 0; i < worker->count; i++) {
            if (found_previous && strcasecmp(worker->parts[i].uuid, uuid) == 0)
                return &worker->parts[i];
            found_previous = found_previous || &worker->parts[i] == after;
        }
    }
    return NULL;
}

/* ---- memory and compute ---- */

/* Asks the workers of the device in turn; FACET_NOT_FOUND: the process is in none of them. */
static enum facet_status check_memory(const char *uuid, int32_t pid, int64_t bytes,
                                      struct facet_limiter_verdict *verdict, struct facet_error *error)
{
    enum facet_status status = facet_error_set(error, FACET_NOT_FOUND, "no worker is on device '%.63s'", uuid);

    for (const struct tf_part *part = next_part(uuid, NULL); part && status == FACET_NOT_FOUND;
         part = next_part(uuid, part))
        status = facet_limiter_memory_check(tf_limiter(), part->id, pid, bytes, verdict, error);
    return status;
}

static AccelResult record_memory(struct facade_call *call, const char *process, const char *uuid, int64_t bytes,
                                 MemoryOpRecord *record)
{
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};
    struct facet_error error = {0};
    int32_t pid = 0;
    AccelResult result = check_request(call, process, uuid, record, &pid);

    if (result == ACCEL_SUCCESS)
        result = tf_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    if (check_memory(uuid, pid, bytes, &verdict, &error) != FACET_OK)
        return facade_refuse(call, &error);
    memset(record, 0, sizeof *record);
    FACADE_TEXT(record->deviceUUID, uuid);
    record->bytesDiff = bytes;
    record->shouldBlock = !verdict.admitted;
    record->availableBytes = verdict.available;
    return ACCEL_SUCCESS;
}

AccelResult CheckAndRecordMemoryOps(const char *processId, const char *deviceUUID, int64_t bytesDiff,
                                    MemoryOpRecord *record)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, record_memory(&call, processId, deviceUUID, bytesDiff, record));
}

static enum facet_status check_compute(const char *uuid, int32_t pid, uint64_t busy_ns,
                                       struct facet_limiter_verdict *verdict, struct facet_error *error)
{
    enum facet_status status = facet_error_set(error, FACET_NOT_FOUND, "no worker is on device '%.63s'", uuid);

    for (const struct tf_part *part = next_part(uuid, NULL); part && status == FACET_NOT_FOUND;
         part = next_part(uuid, part))
        status = facet_limiter_compute_check(tf_limiter(), part->id, pid, busy_ns, verdict, error);
    return status;
}

static AccelResult record_compute(struct facade_call *call, const char *process, const char *uuid, uint64_t tokens,
                                  ComputeOpRecord *record)
{
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};
    struct facet_error error = {0};
    int32_t pid = 0;
    AccelResult result = check_request(call, process, uuid, record, &pid);

    if (result == ACCEL_SUCCESS && tokens > UINT64_MAX / NS_PER_TOKEN)
        result = facade_fail(call, ACCEL_ERROR_INVALID_PARAM,
                             "%llu tokens: expected at most %llu; a token is one microsecond of device time",
                             (unsigned long long)tokens, (unsigned long long)(UINT64_MAX / NS_PER_TOKEN));
    if (result == ACCEL_SUCCESS)
        result = tf_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    if (check_compute(uuid, pid, tokens * NS_PER_TOKEN, &verdict, &error) != FACET_OK)
        return facade_refuse(call, &error);
    memset(record, 0, sizeof *record);
    FACADE_TEXT(record->deviceUUID, uuid);
    record->computeTokens = tokens;
    record->shouldBlock = !verdict.admitted;
    record->availableTokens = verdict.available / NS_PER_TOKEN;
    return ACCEL_SUCCESS;
}

AccelResult CheckAndRecordComputeOps(const char *processId, const char *deviceUUID, uint64_t computeTokens,
                                     ComputeOpRecord *record)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, record_compute(&call, processId, deviceUUID, computeTokens, record));
}

/* The ABI does not name the worker of the process. So a process that is in no worker yet can be added only if the
 * device has just one. A memory check of 0 bytes tells whether the process is in a worker. */
static AccelResult add_process(struct facade_call *call, const char *uuid, const char *process)
{
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};
    struct facet_error error = {0};
    int32_t pid = 0;
    AccelResult result = check_request(call, process, uuid, uuid, &pid); /* there is no record */

    if (result == ACCEL_SUCCESS)
        result = tf_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    const struct tf_part *part = next_part(uuid, NULL);
    if (!part)
        return facade_fail(call, ACCEL_ERROR_NOT_FOUND, "no worker is on device '%.63s'", uuid);
    if (check_memory(uuid, pid, 0, &verdict, &error) == FACET_OK)
        return ACCEL_SUCCESS;
    if (next_part(uuid, part))
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM,
                           "several workers are on device '%.63s': call LimiterRegisterPID(), which names the worker",
                           uuid);
    if (facet_limiter_process_register(tf_limiter(), part->id, pid, &error) != FACET_OK)
        return facade_refuse(call, &error);
    return ACCEL_SUCCESS;
}

AccelResult AddWorkerProcess(const char *deviceUUID, const char *processId)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, add_process(&call, deviceUUID, processId));
}

/* ---- freezing ---- */

static bool is_named(const struct tf_worker *worker, const char *id)
{
    size_t length = strlen(worker->space);

    return strncmp(worker->space, id, length) == 0 && id[length] == '/' && strcmp(worker->pod, id + length + 1) == 0;
}

static AccelResult check_worker(struct facade_call *call, const char *id)
{
    if (!id || !*id)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "worker: expected 'namespace/pod', not NULL or empty");
    return ACCEL_SUCCESS;
}

/* Finds a worker by "namespace/pod", or by a pod's name that only one namespace has. */
static AccelResult choose_worker(struct facade_call *call, const char *id, const struct tf_worker **ret_worker)
{
    const struct tf_worker *chosen = NULL;
    uint32_t match_count = 0;

    for (const struct tf_worker *worker = tf_workers(); worker; worker = worker->next) {
        if (strcmp(worker->pod, id) != 0 && !is_named(worker, id))
            continue;
        chosen = worker;
        match_count++;
    }
    if (match_count == 0)
        return facade_fail(call, ACCEL_ERROR_NOT_FOUND, "there is no worker '%.64s'", id);
    if (match_count > 1)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "%u workers are '%.64s': expected 'namespace/pod'",
                           match_count, id);
    *ret_worker = chosen;
    return ACCEL_SUCCESS;
}

/* A worker counts as frozen if it is frozen on any device. Its freeze began when the earliest of these freezes did. */
static AccelResult report_state(struct facade_call *call, const struct tf_worker *worker, const char *id,
                                WorkerFreezeState *to)
{
    uint64_t since = 0;

    for (size_t i = 0; i < worker->count; i++) {
        struct facet_limiter_state now = {.size = sizeof now};
        struct facet_error error = {0};

        if (facet_limiter_worker_state(tf_limiter(), worker->parts[i].id, &now, &error) != FACET_OK)
            return facade_refuse(call, &error);
        if ((now.frozen | now.auto_frozen) && (since == 0 || now.frozen_since_ns < since))
            since = now.frozen_since_ns;
    }
    memset(to, 0, sizeof *to);
    FACADE_TEXT(to->workerId, id);
    to->isFrozen = since != 0;
    to->freezeTimeMs = since / NS_PER_MS;
    return ACCEL_SUCCESS;
}

typedef enum facet_status (*switch_function)(struct facet_limiter *, const char *, uint32_t, struct facet_error *);

static AccelResult switch_worker(struct facade_call *call, switch_function function, const char *id,
                                 WorkerFreezeState *to)
{
    const struct tf_worker *worker;

    if (!to)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "state: expected an address, not NULL");
    AccelResult result = check_worker(call, id);
    if (result == ACCEL_SUCCESS)
        result = tf_enter(call);
    if (result == ACCEL_SUCCESS)
        result = choose_worker(call, id, &worker);
    for (size_t i = 0; result == ACCEL_SUCCESS && i < worker->count; i++) {
        struct facet_error error = {0};

        if (function(tf_limiter(), worker->parts[i].id, ALL_RESOURCES, &error) != FACET_OK)
            result = facade_refuse(call, &error);
    }
    return result == ACCEL_SUCCESS ? report_state(call, worker, id, to) : result;
}

AccelResult FreezeWorker(const char *workerId, WorkerFreezeState *freezeState)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, switch_worker(&call, facet_limiter_freeze, workerId, freezeState));
}

AccelResult ResumeWorker(const char *workerId, WorkerFreezeState *freezeState)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, switch_worker(&call, facet_limiter_resume, workerId, freezeState));
}

/* A wrong setting is refused: a typing error must not turn into the default. */
static enum facet_status read_idle(uint64_t *ret_ns, struct facet_error *error)
{
    const char *text = secure_getenv("FACET_TENSORFUSION_IDLE_MS");
    char *end = NULL;

    if (!text) {
        *ret_ns = DEFAULT_IDLE_MS * NS_PER_MS;
        return FACET_OK;
    }
    errno = 0;
    unsigned long long ms = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (errno || !end || *end || ms == 0 || ms > MAX_IDLE_MS)
        return facet_error_set(error, FACET_INVALID_ARGUMENT,
                               "FACET_TENSORFUSION_IDLE_MS '%.32s': expected 1 to %llu milliseconds", text,
                               (unsigned long long)MAX_IDLE_MS);
    *ret_ns = ms * NS_PER_MS;
    return FACET_OK;
}

static enum facet_status arm_worker(struct facet_limiter *limiter, const char *id, uint32_t resources,
                                    struct facet_error *error)
{
    uint64_t idle_ns = 0;
    enum facet_status status = read_idle(&idle_ns, error);

    return status == FACET_OK ? facet_limiter_auto_freeze(limiter, id, resources, idle_ns, error) : status;
}

static AccelResult switch_resource(struct facade_call *call, switch_function function, const char *id, const char *uuid,
                                   const char *type)
{
    const struct tf_worker *worker;
    uint32_t resource = type && strcmp(type, "memory") == 0    ? FACET_RESOURCE_MEMORY
                        : type && strcmp(type, "compute") == 0 ? FACET_RESOURCE_COMPUTE
                                                               : 0;

    if (!resource || !uuid || !*uuid)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "'%.32s': expected 'memory' or 'compute', and a device",
                           type ? type : "NULL");
    AccelResult result = check_worker(call, id);
    if (result == ACCEL_SUCCESS)
        result = tf_enter(call);
    if (result == ACCEL_SUCCESS)
        result = choose_worker(call, id, &worker);
    if (result != ACCEL_SUCCESS)
        return result;
    for (size_t i = 0; i < worker->count; i++) {
        struct facet_error error = {0};

        if (strcasecmp(worker->parts[i].uuid, uuid) != 0)
            continue;
        return function(tf_limiter(), worker->parts[i].id, resource, &error) == FACET_OK ? ACCEL_SUCCESS
                                                                                         : facade_refuse(call, &error);
    }
    return facade_fail(call, ACCEL_ERROR_NOT_FOUND, "worker '%.64s' is not on device '%.63s'", id, uuid);
}

AccelResult AutoFreeze(const char *workerId, const char *deviceUUID, const char *resourceType)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, switch_resource(&call, arm_worker, workerId, deviceUUID, resourceType));
}

AccelResult AutoResume(const char *workerId, const char *deviceUUID, const char *resourceType)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, switch_resource(&call, facet_limiter_auto_resume, workerId, deviceUUID, resourceType));
}
