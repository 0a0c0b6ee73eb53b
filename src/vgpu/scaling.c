/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: dynamic scaling: each vGPU's share and units follow its demand, between its request and its cap.
 * Never: changes the request, or computes the new share and units: compute/scale.h does.
 */
#include <stdlib.h>

#include "monitor/sample.h"
#include "vgpu/driver.h"
#include "vgpu/measure.h"

void facet_vgpu_scale_note(struct facet_vgpu *vgpu, const struct facet_sample *before,
                           const struct facet_sample *sample)
{
    struct facet_scale_member *member = &vgpu->scale;
    uint64_t busy_milli = 0, delay_ns = 0, queued = 0;

    (void)facet_sample_measure(before, sample, FACET_MEASURE_UTILIZATION_MILLI, 0, &busy_milli);
    (void)facet_sample_measure(before, sample, FACET_MEASURE_QUEUE_DELAY_NS, 0, &delay_ns);
    (void)facet_sample_measure(before, sample, FACET_MEASURE_QUEUED, 0, &queued);
    member->busy_milli = (uint32_t)(busy_milli / facet_vgpu_device_parallel(vgpu->device));
    member->delay_ns = delay_ns;
    member->queued = (uint32_t)queued;
}

/* Collects up to `max` vGPUs of a device, each with a reference. Returns how many. */
static uint32_t collect_vgpus(struct facet_vgpu_device *device, struct facet_vgpu **vgpus, uint32_t max)
{
    struct facet_vgpu *vgpu;
    uint32_t count = 0;

    for (uint32_t id = 0; count < max && (vgpu = facet_vgpu_next(device->driver, id));) {
        id = vgpu->id + 1;
        if (vgpu->device == device)
            vgpus[count++] = vgpu;
        else
            facet_vgpu_drop(vgpu);
        if (id == 0)
            break;
    }
    return count;
}

static void describe_scaling(struct facet_vgpu *vgpu)
{
    struct facet_scale_member *member = &vgpu->scale;

    pthread_mutex_lock(&vgpu->lock);
    member->request_milli = vgpu->request_milli;
    member->limit_milli = vgpu->limit_milli;
    member->units_most = vgpu->units ? vgpu->units : vgpu->device->info.compute_units;
    member->units_least = vgpu->units_least < member->units_most ? vgpu->units_least : member->units_most;
    pthread_mutex_unlock(&vgpu->lock);
}

/* Sends the scaled share and units to the device; the vGPU's own settings stay as they were. */
static void apply_scaling(struct facet_vgpu *vgpu)
{
    const struct facet_vgpu_device *device = vgpu->device;
    const struct facet_execution_ops *ops = device->provider->execution;
    const struct facet_scale_member *member = &vgpu->scale;

    pthread_mutex_lock(&vgpu->lock);
    if (member->share_milli != vgpu->scaled_milli || member->units != vgpu->scaled_units) {
        enum facet_status status = ops->set_share(device->instance, vgpu->context, member->share_milli,
                                                  vgpu->limit_milli, vgpu->priority, NULL);

        if (status == FACET_OK)
            status = ops->set_bounds(device->instance, vgpu->context, member->units, vgpu->launches, NULL);
        if (status == FACET_OK) { /* else it is tried again after the next window */
            vgpu->scaled_milli = member->share_milli;
            vgpu->scaled_units = member->units;
            vgpu->has_share = vgpu->has_bounds = true;
        }
    }
    pthread_mutex_unlock(&vgpu->lock);
}

void facet_vgpu_scale(struct facet_vgpu_device *device)
{
    struct facet_scale_config config = facet_scale_defaults;
    uint32_t room = facet_vgpu_count(device->driver);
    struct facet_vgpu **vgpus = calloc((size_t)room + 1, sizeof *vgpus);
    struct facet_scale_member *members = calloc((size_t)room + 1, sizeof *members);
    uint32_t count = vgpus && members ? collect_vgpus(device, vgpus, room) : 0;

    config.device_units = device->info.compute_units;
    for (uint32_t i = 0; i < count; i++) {
        describe_scaling(vgpus[i]);
        members[i] = vgpus[i]->scale;
    }
    facet_scale_step(&config, members, count);
    for (uint32_t i = 0; i < count; i++) {
        vgpus[i]->scale = members[i];
        apply_scaling(vgpus[i]);
        facet_vgpu_drop(vgpus[i]);
    }
    free(vgpus);
    free(members);
}
