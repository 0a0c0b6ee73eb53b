/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the rules of docs/api.md about modes. Never: ignores a member of a request. */
#include "plan.h"

#include <inttypes.h>
#include <stdio.h>

static void list_modes(uint32_t modes, char *buffer, size_t size)
{
    size_t used = 0;

    snprintf(buffer, size, "none");
    for (uint32_t mode = FACET_MODE_SHARED; mode <= FACET_MODE_PARTITIONED && used < size; mode++)
        if (modes & FACET_DEVICE_MODE(mode))
            used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? ", " : "",
                                     facet_mode_name((enum facet_mode)mode));
}

static enum facet_status check_mode(const struct facet_device_record *device, uint32_t mode, struct facet_error *error)
{
    char modes[64];

    if (!facet_device_takes_programs(device))
        return facet_error_argument(error, FACET_UNSUPPORTED, "device",
                                    "device %s runs kernels only, with 'facet kernel run -d %s': no program can enter "
                                    "a vGPU there; use another device, or install a driver (pocl-opencl-icd for the "
                                    "processor)",
                                    device->id, device->id);
    if (device->info.modes & FACET_DEVICE_MODE(mode))
        return FACET_OK;
    list_modes(device->info.modes, modes, sizeof modes);
    return facet_error_argument(error, FACET_UNSUPPORTED, "mode", "device %s does not offer mode '%s'; it has: %s",
                                device->id, facet_mode_name((enum facet_mode)mode), modes);
}

/* The capacity that limits are compared with. A device with unknown memory is not bounded: it refuses by itself. */
static uint64_t device_memory(const struct facet_device_record *device)
{
    return device->info.valid & FACET_DEVICE_HAS_MEMORY ? device->info.memory_bytes : UINT64_MAX;
}

static enum facet_status need_memory(const struct facet_device_record *device, struct facet_error *error)
{
    if (device->info.valid & FACET_DEVICE_HAS_MEMORY)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "memory_limit_bytes",
                                "device %s does not say how much memory it has; name an amount", device->id);
}

/* Refuses a member that the mode does not take, because ignoring it would break a promise. */
static enum facet_status check_members(const struct request *request, struct facet_error *error)
{
    uint32_t mode = request->limits.mode;
    const char *name = facet_mode_name((enum facet_mode)mode);

    if (mode == FACET_MODE_SHARED && (request->present & REQUEST_MEMORY_LIMIT))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "memory_limit_bytes",
                                    "memory: mode '%s' has no limits, it only accounts; leave it out, or use soft",
                                    name);
    if (mode == FACET_MODE_SHARED && (request->present & REQUEST_COMPUTE))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "compute_request_milli",
                                    "compute: mode '%s' has no limits, it only accounts; leave it out, or use soft",
                                    name);
    if (!mode_is_timed(mode) && (request->present & REQUEST_PRIORITY))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "priority",
                                    "priority: mode '%s' takes no turns; leave it out, or use soft", name);
    if (mode_is_spatial(mode) && (request->present & REQUEST_COMPUTE_LIMIT) &&
        request->limits.compute_limit_milli != FACET_MILLI_WHOLE &&
        request->limits.compute_limit_milli != request->limits.compute_request_milli)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "compute_limit_milli",
                                    "compute: mode '%s' gives a part of the device, which is its own cap; name one "
                                    "share, without a limit",
                                    name);
    if (mode != FACET_MODE_PARTITIONED && (request->present & REQUEST_TEMPLATE))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "template",
                                    "template '%s': only mode 'partitioned' takes one, not '%s'", request->template_id,
                                    name);
    return FACET_OK;
}

static bool asks_compute(const struct request *request)
{
    return (request->present & REQUEST_COMPUTE_REQUEST) && request->limits.compute_request_milli;
}

/* `amount` * `part` / `whole`, rounded up, so that the requested amount fits. */
static uint64_t share_of(uint64_t amount, uint64_t part, uint64_t whole)
{
    __extension__ typedef unsigned __int128 wide;

    return (uint64_t)(((wide)amount * part + whole - 1) / whole);
}

