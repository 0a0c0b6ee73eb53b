/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening the table with checked settings. Never: decides what is shown. */
#include "inventory.h"

#include "base/config.h"
#include "base/surroundings.h"

enum facet_status inventory_open_own(struct facet_device_table **ret_table, struct facet_error *error)
{
    enum facet_status status = facet_config_check(error);

    return status == FACET_OK ? facet_device_table_open(NULL, ret_table, error) : status;
}

enum facet_status inventory_open(struct facet_device_table **ret_table, struct facet_error *error)
{
    facet_surroundings_raise_limits();
    if (!facet_surroundings_clean_environment(true))
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the environment");
    return inventory_open_own(ret_table, error);
}

int inventory_print_json(const struct command *self, json_t *json)
{
    int status = json ? command_print_json(json) : command_out_of_memory(self);

    json_decref(json);
    return status;
}
