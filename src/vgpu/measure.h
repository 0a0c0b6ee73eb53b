/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's thread: it measures, scales and publishes.
 *
 * Owns: starting and stopping the thread, and what it does in each interval. Never: stops the thread from within a
 * watch's function, which that thread runs.
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
/* Replaces the driver's published file, at most once a second. */
void facet_vgpu_publish(struct facet_driver *driver, uint64_t now_ns);
void facet_vgpu_publish_close(struct facet_driver *driver);

/* --- scaling.c --- */

/* Adjusts the share and units of every vGPU of the device to its demand. Called in the driver's thread. */
void facet_vgpu_scale(struct facet_vgpu_device *device);
/* Notes a vGPU's demand between two samples, for the next facet_vgpu_scale(). */
void facet_vgpu_scale_note(struct facet_vgpu *vgpu, const struct facet_sample *before,
                           const struct facet_sample *sample);

#endif
