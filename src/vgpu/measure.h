/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's thread: it measures, scales and publishes.
 *
 * Owns: the thread's life and its steps. Never: is waited for by a watch's function.
 */
#ifndef FACET_VGPU_MEASURE_H
#define FACET_VGPU_MEASURE_H

#include <stdint.h>

#include <facet/monitor.h>

struct facet_driver;
struct facet_vgpu;
struct facet_vgpu_device;

enum facet_status facet_vgpu_measure_start(struct facet_driver *driver, struct facet_error *error);
void facet_vgpu_measure_stop(struct facet_driver *driver);

/* --- publish.c --- */

enum facet_status facet_vgpu_publish_open(struct facet_driver *driver, struct facet_error *error);
/* At most once a second. */
void facet_vgpu_publish(struct facet_driver *driver, uint64_t now_ns);
void facet_vgpu_publish_close(struct facet_driver *driver);

/* --- scaling.c --- */

/* Adjusts every vGPU of the device to its demand, by its last two samples. In the driver's thread. */
void facet_vgpu_scale(struct facet_vgpu_device *device);
/* Notes the measurements of one vGPU since the last window. */
void facet_vgpu_scale_note(struct facet_vgpu *vgpu, const struct facet_sample *before,
                           const struct facet_sample *sample);

#endif
