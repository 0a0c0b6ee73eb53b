/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the defaults of the machine with AMD's GPUs: two like the MI300X. Never: reads a variable; state.c does. */
#include <stdio.h>

#include "kernel_files.h"

/* The UUID is the text of 16 digits that the runtime returns from hipDeviceGetUuid(). */
static void describe_device(struct fake_device *device, uint32_t index)
{
    char digits[17];

    device->major = 9;
    device->minor = 4;
    device->pci_bus = 0x05 + 0x20 * index;
    snprintf(digits, sizeof digits, "fa%014x", 0xcade00u + index);
    __builtin_memcpy(device->uuid, digits, sizeof device->uuid);
    snprintf(device->name, sizeof device->name, "Fake Instinct 304");
    fake_kernel_files_describe(device, index);
}

const struct fake_model fake_model = {
    .prefix = "FAKE_HIP_",
    .magic = UINT64_C(0x3030505049484146), /* "FAHIPP00" */
    .devices = 2,
    .units = 304,
    .version = 70200000, /* 7.2.0, as hipRuntimeGetVersion() counts */
    .memory_bytes = UINT64_C(192) << 30,
    .context_bytes = UINT64_C(300) << 20,
    .eager = true,
    .describe = describe_device,
    .memory_changed = fake_kernel_files_changed,
};
