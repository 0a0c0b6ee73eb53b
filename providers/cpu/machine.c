/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: this machine's properties as a device: its processors, its memory, the settings that override them.
 * Never: guesses: the bit of a value that cannot be read is not set.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/processor.h"
#include "cpu.h"

#define MEMORY_STEP FACET_VARIABLE_MEMORY_MIN /* memory_bytes is a multiple of it */
#define MEMORY_MOST FACET_VARIABLE_MEMORY_MAX

enum facet_status cpu_setting_read(const char *name, uint64_t most, uint64_t *ret_value, struct facet_error *error)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !*text) {
        *ret_value = 0;
        return FACET_OK;
    }
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value == 0 || value > most)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "%s '%.64s': expected a number from 1 to %" PRIu64, name,
                              text, most);
    *ret_value = value;
    return FACET_OK;
}

enum facet_status cpu_switch_read(const char *name, bool *ret_on, struct facet_error *error)
{
    const char *text = getenv(name);

    if (text && *text && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "%s '%.64s': expected 0 or 1", name, text);
    *ret_on = text && *text == '1';
    return FACET_OK;
}

uint32_t cpu_processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);

    return count < 1 ? 1 : count > (int)CPU_UNITS_MOST ? CPU_UNITS_MOST : (uint32_t)count;
}

static uint64_t half_of_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

static enum facet_status read_sizes(struct facet_device_info *info, struct facet_error *error)
{
    uint64_t units = 0, memory = 0;
    enum facet_status status = cpu_setting_read("FACET_CPU_UNITS", CPU_UNITS_MOST, &units, error);

    if (status == FACET_OK)
        status = cpu_setting_read("FACET_CPU_MEMORY", MEMORY_MOST, &memory, error);
    if (status != FACET_OK)
        return status;
    info->compute_units = units ? (uint32_t)units : cpu_processors();
    info->memory_bytes = (memory ? memory : half_of_memory()) / MEMORY_STEP * MEMORY_STEP;
    if (info->memory_bytes == 0)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT,
                              "FACET_CPU_MEMORY %" PRIu64 ": expected at least %" PRIu64 " bytes", memory, MEMORY_STEP);
    info->max_alloc_bytes = info->memory_bytes;
    info->valid = FACET_DEVICE_HAS_MEMORY | FACET_DEVICE_HAS_MAX_ALLOC | FACET_DEVICE_HAS_COMPUTE_UNITS;
    return FACET_OK;
}

/* The uuid is a hash of /etc/machine-id, or of the host's name where there is none, so that it stays the same. */
static void name_device(struct facet_device_info *info)
{
    char identity[64] = "", text[96];
    FILE *file = fopen("/etc/machine-id", "re");

    if (file) {
        if (!fgets(identity, sizeof identity, file))
            identity[0] = '\0';
        fclose(file);
    }
    if (!identity[0] && gethostname(identity, sizeof identity - 1) != 0)
        identity[0] = '\0';
    identity[strcspn(identity, "\n")] = '\0';
    snprintf(text, sizeof text, "facet cpu %s", identity);
    facet_kit_uuid_of(text, info->uuid);
}

enum facet_status cpu_machine_describe(struct facet_device_info *ret_info, char **ret_features,
                                       struct facet_error *error)
{
    struct facet_device_info info = {
        .size = sizeof info,
        .kind = FACET_DEVICE_CPU,
        .capabilities = FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE | FACET_CAN_DEVICE_METRICS |
                        FACET_CAN_PROCESS_METRICS | FACET_CAN_EVENTS | FACET_CAN_CONTAINER | FACET_CAN_MEMORY |
                        FACET_CAN_MAP_MEMORY | FACET_CAN_EXECUTE | FACET_CAN_ENQUEUE | FACET_CAN_SHARE |
                        FACET_CAN_RECORD | FACET_CAN_SHARE_PAGES | FACET_CAN_CONTROL | FACET_CAN_SCHEDULE,
    };
    enum facet_status status = read_sizes(&info, error);

    if (status != FACET_OK)
        return status;
    char *model = facet_processor_read("model name"), *vendor = facet_processor_read("vendor_id"),
         *features = facet_processor_features();
    if (!model || !vendor || !features) {
        free(features);
        status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory to read what the processor is");
    } else {
        FACET_KIT_TEXT(info.name, *model ? model : "Processor");
        FACET_KIT_TEXT(info.vendor, vendor);
        FACET_KIT_TEXT(info.driver_version, FACET_VERSION);
        name_device(&info);
        *ret_features = features;
        *ret_info = info;
    }
    free(model);
    free(vendor);
    return status;
}
