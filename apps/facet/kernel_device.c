/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: one device for one run. Never: opens a session with a device that does not list that it can run kernels. */
#include "kernel_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "inventory.h"
#include "session/session.h"

enum { PROPERTIES_SIZE = 65536, RECORDS_MOST = 64 };
#define SLICE_NS (FACET_NS_PER_S)

/* Copies the value of the line of `text` that is "key=value"; without such a line *ret_value stays as it is. */
static void find_property(const char *text, const char *key, char *ret_value, size_t size)
{
    size_t length = strlen(key);

    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, key, length) == 0 && line[length] == '=') {
            snprintf(ret_value, size, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
            return;
        }
}

static void read_target(struct kernel_device *device, uint32_t index)
{
    static char text[PROPERTIES_SIZE];
    uint32_t size;

    if (facet_session_provider(device->session)
            ->device->properties(facet_session_instance(device->session), index, text, sizeof text, &size, NULL) ==
        FACET_OK)
        find_property(text, "kernel_target", device->target, sizeof device->target);
}

static enum facet_status create_context(struct kernel_device *device, uint32_t index, struct facet_error *error)
{
    const struct facet_provider *provider = facet_session_provider(device->session);
    struct facet_provider_instance *instance = facet_session_instance(device->session);
    char worker[FACET_WORKER_SIZE];

    snprintf(worker, sizeof worker, "facet-kernel-run-%ld", (long)getpid());
    enum facet_status status = provider->memory->create_context(instance, index, NULL, worker, &device->context, error);
    return status == FACET_OK ? provider->execution->create_stream(instance, device->context, &device->stream, error)
                              : status;
}

static enum facet_status open_record(const struct facet_device_record *record, struct kernel_device *device,
                                     struct facet_error *error)
{
    snprintf(device->id, sizeof device->id, "%s", record->id);
    device->capabilities = record->info.capabilities;
    if ((device->capabilities & (FACET_CAN_MEMORY | FACET_CAN_EXECUTE)) != (FACET_CAN_MEMORY | FACET_CAN_EXECUTE))
        return facet_error_argument(error, FACET_UNSUPPORTED, "device",
                                    "device %s runs no kernels by itself; expected one such as cpu:0", record->id);
    enum facet_status status = facet_session_open(record->provider->path, NULL, &device->session, error);
    if (status != FACET_OK)
        return status;
    read_target(device, record->info.index);
    return create_context(device, record->info.index, error);
}

enum facet_status kernel_device_open(const char *text, struct kernel_device *ret_device, struct facet_error *error)
{
    INVENTORY_CLEANUP struct facet_device_table *table = NULL;
    const struct facet_device_record *record = NULL;
    enum facet_status status = inventory_open_own_environment(&table, error);

    if (status == FACET_OK)
        status = facet_device_table_find(table, text, &record, error);
    return status == FACET_OK ? open_record(record, ret_device, error) : status;
}

void kernel_device_close(struct kernel_device *device)
{
    if (!device->session)
        return;
    if (device->context)
        (void)facet_session_provider(device->session)
            ->memory->destroy_context(facet_session_instance(device->session), device->context, NULL);
    facet_session_close(device->session);
    device->session = NULL;
}

enum facet_status kernel_device_blame(const struct kernel_device *device, const char *kernel, struct facet_error *error)
{
    const struct facet_error reason = *error;

    return facet_error_set(error, reason.status, "kernel %s: provider %s %s", kernel,
                           facet_session_provider(device->session)->name, reason.message);
}

void kernel_device_abandon(const struct kernel_device *device)
{
    facet_session_abandon(device->session, "was ended with the kernel that it ran");
}

/* Reports a launch that the device itself ended; FACET_TIMEOUT means its limit on the time of a work-group. */
static enum facet_status name_failure(enum facet_status status, const char *kernel, struct facet_error *error)
{
    const char *limit = getenv("FACET_CPU_GROUP_LIMIT");

    if (status != FACET_TIMEOUT)
        return facet_error_set(error, status, "the launch failed: %s", facet_status_text(status));
    if (!limit || !limit[0])
        return facet_error_set(error, status,
                               "kernel %s: a work-group took longer than the device lets one run, and "
                               "was ended",
                               kernel);
    return facet_error_argument(error, status, "FACET_CPU_GROUP_LIMIT",
                                "kernel %s: a work-group took longer than FACET_CPU_GROUP_LIMIT=%.32s ms, and was "
                                "ended; set a larger limit, or none, or give each work-group less to do",
                                kernel, limit);
}

enum facet_status kernel_device_launch(const struct kernel_device *device, struct facet_kernel *kernel,
                                       const struct facet_range *range, bool *ret_launched, struct facet_error *error)
{
    enum facet_status status = facet_kernel_launch(kernel, device->stream, range, error);

    /* The kernel may begin, and even crash, before the provider answers the launch. */
    *ret_launched = status == FACET_OK || status == FACET_DEVICE_LOST;
    return status;
}

/* Waits in slices: a single call of a provider must not take longer than its deadline. */
enum facet_status kernel_device_wait(const struct kernel_device *device, const char *kernel, uint64_t timeout_ns,
                                     bool *ret_running, struct facet_error *error)
{
    const struct facet_execution_ops *execution = facet_session_provider(device->session)->execution;
    struct facet_provider_instance *instance = facet_session_instance(device->session);
    uint64_t begin = facet_clock_now_ns(), spent = 0;
    struct facet_stream_state state = {.size = sizeof state};
    enum facet_status status;

    do {
        uint64_t left = timeout_ns - spent;
        status =
            execution->synchronize(instance, device->context, device->stream, left < SLICE_NS ? left : SLICE_NS, error);
        spent = facet_clock_now_ns() - begin;
    } while (status == FACET_TIMEOUT && spent < timeout_ns);
    *ret_running = status == FACET_TIMEOUT;
    if (status != FACET_OK)
        return status;
    if (execution->query(instance, device->context, device->stream, &state, NULL) == FACET_OK && state.failed) {
        status = (enum facet_status)(-(int)state.failed);
        return name_failure(status, kernel, error);
    }
    return FACET_OK;
}

bool kernel_device_record(const struct kernel_device *device, struct facet_launch_record *ret_record)
{
    static struct facet_launch_record records[RECORDS_MOST];
    uint32_t count = 0;

    if (!(device->capabilities & FACET_CAN_RECORD) ||
        facet_session_provider(device->session)
                ->execution->records(facet_session_instance(device->session), device->context, device->stream, 0,
                                     records, sizeof records[0], RECORDS_MOST, &count, NULL) != FACET_OK)
        return false;
    for (uint32_t i = count; i > 0; i--)
        if (records[i - 1].kernel[0]) {
            *ret_record = records[i - 1];
            return true;
        }
    return false;
}
