/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake libamd_smi.so: initialisation, sockets and processors, their names, their connections.
 *
 * Owns: the count of initialisations, and the tables of handles. Compiled with FAKE_OLD, the library is one of another
 * release, whose structs differ.
 * Never: uses real hardware.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define DEVICE_ID   0x74a1u
#define XGMI_WEIGHT 15u
#define DRIVER      "6.14.14"

static _Atomic uint32_t initialised;
static char sockets[FAKE_DEVICES];
static struct fake_processor processors[FAKE_DEVICES][FAKE_DIES];

void fake_abort_for_other_release(const char *function)
{
    fprintf(stderr, "fake AMD SMI: %s has another interface in this release (FAKE_OLD); the caller must not call it\n",
            function);
    abort();
}

amdsmi_status_t amdsmi_init(uint64_t flags)
{
    if (!(flags & AMDSMI_INIT_AMD_GPUS))
        return AMDSMI_STATUS_INVAL;
    if (fake_state()->device_count == 0)
        return AMDSMI_STATUS_DRIVER_NOT_LOADED;
    for (uint32_t device = 0; device < FAKE_DEVICES; device++)
        for (uint32_t part = 0; part < FAKE_DIES; part++)
            processors[device][part] = (struct fake_processor){device, part};
    atomic_fetch_add(&initialised, 1);
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_shut_down(void)
{
    uint32_t count = atomic_load(&initialised);

    do {
        if (count == 0)
            return AMDSMI_STATUS_NOT_INIT;
    } while (!atomic_compare_exchange_weak(&initialised, &count, count - 1));
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_status_code_to_string(amdsmi_status_t status, const char **text)
{
    static const struct {
        amdsmi_status_t status;
        const char *text;
    } texts[] = {
        {AMDSMI_STATUS_SUCCESS, "AMDSMI_STATUS_SUCCESS: Call succeeded"},
        {AMDSMI_STATUS_INVAL, "AMDSMI_STATUS_INVAL: Invalid parameters"},
        {AMDSMI_STATUS_NOT_SUPPORTED, "AMDSMI_STATUS_NOT_SUPPORTED: Command not supported"},
        {AMDSMI_STATUS_NO_PERM, "AMDSMI_STATUS_NO_PERM: Permission Denied"},
        {AMDSMI_STATUS_BUSY, "AMDSMI_STATUS_BUSY: Device busy"},
        {AMDSMI_STATUS_NOT_FOUND, "AMDSMI_STATUS_NOT_FOUND: Device Not found"},
    };

    if (!text)
        return AMDSMI_STATUS_INVAL;
    *text = "Unknown";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *text = texts[i].status == status ? texts[i].text : *text;
    return AMDSMI_STATUS_SUCCESS;
}

/* --- handles --- */

amdsmi_processor_handle fake_processor_handle(uint32_t device, uint32_t part)
{
    return &processors[device][part];
}

static bool in_table(const void *handle, const void *table, size_t size, size_t entry_size)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)table;

    return offset < size && offset % entry_size == 0;
}

amdsmi_status_t fake_enter(amdsmi_processor_handle handle, bool arguments_valid, struct fake_processor *ret_processor)
{
    if (atomic_load(&initialised) == 0)
        return AMDSMI_STATUS_NOT_INIT;
    if (!arguments_valid || !in_table(handle, processors, sizeof processors, sizeof processors[0][0]))
        return AMDSMI_STATUS_INVAL;
    *ret_processor = *(const struct fake_processor *)handle;
    const struct fake_state *state = fake_state();
    if (ret_processor->device >= state->device_count || state->devices[ret_processor->device].lost ||
        ret_processor->part >= fake_parts(ret_processor->device))
        return AMDSMI_STATUS_NOT_FOUND;
    return AMDSMI_STATUS_SUCCESS;
}

