/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The UUIDs of devices and MIG instances, which the driver and the management library share.
 *
 * Owns: the bytes and the text of a UUID, and finding the compute instance that a UUID names.
 * Never: is linked by anything that ships.
 */
#ifndef FAKE_CUDA_IDENTITY_H
#define FAKE_CUDA_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_UUID_SIZE 48

/* Writes 16 bytes as "GPU-..." or "MIG-...". */
void fake_uuid_text(const char *prefix, const char uuid[16], char text[FAKE_UUID_SIZE]);

/* The UUID of a compute instance; an instance that is made anew in the same place has another UUID. */
void fake_mig_uuid(uint32_t device, uint32_t gpu_instance, uint32_t compute_instance, char uuid[16]);

/* The driver's view of a GPU instance. Memory that is used in an instance is counted for the whole GPU only. */
struct fake_part {
    char uuid[16];
    uint64_t memory_bytes;
    uint32_t units;
};

/* Finds the compute instance of that UUID; false when there is none. */
bool fake_part_find(const char *text, uint32_t *ret_device, struct fake_part *ret_part);

#endif
