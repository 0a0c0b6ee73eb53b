/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the hypervisor's side of TensorFusion's limiter: workers, their processes and limits. Never: lets a tenant
 * write limits: the limits are in a part of Facet's segments that tenants can only read.
 *
 * The utilization in LimiterUpdateERL, which TensorFusion's hypervisor computes for its own token bucket, is not used:
 * it is the device's, not the worker's. The limit in the same call is used.
 */
#include "limiter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PARTS 64u

static struct {
    pthread_rwlock_t lock;
    uint32_t users;
    struct facet_limiter *limiter;
    char *base; /* the folder of the segments; NULL: the default folder */
    struct tf_worker *workers;
} state = {.lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP};

struct facet_limiter *tf_limiter(void)
{
    return state.limiter;
}

struct tf_worker *tf_workers(void)
{
    return state.workers;
}

struct tf_worker *tf_find_worker(const char *space, const char *pod)
{
    struct tf_worker *worker = state.workers;

    while (worker && (strcmp(worker->space, space) != 0 || strcmp(worker->pod, pod) != 0))
        worker = worker->next;
    return worker;
}

/* ---- beginning and end ---- */

static AccelResult check_started(struct facade_call *call)
{
    call->held_lock = &state.lock;
    if (state.users)
        return ACCEL_SUCCESS;
    return facade_fail(call, ACCEL_ERROR_OPERATION_FAILED, "LimiterInit has not been called: call it first");
}

AccelResult tf_enter(struct facade_call *call)
{
    pthread_rwlock_rdlock(&state.lock);
    return check_started(call);
}

AccelResult tf_enter_writing(struct facade_call *call)
{
    pthread_rwlock_wrlock(&state.lock);
    return check_started(call);
}

static AccelResult start_limiter(struct facade_call *call, const char *base)
{
    struct facet_error error = {0};
    char *copy = base ? strdup(base) : NULL;

    if (base && !copy)
        return facade_fail(call, ACCEL_ERROR_RESOURCE_EXHAUSTED, "no memory for a path");
    if (facet_limiter_open(base, &state.limiter, &error) != FACET_OK) {
        free(copy);
        return facade_refuse(call, &error);
    }
    state.base = copy;
    return ACCEL_SUCCESS;
}

static bool same_base(const char *base)
{
    return base && state.base ? strcmp(base, state.base) == 0 : !base && !state.base;
}

AccelResult LimiterInit(const char *shmBasePath)
{
    struct facade_call call;
    AccelResult result = ACCEL_SUCCESS;

    facade_begin(&call, __func__);
    pthread_rwlock_wrlock(&state.lock);
    call.held_lock = &state.lock;
    if (state.users == 0)
        result = start_limiter(&call, shmBasePath);
    else if (!same_base(shmBasePath))
        result = facade_fail(&call, ACCEL_ERROR_INVALID_PARAM, "the limiter already uses %s: expected the same folder",
                             state.base ? state.base : "its default folder");
    if (result == ACCEL_SUCCESS)
        state.users++;
    return facade_leave(&call, result);
}

/* Workers stay on disk: the next LimiterInit() and LimiterCreateWorker() adopt them. */
static void stop_limiter(void)
{
    facet_limiter_close(state.limiter);
    state.limiter = NULL;
    free(state.base);
    state.base = NULL;
    while (state.workers) {
        struct tf_worker *worker = state.workers;

        state.workers = worker->next;
        free(worker);
    }
}

/* Succeeds also if the limiter was not started. */
AccelResult LimiterShutdown(void)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    pthread_rwlock_wrlock(&state.lock);
    call.held_lock = &state.lock;
    if (state.users && --state.users == 0)
        stop_limiter();
    return facade_leave(&call, ACCEL_SUCCESS);
}

/* ---- names ---- */

/*
 * A worker's names become names of folders. So the names that TensorFusion itself refuses are refused, and also names
 * with characters other than letters, digits and "._-".
 */
