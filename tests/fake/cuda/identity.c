/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the UUIDs of devices and MIG instances (identity.h). Never: changes the state. */
#include "identity.h"

#include <stdio.h>
#include <string.h>

#include "nvml_mig.h"
#include "state.h"

void fake_uuid_text(const char *prefix, const char uuid[16], char text[FAKE_UUID_SIZE])
{
    int at = snprintf(text, FAKE_UUID_SIZE, "%s", prefix);

    for (int i = 0; i < 16; i++)
        at += snprintf(text + at, FAKE_UUID_SIZE - (size_t)at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                       (unsigned char)uuid[i]);
}

void fake_mig_uuid(uint32_t device, uint32_t gpu_instance, uint32_t compute_instance, char uuid[16])
{
    struct fake_state *state = fake_state();

    memcpy(uuid, state->devices[device].uuid, sizeof state->devices[device].uuid);
    uuid[8] = (char)(0x40 + gpu_instance);
    uuid[9] = (char)compute_instance;
    uuid[10] = (char)state->management.mig[device].instances[gpu_instance].made_count;
}

static bool find_compute_instance(uint32_t device, uint32_t gpu_instance, const char *wanted,
                                  struct fake_part *ret_part)
{
    const struct fake_gpu_instance *instance = &fake_state()->management.mig[device].instances[gpu_instance];
    uint32_t place = instance->profile_plus_one;
    const struct fake_gpu_profile *profile = place ? fake_gpu_profile(place - 1) : NULL;
    char text[FAKE_UUID_SIZE];

    for (uint32_t i = 0; profile && i < FAKE_SLICES; i++) {
        fake_mig_uuid(device, gpu_instance, i, ret_part->uuid);
        fake_uuid_text("MIG-", ret_part->uuid, text);
        if (!instance->computes[i].profile_plus_one || strcmp(text, wanted) != 0)
            continue;
        ret_part->memory_bytes =
            fake_state()->devices[device].memory_bytes / FAKE_MEMORY_SLICES * profile->memory_slices;
        ret_part->units = profile->units;
        return true;
    }
    return false;
}

bool fake_part_find(const char *text, uint32_t *ret_device, struct fake_part *ret_part)
{
    for (uint32_t device = 0; device < fake_state()->device_count; device++)
        for (uint32_t i = 0; fake_state()->management.mig[device].mode && i < FAKE_GPU_INSTANCES; i++)
            if (find_compute_instance(device, i, text, ret_part)) {
                *ret_device = device;
                return true;
            }
    return false;
}
