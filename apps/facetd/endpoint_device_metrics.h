/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measurements of providers as Prometheus text: devices, their links, the processes on them.
 *
 * Owns: the list of those metrics and their names.
 * Never: calls a provider; it writes values that were read within the last second.
 */
#ifndef FACETD_ENDPOINT_DEVICE_METRICS_H
#define FACETD_ENDPOINT_DEVICE_METRICS_H

#include "endpoint.h"
#include "monitor/prometheus.h"

/* `infos` are all vGPUs (registry_list): a process is labelled with its vGPU. */
enum facet_status device_metrics_write(const struct daemon *daemon, const struct vgpu_info *infos, size_t info_count,
                                       struct facet_prometheus *text, struct facet_error *error);

#endif
