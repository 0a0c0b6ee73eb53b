/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making virtual GPUs, pausing and ending them. Never: leaves parts of a vGPU behind when a step fails.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "vgpu/driver.h"
#include "vgpu/managed/enter.h"
#include "vgpu/pin.h"
#include "vgpu/stream.h"
#include "vgpu/watch.h"

#define RECHECK_NS (2 * FACET_NS_PER_MS) /* how often the thread that ends a vGPU checks for a missed wake-up */

/* ---- arguments ---- */

static enum facet_status out_of_range(const char *argument, uint64_t value, uint64_t max, struct facet_error *error)
{
    return facet_error_argument(error, FACET_OUT_OF_RANGE, argument, "%s %" PRIu64 ": expected at most %" PRIu64,
                                argument, value, max);
}

static enum facet_status check_compute(const struct facet_driver *driver, const struct facet_vgpu_config *config,
                                       struct facet_error *error)
{
    bool has_setting = config->request_milli || (config->limit_milli && config->limit_milli != FACET_MILLI_WHOLE) ||
                       config->priority || config->units || config->units_least || config->launches;

    if (has_setting && driver->config.off & FACET_OFF_COMPUTE)
        return facet_error_argument(error, FACET_UNSUPPORTED, "request_milli",
                                    "a share, priority or bound needs compute virtualization, which is off");
    if (config->request_milli > FACET_MILLI_WHOLE)
        return out_of_range("request_milli", config->request_milli, FACET_MILLI_WHOLE, error);
    if (config->limit_milli > FACET_MILLI_WHOLE)
        return out_of_range("limit_milli", config->limit_milli, FACET_MILLI_WHOLE, error);
    if (config->limit_milli && config->limit_milli < config->request_milli)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "limit_milli",
                                    "limit_milli %" PRIu32 ": expected at least request_milli, %" PRIu32,
                                    config->limit_milli, config->request_milli);
    if (config->priority > FACET_VGPU_PRIORITY(FACET_PRIORITY_HIGH))
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "priority",
                                    "priority %" PRIu32 ": expected FACET_VGPU_PRIORITY(enum facet_priority)",
                                    config->priority);
    if (config->units_least > config->units && config->units > 0)
        return out_of_range("units_least", config->units_least, config->units, error);
    return FACET_OK;
}

static enum facet_status check_config(const struct facet_driver *driver, const struct facet_vgpu_config *config,
                                      struct facet_error *error)
{
    uint32_t off = FACET_OFF_TENSOR_CORES, on = FACET_ON_MIXED_PRECISION;

    if (config->size < sizeof *config)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config",
                                    "config: size %" PRIu32 ", expected that of struct facet_vgpu_config, %zu",
                                    config->size, sizeof *config);
    FACET_NEED_KNOWN("config", config, error);
    if (config->off & ~off || config->on & ~on)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, config->off & ~off ? "off" : "on",
                                    "off 0x%" PRIx32 ", on 0x%" PRIx32 ": expected FACET_OFF_TENSOR_CORES or 0, and "
                                    "FACET_ON_MIXED_PRECISION or 0",
                                    config->off, config->on);
    if (config->on && driver->config.off & FACET_OFF_MIXED_PRECISION)
        return facet_error_argument(error, FACET_UNSUPPORTED, "on", "mixed precision is off for this driver");
    if (config->device > driver->devices)
        return facet_error_argument(error, FACET_NOT_FOUND, "device",
                                    "device FACET_ON_DEVICE(%" PRIu32 "): the driver has %" PRIu32 " devices",
                                    config->device - 1, driver->devices);
    if (config->memory_bytes && driver->config.off & FACET_OFF_MEMORY)
        return facet_error_argument(error, FACET_UNSUPPORTED, "memory_bytes",
                                    "a memory limit needs memory virtualization, which is off");
    enum facet_status status = config->name ? facet_check_name(config->name, "name", error) : FACET_OK;
    return status == FACET_OK ? check_compute(driver, config, error) : status;
}

/* ---- choosing a device ---- */

