/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: checking the daemon's answer before a program gets it; see launch_answer.h. Never: sets a variable. */
#include "launch_answer.h"

#include <stdint.h>
#include <string.h>

#include "base/paths.h"
#include "command.h"

#define DEVICES "_VISIBLE_DEVICES"
#define CAPITAL "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
#define LISTED  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:/_-"

enum facet_status launch_answer_check_segment(const char *segment, struct facet_error *error)
{
    return facet_path_trust_folder(segment, error);
}

static bool consists_of(const char *text, const char *characters)
{
    return text[strspn(text, characters)] == '\0';
}

/* "CUDA_VISIBLE_DEVICES", and its counterparts of other vendors' providers. */
static bool selects_devices(const char *name)
{
    size_t length = strlen(name), ending = strlen(DEVICES);

    return length > ending && strcmp(name + length - ending, DEVICES) == 0 && consists_of(name, CAPITAL);
}

/* Whether Facet defines the variable, and its value is valid; else `ret_why` says why not. */
static bool is_ours(const char *name, const char *value, struct facet_error *ret_why)
{
    bool fits = false;

    facet_error_set(ret_why, FACET_PERMISSION, "Facet sets no such value");
    if (!value)
        return false;
    if (selects_devices(name))
        fits = consists_of(value, LISTED);
    else if (strcmp(name, "POCL_AFFINITY") == 0)
        fits = consists_of(value, "0123456789");
    else if (strcmp(name, "FACET_SIM_PROFILE") == 0)
        fits = facet_path_trust_file(value, ret_why) == FACET_OK;
    else if (strcmp(name, "FACET_SIM_STATE") == 0)
        fits = facet_path_trust_folder(value, ret_why) == FACET_OK;
    else
        facet_error_set(ret_why, FACET_PERMISSION, "Facet defines no such variable");
    return fits;
}

enum facet_status launch_answer_add_environment(const struct command *self, const json_t *vgpu, json_t *environment,
                                                struct facet_error *error)
{
    json_t *vgpu_variables = json_object_get(vgpu, "environment"), *value;
    const char *name;
    struct facet_error reason;

    json_object_foreach (vgpu_variables, name, value) {
        if (!is_ours(name, json_string_value(value), &reason))
            command_warn(self, "the program is not given the daemon's %.64s: %s", name, reason.message);
        else if (json_object_set(environment, name, value) != 0)
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for the program's variables");
    }
    return FACET_OK;
}
