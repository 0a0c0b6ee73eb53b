/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the facts that follow from a driver's name: whether it is VFIO's, whether it spoils an IOMMU group. Never: asks
 * the kernel.
 */
#ifndef FACET_PASSTHROUGH_DRIVER_H
#define FACET_PASSTHROUGH_DRIVER_H

#include <stdbool.h>
#include <string.h>

/* vfio-pci, and its variants for certain models: mlx5_vfio_pci, nvgrace_gpu_vfio_pci, xe-vfio-pci. */
static inline bool driver_is_vfio(const char *driver)
{
    return strstr(driver, "vfio") && strstr(driver, "pci");
}

/* Whether the host does no DMA under this driver, or there is none; the kernel's test of a group is the same. */
static inline bool driver_is_harmless(const char *driver)
{
    return driver[0] == '\0' || driver_is_vfio(driver) || strcmp(driver, "pci-stub") == 0;
}

/* Whether it is the driver of PCIe ports, which does no DMA either. */
static inline bool driver_is_port(const char *driver)
{
    return strcmp(driver, "pcieport") == 0;
}

#endif