/* Compares what devices have promised: first the share of their time, then the number of vGPUs, then the bytes. */
static bool promised_less(const struct facet_vgpu_device *left, const struct facet_vgpu_device *right)
{
    if (left->promised_milli != right->promised_milli)
        return left->promised_milli < right->promised_milli;
    if (left->vgpus != right->vgpus)
        return left->vgpus < right->vgpus;
    return left->promised_bytes < right->promised_bytes;
}

static struct facet_vgpu_device *choose_device(struct facet_driver *driver, uint32_t asked)
{
    struct facet_vgpu_device *best = NULL;

    if (asked)
        return &driver->device[asked - 1];
    for (uint32_t i = 0; i < driver->devices; i++) {
        struct facet_vgpu_device *device = &driver->device[i];

        if (!atomic_load(&device->lost) && (!best || promised_less(device, best)))
            best = device;
    }
    return best ? best : &driver->device[0];
}

/* Chooses the device and counts the vGPU's streams, share and memory there under one lock: the choice depends on them.
 */
static enum facet_status claim_device(struct facet_vgpu *vgpu, uint32_t device, struct facet_error *error)
{
    struct facet_driver *driver = vgpu->driver;

    pthread_rwlock_wrlock(&driver->list_lock);
    uint32_t left = driver->config.streams - driver->streams;

    if (vgpu->streams <= left) {
        vgpu->device = choose_device(driver, device);
        driver->streams += vgpu->streams;
        vgpu->device->vgpus++;
        vgpu->device->promised_milli += vgpu->request_milli;
        if (vgpu->memory_bytes == 0)
            vgpu->memory_bytes = vgpu->device->memory_bytes;
        vgpu->device->promised_bytes += vgpu->memory_bytes;
    }
    pthread_rwlock_unlock(&driver->list_lock);
    if (vgpu->device)
        return FACET_OK;
    return facet_error_argument(error, FACET_QUOTA, "streams",
                                "streams %" PRIu32 ": expected at most %" PRIu32
                                ", what is left of the driver's %" PRIu32,
                                vgpu->streams, left, driver->config.streams);
}

static void unclaim_device(struct facet_vgpu *vgpu)
{
    struct facet_driver *driver = vgpu->driver;

    if (!vgpu->device)
        return;
    pthread_rwlock_wrlock(&driver->list_lock);
    driver->streams -= vgpu->streams;
    vgpu->device->vgpus--;
    vgpu->device->promised_milli -= vgpu->request_milli;
    vgpu->device->promised_bytes -= vgpu->memory_bytes;
    pthread_rwlock_unlock(&driver->list_lock);
}

/* ---- making a vGPU ---- */

static struct facet_vgpu *new_vgpu(struct facet_driver *driver, const struct facet_vgpu_config *config)
{
    struct facet_vgpu *vgpu = calloc(1, sizeof *vgpu);

    if (!vgpu)
        return NULL;
    *vgpu = (struct facet_vgpu){
        .driver = driver,
        .id = config->id,
        .created_ns = facet_clock_now_ns(),
        .memory_bytes = config->memory_bytes,
        .features_off = config->off | (driver->config.off & FACET_OFF_TENSOR_CORES),
        .features_on = config->on,
        .request_milli = config->request_milli,
        .limit_milli = config->limit_milli ? config->limit_milli : FACET_MILLI_WHOLE,
        .priority = config->priority ? config->priority - 1 : FACET_PRIORITY_NORMAL,
        .units = config->units,
        .units_least = config->units_least ? config->units_least : 1,
        .launches = config->launches,
        .streams = config->streams ? config->streams : 1,
    };
    pthread_mutex_init(&vgpu->lock, NULL);
    pthread_mutex_init(&vgpu->pin_lock, NULL);
    pthread_mutex_init(&vgpu->managed_lock, NULL);
    return vgpu;
}

enum facet_status facet_vgpu_name_limit(enum facet_status status, struct facet_error *error)
{
    static const char space_name[] = "limit_bytes", vgpu_name[] = "memory_bytes";
    char rest[sizeof error->message];

