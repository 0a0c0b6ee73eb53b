/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of vGPUs by number, and their reference counts. Never: ends a vGPU: life.c does, once no reference is
 * left.
 */
#include <inttypes.h>
#include <string.h>

#include "vgpu/driver.h"

/* The index at which `id` is in the sorted list, or would be inserted. */
static uint32_t index_of(const struct facet_driver *driver, uint32_t id)
{
    uint32_t low = 0, high = driver->vgpus;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (driver->vgpu[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct facet_driver *driver, uint32_t index, uint32_t id)
{
    return index < driver->vgpus && driver->vgpu[index]->id == id;
}

/* A vGPU that is still being made has its number, but cannot be found yet. */
static bool is_listed_at(const struct facet_driver *driver, uint32_t index, uint32_t id)
{
    return is_at(driver, index, id) && driver->vgpu[index]->listed;
}

uint32_t facet_vgpu_count(struct facet_driver *driver)
{
    pthread_rwlock_rdlock(&driver->list_lock);
    uint32_t count = driver->vgpus;

    pthread_rwlock_unlock(&driver->list_lock);
    return count;
}

enum facet_status facet_vgpu_refuse_unknown(struct facet_driver *driver, uint32_t id, struct facet_error *error)
{
    return facet_error_argument(error, FACET_NOT_FOUND, "id",
                                "vGPU %" PRIu32 ": expected the id of one of this driver's %" PRIu32 " vGPUs", id,
                                facet_vgpu_count(driver));
}

enum facet_status facet_vgpu_take(struct facet_driver *driver, uint32_t id, struct facet_vgpu **ret_vgpu,
                                  struct facet_error *error)
{
    struct facet_vgpu *vgpu = NULL;

    FACET_VGPU_NEED_DRIVER(driver, error);
    pthread_rwlock_rdlock(&driver->list_lock);
    uint32_t index = index_of(driver, id);

    if (is_listed_at(driver, index, id)) {
        vgpu = driver->vgpu[index];
        atomic_fetch_add(&vgpu->references, 1);
    }
    pthread_rwlock_unlock(&driver->list_lock);
    if (!vgpu)
        return facet_vgpu_refuse_unknown(driver, id, error);
    *ret_vgpu = vgpu;
    return FACET_OK;
}

struct facet_vgpu *facet_vgpu_next(struct facet_driver *driver, uint32_t id)
{
    struct facet_vgpu *vgpu = NULL;

    pthread_rwlock_rdlock(&driver->list_lock);
    uint32_t index = index_of(driver, id);

    while (index < driver->vgpus && !driver->vgpu[index]->listed)
        index++;
    if (index < driver->vgpus) {
        vgpu = driver->vgpu[index];
        atomic_fetch_add(&vgpu->references, 1);
    }
    pthread_rwlock_unlock(&driver->list_lock);
    return vgpu;
}

/*
 * After the subtraction the vGPU may be freed, so `vgpu` is not read after it. The thread that ends it also polls, in
 * case it missed the broadcast.
 */
void facet_vgpu_drop(struct facet_vgpu *vgpu)
{
    struct facet_driver *driver = vgpu->driver;
    bool ending = atomic_load(&vgpu->ending);

    if (atomic_fetch_sub(&vgpu->references, 1) == 1 && ending) {
        pthread_mutex_lock(&driver->monitor_lock);
        pthread_cond_broadcast(&driver->vgpu_unused);
        pthread_mutex_unlock(&driver->monitor_lock);
    }
}

enum facet_status facet_vgpu_note_status(struct facet_vgpu *vgpu, enum facet_status status)
{
    if (status == FACET_DEVICE_LOST)
        atomic_store(&vgpu->device->lost, true);
    return status;
}

/* Returns the least id from 1 on that no vGPU has. */
static uint32_t find_free_id(const struct facet_driver *driver)
{
    uint32_t id = 1;

    for (uint32_t i = 0; i < driver->vgpus && driver->vgpu[i]->id == id; i++)
        id++;
    return id;
}

enum facet_status facet_vgpu_reserve_id(struct facet_vgpu *vgpu, struct facet_error *error)
{
    struct facet_driver *driver = vgpu->driver;
    uint32_t max = driver->config.vgpus;

    pthread_rwlock_wrlock(&driver->list_lock);
    uint32_t id = vgpu->id ? vgpu->id : find_free_id(driver), index = index_of(driver, id);
    bool taken = is_at(driver, index, id), full = driver->vgpus == max;

    if (!taken && !full) {
        vgpu->id = id;
        vgpu->serial = ++driver->last_serial;
        memmove(driver->vgpu + index + 1, driver->vgpu + index, (driver->vgpus - index) * sizeof(struct facet_vgpu *));
        driver->vgpu[index] = vgpu;
        driver->vgpus++;
    }
    pthread_rwlock_unlock(&driver->list_lock);
    if (taken)
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "id",
                                    "id %" PRIu32 ": expected a number that no vGPU of this driver has", id);
    if (full)
        return facet_error_argument(error, FACET_QUOTA, "vgpus",
                                    "the driver has %" PRIu32 " vGPUs, which is all that it was opened for", max);
    return FACET_OK;
}

static void remove_at(struct facet_driver *driver, uint32_t index)
{
    driver->vgpus--;
    memmove(driver->vgpu + index, driver->vgpu + index + 1, (driver->vgpus - index) * sizeof(struct facet_vgpu *));
}

void facet_vgpu_enlist(struct facet_vgpu *vgpu, bool complete)
{
    struct facet_driver *driver = vgpu->driver;

    pthread_rwlock_wrlock(&driver->list_lock);
    if (complete)
        vgpu->listed = true;
    else
        remove_at(driver, index_of(driver, vgpu->id));
    pthread_rwlock_unlock(&driver->list_lock);
}

struct facet_vgpu *facet_vgpu_delist(struct facet_driver *driver, uint32_t id)
{
    struct facet_vgpu *vgpu = NULL;

    pthread_rwlock_wrlock(&driver->list_lock);
    uint32_t index = index_of(driver, id);

    if (is_listed_at(driver, index, id)) {
        vgpu = driver->vgpu[index];
        remove_at(driver, index);
        driver->destroyed[driver->destructions++ % FACET_VGPU_DESTROYED_IDS] = id;
    }
    pthread_rwlock_unlock(&driver->list_lock);
    return vgpu;
}

static bool was_destroyed(const struct facet_driver *driver, uint32_t id)
{
    uint64_t known = driver->destructions < FACET_VGPU_DESTROYED_IDS ? driver->destructions : FACET_VGPU_DESTROYED_IDS;

    for (uint64_t i = 0; i < known; i++)
        if (driver->destroyed[i] == id)
            return true;
    return false;
}

uint32_t facet_vgpu_status_of(const struct facet_vgpu *vgpu)
{
    if (atomic_load(&vgpu->device->lost))
        return FACET_VGPU_ERROR;
    if (atomic_load(&vgpu->paused))
        return FACET_VGPU_PAUSED;
    return atomic_load(&vgpu->used) ? FACET_VGPU_RUNNING : FACET_VGPU_CREATED;
}

enum facet_status facet_vgpu_get_status(struct facet_driver *driver, uint32_t id, uint32_t *ret_status,
                                        struct facet_error *error)
{
    FACET_VGPU_NEED_DRIVER(driver, error);
    FACET_NEED(ret_status, error);
    pthread_rwlock_rdlock(&driver->list_lock);
    uint32_t index = index_of(driver, id), status = 0;

    if (is_listed_at(driver, index, id))
        status = facet_vgpu_status_of(driver->vgpu[index]);
    else if (was_destroyed(driver, id))
        status = FACET_VGPU_DESTROYED;
    pthread_rwlock_unlock(&driver->list_lock);
    if (!status)
        return facet_error_argument(error, FACET_NOT_FOUND, "id",
                                    "vGPU %" PRIu32 ": this driver never had it, or destroyed it long ago", id);
    *ret_status = status;
    return FACET_OK;
}

const char *facet_vgpu_status_name(uint32_t status)
{
    static const char *const names[] = {NULL, "created", "running", "paused", "error", "destroyed"};

    return status < sizeof names / sizeof names[0] ? names[status] : NULL;
}
