/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the defaults of the machine with NVIDIA's GPUs. Never: reads a variable; state.c does. */
#include <stdio.h>
#include <string.h>

#include "state.h"

static void describe_device(struct fake_device *device, uint32_t index)
{
    device->major = 9;
    device->pci_bus = index + 1;
    memcpy(device->uuid, "fake-gpu", 8);
    device->uuid[15] = (char)(index + 1);
    snprintf(device->name, sizeof device->name, "Fake Accelerator 132");
}

const struct fake_model fake_model = {
    .prefix = "FAKE_CUDA_",
    .magic = UINT64_C(0x30414455434b4146), /* "FAKCUDA0" */
    .devices = 1,
    .units = 132,
    .version = 13000,
    .memory_bytes = UINT64_C(8) << 30,
    .context_bytes = UINT64_C(300) << 20,
    .code_bytes = UINT64_C(64) << 10,
    .describe = describe_device,
};
