/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of vGPUs by number, and their reference counts. Never: ends one: life.c does, with the last reference.
 */
#include <inttypes.h>
#include <string.h>

#include "vgpu/driver.h"

/* Where `id` is, or would be. */
static uint32_t place_of(const struct facet_driver *driver, uint32_t id)
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

static bool is_at(const struct facet_driver *driver, uint32_t place, uint32_t id)
{
    return place < driver->vgpus && driver->vgpu[place]->id == id;
}

/* A vGPU whose making is not complete has its number, but cannot be found yet. */
static bool is_there(const struct facet_driver *driver, uint32_t place, uint32_t id)
{
    return is_at(driver, place, id) && driver->vgpu[place]->listed;
}

uint32_t facet_vgpu_count(struct facet_driver *driver)
{
    pthread_rwlock_rdlock(&driver->list);
    uint32_t count = driver->vgpus;

    pthread_rwlock_unlock(&driver->list);
    return count;
}

enum facet_status facet_vgpu_unknown(struct facet_driver *driver, uint32_t id, struct facet_error *error)
{
    return facet_error_argument(error, FACET_NOT_FOUND, "id",
                                "vGPU %" PRIu32 ": expected one of the %" PRIu32 " that this driver has", id,
                                facet_vgpu_count(driver));
}

enum facet_status facet_vgpu_take(struct facet_driver *driver, uint32_t id, struct facet_vgpu **ret_vgpu,
                                  struct facet_error *error)
{
    struct facet_vgpu *vgpu = NULL;

    FACET_VGPU_NEED_DRIVER(driver, error);
    pthread_rwlock_rdlock(&driver->list);
    uint32_t place = place_of(driver, id);

    if (is_there(driver, place, id)) {
        vgpu = driver->vgpu[place];
        atomic_fetch_add(&vgpu->references, 1);
    }
    pthread_rwlock_unlock(&driver->list);
    if (!vgpu)
        return facet_vgpu_unknown(driver, id, error);
    *ret_vgpu = vgpu;
    return FACET_OK;
}

struct facet_vgpu *facet_vgpu_next(struct facet_driver *driver, uint32_t id)
{
    struct facet_vgpu *vgpu = NULL;

    pthread_rwlock_rdlock(&driver->list);
    uint32_t place = place_of(driver, id);

    while (place < driver->vgpus && !driver->vgpu[place]->listed)
        place++;
    if (place < driver->vgpus) {
        vgpu = driver->vgpu[place];
        atomic_fetch_add(&vgpu->references, 1);
    }
    pthread_rwlock_unlock(&driver->list);
    return vgpu;
}

/*
 * After the subtraction the vGPU may be gone. The thread that ends it checks again by itself, in case it missed this.
 */
void facet_vgpu_drop(struct facet_vgpu *vgpu)
{
    struct facet_driver *driver = vgpu->driver;
    bool ending = atomic_load(&vgpu->ending);

    if (atomic_fetch_sub(&vgpu->references, 1) == 1 && ending) {
        pthread_mutex_lock(&driver->monitor);
        pthread_cond_broadcast(&driver->gone);
        pthread_mutex_unlock(&driver->monitor);
    }
}

enum facet_status facet_vgpu_note(struct facet_vgpu *vgpu, enum facet_status status)
{
    if (status == FACET_DEVICE_LOST)
        atomic_store(&vgpu->device->lost, true);
    return status;
}

/* The least number from 1 on that is free. */
static uint32_t free_id(const struct facet_driver *driver)
{
    uint32_t id = 1;

    for (uint32_t i = 0; i < driver->vgpus && driver->vgpu[i]->id == id; i++)
        id++;
    return id;
}

enum facet_status facet_vgpu_reserve_id(struct facet_vgpu *vgpu, struct facet_error *error)
{
    struct facet_driver *driver = vgpu->driver;
    uint32_t most = driver->config.vgpus;

    pthread_rwlock_wrlock(&driver->list);
    uint32_t id = vgpu->id ? vgpu->id : free_id(driver), place = place_of(driver, id);
    bool taken = is_at(driver, place, id), full = driver->vgpus == most;

    if (!taken && !full) {
        vgpu->id = id;
        vgpu->serial = ++driver->serials;
        memmove(driver->vgpu + place + 1, driver->vgpu + place, (driver->vgpus - place) * sizeof(struct facet_vgpu *));
        driver->vgpu[place] = vgpu;
        driver->vgpus++;
    }
    pthread_rwlock_unlock(&driver->list);
    if (taken)
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "id",
                                    "id %" PRIu32 ": expected a number that no vGPU of this driver has", id);
    if (full)
        return facet_error_argument(error, FACET_QUOTA, "vgpus",
                                    "the driver has %" PRIu32 " vGPUs, which is all that it was opened for", most);
    return FACET_OK;
}

static void take_out(struct facet_driver *driver, uint32_t place)
{
    driver->vgpus--;
    memmove(driver->vgpu + place, driver->vgpu + place + 1, (driver->vgpus - place) * sizeof(struct facet_vgpu *));
}

void facet_vgpu_enlist(struct facet_vgpu *vgpu, bool whole)
{
    struct facet_driver *driver = vgpu->driver;

    pthread_rwlock_wrlock(&driver->list);
    if (whole)
        vgpu->listed = true;
    else
        take_out(driver, place_of(driver, vgpu->id));
    pthread_rwlock_unlock(&driver->list);
}

struct facet_vgpu *facet_vgpu_delist(struct facet_driver *driver, uint32_t id)
{
    struct facet_vgpu *vgpu = NULL;

    pthread_rwlock_wrlock(&driver->list);
    uint32_t place = place_of(driver, id);

    if (is_there(driver, place, id)) {
        vgpu = driver->vgpu[place];
        take_out(driver, place);
        driver->destroyed[driver->destructions++ % FACET_VGPU_REMEMBERED] = id;
    }
    pthread_rwlock_unlock(&driver->list);
    return vgpu;
}

static bool was_destroyed(const struct facet_driver *driver, uint32_t id)
{
    uint64_t known = driver->destructions < FACET_VGPU_REMEMBERED ? driver->destructions : FACET_VGPU_REMEMBERED;

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
    pthread_rwlock_rdlock(&driver->list);
    uint32_t place = place_of(driver, id), status = 0;

    if (is_there(driver, place, id))
        status = facet_vgpu_status_of(driver->vgpu[place]);
    else if (was_destroyed(driver, id))
        status = FACET_VGPU_DESTROYED;
    pthread_rwlock_unlock(&driver->list);
    if (!status)
        return facet_error_argument(error, FACET_NOT_FOUND, "id", "vGPU %" PRIu32 ": this driver never had one", id);
    *ret_status = status;
    return FACET_OK;
}

const char *facet_vgpu_status_name(uint32_t status)
{
    static const char *const names[] = {NULL, "created", "running", "paused", "error", "destroyed"};

    return status < sizeof names / sizeof names[0] ? names[status] : NULL;
}
