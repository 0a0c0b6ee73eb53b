/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of providers, opening and closing them, and finding devices. AccelInit() opens the providers. So does
 * any other call that finds them closed, because callers ask before the first AccelInit() and after the last
 * AccelShutdown(). The last AccelShutdown() closes the providers, whichever call opened them. Never: loads vendor code
 * into the hypervisor unless the user asks for it: each provider runs in a child process.
 *
 *     FACET_PROVIDER_PATH           files and folders of providers, separated by colons; without it, the folder that
 *                                   this library is in
 *     FACET_TENSORFUSION_PLACE      "child", the default: each provider runs in a child process;
 *                                   "process": the providers run in the calling process
 */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "facade.h"

static struct {
    pthread_rwlock_t lock;
    uint32_t users; /* the number of calls of AccelInit() minus that of AccelShutdown() */
    bool open;
    struct facade_provider *providers;
    uint32_t count;
} state = {.lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP};

const struct facade_provider *facade_providers(uint32_t *ret_count)
{
    *ret_count = state.count;
    return state.providers;
}

/* ---- finding ---- */

static void add_file(const char *path, glob_t *paths)
{
    /* GLOB_NOCHECK adds a missing file too, so that opening it reports the error. */
    glob(path, GLOB_NOCHECK | GLOB_NOMAGIC | (paths->gl_pathc ? GLOB_APPEND : 0), NULL, paths);
}

static void add_place(const char *place, glob_t *paths)
{
    char pattern[4096];
    struct stat info;

    if (stat(place, &info) != 0 || !S_ISDIR(info.st_mode)) {
        add_file(place, paths);
        return;
    }
    if ((size_t)snprintf(pattern, sizeof pattern, "%s/facet-provider-*.so", place) < sizeof pattern)
        glob(pattern, paths->gl_pathc ? GLOB_APPEND : 0, NULL, paths);
}

static void add_own_folder(glob_t *paths)
{
    char folder[4096];
    Dl_info self;

    if (dladdr(&state, &self) == 0 || !self.dli_fname)
        return;
    FACADE_TEXT(folder, self.dli_fname);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    add_place(slash ? folder : ".", paths);
}

/* The files of all providers; the caller frees them with globfree(). */
static glob_t find_files(void)
{
    const char *setting = secure_getenv("FACET_PROVIDER_PATH");
    glob_t paths = {0};
    FACADE_CLEANUP_FREE char *copy = setting && *setting ? strdup(setting) : NULL;
    char *rest = NULL;

    if (!copy)
        add_own_folder(&paths);
    for (char *place = copy ? strtok_r(copy, ":", &rest) : NULL; place; place = strtok_r(NULL, ":", &rest))
        add_place(place, &paths);
    return paths;
}

/* ---- opening and closing; the lock is held for writing ---- */

static void close_all(void)
{
    for (uint32_t i = 0; i < state.count; i++) {
        facet_session_close(state.providers[i].session);
        free(state.providers[i].path);
    }
    free(state.providers);
    state.providers = NULL;
    state.count = 0;
    state.open = false;
}

/* A wrong value is refused: a typing error must not move providers into the hypervisor, or out of it. */
static AccelResult read_place(struct facade_call *call, uint32_t *ret_place)
{
    const char *place = secure_getenv("FACET_TENSORFUSION_PLACE");

    if (place && strcmp(place, "process") != 0 && strcmp(place, "child") != 0)
        return facade_fail(call, ACCEL_ERROR_OPERATION_FAILED,
                           "FACET_TENSORFUSION_PLACE is '%.32s': expected 'child' or 'process'", place);
    *ret_place = place && strcmp(place, "process") == 0 ? FACET_SESSION_IN_PROCESS : FACET_SESSION_CHILD;
    return ACCEL_SUCCESS;
}

static void open_one(struct facade_call *call, const char *path, uint32_t place)
{
    struct facet_session_options options = {.size = sizeof options, .place = place};
    struct facade_provider *opened = &state.providers[state.count];
    struct facet_error error = {0};

    opened->path = strdup(path);
    if (!opened->path) {
        facade_log(call, "ERROR", "no memory for %s", path);
        return;
    }
    if (facet_session_open(path, &options, &opened->session, &error) == FACET_OK) {
        state.count++;
        return;
    }
    facade_log(call, "WARN", "%s is left out: %s", path, error.message);
    free(opened->path);
}

static AccelResult open_all(struct facade_call *call)
{
    uint32_t place = FACET_SESSION_CHILD;
    AccelResult result = read_place(call, &place);

    if (result != ACCEL_SUCCESS)
        return result;
    glob_t paths = find_files();
    state.providers = calloc(paths.gl_pathc + 1, sizeof *state.providers);
    if (!state.providers)
        result = facade_fail(call, ACCEL_ERROR_RESOURCE_EXHAUSTED, "no memory for %zu providers", paths.gl_pathc);
    for (size_t i = 0; state.providers && i < paths.gl_pathc; i++)
        open_one(call, paths.gl_pathv[i], place);
    if (result == ACCEL_SUCCESS && paths.gl_pathc && state.count == 0)
        result =
            facade_fail(call, ACCEL_ERROR_OPERATION_FAILED, "none of %zu providers could be opened", paths.gl_pathc);
    globfree(&paths);
    state.open = true;
    if (result != ACCEL_SUCCESS)
        close_all();
    return result;
}

