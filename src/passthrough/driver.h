/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the facts that follow from a driver's name: whether the driver is VFIO's, and whether the kernel lets a virtual
 * machine use an IOMMU group while a function of the group has this driver. Never: asks the kernel.
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

/*
 * Whether the function does no DMA for the host, because it has this driver or none (""). The kernel makes the same
 * test before it lets a program use the function's group.
 */
static inline bool driver_is_harmless(const char *driver)
{
    return driver[0] == '\0' || driver_is_vfio(driver) || strcmp(driver, "pci-stub") == 0;
}

/* Whether the driver is the one of PCIe ports, which also does no DMA. */
static inline bool driver_is_port(const char *driver)
{
    return strcmp(driver, "pcieport") == 0;
}

#endif
