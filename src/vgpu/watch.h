/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches: functions of the program that are called when a measured value crosses a threshold.
 *
 * Owns: the list of watches, and passing each sample to the right ones. Never: calls a
 * watch's function outside the driver's thread.
 */
#ifndef FACET_VGPU_WATCH_H
#define FACET_VGPU_WATCH_H

#include <stdint.h>

#include <facet/monitor.h>

struct facet_driver;

/*
 * The subject of a watch: a vGPU by its serial number, or a device when the serial number is 0. `memory_bytes` is the
 * memory that counts as 1000 milli.
 */
struct facet_vgpu_subject {
    uint64_t serial;
    uint32_t device;
    uint64_t memory_bytes;
};

/* Passes a new sample to the watches of its subject. */
void facet_vgpu_watches_feed(struct facet_driver *driver, const struct facet_vgpu_subject *subject,
                             const struct facet_sample *sample);
/* Ends the watches of the vGPU with this serial number; all watches when it is 0. */
void facet_vgpu_watches_end(struct facet_driver *driver, uint64_t serial);

#endif