    if (status == FACET_OK || !error || strcmp(error->argument, space_name) != 0)
        return status;
    snprintf(error->argument, sizeof error->argument, "%s", vgpu_name);
    if (strncmp(error->message, space_name, strlen(space_name)) == 0) {
        memcpy(rest, error->message, sizeof rest);
        snprintf(error->message, sizeof error->message, "%s%.*s", vgpu_name, (int)(sizeof rest - sizeof vgpu_name),
                 rest + strlen(space_name));
    }
    return status;
}

static enum facet_status create_space(struct facet_vgpu *vgpu, struct facet_error *error)
{
    const struct facet_space_config config = {.size = sizeof config,
                                              .id = vgpu->id,
                                              .limit_bytes = vgpu->memory_bytes,
                                              .name = vgpu->name,
                                              .context = vgpu->context};

    if (facet_vgpu_is_off(vgpu, FACET_OFF_MEMORY))
        return FACET_OK;
    return facet_vgpu_name_limit(facet_space_create(vgpu->device->memory, &config, &vgpu->space, error), error);
}

static enum facet_status create_on_device(struct facet_vgpu *vgpu, struct facet_error *error)
{
    struct facet_vgpu_device *device = vgpu->device;
    uint32_t units = vgpu->units > vgpu->units_least ? vgpu->units : vgpu->units_least;
    enum facet_status status = facet_vgpu_device_check(device, error);

    if (status == FACET_OK && units > device->info.compute_units)
        status = facet_error_argument(error, FACET_OUT_OF_RANGE, "units",
                                      "units %" PRIu32 ": expected at most the %" PRIu32 " of device %s", units,
                                      device->info.compute_units, device->id);
    if (status == FACET_OK)
        status = device->provider->memory->create_context(device->instance, device->number, NULL, vgpu->worker,
                                                          &vgpu->context, error);
    if (status == FACET_OK)
        status = facet_vgpu_apply(vgpu, error);
    atomic_store(&vgpu->limit_bytes, vgpu->memory_bytes);
    if (status == FACET_OK)
        status = create_space(vgpu, error);
    if (status == FACET_DEVICE_LOST)
        atomic_store(&device->lost, true);
    return status;
}

static void set_name(struct facet_vgpu *vgpu, const char *name)
{
    if (name)
        snprintf(vgpu->name, sizeof vgpu->name, "%s", name);
    else
        snprintf(vgpu->name, sizeof vgpu->name, "vgpu-%" PRIu32, vgpu->id);
    snprintf(vgpu->worker, sizeof vgpu->worker, "%.48s.%" PRIu32, vgpu->name, vgpu->id);
}

static enum facet_status build_vgpu(struct facet_vgpu *vgpu, const struct facet_vgpu_config *config,
                                    struct facet_error *error)
{
    enum facet_status status = facet_vgpu_streams_init(vgpu, vgpu->streams, error);

    if (status == FACET_OK)
        status = claim_device(vgpu, config->device, error);
    if (status != FACET_OK)
        return status;
    set_name(vgpu, config->name);
    return create_on_device(vgpu, error);
}

enum facet_status facet_vgpu_create(struct facet_driver *driver, const struct facet_vgpu_config *asked,
                                    uint32_t *ret_id, struct facet_error *error)
{
    const struct facet_vgpu_config defaults = {.size = sizeof defaults}, *config = asked ? asked : &defaults;

    FACET_VGPU_NEED_DRIVER(driver, error);
    enum facet_status status = check_config(driver, config, error);

    if (status != FACET_OK)
        return status;
    struct facet_vgpu *vgpu = new_vgpu(driver, config);
    if (!vgpu)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a vGPU");
    status = facet_vgpu_reserve_id(vgpu, error);
    if (status == FACET_OK) {
        status = build_vgpu(vgpu, config, error);
        facet_vgpu_enlist(vgpu, status == FACET_OK);
    }
    if (status != FACET_OK) {
        facet_vgpu_dismantle(vgpu);
        return status;
    }
    if (ret_id)
        *ret_id = vgpu->id;
    return FACET_OK;
}

