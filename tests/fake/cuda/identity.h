/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How devices and parts of them are named, by the driver and by the management library alike.
 *
 * Owns: the bytes and the text of a UUID, and which part of which device one names.
 * Never: is linked by anything that ships.
 */
#ifndef FAKE_CUDA_IDENTITY_H
#define FAKE_CUDA_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_UUID_SIZE 48

/* "GPU-..." or "MIG-..." of 16 bytes. */
void fake_uuid_text(const char *prefix, const char uuid[16], char text[FAKE_UUID_SIZE]);

/* The bytes of a compute instance; one that is made anew in the same place has another name. */
void fake_mig_uuid(uint32_t device, uint32_t gpu_instance, uint32_t compute_instance, char uuid[16]);

/* The driver's view of a GPU instance. Its memory is taken of the whole GPU: the fake keeps no account of parts. */
struct fake_part {
    char uuid[16];
    uint64_t memory_bytes;
    uint32_t units;
};

/* The compute instance of that name; false when there is none. */
bool fake_part_find(const char *text, uint32_t *ret_device, struct fake_part *ret_part);

#endif