/* `count`: in, the room in `handles`; out, the number of handles that exist. */
static amdsmi_status_t copy_handles(void *const *existing, uint32_t available, uint32_t *count, void **handles)
{
    uint32_t room = *count;

    *count = available;
    if (!handles)
        return AMDSMI_STATUS_SUCCESS;
    for (uint32_t i = 0; i < available && i < room; i++)
        handles[i] = existing[i];
    if (room < available)
        *count = room;
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_get_socket_handles(uint32_t *count, amdsmi_socket_handle *handles)
{
    void *existing[FAKE_DEVICES];

    if (atomic_load(&initialised) == 0)
        return AMDSMI_STATUS_NOT_INIT;
    if (!count)
        return AMDSMI_STATUS_INVAL;
    for (uint32_t i = 0; i < FAKE_DEVICES; i++)
        existing[i] = &sockets[i];
    return copy_handles(existing, fake_state()->device_count, count, handles);
}

amdsmi_status_t amdsmi_get_processor_handles(amdsmi_socket_handle socket, uint32_t *count,
                                             amdsmi_processor_handle *handles)
{
    void *existing[FAKE_DIES];

    if (atomic_load(&initialised) == 0)
        return AMDSMI_STATUS_NOT_INIT;
    if (!count || !in_table(socket, sockets, sizeof sockets, sizeof sockets[0]))
        return AMDSMI_STATUS_INVAL;
    uint32_t device = (uint32_t)((char *)socket - sockets);
    for (uint32_t i = 0; i < FAKE_DIES; i++)
        existing[i] = &processors[device][i];
    return copy_handles(existing, fake_parts(device), count, handles);
}

/* --- identity --- */

amdsmi_status_t fake_text(char *text, size_t size, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length >= 0 && (size_t)length < size ? AMDSMI_STATUS_SUCCESS : AMDSMI_STATUS_INSUFFICIENT_SIZE;
}

amdsmi_status_t amdsmi_get_gpu_device_bdf(amdsmi_processor_handle handle, amdsmi_bdf_t *bdf)
{
    FAKE_ENTER(handle, bdf, processor);
    const struct fake_device *device = &fake_state()->devices[processor.device];
    bdf->as_uint = processor.part | (uint64_t)device->pci_device << 3 | (uint64_t)device->pci_bus << 8 |
                   (uint64_t)device->pci_domain << 16;
    return AMDSMI_STATUS_SUCCESS;
}

/* The first digits are 0xff for an undivided GPU, else the part's number. */
amdsmi_status_t amdsmi_get_gpu_device_uuid(amdsmi_processor_handle handle, unsigned *length, char *uuid)
{
    FAKE_ENTER(handle, length && uuid && *length >= AMDSMI_GPU_UUID_SIZE, processor);
    const char *digits = fake_state()->devices[processor.device].uuid;
    unsigned first = fake_parts(processor.device) == 1 ? 0xffu : processor.part;

    return fake_text(uuid, *length, "%02x%02x%04x-0000-1000-80%.2s-%.12s", first, 0xffu, DEVICE_ID, digits + 2,
                     digits + 4);
}

amdsmi_status_t amdsmi_get_gpu_asic_info(amdsmi_processor_handle handle, amdsmi_asic_info_t *info)
{
    FAKE_ENTER_STRUCT(handle, info, processor);
    const struct fake_device *device = &fake_state()->devices[processor.device];
    *info = (amdsmi_asic_info_t){
        .vendor_id = 0x1002,
        .device_id = DEVICE_ID,
        .oam_id = processor.device,
        .num_of_compute_units = device->units / fake_parts(processor.device),
        .target_graphics_version = device->major << 8 | device->minor << 4 | 2,
    };
    fake_text(info->market_name, sizeof info->market_name, "%s", device->name);
    fake_text(info->vendor_name, sizeof info->vendor_name, "Advanced Micro Devices Inc. [AMD/ATI]");
    return fake_text(info->asic_serial, sizeof info->asic_serial, "0x%.16s", device->uuid);
}

amdsmi_status_t amdsmi_get_gpu_driver_info(amdsmi_processor_handle handle, amdsmi_driver_info_t *info)
{
    FAKE_ENTER_STRUCT(handle, info, processor);
    (void)processor;
    *info = (amdsmi_driver_info_t){.driver_version = DRIVER, .driver_name = "amdgpu"};
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_get_gpu_kfd_info(amdsmi_processor_handle handle, amdsmi_kfd_info_t *info)
{
    FAKE_ENTER_STRUCT(handle, info, processor);
    *info = (amdsmi_kfd_info_t){.kfd_id = 1000 + processor.device * FAKE_DIES + processor.part,
                                .node_id = 1 + processor.device * FAKE_DIES + processor.part,
                                .current_partition_id = processor.part};
    return AMDSMI_STATUS_SUCCESS;
}

/* --- topology: XGMI connects all GPUs; each half of the GPUs is at one of the host's two processors --- */

amdsmi_status_t amdsmi_topo_get_numa_node_number(amdsmi_processor_handle handle, uint32_t *node)
{
    FAKE_ENTER(handle, node, processor);
    *node = processor.device >= (fake_state()->device_count + 1) / 2;
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_topo_get_link_weight(amdsmi_processor_handle from, amdsmi_processor_handle to, uint64_t *weight)
{
    FAKE_ENTER(from, weight, first);
    struct fake_processor second;
    amdsmi_status_t result = fake_enter(to, true, &second);
    if (result != AMDSMI_STATUS_SUCCESS)
        return result;
    *weight = first.device == second.device ? 0 : XGMI_WEIGHT;
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_topo_get_link_type(amdsmi_processor_handle from, amdsmi_processor_handle to, uint64_t *hops,
                                          int *type)
{
    FAKE_ENTER(from, hops && type, first);
    struct fake_processor second;
    amdsmi_status_t result = fake_enter(to, true, &second);
    if (result != AMDSMI_STATUS_SUCCESS)
        return result;
    if (first.device == second.device)
        return AMDSMI_STATUS_INVAL;
    *hops = 1;
    *type = AMDSMI_LINK_TYPE_XGMI;
    return AMDSMI_STATUS_SUCCESS;
}