static AccelResult check_name(struct facade_call *call, const char *field, const char *name, size_t size)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    if (!name || !*name)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "%s: expected a name, not NULL or empty", field);
    if (strlen(name) >= size || name[strspn(name, letters)] || strchr("._-", name[0]) || strstr(name, ".."))
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM,
                           "%s '%.64s': expected letters, digits and single '.', '_', '-', at most %zu bytes", field,
                           name, size - 1);
    return ACCEL_SUCCESS;
}

static AccelResult check_names(struct facade_call *call, const char *space, const char *pod)
{
    AccelResult result = check_name(call, "namespace", space, TF_SPACE_SIZE);

    return result == ACCEL_SUCCESS ? check_name(call, "pod", pod, TF_POD_SIZE) : result;
}

/*
 * Makes an id that begins with at most 16 bytes of both names, so that people can read it. The 64 bits of FNV-1a over
 * the whole "namespace/pod" and the device's index make it unique to a worker and device.
 */
static void make_id(const char *space, const char *pod, uint32_t index, char id[FACET_NAME_SIZE])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (const char *c = space; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    hash = (hash ^ '/') * UINT64_C(0x100000001b3);
    for (const char *c = pod; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    snprintf(id, FACET_NAME_SIZE, "%.16s.%.16s.%016llx.%u", space, pod, (unsigned long long)hash, index);
}

static AccelResult no_worker(struct facade_call *call, const char *space, const char *pod)
{
    return facade_fail(call, ACCEL_ERROR_NOT_FOUND, "there is no worker %s/%s", space, pod);
}

/* Finds the worker's part on device `index`; NULL, with a message, when there is none. */
static struct tf_part *find_part(struct facade_call *call, const char *space, const char *pod, uint32_t index)
{
    struct tf_worker *worker = tf_find_worker(space, pod);

    for (size_t i = 0; worker && i < worker->count; i++) {
        if (worker->parts[i].index == index)
            return &worker->parts[i];
    }
    facade_fail(call, ACCEL_ERROR_NOT_FOUND, "there is no worker %s/%s on device %u", space, pod, index);
    return NULL;
}

/* ---- making workers ---- */

static AccelResult check_config(struct facade_call *call, const LimiterDeviceConfig *config,
                                const struct tf_part *parts, size_t before)
{
    if (config->upLimit > 100)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "device %u: %u percent, expected at most 100",
                           config->deviceIdx, config->upLimit);
    if (!memchr(config->deviceUUID, '\0', sizeof config->deviceUUID) || !*config->deviceUUID)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "device %u: expected a uuid of at most %d bytes",
                           config->deviceIdx, UUID_STRING_LENGTH - 1);
    for (size_t i = 0; i < before; i++) {
        if (parts[i].index == config->deviceIdx)
            return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "device %u is named twice", config->deviceIdx);
    }
    return ACCEL_SUCCESS;
}

/* Without AccelInit() no provider is open to describe the device: the worker's limit then counts as its memory size. */
static AccelResult find_device_facts(struct facade_call *call, const LimiterDeviceConfig *config,
                                     struct facade_device_facts *facts)
{
    struct facet_error error = {0};
    enum facet_status status = facade_device_look_up(call, config->deviceUUID, facts, &error);

    if (status != FACET_OK && status != FACET_BAD_STATE)
        return facade_refuse(call, &error);
    if (status == FACET_OK && facts->memory_bytes)
        return ACCEL_SUCCESS;
    if (status == FACET_BAD_STATE)
        snprintf(facts->id, sizeof facts->id, "tensorfusion:%u", config->deviceIdx);
    if (config->memLimit == 0)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM,
                           "device %u: its memory size is not known: expected a memory limit", config->deviceIdx);
    facts->memory_bytes = config->memLimit;
    return ACCEL_SUCCESS;
}

