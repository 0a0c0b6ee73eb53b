/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet devices`. Never: needs a daemon: the device table is opened in process. */
#include <inttypes.h>
#include <stdio.h>

#include <facet/limits.h>

#include "device/json.h"
#include "inventory.h"
#include "view.h"

static void list_modes(uint32_t modes, char *buffer, size_t size)
{
    size_t used = 0;

    buffer[0] = '\0';
    for (uint32_t mode = 0; mode < 32 && used < size; mode++) {
        const char *name = modes & FACET_DEVICE_MODE(mode) ? facet_mode_name((enum facet_mode)mode) : NULL;
        if (name)
            used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? "," : "", name);
    }
}

static bool add_device(struct libscols_table *table, const struct facet_device_record *device)
{
    const struct facet_device_info *info = &device->info;
    char memory[VIEW_SIZE], units[VIEW_SIZE], modes[64];
    bool simulated = device->provider->traits & FACET_PROVIDER_SIMULATED;
    char kind[VIEW_SIZE];

    snprintf(kind, sizeof kind, "%s%s", facet_device_kind_name(info->kind), simulated ? " (simulated)" : "");
    snprintf(units, sizeof units, "%" PRIu32, info->compute_units);
    list_modes(info->modes, modes, sizeof modes);
    return view_row(table,
                    (const char *const[]){
                        device->id,
                        info->name,
                        kind,
                        info->valid & FACET_DEVICE_HAS_MEMORY ? view_memory(info->memory_bytes, memory) : NULL,
                        info->valid & FACET_DEVICE_HAS_COMPUTE_UNITS ? units : NULL,
                        modes,
                        facet_health_name(device->health),
                    },
                    7);
}

static int print_table(const struct command *self, const struct facet_device_table *devices)
{
    static const struct view_column columns[] = {
        {"ID", 0},
        {"NAME", SCOLS_FL_TRUNC},
        {"KIND", 0},
        {"MEMORY", SCOLS_FL_RIGHT},
        {"UNITS", SCOLS_FL_RIGHT},
        {"MODES", 0},
        {"HEALTH", 0},
        {NULL, 0},
    };
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    bool complete = table != NULL;

    for (uint32_t i = 0; complete && i < facet_device_table_count(devices); i++)
        complete = add_device(table, facet_device_table_at(devices, i));
    return complete && scols_print_table(table) == 0 ? EXIT_DONE : command_out_of_memory(self);
}

/* On standard error, so that the list stays a list. */
static void warn_refused(const struct command *self, const struct facet_device_table *devices)
{
    for (uint32_t i = 0; i < facet_provider_count(devices); i++) {
        const struct facet_provider_record *provider = facet_provider_at(devices, i);
        if (provider->state == FACET_PROVIDER_REFUSED)
            command_warn(self, "provider %s was refused: %s", provider->name, provider->reason.message);
    }
}

static int run(const struct command *self, int argc, char **argv)
{
    bool json = false;
    int status = EXIT_DONE;
    struct facet_error error = {0};
    const struct facet_device_record *first;
    INVENTORY_CLEANUP struct facet_device_table *devices = NULL;

    if (!command_options_plain(self, argc, argv, &json, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    if (inventory_open(&devices, &error) != FACET_OK)
        return command_refuse(self, json, &error, NULL);
    warn_refused(self, devices);
    if (json)
        return inventory_print_json(self, facet_device_table_json(devices));
    if (facet_device_table_find(devices, NULL, &first, &error) != FACET_OK)
        return command_refuse(self, json, &error, "install a driver, or pocl-opencl-icd to use the processor");
    return print_table(self, devices);
}

const struct command command_devices = {
    .name = "devices",
    .help = "usage: facet devices [--json]\n"
            "\n"
            "Lists the accelerators that the providers find on this machine. No daemon is\n"
            "needed, and nothing is changed.\n"
            "\n"
            "  --json    print everything that is known, as JSON\n"
            "\n"
            "ID is what -d takes in 'facet run' and 'facet vgpu create'; a bare number\n"
            "counts the lines of this list from 0.\n",
    .run = run,
};
