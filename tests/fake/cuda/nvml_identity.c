/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a device's identity in the fake libnvidia-ml.so.1: names, numbers, PCI location. Never: changes it. */
#include <stdio.h>
#include <string.h>

#include "nvml_fake.h"

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned *index)
{
    FAKE_ENTER_GPU(handle, index, device);
    *index = device;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned *number)
{
    FAKE_ENTER_GPU(handle, number, device);
    *number = device;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned length)
{
    FAKE_ENTER(handle, name, device);
    return fake_text(name, length, "%s", fake_state()->devices[device].name);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned length)
{
    char text[FAKE_UUID_SIZE];

    FAKE_ENTER(handle, uuid, device);
    (void)device;
    fake_uuid(handle, text);
    return fake_text(uuid, length, "%s", text);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t handle, char *serial, unsigned length)
{
    FAKE_ENTER_GPU(handle, serial, device);
    return fake_text(serial, length, "%u", 1650000000u + device);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t handle, int *brand)
{
    FAKE_ENTER_GPU(handle, brand, device);
    (void)device;
    *brand = NVML_BRAND_NVIDIA;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t handle, unsigned *architecture)
{
    FAKE_ENTER(handle, architecture, device);
    *architecture = fake_state()->devices[device].major == 9 ? NVML_DEVICE_ARCH_HOPPER : NVML_DEVICE_ARCH_AMPERE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int *major, int *minor)
{
    FAKE_ENTER(handle, major && minor, device);
    *major = (int)fake_state()->devices[device].major;
    *minor = (int)fake_state()->devices[device].minor;
    return NVML_SUCCESS;
}

#define PCI_DEVICE_ID    0x233010deu
#define PCI_SUBSYSTEM_ID 0x16c110deu

void fake_pci(uint32_t device, nvmlPciInfo_t *ret_info)
{
    const struct fake_device *described = &fake_state()->devices[device];

    *ret_info = (nvmlPciInfo_t){
        .domain = described->pci_domain,
        .bus = described->pci_bus,
        .device = described->pci_device,
        .pciDeviceId = PCI_DEVICE_ID,
        .pciSubSystemId = PCI_SUBSYSTEM_ID,
    };
    snprintf(ret_info->busIdLegacy, sizeof ret_info->busIdLegacy, "%04X:%02X:%02X.0", described->pci_domain & 0xffffu,
             described->pci_bus & 0xffu, described->pci_device & 0xffu);
    snprintf(ret_info->busId, sizeof ret_info->busId, "%08X:%02X:%02X.0", described->pci_domain, described->pci_bus,
             described->pci_device);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *info)
{
    FAKE_ENTER_GPU(handle, info, device);
    fake_pci(device, info);
    return NVML_SUCCESS;
}

#ifndef FAKE_OLD /* older drivers lack this function */
nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t handle, nvmlPciInfoExt_v1_t *info)
{
    nvmlPciInfo_t plain;

    FAKE_ENTER_GPU(handle, info, device);
    if (info->version != VENDOR_NVML_VERSION(nvmlPciInfoExt_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    fake_pci(device, &plain);
    info->domain = plain.domain;
    info->bus = plain.bus;
    info->device = plain.device;
    info->pciDeviceId = plain.pciDeviceId;
    info->pciSubSystemId = plain.pciSubSystemId;
    info->baseClass = 3; /* a display controller, */
    info->subClass = 2;  /* for 3D */
    memcpy(info->busId, plain.busId, sizeof info->busId);
    return NVML_SUCCESS;
}
#endif