static void fill_part(const LimiterDeviceConfig *config, const char *space, const char *pod, struct tf_part *part)
{
    part->index = config->deviceIdx;
    FACADE_TEXT(part->uuid, config->deviceUUID);
    make_id(space, pod, config->deviceIdx, part->id);
    facet_limits_init(&part->limits);
    part->limits.memory_bytes = config->memLimit;
    part->limits.compute_limit_milli =
        config->upLimit ? config->upLimit * (FACET_MILLI_WHOLE / 100) : FACET_MILLI_WHOLE;
    part->limits.mode = FACET_MODE_SOFT;
}

/* Adopts a worker that an earlier hypervisor left, so that a restart keeps its state. */
static AccelResult make_part(struct facade_call *call, const struct facade_device_facts *facts, struct tf_part *part)
{
    const struct facet_limiter_worker worker = {.size = sizeof worker,
                                                .id = part->id,
                                                .device_id = facts->id,
                                                .device_name = facts->name,
                                                .device_address = facts->address,
                                                .device_memory_bytes = facts->memory_bytes,
                                                .limits = part->limits};
    struct facet_error error = {0};
    enum facet_status status = facet_limiter_worker_create(state.limiter, &worker, &error);

    part->created = status == FACET_OK;
    if (status == FACET_ALREADY_EXISTS)
        status = facet_limiter_worker_adopt(state.limiter, &worker, &error);
    return status == FACET_OK ? ACCEL_SUCCESS : facade_refuse(call, &error);
}

static AccelResult remove_parts(struct facade_call *call, const struct tf_worker *worker, size_t count,
                                bool only_created)
{
    AccelResult result = ACCEL_SUCCESS;

    for (size_t i = 0; i < count; i++) {
        struct facet_error error = {0};

        if (only_created && !worker->parts[i].created)
            continue;
        enum facet_status status = facet_limiter_worker_remove(state.limiter, worker->parts[i].id, true, &error);
        if (status != FACET_OK && status != FACET_NOT_FOUND)
            result = facade_refuse(call, &error);
    }
    return result;
}

static AccelResult make_parts(struct facade_call *call, struct tf_worker *worker,
                              const struct facade_device_facts *facts)
{
    if (tf_find_worker(worker->space, worker->pod))
        return facade_fail(call, ACCEL_ERROR_OPERATION_FAILED, "worker %s/%s exists already", worker->space,
                           worker->pod);
    for (size_t i = 0; i < worker->count; i++) {
        AccelResult result = make_part(call, &facts[i], &worker->parts[i]);

        if (result == ACCEL_SUCCESS)
            continue;
        remove_parts(call, worker, i, true);
        return result;
    }
    worker->next = state.workers;
    state.workers = worker;
    return ACCEL_SUCCESS;
}

/* Checks the whole request before anything is made. */
static AccelResult prepare_worker(struct facade_call *call, const LimiterDeviceConfig *configs,
                                  struct tf_worker *worker, struct facade_device_facts *facts)
{
    AccelResult result = ACCEL_SUCCESS;

    for (size_t i = 0; i < worker->count && result == ACCEL_SUCCESS; i++) {
        result = check_config(call, &configs[i], worker->parts, i);
        if (result == ACCEL_SUCCESS)
            result = find_device_facts(call, &configs[i], &facts[i]);
        if (result == ACCEL_SUCCESS)
            fill_part(&configs[i], worker->space, worker->pod, &worker->parts[i]);
    }
    return result;
}

static AccelResult create_worker(struct facade_call *call, const char *space, const char *pod,
                                 const LimiterDeviceConfig *configs, size_t count)
{
    AccelResult result = check_names(call, space, pod);

    if (result != ACCEL_SUCCESS)
        return result;
    if (!configs || count == 0 || count > MAX_PARTS)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "%zu devices: expected 1 to %u", count, MAX_PARTS);
    struct tf_worker *worker = calloc(1, sizeof *worker + count * sizeof *worker->parts);
    FACADE_CLEANUP_FREE struct facade_device_facts *facts = calloc(count, sizeof *facts);
    if (worker && facts) {
        FACADE_TEXT(worker->space, space);
        FACADE_TEXT(worker->pod, pod);
        worker->count = count;
        result = prepare_worker(call, configs, worker, facts);
    } else {
        result = facade_fail(call, ACCEL_ERROR_RESOURCE_EXHAUSTED, "no memory for a worker");
    }
    if (result == ACCEL_SUCCESS) {
        result = tf_enter_writing(call);
        if (result == ACCEL_SUCCESS)
            result = make_parts(call, worker, facts);
    }
    if (result != ACCEL_SUCCESS)
        free(worker);
    return result;
}

