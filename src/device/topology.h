/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding the processors and the memory node near a device, through hwloc.
 * Never: fails; if the machine does not report it, the fields stay empty.
 */
#ifndef FACET_DEVICE_TOPOLOGY_H
#define FACET_DEVICE_TOPOLOGY_H

#include "device/table.h"

/* Fills in `cpuset`, and `numa_node` where the provider did not know it. */
void facet_topology_fill(struct facet_device_record *devices, uint32_t count);

#endif
