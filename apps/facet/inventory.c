/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening the table with checked settings. Never: decides what is shown. */
#include "inventory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/surroundings.h"
#include "base/variables.h"
#include "client_environment.h"

enum facet_status inventory_open_own_environment(struct facet_device_table **ret_table, struct facet_error *error)
{
    enum facet_status status = facet_config_check(error);

    return status == FACET_OK ? facet_device_table_open(NULL, ret_table, error) : status;
}

/*
 * The variables that are removed from this process's environment, and by which drivers would be found: one for each of
 * `providers`, and the first of any provider. NULL: there is none.
 */
static const char *const providers[] = {"cuda", "rocm", "ascend", "opencl"};
static const char *left_out[sizeof providers / sizeof providers[0]], *first_left_out;

static void note_left_out(void)
{
    first_left_out = client_environment_first_left_out();
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++)
        left_out[i] = client_environment_left_out(providers[i]);
}

void inventory_explain(struct facet_error *error)
{
    const char *variable = facet_config_setting(FACET_SETTING_KEEP_ENV)->variable;
    size_t used = strlen(error->message);

    if (first_left_out && strcmp(error->argument, "device") == 0)
        snprintf(error->message + used, sizeof error->message - used, "; " CLIENT_LEFT_OUT, first_left_out, variable,
                 first_left_out);
}

static const char *reason_left_out(const struct facet_provider_record *provider)
{
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++)
        if (provider->device_count == 0 && strcmp(providers[i], provider->name) == 0)
            return left_out[i];
    return NULL;
}

static void warn_of_paths(const struct command *self)
{
    const struct facet_variable *variable;

    for (uint32_t i = 0; (variable = facet_variable_at(i)); i++) {
        const char *path = variable->is_path ? getenv(variable->name) : NULL;

        if (path && strchr(path, '/') && access(path, F_OK) < 0)
            command_warn(self, "%s '%s': %s", variable->name, path, strerror(errno));
    }
}

void inventory_warn(const struct command *self, const struct facet_device_table *devices)
{
    const char *variable = facet_config_setting(FACET_SETTING_KEEP_ENV)->variable;

    warn_of_paths(self);
    for (uint32_t i = 0; i < facet_provider_count(devices); i++) {
        const char *missing = reason_left_out(facet_provider_at(devices, i));

        if (missing)
            command_warn(self, "provider %s finds no device: " CLIENT_LEFT_OUT, facet_provider_at(devices, i)->name,
                         missing, variable, missing);
    }
}

enum facet_status inventory_open(struct facet_device_table **ret_table, struct facet_error *error)
{
    facet_surroundings_raise_limits();
    note_left_out();
    if (!facet_surroundings_clean_environment(true))
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the environment");
    return inventory_open_own_environment(ret_table, error);
}

int inventory_print_json(const struct command *self, json_t *json)
{
    int status = json ? command_print_json(json) : command_out_of_memory(self);

    json_decref(json);
    return status;
}
