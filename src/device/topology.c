/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading from hwloc the part of the topology that the devices need. Never: keeps the topology. */
#include "device/topology.h"

#include <hwloc.h>

static bool any_pci(const struct facet_device_record *devices, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (devices[i].info.valid & FACET_DEVICE_HAS_PCI)
            return true;
    return false;
}

/*
 * Loads processors and memory nodes, which takes well under a millisecond. PCI devices take ten milliseconds, and are
 * loaded only when a device has a PCI address. Caches and other objects are left out, and so is hwloc's x86 backend:
 * the kernel reports the processors.
 */
static hwloc_topology_t load_topology(bool with_pci)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) < 0)
        return NULL;
    hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    /* Devices and memory are attached to groups, because packages and caches are left out. */
    hwloc_topology_set_type_filter(topology, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    if (with_pci)
        hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    if (hwloc_topology_load(topology) < 0) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    return topology;
}

/* The object whose processors are those near the device; NULL when the machine does not say. */
static hwloc_obj_t object_near(hwloc_topology_t topology, const struct facet_device_info *info)
{
    hwloc_obj_t pci = NULL;

    if (info->valid & FACET_DEVICE_HAS_PCI)
        pci = hwloc_get_pcidev_by_busidstring(topology, info->pci_address);
    if (pci)
        return hwloc_get_non_io_ancestor_obj(topology, pci);
    if ((info->valid & FACET_DEVICE_HAS_NUMA) && info->numa_node >= 0)
        return hwloc_get_numanode_obj_by_os_index(topology, (unsigned)info->numa_node);
    if (info->kind == FACET_DEVICE_CPU)
        return hwloc_get_root_obj(topology);
    return NULL;
}

static void fill_device(hwloc_topology_t topology, struct facet_device_record *device)
{
    hwloc_obj_t object = object_near(topology, &device->info);

    if (!object)
        return;
    if (hwloc_bitmap_list_snprintf(device->cpuset, sizeof device->cpuset, object->cpuset) >= (int)sizeof device->cpuset)
        device->cpuset[0] = '\0'; /* half a list would name the wrong processors */
    if (!(device->info.valid & FACET_DEVICE_HAS_NUMA) && hwloc_bitmap_weight(object->nodeset) == 1) {
        device->info.numa_node = hwloc_bitmap_first(object->nodeset);
        device->info.valid |= FACET_DEVICE_HAS_NUMA;
    }
}

void facet_topology_fill(struct facet_device_record *devices, uint32_t count)
{
    hwloc_topology_t topology = count ? load_topology(any_pci(devices, count)) : NULL;

    if (!topology)
        return;
    for (uint32_t i = 0; i < count; i++)
        fill_device(topology, &devices[i]);
    hwloc_topology_destroy(topology);
}