AccelResult AccelInit(void)
{
    AccelResult result = ACCEL_SUCCESS;
    struct facade_call call;

    facade_begin(&call, __func__);
    pthread_rwlock_wrlock(&state.lock);
    call.held_lock = &state.lock;
    if (!state.open)
        result = open_all(&call);
    if (result == ACCEL_SUCCESS)
        state.users++;
    return facade_leave(&call, result);
}

/* Succeeds also if no provider is open. */
AccelResult AccelShutdown(void)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    pthread_rwlock_wrlock(&state.lock);
    call.held_lock = &state.lock;
    if (state.users)
        state.users--;
    if (state.users == 0)
        close_all();
    return facade_leave(&call, ACCEL_SUCCESS);
}

/* Keeps the lock for writing until facade_leave(), so that no shutdown comes between opening and use. */
static AccelResult enter_writing(struct facade_call *call)
{
    pthread_rwlock_wrlock(&state.lock);
    call->held_lock = &state.lock;
    return state.open ? ACCEL_SUCCESS : open_all(call);
}

AccelResult facade_enter(struct facade_call *call)
{
    pthread_rwlock_rdlock(&state.lock);
    call->held_lock = &state.lock;
    if (state.open)
        return ACCEL_SUCCESS;
    pthread_rwlock_unlock(&state.lock);
    return enter_writing(call);
}

static bool all_alive(void)
{
    for (uint32_t i = 0; i < state.count; i++) {
        if (!facet_session_alive(state.providers[i].session, NULL))
            return false;
    }
    return true;
}

/* The caller holds the lock for writing. */
static void restart_lost_sessions(struct facade_call *call)
{
    for (uint32_t i = 0; i < state.count; i++) {
        struct facet_error reason = {0}, error = {0};

        if (facet_session_alive(state.providers[i].session, &reason))
            continue;
        if (facet_session_restart(state.providers[i].session, &error) == FACET_OK)
            facade_log(call, "WARN", "%s is opened again, after: %s", state.providers[i].path, reason.message);
        else
            facade_log(call, "ERROR", "%s stays lost (%s): %s", state.providers[i].path, reason.message, error.message);
    }
}

AccelResult facade_enter_discovery(struct facade_call *call)
{
    AccelResult result = facade_enter(call);

    if (result != ACCEL_SUCCESS || all_alive())
        return result;
    pthread_rwlock_unlock(&state.lock);
    result = enter_writing(call);
    if (result == ACCEL_SUCCESS)
        restart_lost_sessions(call);
    return result;
}

/* ---- devices ---- */

static enum facet_status append_devices(const struct facade_provider *provider, const struct facet_device_info *infos,
                                        uint32_t count, struct facade_devices *devices, struct facet_error *error)
{
    struct facade_device *items = realloc(devices->items, (devices->count + count + 1) * sizeof *items);

    if (!items)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u devices", devices->count + count);
    devices->items = items;
    for (uint32_t i = 0; i < count; i++) {
        if (infos[i].modes == 0) /* a device for kernels only, on which no worker can run */
            continue;
        items[devices->count] = (struct facade_device){.provider = provider, .info = infos[i]};
        items[devices->count++].info.index = i;
    }
    return FACET_OK;
}

enum facet_status facade_devices_list(struct facade_call *call, struct facade_devices *ret_devices,
                                      struct facet_error *error)
{
    struct facade_devices devices = {0};
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < state.count && status == FACET_OK; i++) {
        const struct facade_device target = {.provider = &state.providers[i]};
        const struct facade_query query = facade_query_of(&target);
        FACADE_CLEANUP_FREE void *infos = NULL;
        struct facet_error reason = {0};
        uint32_t count = 0;

        if (facade_fetch(facade_ask_devices, &query, sizeof(struct facet_device_info), &infos, &count, &reason) !=
            FACET_OK)
            facade_log(call, "WARN", "%s does not list its devices: %s", state.providers[i].path, reason.message);
        status = append_devices(&state.providers[i], infos, count, &devices, error);
    }
    if (status == FACET_OK)
        *ret_devices = devices;
    else
        free(devices.items);
    return status;
}

enum facet_status facade_device_find(struct facade_call *call, const char *uuid, struct facade_device *ret_device,
                                     struct facet_error *error)
{
    struct facade_devices devices;
    enum facet_status status = facade_devices_list(call, &devices, error);

    if (status != FACET_OK)
        return status;
    status = facet_error_set(error, FACET_NOT_FOUND, "no device has the uuid '%.64s'", uuid);
    for (uint32_t i = 0; i < devices.count && status != FACET_OK; i++) {
        if (strcasecmp(devices.items[i].info.uuid, uuid) != 0)
            continue;
        *ret_device = devices.items[i];
        status = FACET_OK;
    }
    free(devices.items);
    return status;
}

enum facet_status facade_device_look_up(struct facade_call *call, const char *uuid,
                                        struct facade_device_facts *ret_facts, struct facet_error *error)
{
    struct facade_device device;
    struct facade_device_facts facts = {0};

    pthread_rwlock_rdlock(&state.lock);
    enum facet_status status = state.open ? facade_device_find(call, uuid, &device, error) : FACET_BAD_STATE;
    if (status == FACET_OK) {
        snprintf(facts.id, sizeof facts.id, "%.40s:%u", facet_session_provider(device.provider->session)->name,
                 device.info.index);
        FACADE_TEXT(facts.name, device.info.name);
        FACADE_TEXT(facts.address, device.info.address);
        facts.memory_bytes = device.info.memory_bytes;
        *ret_facts = facts;
    }
    pthread_rwlock_unlock(&state.lock);
    return status;
}