AccelResult LimiterCreateWorker(const char *space, const char *podName, const LimiterDeviceConfig *configs,
                                size_t configCount)
{
    struct facade_call call;

    facade_begin(&call, __func__); /* the device is looked up before the limiter's lock is taken */
    return facade_leave(&call, create_worker(&call, space, podName, configs, configCount));
}

static AccelResult remove_worker(struct facade_call *call, const char *space, const char *pod)
{
    AccelResult result = check_names(call, space, pod);
    struct tf_worker **place = &state.workers;

    if (result == ACCEL_SUCCESS)
        result = tf_enter_writing(call);
    if (result != ACCEL_SUCCESS)
        return result;
    struct tf_worker *worker = tf_find_worker(space, pod);
    if (!worker)
        return no_worker(call, space, pod);
    result = remove_parts(call, worker, worker->count, false);
    if (result != ACCEL_SUCCESS)
        return result;
    while (*place != worker)
        place = &(*place)->next;
    *place = worker->next;
    free(worker);
    return ACCEL_SUCCESS;
}

/* Processes of the pod may still run; their requests are refused from now on. */
AccelResult LimiterRemoveWorker(const char *space, const char *podName)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, remove_worker(&call, space, podName));
}

/* ---- operations on workers ---- */

static AccelResult register_process(struct facade_call *call, const char *space, const char *pod, uint32_t pid)
{
    AccelResult result = check_names(call, space, pod);

    if (result == ACCEL_SUCCESS && (pid == 0 || pid > INT32_MAX))
        result = facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "process %u: expected 1 to %d", pid, INT32_MAX);
    if (result == ACCEL_SUCCESS)
        result = tf_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    const struct tf_worker *worker = tf_find_worker(space, pod);
    if (!worker)
        return no_worker(call, space, pod);
    for (size_t i = 0; i < worker->count; i++) {
        struct facet_error error = {0};
        enum facet_status status =
            facet_limiter_process_register(state.limiter, worker->parts[i].id, (int32_t)pid, &error);

        if (status != FACET_OK && status != FACET_ALREADY_EXISTS)
            return facade_refuse(call, &error);
    }
    return ACCEL_SUCCESS;
}

AccelResult LimiterRegisterPID(const char *space, const char *podName, uint32_t hostPID)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, register_process(&call, space, podName, hostPID));
}

static AccelResult update_limit(struct facade_call *call, const char *space, const char *pod, uint32_t index,
                                uint32_t percent, double utilization)
{
    AccelResult result = check_names(call, space, pod);
    struct facet_error error = {0};

    if (result != ACCEL_SUCCESS)
        return result;
    if (percent == 0 || percent > 100 || !isfinite(utilization) || utilization < 0)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM,
                           "limit %u, utilization %g: expected 1 to 100 percent, and a utilization of at least 0",
                           percent, utilization);
    result = tf_enter_writing(call);
    if (result != ACCEL_SUCCESS)
        return result;
    struct tf_part *part = find_part(call, space, pod, index);
    if (!part)
        return ACCEL_ERROR_NOT_FOUND;
    struct facet_limits limits = part->limits;
    limits.compute_limit_milli = percent * (FACET_MILLI_WHOLE / 100);
    if (facet_limiter_worker_set_limits(state.limiter, part->id, &limits, &error) != FACET_OK)
        return facade_refuse(call, &error);
    part->limits = limits;
    return ACCEL_SUCCESS;
}

