/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the compute and memory modes of the fake GPUs, and which of them can be combined.
 * Never: changes a mode under a process that has memory on the GPU.
 *
 * m is the number of parts of the memory. If all dies form one part, m must be 1; if they form two parts, 1 or 2; three
 * parts, 1 or 3; four parts, 1 or 4. If each die is a part, m must divide the number of dies. The number of parts of
 * the dies must divide the number of dies, too.
 */
#include "fake.h"

static const struct {
    const char *name;
    int mode;
    uint32_t parts, memory[2]; /* memory: the allowed values of m; 0: each that divides the number of dies */
} compute_modes[] = {
    {"SPX", AMDSMI_COMPUTE_PARTITION_SPX, 1, {1, 1}},         {"DPX", AMDSMI_COMPUTE_PARTITION_DPX, 2, {1, 2}},
    {"TPX", AMDSMI_COMPUTE_PARTITION_TPX, 3, {1, 3}},         {"QPX", AMDSMI_COMPUTE_PARTITION_QPX, 4, {1, 4}},
    {"CPX", AMDSMI_COMPUTE_PARTITION_CPX, FAKE_DIES, {0, 0}},
};

#define MODES (sizeof compute_modes / sizeof *compute_modes)

static size_t compute_mode(uint32_t device)
{
    int mode = (int)atomic_load(&fake_state()->management.modes[device].compute);

    for (size_t i = 0; i < MODES; i++)
        if (compute_modes[i].mode == mode)
            return i;
    return 0;
}

uint32_t fake_parts(uint32_t device)
{
    return compute_modes[compute_mode(device)].parts;
}

uint32_t fake_memory_parts(uint32_t device)
{
    uint32_t parts = atomic_load(&fake_state()->management.modes[device].memory);

    return parts ? parts : 1;
}

static bool is_valid_combination(size_t mode, uint32_t memory)
{
    if (FAKE_DIES % compute_modes[mode].parts)
        return false;
    if (compute_modes[mode].memory[0] == 0)
        return FAKE_DIES % memory == 0;
    return memory == compute_modes[mode].memory[0] || memory == compute_modes[mode].memory[1];
}

amdsmi_status_t amdsmi_get_gpu_compute_partition(amdsmi_processor_handle handle, char *mode, uint32_t size)
{
    FAKE_ENTER(handle, mode && size, processor);
    return fake_text(mode, size, "%s", compute_modes[compute_mode(processor.device)].name);
}

amdsmi_status_t amdsmi_get_gpu_memory_partition(amdsmi_processor_handle handle, char *mode, uint32_t size)
{
    FAKE_ENTER(handle, mode && size, processor);
    return fake_text(mode, size, "NPS%u", fake_memory_parts(processor.device));
}

amdsmi_status_t amdsmi_set_gpu_compute_partition(amdsmi_processor_handle handle, int mode)
{
    FAKE_ENTER_STRUCT(handle, mode >= AMDSMI_COMPUTE_PARTITION_SPX && mode <= AMDSMI_COMPUTE_PARTITION_CPX, processor);
    if (!is_valid_combination((size_t)mode - 1, fake_memory_parts(processor.device)))
        return AMDSMI_STATUS_SETTING_UNAVAILABLE;
    if (fake_used(processor.device))
        return AMDSMI_STATUS_BUSY;
    atomic_store(&fake_state()->management.modes[processor.device].compute, (uint32_t)mode);
    return AMDSMI_STATUS_SUCCESS;
}

/* On a real GPU a change of this mode reloads the driver, which chooses the compute mode anew. */
amdsmi_status_t amdsmi_set_gpu_memory_partition(amdsmi_processor_handle handle, int mode)
{
    FAKE_ENTER_STRUCT(handle,
                      mode == AMDSMI_MEMORY_PARTITION_NPS1 || mode == AMDSMI_MEMORY_PARTITION_NPS2 ||
                          mode == AMDSMI_MEMORY_PARTITION_NPS4 || mode == AMDSMI_MEMORY_PARTITION_NPS8,
                      processor);
    struct fake_modes *modes = &fake_state()->management.modes[processor.device];

    if (fake_used(processor.device))
        return AMDSMI_STATUS_BUSY;
    atomic_store(&modes->memory, (uint32_t)mode);
    /* One part of all dies cannot be combined with several parts of memory: then each die becomes a part. */
    atomic_store(&modes->compute,
                 mode == AMDSMI_MEMORY_PARTITION_NPS1 ? AMDSMI_COMPUTE_PARTITION_SPX : AMDSMI_COMPUTE_PARTITION_CPX);
    return AMDSMI_STATUS_SUCCESS;
}
