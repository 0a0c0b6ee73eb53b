/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening and closing a driver, and its settings. Never: reads a vGPU's members. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "vgpu/driver.h"
#include "vgpu/measure.h"
#include "vgpu/watch.h"

#define DEFAULT_VGPUS        8u
#define DEFAULT_STREAMS      16u
#define DEFAULT_STREAMS_EACH 4u
#define DEFAULT_MONITOR_NS   (100 * FACET_NS_PER_MS)
#define MONITOR_LEAST_NS     FACET_NS_PER_MS
#define MONITOR_MOST_NS      (3600 * FACET_NS_PER_S)
#define DEFAULT_HISTORY      600u
#define HISTORY_MAX          1000000u
#define STREAMS_MAX          1000000u

#define OFF_ALL                                                                                                        \
    (FACET_OFF_MEMORY | FACET_OFF_COMPUTE | FACET_OFF_TENSOR_CORES | FACET_OFF_MIXED_PRECISION | FACET_OFF_PREEMPTION)

/* ---- settings ---- */

static void fill_in_defaults(struct facet_driver_config *config)
{
    if (config->vgpus == 0)
        config->vgpus = DEFAULT_VGPUS;
    if (config->streams == 0)
        config->streams = config->vgpus * DEFAULT_STREAMS_EACH > DEFAULT_STREAMS ? config->vgpus * DEFAULT_STREAMS_EACH
                                                                                 : DEFAULT_STREAMS;
    if (config->monitor_ns == 0)
        config->monitor_ns = DEFAULT_MONITOR_NS;
    if (config->history == 0)
        config->history = DEFAULT_HISTORY;
}

static enum facet_status out_of_range(const char *argument, uint64_t value, uint64_t min, uint64_t max,
                                      struct facet_error *error)
{
    return facet_error_argument(error, FACET_OUT_OF_RANGE, argument, "%s %" PRIu64 ": expected %" PRIu64 " to %" PRIu64,
                                argument, value, min, max);
}

static enum facet_status check_config(const struct facet_driver_config *config, uint32_t devices,
                                      struct facet_error *error)
{
    if (config->off & ~OFF_ALL)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "off", "off 0x%" PRIx32 ": expected FACET_OFF_*",
                                    config->off);
    if (config->policy > FACET_SCHEDULE_FIFO)
        return out_of_range("policy", config->policy, 0, FACET_SCHEDULE_FIFO, error);
    if (config->publish > 1)
        return out_of_range("publish", config->publish, 0, 1, error);
    if (config->scaling > 1)
        return out_of_range("scaling", config->scaling, 0, 1, error);
    if (config->scaling && config->off & FACET_OFF_COMPUTE)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "scaling",
                                    "scaling needs compute virtualization, which is off");
    if (config->memory && config->memory->size < sizeof *config->memory)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "memory",
                                    "memory: its size is not that of struct facet_memory_config");
    FACET_NEED_KNOWN("memory", config->memory, error);
    FACET_NEED_RESERVED("config", config, error);
    if (config->devices && (devices == 0 || devices > FACET_DRIVER_DEVICES))
        return out_of_range("devices", devices, 1, FACET_DRIVER_DEVICES, error);
    if (config->vgpus > FACET_DRIVER_VGPUS)
        return out_of_range("vgpus", config->vgpus, 1, FACET_DRIVER_VGPUS, error);
    if (config->streams > STREAMS_MAX)
        return out_of_range("streams", config->streams, 1, STREAMS_MAX, error);
    if (config->monitor_ns < MONITOR_LEAST_NS || config->monitor_ns > MONITOR_MOST_NS)
        return out_of_range("monitor_ns", config->monitor_ns, MONITOR_LEAST_NS, MONITOR_MOST_NS, error);
    if (config->history > HISTORY_MAX)
        return out_of_range("history", config->history, 1, HISTORY_MAX, error);
    return FACET_OK;
}

static uint32_t count_names(const struct facet_driver_config *config)
{
    uint32_t count = 0;

    while (config->devices && config->devices[count] && count <= FACET_DRIVER_DEVICES)
        count++;
    return count;
}

/* The driver owns copies of the texts. */
static bool copy_texts(struct facet_driver *driver, uint32_t names)
{
    struct facet_driver_config *config = &driver->config;

    if (config->providers && !(config->providers = driver->providers = strdup(config->providers)))
        return false;
    if (!config->devices)
        return true;
    driver->device_names = calloc(names + 1, sizeof(char *));
    for (uint32_t i = 0; driver->device_names && i < names; i++)
        if (!(driver->device_names[i] = strdup(config->devices[i])))
            return false;
    config->devices = (const char *const *)driver->device_names;
    return driver->device_names != NULL;
}

