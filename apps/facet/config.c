/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet config`. Never: changes a setting: they come from the environment, and the daemon's also from its file.
 */
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/session.h>

#include "../facetd/conf.h"
#include "base/paths.h"
#include "base/variables.h"
#include "command.h"
#include "launch_variable.h"
#include "unknown.h"
#include "view.h"

enum { LINE_WIDTH = 80, INDENT = 4 };

/* One setting or variable as it is now. */
struct row {
    const struct facet_setting *setting; /* NULL: the row shows a variable, not a setting */
    const char *variable, *help;
    char value[FACET_PATH_SIZE]; /* empty when there is none */
    const char *from;            /* "environment", "default", "unset", or "invalid" */
    struct facet_error error;    /* of an invalid value */
};

/* The value that the program uses when the setting is not given. */
static void default_value(uint32_t id, char *value, size_t size)
{
    char *slash;

    value[0] = '\0';
    if (id == FACET_SETTING_RUNTIME_DIR)
        (void)facet_path_runtime(value, size, NULL);
    else if (id == FACET_SETTING_STATE_DIR)
        (void)facet_path_state(value, size, NULL);
    else if (id == FACET_SETTING_CACHE_DIR)
        (void)facet_path_cache(value, size, NULL);
    else if (id == FACET_SETTING_LIB_DIR && facet_path_shipped("facetd", value, size, NULL) == FACET_OK &&
             (slash = strrchr(value, '/')))
        *slash = '\0';
}

static void look_up_setting(uint32_t id, struct row *row)
{
    uint64_t ignored;
    const char *text = facet_config_text((enum facet_setting_id)id);
    const struct facet_setting *setting = facet_config_setting(id);

    *row = (struct row){.setting = setting,
                        .variable = setting->variable,
                        .help = setting->help,
                        .from = text && text != setting->fallback ? "environment" : "default"};
    if (!text)
        default_value(id, row->value, sizeof row->value);
    else
        snprintf(row->value, sizeof row->value, "%s", text);
    if (text && setting->parse && setting->parse(setting, text, &ignored, &row->error) != FACET_OK)
        row->from = "invalid";
}

/* Marks a folder without Facet's files as invalid, as every program that searches there refuses it. */
static void check_lib_dir(struct row *row)
{
    char path[FACET_PATH_SIZE];

    if (strcmp(row->from, "environment") == 0 &&
        facet_path_shipped("facetd", path, sizeof path, &row->error) != FACET_OK)
        row->from = "invalid";
}

/* Opens the simulated provider, which reads the variable, and returns its complaint about the variable, if any. */
static enum facet_status ask_simulation(const char *variable, struct facet_error *error)
{
    struct facet_session *session = NULL;
    struct facet_error reason = {0};
    char path[FACET_PATH_SIZE];

    if (facet_path_shipped("facet-provider-sim.so", path, sizeof path, &reason) != FACET_OK)
        return FACET_OK; /* without the provider, no program reads the variable */
    enum facet_status status = facet_session_open(path, NULL, &session, &reason);
    facet_session_close(session);
    if (status == FACET_OK || !strstr(reason.message, variable))
        return FACET_OK; /* a refusal that does not name this variable is due to another variable */
    return facet_error_argument(error, status, variable, "%s", reason.message);
}

static void look_up_variable(const struct facet_variable *variable, struct row *row)
{
    const char *value = getenv(variable->name);
    bool is_set = value && *value;

    *row = (struct row){.variable = variable->name, .help = variable->help, .from = is_set ? "environment" : "unset"};
    snprintf(row->value, sizeof row->value, "%s", is_set ? value : "");
    enum facet_status status = facet_variable_check(variable, value, &row->error);
    if (status == FACET_OK && variable->form == FACET_VARIABLE_LIBRARY)
        status = launch_check_library(variable->name, &row->error);
    if (is_set && variable->form == FACET_VARIABLE_SIMULATION)
        status = ask_simulation(variable->name, &row->error);
    if (status != FACET_OK)
        row->from = "invalid";
}

/* The settings come first, then the variables. False past the last one. */
static bool row_at(uint32_t index, struct row *row)
{
    const struct facet_variable *variable = NULL;

    if (index < FACET_SETTING_COUNT)
        look_up_setting(index, row);
    else if ((variable = facet_variable_at(index - FACET_SETTING_COUNT)))
        look_up_variable(variable, row);
    if (index == FACET_SETTING_LIB_DIR)
        check_lib_dir(row);
    return index < FACET_SETTING_COUNT || variable;
}

static json_t *row_json(const struct row *row)
{
    bool invalid = strcmp(row->from, "invalid") == 0;

    return json_pack("{s:s*, s:s, s:s*, s:s, s:s*, s:s}", "name", row->setting ? row->setting->name : NULL, "variable",
                     row->variable, "value", row->value[0] ? row->value : NULL, "from", row->from, "reason",
                     invalid ? row->error.message : NULL, "help", row->help);
}

static json_t *unknown_json(void)
{
    json_t *list = json_array();
    char name[UNKNOWN_NAME_SIZE];
    const char *value, *nearest;

    for (size_t at = 0; unknown_next(&at, name, &value, &nearest);)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s*}", "variable", name, "value", value, "did_you_mean", nearest));
    return list;
}

/* ---- the daemon's file ---- */

/* The file, and what is wrong with it. */
struct daemon_file {
    struct conf conf;
    struct facet_error error; /* status FACET_OK: nothing */
};

/* `path` NULL: the default, which need not exist. */
static void read_daemon_file(const char *path, struct daemon_file *ret_file)
{
    ret_file->error.status = FACET_OK;
    (void)conf_read(path ? path : CONF_DEFAULT_PATH, path != NULL, &ret_file->conf, &ret_file->error);
}

/* Whether this user may not read the file, which is no fault of the file. */
static bool is_hidden(const struct daemon_file *file)
{
    return file->error.status == FACET_PERMISSION && !file->conf.exists;
}

static json_t *daemon_file_json(const struct daemon_file *file)
{
    json_t *values = json_object();

    for (uint32_t id = 0; id < FACET_SETTING_COUNT; id++)
        if (file->conf.values[id][0])
            json_object_set_new(values, facet_config_setting(id)->name, json_string(file->conf.values[id]));
    return json_pack("{s:s, s:b, s:o, s:s*}", "path", file->conf.path, "exists", file->conf.exists, "settings", values,
                     "reason", file->error.status != FACET_OK ? file->error.message : NULL);
}

static void print_daemon_file(const struct daemon_file *file)
{
    if (is_hidden(file))
        printf("\nA daemon that is not private reads a file: %s\n", file->error.message);
    if (!file->conf.exists)
        return;
    printf("\nA daemon that is not private reads %s:\n", file->conf.path);
    for (uint32_t id = 0; id < FACET_SETTING_COUNT; id++)
        if (file->conf.values[id][0])
            printf("%*s%s = %s\n", INDENT, "", facet_config_setting(id)->name, file->conf.values[id]);
}

static int print_json(const struct command *self, const struct daemon_file *file)
{
    json_t *list = json_array(), *variables = json_array();
    struct row row;
    int failed = 0;

    for (uint32_t i = 0; row_at(i, &row); i++)
        failed |= json_array_append_new(row.setting ? list : variables, row_json(&row));
    json_t *settings = json_pack("{s:o, s:o, s:o, s:o}", "settings", list, "variables", variables, "unknown",
                                 unknown_json(), "daemon_file", daemon_file_json(file));
    int status = settings && !failed ? command_print_json(settings) : command_out_of_memory(self);
    json_decref(settings);
    return status;
}

static int print_table(const struct command *self)
{
    static const struct view_column columns[] = {{"VARIABLE", 0}, {"VALUE", 0}, {"FROM", 0}, {NULL, 0}};
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    bool complete = table != NULL;
    char name[UNKNOWN_NAME_SIZE];
    const char *value, *nearest;
    struct row row;

    for (uint32_t i = 0; complete && row_at(i, &row); i++)
        complete = view_row(table, (const char *const[]){row.variable, row.value, row.from}, 3);
    for (size_t at = 0; complete && unknown_next(&at, name, &value, &nearest);)
        complete = view_row(table, (const char *const[]){name, value, "unknown"}, 3);
    return complete && scols_print_table(table) == 0 ? EXIT_DONE : command_out_of_memory(self);
}

/* Prints `text` in lines of at most LINE_WIDTH columns, each indented. */
static void print_paragraph(const char *text)
{
    size_t column = 0;

    while (*text) {
        size_t length = strcspn(text, " ");
        if (column && column + 1 + length > LINE_WIDTH - INDENT) {
            putchar('\n');
            column = 0;
        }
        printf("%*s%.*s", column ? 1 : INDENT, "", (int)length, text);
        column += (column ? 1 : 0) + length;
        text += length + strspn(text + length, " ");
    }
    putchar('\n');
}

static void print_help(void)
{
    struct row row;

    for (uint32_t i = 0; row_at(i, &row); i++) {
        printf("\n%s\n", row.variable);
        print_paragraph(row.help);
    }
}

/* Prints a line for each refused value. Returns the exit status of the first. */
static int refuse_invalid(const struct command *self, const struct daemon_file *file)
{
    int status = EXIT_DONE;
    struct row row;

    if (file->error.status != FACET_OK && !is_hidden(file))
        status = command_refuse(self, false, &file->error, NULL);

    for (uint32_t i = 0; row_at(i, &row); i++)
        if (strcmp(row.from, "invalid") == 0) {
            int refused = command_refuse(self, false, &row.error, NULL);
            status = status == EXIT_DONE ? refused : status;
        }
    return status;
}

static int run_config(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        COMMAND_OPTION_JSON, COMMAND_OPTION_HELP, {"file", required_argument, NULL, 'f'}, COMMAND_OPTION_END};
    const char *path = NULL;
    struct daemon_file file;
    bool json = false;
    int option;

    while ((option = command_option(self, argc, argv, ":h", words)) != -1) {
        if (option == OPTION_JSON)
            json = true;
        else if (option == 'f')
            path = optarg;
        else
            return option == 'h' ? command_help(self) : EXIT_USAGE;
    }
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    read_daemon_file(path, &file);
    int status = json ? print_json(self, &file) : print_table(self);
    if (status == EXIT_DONE && !json) {
        print_daemon_file(&file);
        print_help();
    }
    if (status == EXIT_DONE)
        unknown_warn(self);
    return status == EXIT_DONE ? refuse_invalid(self, &file) : status;
}

const struct command command_config = {
    .name = "config",
    .help = "usage: facet config [--json] [--file FILE]\n"
            "\n"
            "Shows every setting, its value now and where that comes from. Settings are\n"
            "environment variables. Those of providers, interposers and integrations follow.\n"
            "A daemon that is not private also reads " CONF_DEFAULT_PATH ", whose\n"
            "values are shown if there is such a file; the daemon's variables go before it.\n"
            "A private daemon has the settings and the providers' variables of whoever\n"
            "started it, and of other variables what FACET_KEEP_ENV names.\n"
            "\n"
            "A value that its reader refuses is shown as invalid, with the reason; a name\n"
            "that begins with FACET_ and is none of these as unknown.\n"
            "\n"
            "  --json       print them as JSON\n"
            "  --file FILE  check and show FILE instead of " CONF_DEFAULT_PATH "\n",
    .run = run_config,
};
