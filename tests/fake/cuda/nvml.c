/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake libnvidia-ml.so.1: initialisation, the system, the devices and their names.
 *
 * Owns: the count of initialisations, the tables of handles. Compiled with FAKE_OLD it is an old library, without the
 * functions that came later, here and in the other files.
 * Never: uses real hardware.
 */
#include "nvml_fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint32_t initialised;
static struct nvmlDevice_st gpus[FAKE_DEVICES];
static struct nvmlDevice_st migs[FAKE_DEVICES][FAKE_GPU_INSTANCES][FAKE_SLICES];

nvmlDevice_t fake_handle(uint32_t device)
{
    return &gpus[device];
}

nvmlDevice_t fake_mig_handle(uint32_t device, uint32_t gpu_instance, uint32_t compute_instance)
{
    return &migs[device][gpu_instance][compute_instance];
}

#ifdef FAKE_OLD
#define DRIVER_VERSION "470.82.01"
#define NVML_VERSION   "11.470.82.01"
#else
#define DRIVER_VERSION "580.65.06"
#define NVML_VERSION   "13.580.65.06"
#endif

/* Each entry of the tables names its device or instance; the tables are the same after every initialisation. */
static void fill_tables(void)
{
    for (uint32_t d = 0; d < FAKE_DEVICES; d++) {
        gpus[d] = (struct nvmlDevice_st){.device = d};
        for (uint32_t g = 0; g < FAKE_GPU_INSTANCES; g++)
            for (uint32_t c = 0; c < FAKE_SLICES; c++)
                migs[d][g][c] = (struct nvmlDevice_st){d, g, c, true};
    }
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    struct fake_state *state = fake_state();

    if (state->device_count == 0 && !(flags & NVML_INIT_FLAG_NO_GPUS))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (atomic_fetch_add(&initialised, 1) == 0)
        fill_tables();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
    uint32_t count = atomic_load(&initialised);

    do {
        if (count == 0)
            return NVML_ERROR_UNINITIALIZED;
    } while (!atomic_compare_exchange_weak(&initialised, &count, count - 1));
    return NVML_SUCCESS;
}

nvmlReturn_t fake_initialised(bool arguments_valid)
{
    if (atomic_load(&initialised) == 0)
        return NVML_ERROR_UNINITIALIZED;
    return arguments_valid ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static bool in_table(const void *handle, const void *table, size_t size, size_t entry_size)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)table;

    return (uintptr_t)handle >= (uintptr_t)table && offset < size && offset % entry_size == 0;
}

static bool is_known(nvmlDevice_t handle)
{
    if (in_table(handle, gpus, sizeof gpus, sizeof gpus[0]))
        return handle->device < fake_state()->device_count;
    return in_table(handle, migs, sizeof migs, sizeof migs[0][0][0]) &&
           fake_compute_instance_exists(handle->device, handle->gpu_instance, handle->compute_instance);
}

nvmlReturn_t fake_enter(nvmlDevice_t handle, bool arguments_valid, uint32_t *ret_device)
{
    nvmlReturn_t result = fake_initialised(arguments_valid);

    if (result != NVML_SUCCESS)
        return result;
    if (!is_known(handle))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (atomic_load(&fake_state()->devices[handle->device].lost))
        return NVML_ERROR_GPU_IS_LOST;
    *ret_device = handle->device;
    return NVML_SUCCESS;
}

nvmlReturn_t fake_enter_gpu(nvmlDevice_t handle, bool arguments_valid, uint32_t *ret_device)
{
    uint32_t device;
    nvmlReturn_t result = fake_enter(handle, arguments_valid, &device);

    if (result != NVML_SUCCESS)
        return result;
    if (handle->is_mig)
        return NVML_ERROR_NOT_SUPPORTED;
    *ret_device = device;
    return NVML_SUCCESS;
}

