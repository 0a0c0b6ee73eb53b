/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet devices`. Never: needs a daemon, but asks a running daemon about a single device, for more detail. */
#include <inttypes.h>
#include <stdio.h>

#include <facet/limits.h>
#include <facet/session.h>

#include "client.h"
#include "device/describe.h"
#include "device/json.h"
#include "device_view.h"
#include "inventory.h"
#include "view.h"

static void list_modes(const struct facet_device_record *device, char *buffer, size_t size)
{
    uint32_t modes = facet_device_takes_programs(device) ? device->info.modes : 0;
    size_t used = 0;

    snprintf(buffer, size, "kernels only");
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
    list_modes(device, modes, sizeof modes);
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

/* Warns on standard error, so that standard output has only the list. */
static void warn_refused(const struct command *self, const struct facet_device_table *devices)
{
    for (uint32_t i = 0; i < facet_provider_count(devices); i++) {
        const struct facet_provider_record *provider = facet_provider_at(devices, i);
        if (provider->state == FACET_PROVIDER_REFUSED)
            command_warn(self, "provider %s was refused: %s", provider->name, provider->reason.message);
    }
}

static int print_list(const struct command *self, const struct facet_device_table *devices, bool json)
{
    const struct facet_device_record *first;
    struct facet_error error = {0};

    if (json)
        return inventory_print_json(self, facet_device_table_json(devices));
    if (facet_device_table_find(devices, NULL, &first, &error) != FACET_OK) {
        inventory_explain(&error);
        return command_refuse(self, json, &error, "install a driver, or pocl-opencl-icd to use the processor");
    }
    return print_table(self, devices);
}

/* A running daemon's answer, which also names the owners of partitions. NULL: no daemon runs, or it refused. */
static json_t *ask_daemon(const struct facet_device_record *device)
{
    CLIENT_CLEANUP struct client client = {0};
    json_t *answer = NULL;
    char path[FACET_DEVICE_ID_SIZE + 16];

    snprintf(path, sizeof path, "/v1/devices/%s", device->id);
    if (client_open(&client, false, NULL) != FACET_OK ||
        client_call(&client, "GET", path, NULL, &answer, NULL) != FACET_OK)
        return NULL;
    return answer;
}

static enum facet_status ask_provider(const struct facet_device_record *device, json_t **ret_json,
                                      struct facet_error *error)
{
    struct facet_session *session;

    enum facet_status status = facet_session_open(device->provider->path, NULL, &session, error);
    if (status != FACET_OK)
        return status;
    *ret_json = facet_device_describe(device, facet_session_provider(session), facet_session_instance(session),
                                      device->info.index);
    facet_session_close(session);
    return *ret_json ? FACET_OK : facet_error_set(error, FACET_NO_MEMORY, "no memory for device %s", device->id);
}

static int print_device(const struct command *self, const struct facet_device_table *devices, const char *text,
                        bool json)
{
    const struct facet_device_record *device;
    CLIENT_CLEANUP_JSON json_t *answer = NULL;
    struct facet_error error = {0};

    if (facet_device_table_find(devices, text, &device, &error) != FACET_OK) {
        inventory_explain(&error);
        return command_refuse(self, json, &error, NULL);
    }
    answer = ask_daemon(device);
    if (!answer && ask_provider(device, &answer, &error) != FACET_OK)
        return command_refuse(self, json, &error, NULL);
    return json ? command_print_json(answer) : device_print(self, answer);
}

static int run_devices(const struct command *self, int argc, char **argv)
{
    bool json = false;
    int status = EXIT_DONE;
    struct facet_error error = {0};
    INVENTORY_CLEANUP struct facet_device_table *devices = NULL;

    if (!command_options_plain(self, argc, argv, &json, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 1, "the device"))
        return EXIT_USAGE;
    if (inventory_open(&devices, &error) != FACET_OK)
        return command_refuse(self, json, &error, NULL);
    if (optind < argc)
        return print_device(self, devices, argv[optind], json);
    warn_refused(self, devices);
    inventory_warn(self, devices);
    return print_list(self, devices, json);
}

const struct command command_devices = {
    .name = "devices",
    .help = "usage: facet devices [DEVICE] [--json]\n"
            "\n"
            "Lists the accelerators that the providers find on this machine, or shows one in\n"
            "full: its modes, its capabilities, the partitions that it can be cut into and\n"
            "where they fit now, the existing partitions and their owners, and its links. No\n"
            "daemon is needed, and nothing is changed. A device without modes runs kernels,\n"
            "but no programs, and is listed last.\n"
            "\n"
            "  --json    print everything that is known, as JSON\n"
            "\n"
            "DEVICE is an id, a uuid, or a line's number in the list, counted from 0, as -d\n"
            "takes it in 'facet run' and 'facet vgpu create'.\n",
    .run = run_devices,
};
