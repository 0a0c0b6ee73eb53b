/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet provider`. Never: hides a refused provider or its reason. */
#include <inttypes.h>
#include <stdio.h>

#include "device/json.h"
#include "inventory.h"
#include "provider_check.h"
#include "view.h"

static bool add_provider(struct libscols_table *table, const struct facet_provider_record *provider)
{
    bool loaded = provider->state == FACET_PROVIDER_LOADED;
    char abi[VIEW_SIZE], devices[VIEW_SIZE];

    snprintf(abi, sizeof abi, "%u.%u", provider->abi_major, provider->abi_minor);
    snprintf(devices, sizeof devices, "%" PRIu32, provider->device_count);
    return view_row(table,
                    (const char *const[]){
                        provider->name,
                        loaded ? "loaded" : "refused",
                        provider->version,
                        loaded ? abi : NULL,
                        loaded ? devices : NULL,
                        loaded ? provider->description : provider->reason.message,
                    },
                    6);
}

static int print_table(const struct command *self, const struct facet_device_table *devices)
{
    static const struct view_column columns[] = {
        {"NAME", 0}, {"STATE", 0}, {"VERSION", 0}, {"ABI", 0}, {"DEVICES", SCOLS_FL_RIGHT}, {"ABOUT", 0}, {NULL, 0},
    };
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    bool complete = table != NULL;

    for (uint32_t i = 0; complete && i < facet_provider_count(devices); i++)
        complete = add_provider(table, facet_provider_at(devices, i));
    return complete && scols_print_table(table) == 0 ? EXIT_DONE : command_out_of_memory(self);
}

static int run_list(const struct command *self, int argc, char **argv)
{
    bool json = false;
    int status = EXIT_DONE;
    struct facet_error error = {0};
    INVENTORY_CLEANUP struct facet_device_table *devices = NULL;

    if (!command_options_plain(self, argc, argv, &json, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    if (inventory_open(&devices, &error) != FACET_OK)
        return command_refuse(self, json, &error, NULL);
    inventory_warn(self, devices);
    return json ? inventory_print_json(self, facet_provider_table_json(devices)) : print_table(self, devices);
}

static const struct command list = {
    .name = "provider list",
    .help = "usage: facet provider list [--json]\n"
            "\n"
            "Lists the providers that were found, the refused ones with the reason. A\n"
            "provider is tried out in a process of its own first, so that one that crashes\n"
            "harms no other program.\n"
            "\n"
            "  --json    print path, version and ABI too, as JSON\n",
    .run = run_list,
};

static const struct command *const children[] = {&list, &command_provider_check, NULL};

const struct command command_provider = {
    .name = "provider",
    .help = "usage: facet provider list|check [...]\n"
            "\n"
            "A provider drives the devices of one vendor's runtime.\n"
            "\n"
            "  list     list the providers, the refused ones with the reason\n"
            "  check    check a provider's file against the contract, with the reasons\n",
    .children = children,
    .run = command_dispatch,
};
