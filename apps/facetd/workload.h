/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration by which a container or process tree uses its reservation (facet/workload.h).
 *
 * Owns: asking the providers of the granted devices, and making one configuration of their items.
 * Never: starts anything, or silently omits a device without items.
 *
 * Thread rule: any thread. Calls providers, each with a deadline.
 */
#ifndef FACETD_WORKLOAD_H
#define FACETD_WORKLOAD_H

#include <facet/workload.h>

#include "registry.h"

/*
 * `ret_warning` (of `size` bytes): the devices without items in the configuration, and why; empty: none. A variable
 * with different values for several devices becomes a list with commas, as runtimes read lists of their devices.
 */
enum facet_status workload_describe(const struct facet_device_table *devices, struct sessions *sessions,
                                    const struct reservation *reservation, struct facet_workload **ret_workload,
                                    char *ret_warning, size_t size, struct facet_error *error);

/* Adds what puts a process of the workload into a vGPU, as `facet run` does: the vGPU's segment, the layer and, if
 * it is `alone` on the workload's devices, the variables that its part of the device needs. */
enum facet_status workload_enter(struct facet_workload *workload, const struct vgpu_info *vgpu, bool alone,
                                 struct facet_error *error);

static inline void cleanup_workload(struct facet_workload **workload)
{
    facet_workload_destroy(*workload);
}
#define CLEANUP_WORKLOAD __attribute__((cleanup(cleanup_workload)))

#endif
