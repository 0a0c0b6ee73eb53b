/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: comparing this shell's variables with the daemon's; see client_environment.h. Never: changes one. */
#include "client_environment.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/paths.h"
#include "base/variables.h"

enum { NAMES_SIZE = 128 };

/* Variables by which some installations find drivers: without them, programs see no device and get no error. */
static const char *const finder_variables[] = {"LD_LIBRARY_PATH", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES",
                                               "OPENCL_VENDOR_PATH"};

static void add_name(char names[NAMES_SIZE], const char *name, size_t length)
{
    size_t used = strlen(names);

    snprintf(names + used, NAMES_SIZE - used, "%s%.*s", used ? ", " : "", (int)length, name);
}

/* Adds the variables that are set here, and unset or different in the daemon. */
static void compare_ours(const json_t *theirs, char names[NAMES_SIZE])
{
    for (char **entry = environ; entry && *entry; entry++) {
        size_t length = strcspn(*entry, "=");
        const char *value = (*entry)[length] ? *entry + length + 1 : "";
        char name[64];

        if (!*value || !facet_variable_is_of_devices(*entry))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length, *entry);
        const char *their_value = json_string_value(json_object_get(theirs, name));
        if (!their_value || strcmp(their_value, value) != 0)
            add_name(names, *entry, length);
    }
}

/* Adds the variables that are set in the daemon only, or that a daemon started by this shell would not keep. */
static void compare_theirs(const json_t *theirs, char names[NAMES_SIZE])
{
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)theirs, name, value) {
        const char *our_value = getenv(name);

        if (!our_value || !*our_value || !facet_variable_is_of_devices(name))
            add_name(names, name, strlen(name));
    }
}

/* The sonames by which providers find their drivers. */
static const struct driver {
    const char *provider, *pattern;
} drivers[] = {
    {"cuda", "libcuda.so.1"}, {"rocm", "libamdhip64.so*"}, {"ascend", "libascendcl.so*"}, {"opencl", "libOpenCL.so.1"}};

static bool is_in_folders(const char *folders, const char *pattern)
{
    char path[FACET_PATH_SIZE];

    for (size_t length; *folders; folders += length + (folders[length] == ':')) {
        glob_t found = {0};

        length = strcspn(folders, ":");
        if (snprintf(path, sizeof path, "%.*s/%s", (int)length, folders, pattern) >= (int)sizeof path)
            continue;
        bool is_there = length && glob(path, GLOB_NOSORT, NULL, &found) == 0;
        globfree(&found);
        if (is_there)
            return true;
    }
    return false;
}

const char *client_environment_left_out(const char *provider)
{
    const char *folders = getenv(finder_variables[0]), *left_out = client_environment_first_left_out();

    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++)
        if (strcmp(provider, drivers[i].provider) == 0 && folders &&
            !facet_variable_is_of_devices(finder_variables[0]) && is_in_folders(folders, drivers[i].pattern))
            return finder_variables[0];
    return strcmp(provider, "opencl") == 0 && left_out != finder_variables[0] ? left_out : NULL;
}

const char *client_environment_first_left_out(void)
{
    for (size_t i = 0; i < sizeof finder_variables / sizeof finder_variables[0]; i++) {
        const char *value = getenv(finder_variables[i]);
        if (value && *value && !facet_variable_is_of_devices(finder_variables[i]))
            return finder_variables[i];
    }
    return NULL;
}

bool client_environment_differs(const json_t *health, char *ret_advice, size_t size)
{
    const json_t *theirs = json_object_get(health, "environment");
    long long pid = json_integer_value(json_object_get(health, "pid"));
    char names[NAMES_SIZE] = "";

    if (!json_is_object(theirs))
        return false;
    compare_ours(theirs, names);
    compare_theirs(theirs, names);
    if (names[0])
        snprintf(ret_advice, size,
                 "the daemon (process %lld) was started with other values of %s: end it, or choose another %s", pid,
                 names, facet_config_setting(FACET_SETTING_RUNTIME_DIR)->variable);
    return names[0];
}

void client_environment_advise(const json_t *health, char *ret_advice, size_t size)
{
    const char *variable = facet_config_setting(FACET_SETTING_KEEP_ENV)->variable,
               *left_out = client_environment_first_left_out();

    if (json_is_object(json_object_get(health, "environment")) &&
        !client_environment_differs(health, ret_advice, size) && left_out)
        snprintf(ret_advice, size, CLIENT_LEFT_OUT, left_out, variable, left_out);
}