nvmlReturn_t fake_text(char *text, unsigned length, const char *format, ...)
{
    char whole[256];
    va_list arguments;

    va_start(arguments, format);
    int needed = vsnprintf(whole, sizeof whole, format, arguments);
    va_end(arguments);
    if (needed < 0 || (unsigned)needed >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(text, whole, (size_t)needed + 1);
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    static const struct {
        nvmlReturn_t result;
        const char *text;
    } texts[] = {
        {NVML_SUCCESS, "Success"},
        {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
        {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
        {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
        {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
        {NVML_ERROR_NOT_FOUND, "Not Found"},
        {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
        {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
        {NVML_ERROR_TIMEOUT, "Timeout"},
        {NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
        {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
        {NVML_ERROR_IN_USE, "In use by another client"},
        {NVML_ERROR_INSUFFICIENT_RESOURCES, "Insufficient Resources"},
        {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
        {NVML_ERROR_NOT_READY, "System is not in ready state"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].result == result)
            return texts[i].text;
    return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned length)
{
    nvmlReturn_t result = fake_initialised(text);
    return result ? result : fake_text(text, length, DRIVER_VERSION);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *text, unsigned length)
{
    nvmlReturn_t result = fake_initialised(text);
    return result ? result : fake_text(text, length, NVML_VERSION);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    nvmlReturn_t result = fake_initialised(version);

    if (result == NVML_SUCCESS)
        *version = (int)fake_state()->driver_version;
    return result;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    nvmlReturn_t result = fake_initialised(name);
    const char *root = getenv("FAKE_CUDA_SYSFS");
    char path[512], line[128] = "";

    if (result != NVML_SUCCESS)
        return result;
    snprintf(path, sizeof path, "%s/proc/%u/comm", root ? root : "", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return NVML_ERROR_NOT_FOUND;
    if (!fgets(line, sizeof line, file))
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return fake_text(name, length, "%s", line);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    nvmlReturn_t result = fake_initialised(count);

    if (result == NVML_SUCCESS)
        *count = fake_state()->device_count;
    return result;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
    return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    nvmlReturn_t result = fake_initialised(device && index < fake_state()->device_count);

    if (result == NVML_SUCCESS && atomic_load(&fake_state()->devices[index].lost))
        return NVML_ERROR_GPU_IS_LOST;
    if (result == NVML_SUCCESS)
        *device = &gpus[index];
    return result;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* The handle of the first device, GPU or MIG, for which `matches` is true. */
static nvmlReturn_t find_handle(bool (*matches)(nvmlDevice_t handle, const void *wanted), const void *wanted,
                                nvmlDevice_t *ret_device)
{
    for (uint32_t d = 0; d < fake_state()->device_count; d++) {
        nvmlDevice_t found = matches(&gpus[d], wanted) ? &gpus[d] : NULL;

        for (uint32_t i = 0; !found && i < FAKE_GPU_INSTANCES * FAKE_SLICES; i++) {
            nvmlDevice_t mig = &migs[d][i / FAKE_SLICES][i % FAKE_SLICES];
            if (fake_compute_instance_exists(d, mig->gpu_instance, mig->compute_instance) && matches(mig, wanted))
                found = mig;
        }
        if (found) {
            *ret_device = found;
            return atomic_load(&fake_state()->devices[d].lost) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

void fake_uuid(nvmlDevice_t handle, char text[FAKE_UUID_SIZE])
{
    char uuid[16];

    if (!handle->is_mig) {
        fake_uuid_text("GPU-", fake_state()->devices[handle->device].uuid, text);
        return;
    }
    fake_mig_uuid(handle->device, handle->gpu_instance, handle->compute_instance, uuid);
    fake_uuid_text("MIG-", uuid, text);
}

static bool has_uuid(nvmlDevice_t handle, const void *wanted)
{
    char text[FAKE_UUID_SIZE];

    fake_uuid(handle, text);
    return strcmp(text, wanted) == 0;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    nvmlReturn_t result = fake_initialised(uuid && device);
    return result ? result : find_handle(has_uuid, uuid, device);
}

#ifndef FAKE_OLD
nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    char text[FAKE_UUID_SIZE];
    nvmlReturn_t result = fake_initialised(uuid && device);

    if (result != NVML_SUCCESS)
        return result;
    if (uuid->version != VENDOR_NVML_VERSION(nvmlUUID_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (uuid->type == NVML_UUID_TYPE_ASCII)
        return nvmlDeviceGetHandleByUUID(uuid->value.str, device);
    if (uuid->type != NVML_UUID_TYPE_BINARY)
        return NVML_ERROR_INVALID_ARGUMENT;
    fake_uuid_text("GPU-", (const char *)uuid->value.bytes, text);
    return find_handle(has_uuid, text, device);
}
#endif

static bool has_serial(nvmlDevice_t handle, const void *wanted)
{
    char serial[NVML_DEVICE_SERIAL_BUFFER_SIZE];

    return !handle->is_mig && nvmlDeviceGetSerial(handle, serial, sizeof serial) == NVML_SUCCESS &&
           strcmp(serial, wanted) == 0;
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    nvmlReturn_t result = fake_initialised(serial && device);
    return result ? result : find_handle(has_serial, serial, device);
}

struct pci_location {
    unsigned domain, bus, device;
};

static bool has_pci_location(nvmlDevice_t handle, const void *wanted)
{
    const struct fake_device *device = &fake_state()->devices[handle->device];
    const struct pci_location *pci_location = wanted;

    return !handle->is_mig && device->pci_domain == pci_location->domain && device->pci_bus == pci_location->bus &&
           device->pci_device == pci_location->device;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    struct pci_location pci_location = {0};
    nvmlReturn_t result = fake_initialised(bus_id && device);

    if (result != NVML_SUCCESS)
        return result;
    if (sscanf(bus_id, "%x:%x:%x", &pci_location.domain, &pci_location.bus, &pci_location.device) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    return find_handle(has_pci_location, &pci_location, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}