/* ---- ending a vGPU ---- */

/* A cancelled launch that has begun does not end while the vGPU is paused. */
static void unpause_to_end(struct facet_vgpu *vgpu)
{
    const struct facet_vgpu_device *device = vgpu->device;

    if (device && vgpu->context && atomic_exchange(&vgpu->paused, false))
        (void)device->provider->execution->pause(device->instance, vgpu->context, 0, NULL);
}

static void wait_until_unused(struct facet_vgpu *vgpu)
{
    struct facet_driver *driver = vgpu->driver;

    atomic_store(&vgpu->ending, true);
    while (atomic_load(&vgpu->references) > 0) {
        struct timespec until = facet_ns_timespec(facet_clock_now_ns() + RECHECK_NS);

        facet_vgpu_streams_cancel(vgpu); /* in each turn: a call may have queued work since, and wait for it */
        unpause_to_end(vgpu);
        pthread_mutex_lock(&driver->monitor_lock);
        if (atomic_load(&vgpu->references) > 0)
            pthread_cond_timedwait(&driver->vgpu_unused, &driver->monitor_lock, &until);
        pthread_mutex_unlock(&driver->monitor_lock);
    }
}

void facet_vgpu_dismantle(struct facet_vgpu *vgpu)
{
    wait_until_unused(vgpu);
    if (vgpu->listed)
        facet_vgpu_watches_end(vgpu->driver, vgpu->serial);
    if (vgpu->device && vgpu->context) {
        facet_vgpu_streams_cancel(vgpu);
        facet_vgpu_pins_release(vgpu, true);
        facet_vgpu_program_pins_release(vgpu);
        unpause_to_end(vgpu);
        facet_managed_end(vgpu);
        facet_vgpu_streams_clear(vgpu);
    }
    facet_vgpu_streams_free(vgpu);
    facet_history_destroy(atomic_load(&vgpu->history));
    unclaim_device(vgpu);
    pthread_mutex_destroy(&vgpu->managed_lock);
    pthread_mutex_destroy(&vgpu->pin_lock);
    pthread_mutex_destroy(&vgpu->lock);
    facet_vgpu_remains_add(vgpu);
}

enum facet_status facet_vgpu_destroy(struct facet_driver *driver, uint32_t id, struct facet_error *error)
{
    FACET_VGPU_NEED_DRIVER(driver, error);
    FACET_VGPU_NEED_NO_WATCH(driver, error);
    struct facet_vgpu *vgpu = facet_vgpu_delist(driver, id);

    if (!vgpu)
        return facet_vgpu_refuse_unknown(driver, id, error);
    facet_vgpu_dismantle(vgpu);
    return FACET_OK;
}

/* ---- pausing ---- */

static enum facet_status set_paused(struct facet_driver *driver, uint32_t id, bool paused, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    struct facet_vgpu_device *device = vgpu->device;

    status = facet_vgpu_device_check(device, error);
    if (status == FACET_OK && facet_vgpu_is_off(vgpu, FACET_OFF_COMPUTE))
        status = facet_error_set(error, FACET_UNSUPPORTED, "pausing needs compute virtualization, which is off");
    if (status != FACET_OK)
        return facet_vgpu_note_status(vgpu, status);
    pthread_mutex_lock(&vgpu->lock);
    status = device->provider->execution->pause(device->instance, vgpu->context, paused, error);
    if (status == FACET_OK || (paused && status == FACET_TIMEOUT))
        atomic_store(&vgpu->paused, paused);
    pthread_mutex_unlock(&vgpu->lock);
    if (!paused)
        facet_managed_resumed(vgpu);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_pause(struct facet_driver *driver, uint32_t id, struct facet_error *error)
{
    return set_paused(driver, id, true, error);
}

enum facet_status facet_vgpu_resume(struct facet_driver *driver, uint32_t id, struct facet_error *error)
{
    return set_paused(driver, id, false, error);
}
