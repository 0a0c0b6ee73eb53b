/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-smi --query-gpu=FIELD,... --format=csv,noheader,nounits      prints what nvidia-smi would print
 *
 * Owns: printing the fields that the GPU suite queries. The program uses the management library like any monitor.
 * Never: is used on a machine with nvidia-smi, or knows that the library may be a fake.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vendor/cuda/nvml_mig.h"

#define FUNCTIONS(X)                                                                                                   \
    X(nvmlInit_v2)                                                                                                     \
    X(nvmlDeviceGetCount_v2)                                                                                           \
    X(nvmlDeviceGetHandleByIndex_v2)                                                                                   \
    X(nvmlDeviceGetName)                                                                                               \
    X(nvmlDeviceGetUUID)                                                                                               \
    X(nvmlDeviceGetMemoryInfo_v2)                                                                                      \
    X(nvmlDeviceGetPciInfo_v3)                                                                                         \
    X(nvmlSystemGetDriverVersion)                                                                                      \
    X(nvmlDeviceGetMigMode)                                                                                            \
    X(nvmlDeviceGetTemperature)                                                                                        \
    X(nvmlDeviceGetPowerUsage)                                                                                         \
    X(nvmlDeviceGetUtilizationRates)

static struct {
#define FIELD(name) __typeof__(&name) name;
    FUNCTIONS(FIELD)
#undef FIELD
} nvml;

static void check_call(nvmlReturn_t result, const char *call)
{
    if (result == NVML_SUCCESS)
        return;
    fprintf(stderr, "%s failed with NVML error %d\n", call, result);
    exit(EXIT_FAILURE);
}
#define NVML(call) check_call(nvml.call, #call)

static void print_uuid(nvmlDevice_t device, unsigned index)
{
    char text[NVML_DEVICE_UUID_BUFFER_SIZE];

    NVML(nvmlDeviceGetUUID(device, text, sizeof text));
    printf("%s", text);
}

static void print_index(nvmlDevice_t device, unsigned index)
{
    printf("%u", index);
}

static void print_name(nvmlDevice_t device, unsigned index)
{
    char text[NVML_DEVICE_NAME_V2_BUFFER_SIZE];

    NVML(nvmlDeviceGetName(device, text, sizeof text));
    printf("%s", text);
}

static void print_driver(nvmlDevice_t device, unsigned index)
{
    char text[80];

    NVML(nvmlSystemGetDriverVersion(text, sizeof text));
    printf("%s", text);
}

static void print_bus(nvmlDevice_t device, unsigned index)
{
    nvmlPciInfo_t pci;

    NVML(nvmlDeviceGetPciInfo_v3(device, &pci));
    printf("%08X:%02X:%02X.0", pci.domain, pci.bus, pci.device);
}

static nvmlMemory_v2_t memory_of(nvmlDevice_t device)
{
    nvmlMemory_v2_t memory = {.version = VENDOR_NVML_VERSION(nvmlMemory_v2_t, 2)};

    NVML(nvmlDeviceGetMemoryInfo_v2(device, &memory));
    return memory;
}

static void print_total(nvmlDevice_t device, unsigned index)
{
    printf("%llu", memory_of(device).total >> 20);
}

static void print_reserved(nvmlDevice_t device, unsigned index)
{
    printf("%llu", memory_of(device).reserved >> 20);
}

static void print_used(nvmlDevice_t device, unsigned index)
{
    printf("%llu", memory_of(device).used >> 20);
}

static void print_mig(nvmlDevice_t device, unsigned index)
{
    unsigned current, pending;

    if (nvml.nvmlDeviceGetMigMode(device, &current, &pending) != NVML_SUCCESS)
        printf("[N/A]");
    else
        printf("%s", current == NVML_DEVICE_MIG_ENABLE ? "Enabled" : "Disabled");
}

static void print_temperature(nvmlDevice_t device, unsigned index)
{
    unsigned celsius;

    NVML(nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &celsius));
    printf("%u", celsius);
}

static void print_power(nvmlDevice_t device, unsigned index)
{
    unsigned milliwatts;

    NVML(nvmlDeviceGetPowerUsage(device, &milliwatts));
    printf("%u.%02u", milliwatts / 1000, milliwatts % 1000 / 10);
}

static void print_utilization(nvmlDevice_t device, unsigned index)
{
    nvmlUtilization_t utilization;

    NVML(nvmlDeviceGetUtilizationRates(device, &utilization));
    printf("%u", utilization.gpu);
}

static const struct field {
    const char *name;
    void (*print)(nvmlDevice_t device, unsigned index);
} fields[] = {
    {"index", print_index},
    {"uuid", print_uuid},
    {"name", print_name},
    {"driver_version", print_driver},
    {"pci.bus_id", print_bus},
    {"memory.total", print_total},
    {"memory.reserved", print_reserved},
    {"memory.used", print_used},
    {"mig.mode.current", print_mig},
    {"temperature.gpu", print_temperature},
    {"power.draw", print_power},
    {"utilization.gpu", print_utilization},
};

static const struct field *find_field(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    fprintf(stderr, "gpu-smi: unknown field '%s'; expected one of the table in tests/gpu/smi.c\n", name);
    exit(2);
}

static void print_device(unsigned index, const char *query)
{
    char copy[512], *rest = copy, *name;
    const char *before = "";
    nvmlDevice_t device;

    snprintf(copy, sizeof copy, "%s", query);
    NVML(nvmlDeviceGetHandleByIndex_v2(index, &device));
    for (; (name = strsep(&rest, ",")); before = ", ") {
        printf("%s", before);
        find_field(name)->print(device, index);
    }
    puts("");
}

int main(int argc, char **argv)
{
    static const char option[] = "--query-gpu=";
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    unsigned count;

    if (argc < 2 || strncmp(argv[1], option, strlen(option)) != 0) {
        fputs("usage: gpu-smi --query-gpu=FIELD,... --format=csv,noheader,nounits\n", stderr);
        return 2;
    }
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return EXIT_FAILURE;
    }
#define OPEN(name)                                                                                                     \
    if (!(nvml.name = (__typeof__(nvml.name))dlsym(library, #name)))                                                   \
        return EXIT_FAILURE;
    FUNCTIONS(OPEN)
#undef OPEN
    NVML(nvmlInit_v2());
    NVML(nvmlDeviceGetCount_v2(&count));
    for (unsigned i = 0; i < count; i++)
        print_device(i, argv[1] + strlen(option));
    return EXIT_SUCCESS;
}