AccelResult LimiterUpdateERL(const char *space, const char *podName, uint32_t deviceIdx, uint32_t upLimit,
                             double utilizationPercent, uint64_t timestampMicros)
{
    struct facade_call call;

    (void)timestampMicros;
    facade_begin(&call, __func__);
    return facade_leave(&call, update_limit(&call, space, podName, deviceIdx, upLimit, utilizationPercent));
}

static AccelResult beat_worker(struct facade_call *call, const char *space, const char *pod)
{
    AccelResult result = check_names(call, space, pod);

    if (result == ACCEL_SUCCESS)
        result = tf_enter(call);
    const struct tf_worker *worker = result == ACCEL_SUCCESS ? tf_find_worker(space, pod) : NULL;
    if (result == ACCEL_SUCCESS && !worker)
        result = no_worker(call, space, pod);
    for (size_t i = 0; worker && i < worker->count; i++) {
        struct facet_error error = {0};

        if (facet_limiter_worker_heartbeat(state.limiter, worker->parts[i].id, &error) != FACET_OK)
            result = facade_refuse(call, &error);
    }
    return result;
}

/* The heartbeat gets the time of this call, not timestampSecs: the caller's clock may differ from ours. */
AccelResult LimiterUpdateHeartbeat(const char *space, const char *podName, uint64_t timestampSecs)
{
    struct facade_call call;

    (void)timestampSecs;
    facade_begin(&call, __func__);
    return facade_leave(&call, beat_worker(&call, space, podName));
}

/*
 * Charges this process so that `part` uses `bytes` in all, but never more than its limit. To lower the use, it gives
 * back only bytes that this process charged: amounts that the pod's processes recorded themselves stay.
 */
static AccelResult charge_part(struct facade_call *call, struct tf_part *part, uint64_t bytes)
{
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};
    struct facet_limiter_state now = {.size = sizeof now};
    struct facet_error error = {0};

    if (facet_limiter_worker_state(state.limiter, part->id, &now, &error) != FACET_OK)
        return facade_refuse(call, &error);
    uint64_t recorded_bytes =
        now.memory_bytes - (part->charged_bytes < now.memory_bytes ? part->charged_bytes : now.memory_bytes);
    uint64_t target = bytes > recorded_bytes ? bytes - recorded_bytes : 0;
    uint64_t max_charge = now.memory_limit_bytes > recorded_bytes ? now.memory_limit_bytes - recorded_bytes : 0;
    if (target > max_charge) {
        facade_log(call, "WARN", "%s uses %llu bytes, more than its limit of %llu", part->id, (unsigned long long)bytes,
                   (unsigned long long)now.memory_limit_bytes);
        target = max_charge;
    }
    enum facet_status status = facet_limiter_memory_check(
        state.limiter, part->id, getpid(), (int64_t)target - (int64_t)part->charged_bytes, &verdict, &error);
    if (status != FACET_OK)
        return facade_refuse(call, &error);
    if (!verdict.admitted)
        return facade_fail(call, ACCEL_ERROR_RESOURCE_EXHAUSTED, "%s: its quota is used up or frozen", part->id);
    part->charged_bytes = target;
    return ACCEL_SUCCESS;
}

static AccelResult set_used(struct facade_call *call, const char *space, const char *pod, uint32_t index,
                            uint64_t bytes)
{
    AccelResult result = check_names(call, space, pod);
    struct facet_error error = {0};

    if (result == ACCEL_SUCCESS)
        result = tf_enter_writing(call);
    if (result != ACCEL_SUCCESS)
        return result;
    struct tf_part *part = find_part(call, space, pod, index);
    if (!part)
        return ACCEL_ERROR_NOT_FOUND;
    enum facet_status status = facet_limiter_process_register(state.limiter, part->id, getpid(), &error);
    if (status != FACET_OK && status != FACET_ALREADY_EXISTS)
        return facade_refuse(call, &error);
    return charge_part(call, part, bytes);
}

AccelResult LimiterSetPodMemoryUsed(const char *space, const char *podName, uint32_t deviceIdx, uint64_t memoryUsed)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, set_used(&call, space, podName, deviceIdx, memoryUsed));
}
