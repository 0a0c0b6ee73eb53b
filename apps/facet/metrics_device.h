/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: measuring one device for `facet metrics`, through a session of its own. Never: asks the daemon, or counts this
 * session's own work as the device's.
 */
#ifndef FACET_METRICS_DEVICE_H
#define FACET_METRICS_DEVICE_H

#include <facet/measurement.h>

#include "device/table.h"

struct metrics_device {
    const struct facet_device_record *record; /* NULL: there is none; borrowed from the table */
    struct facet_session *session;
};

/* Opens the provider once more. The record is borrowed: its table outlives the device. */
enum facet_status metrics_device_open(const struct facet_device_record *record, struct metrics_device *ret_device,
                                      struct facet_error *error);
void metrics_device_close(struct metrics_device *device);

/*
 * Takes one sample. Values that the provider does not offer are absent. When the provider's reading fails, a first
 * sample fails; in a later sample, each meter has the reason instead of a value.
 */
enum facet_status metrics_device_look(const struct metrics_device *device, bool first,
                                      struct facet_measurement *measurements, uint32_t *count,
                                      struct facet_error *error);

#endif
