/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What providers measure, as Prometheus text: devices, their links, the processes on them.
 *
 * Owns: which of those metrics there are, and what they are called.
 * Never: asks a provider: it writes what was read within the last second.
 */
#ifndef FACETD_ENDPOINT_DEVICE_METRICS_H
#define FACETD_ENDPOINT_DEVICE_METRICS_H

#include "endpoint.h"
#include "monitor/prometheus.h"

/* `infos` are all vGPUs (registry_list): processes are told with the one that they are in. */
enum facet_status device_metrics_write(const struct daemon *daemon, const struct vgpu_info *infos, size_t info_count,
                                       struct facet_prometheus *text, struct facet_error *error);

#endif