static bool copy_settings(struct facet_driver *driver, const struct facet_driver_config *config, uint32_t names)
{
    driver->config = *config;
    driver->devices = names > 0 ? names : 1;
    if (config->memory) {
        FACET_SIZED_TAKE(&driver->memory_config, config->memory);
        driver->config.memory = &driver->memory_config;
    }
    driver->vgpu = calloc(config->vgpus, sizeof(struct facet_vgpu *));
    driver->device = calloc(driver->devices, sizeof *driver->device);
    return driver->vgpu && driver->device && copy_texts(driver, names);
}

/* ---- open and close ---- */

static void init_locks(struct facet_driver *driver)
{
    pthread_condattr_t clock;

    driver->published_folder_fd = driver->published_lock_fd = -1;
    pthread_rwlock_init(&driver->list_lock, NULL);
    pthread_mutex_init(&driver->monitor_lock, NULL);
    pthread_mutex_init(&driver->watches_lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&driver->monitor_wake, &clock);
    pthread_cond_init(&driver->vgpu_unused, &clock);
    pthread_condattr_destroy(&clock);
}

static void free_driver(struct facet_driver *driver)
{
    for (uint32_t i = 0; driver->device_names && i < driver->devices; i++)
        free(driver->device_names[i]);
    free(driver->device_names);
    free(driver->providers);
    free(driver->device);
    free(driver->vgpu);
    facet_origin_clear(&driver->origin);
    pthread_cond_destroy(&driver->vgpu_unused);
    pthread_cond_destroy(&driver->monitor_wake);
    pthread_mutex_destroy(&driver->watches_lock);
    pthread_mutex_destroy(&driver->monitor_lock);
    pthread_rwlock_destroy(&driver->list_lock);
    free(driver);
}

static enum facet_status start_driver(struct facet_driver *driver, struct facet_error *error)
{
    enum facet_status status = facet_vgpu_devices_open(driver, error);

    if (status == FACET_OK)
        status = facet_vgpu_publish_open(driver, error);
    return status == FACET_OK ? facet_vgpu_measure_start(driver, error) : status;
}

enum facet_status facet_driver_open(const struct facet_driver_config *asked, struct facet_driver **ret_driver,
                                    struct facet_error *error)
{
    struct facet_driver_config config = {0};

    FACET_NEED(ret_driver, error);
    if (asked && asked->size < sizeof config)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config",
                                    "config: size %" PRIu32 ", expected that of struct facet_driver_config, %zu",
                                    asked->size, sizeof config);
    FACET_NEED_KNOWN("config", asked, error);
    if (asked)
        FACET_SIZED_TAKE(&config, asked);
    fill_in_defaults(&config);
    uint32_t names = count_names(&config);
    enum facet_status status = check_config(&config, names, error);
    if (status != FACET_OK)
        return status;
    struct facet_driver *driver = calloc(1, sizeof *driver);
    if (!driver)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a driver");
    init_locks(driver);
    status = facet_origin_mark(&driver->origin) && copy_settings(driver, &config, names)
                 ? start_driver(driver, error)
                 : facet_error_set(error, FACET_NO_MEMORY, "no memory for a driver");
    if (status != FACET_OK)
        facet_driver_close(driver);
    else
        *ret_driver = driver;
    return status;
}

void facet_driver_close(struct facet_driver *driver)
{
    struct facet_vgpu *vgpu;

    if (!driver || facet_origin_is_parent(&driver->origin))
        return; /* nothing of a child's copy is freed: its locks are as the parent's threads held them */
    if (facet_driver_is_in_watch(driver))
        return; /* the driver's thread would wait for its own end */
    facet_vgpu_measure_stop(driver);
    facet_vgpu_watches_end(driver, 0);
    while (driver->vgpus > 0) {
        vgpu = facet_vgpu_delist(driver, driver->vgpu[0]->id);
        facet_vgpu_dismantle(vgpu);
    }
    facet_vgpu_remains_clear(driver);
    if (driver->device)
        facet_vgpu_devices_close(driver);
    facet_vgpu_publish_close(driver);
    free_driver(driver);
}

void facet_driver_get_config(const struct facet_driver *driver, struct facet_driver_config *ret_config)
{
    if (!driver || !ret_config)
        return;
    uint32_t size = ret_config->size;

    memcpy(ret_config, &driver->config, size < sizeof driver->config ? size : sizeof driver->config);
    ret_config->size = size < sizeof driver->config ? size : sizeof driver->config;
}
