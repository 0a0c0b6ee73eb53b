/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the remains of vGPUs that have ended: their context, and memory that an uninterruptible work-group may still
 * use. Both are freed soon after the work-group has ended.
 * Never: waits for a work-group, except for a moment when the driver closes.
 */
#include <stdlib.h>

#include "memory/unmap_queue.h"
#include "vgpu/driver.h"

static void finish_remains(struct facet_vgpu *vgpu)
{
    const struct facet_vgpu_device *device = vgpu->device;

    (void)facet_space_destroy(vgpu->space,
                              NULL); /* what it cannot free, at the driver's end, goes with the device's memory */
    if (device && vgpu->context)
        (void)device->provider->memory->destroy_context(device->instance, vgpu->context, NULL);
    free(vgpu);
}

/* Whether no work uses the vGPU's memory any more. A lost device never reports that, so its work counts as over. */
static bool is_over(const struct facet_vgpu *vgpu)
{
    return !vgpu->space || atomic_load(&vgpu->device->lost) || facet_space_vacate(vgpu->space);
}

static void keep_remains(struct facet_driver *driver, struct facet_vgpu *vgpu)
{
    pthread_mutex_lock(&driver->monitor_lock);
    vgpu->next_remains = driver->remains;
    driver->remains = vgpu;
    pthread_mutex_unlock(&driver->monitor_lock);
}

static struct facet_vgpu *take_remains(struct facet_driver *driver)
{
    pthread_mutex_lock(&driver->monitor_lock);
    struct facet_vgpu *first = driver->remains;
    driver->remains = NULL;
    pthread_mutex_unlock(&driver->monitor_lock);
    return first;
}

void facet_vgpu_remains_add(struct facet_vgpu *vgpu)
{
    if (is_over(vgpu))
        finish_remains(vgpu);
    else
        keep_remains(vgpu->driver, vgpu);
}

bool facet_vgpu_remains_free_finished(struct facet_driver *driver, const struct facet_vgpu_device *device)
{
    struct facet_vgpu *next;
    bool any = false;

    for (struct facet_vgpu *vgpu = take_remains(driver); vgpu; vgpu = next) {
        next = vgpu->next_remains;
        if ((!device || vgpu->device == device) && is_over(vgpu)) {
            finish_remains(vgpu);
            any = true;
        } else {
            keep_remains(driver, vgpu);
        }
    }
    return any;
}

/* Waits for no work: the provider keeps the memory of a work-group that still runs. */
void facet_vgpu_remains_clear(struct facet_driver *driver)
{
    struct facet_vgpu *next;

    for (struct facet_vgpu *vgpu = take_remains(driver); vgpu; vgpu = next) {
        next = vgpu->next_remains;
        finish_remains(vgpu);
    }
}

bool facet_vgpu_settle_device(const struct facet_vgpu_device *device)
{
    struct facet_driver *driver = device->driver;
    bool any = facet_vgpu_remains_free_finished(driver, device);
    struct facet_vgpu *vgpu;

    for (uint32_t id = 0; (vgpu = facet_vgpu_next(driver, id));) {
        id = vgpu->id + 1;
        if (vgpu->device == device && vgpu->space)
            any = facet_space_unmap_freed(vgpu->space) > 0 || any;
        facet_vgpu_drop(vgpu);
        if (id == 0)
            break;
    }
    return any;
}