/* Completes the limits of mode hard: memory or compute, when left out, gets the same share as the other. */
static enum facet_status fill_hard(const struct request *request, const struct facet_device_record *device,
                                   struct facet_limits *limits, struct facet_error *error)
{
    bool memory = request->present & REQUEST_MEMORY_LIMIT, compute = asks_compute(request);

    if (!memory && !compute)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "memory_limit_bytes",
                                    "mode 'hard' gives a fixed part of the device; name memory, compute, or both");
    if (memory && compute)
        return FACET_OK;
    enum facet_status status = need_memory(device, error);
    if (status != FACET_OK)
        return status;
    if (!memory)
        limits->memory_bytes = device->info.memory_bytes / FACET_MILLI_WHOLE * limits->compute_request_milli;
    else if (limits->memory_bytes <= device->info.memory_bytes)
        limits->compute_request_milli =
            (uint32_t)share_of(FACET_MILLI_WHOLE, limits->memory_bytes, device->info.memory_bytes);
    return FACET_OK;
}

static enum facet_status fill_partitioned(const struct request *request, struct facet_error *error)
{
    if ((request->present & (REQUEST_TEMPLATE | REQUEST_MEMORY_LIMIT)) || asks_compute(request))
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "template",
                                "mode 'partitioned' gives a slice of the device; name a template, or the memory or "
                                "compute that it must hold");
}

static enum facet_status fill_plan(const struct request *request, const struct facet_device_record *device,
                                   struct facet_limits *limits, struct facet_error *error)
{
    if (mode_is_spatial(limits->mode))
        limits->compute_limit_milli = FACET_MILLI_WHOLE; /* no cap within the vGPU's own part of the device */
    if (limits->mode == FACET_MODE_HARD)
        return fill_hard(request, device, limits, error);
    if (limits->mode == FACET_MODE_PARTITIONED)
        return fill_partitioned(request, error);
    if (request->present & REQUEST_MEMORY_LIMIT)
        return FACET_OK;
    limits->memory_bytes = device->info.memory_bytes;
    return need_memory(device, error);
}

enum facet_status plan_limits(const struct request *request, const struct facet_device_record *device,
                              struct facet_limits *ret_limits, struct facet_error *error)
{
    struct facet_limits limits = request->limits;

    enum facet_status status = check_mode(device, limits.mode, error);
    if (status == FACET_OK)
        status = check_members(request, error);
    if (status == FACET_OK)
        status = fill_plan(request, device, &limits, error);
    if (status == FACET_OK)
        status = facet_limits_check(&limits, device_memory(device), error);
    if (status == FACET_OK)
        *ret_limits = limits;
    return status;
}

enum facet_status plan_change(const struct request *request, const struct facet_device_record *device,
                              const struct facet_limits *before, struct facet_limits *ret_limits,
                              struct facet_error *error)
{
    const char *name = facet_mode_name((enum facet_mode)before->mode);
    struct request merged = *request;

    if (mode_is_spatial(before->mode) && (request->present & (REQUEST_MEMORY_LIMIT | REQUEST_COMPUTE)))
        return facet_error_argument(
            error, FACET_BAD_STATE,
            request->present & REQUEST_MEMORY_LIMIT ? "memory_limit_bytes" : "compute_request_milli",
            "mode '%s' sets memory and compute once; destroy the vGPU and create it anew", name);
    merged.limits.mode = before->mode;
    enum facet_status status = check_members(&merged, error);
    struct facet_limits limits = request_apply(request, before);
    if (status == FACET_OK)
        status = facet_limits_check(&limits, device_memory(device), error);
    if (status == FACET_OK)
        *ret_limits = limits;
    return status;
}

bool plan_modes_mix(const struct facet_device_record *device, uint32_t a, uint32_t b)
{
    const uint8_t *groups = device->info.mode_group;

    return a == b || (groups[a] != 0 && groups[a] == groups[b]);
}
