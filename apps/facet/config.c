/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet config`. Never: changes a setting; all come from the environment. */
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"
#include "base/variables.h"
#include "command.h"
#include "view.h"

enum { LINE_WIDTH = 80, INDENT = 4 };

/* One setting as it is now. */
struct row {
    const struct facet_setting *setting;
    char value[FACET_PATH_SIZE]; /* empty when there is none */
    const char *from;            /* "environment", "default", or "invalid" */
    struct facet_error error;    /* of an invalid one */
};

/* The value that the program uses when the setting is not given. */
static void work_out(uint32_t id, char *value, size_t size)
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

static void look_up(uint32_t id, struct row *row)
{
    uint64_t ignored;
    const char *text = facet_config_text((enum facet_setting_id)id);
    const struct facet_setting *setting = facet_config_setting(id);

    *row = (struct row){.setting = setting, .from = text && text != setting->fallback ? "environment" : "default"};
    if (!text)
        work_out(id, row->value, sizeof row->value);
    else
        snprintf(row->value, sizeof row->value, "%s", text);
    if (text && setting->parse && setting->parse(setting, text, &ignored, &row->error) != FACET_OK)
        row->from = "invalid";
}

static json_t *row_json(const struct row *row)
{
    return json_pack("{s:s, s:s, s:s*, s:s, s:s}", "name", row->setting->name, "variable", row->setting->variable,
                     "value", row->value[0] ? row->value : NULL, "from", row->from, "help", row->setting->help);
}

/* Of a provider, an interposer or an integration: the code that reads the variable checks its value. */
static json_t *variable_json(const struct facet_variable *variable)
{
    const char *value = getenv(variable->name);

    return json_pack("{s:s, s:s*, s:s}", "variable", variable->name, "value", value && *value ? value : NULL, "help",
                     variable->help);
}

static int print_json(const struct command *self)
{
    json_t *list = json_array(), *variables = json_array();
    const struct facet_variable *variable;
    struct row row;
    int failed = 0;

    for (uint32_t id = 0; facet_config_setting(id); id++) {
        look_up(id, &row);
        failed |= json_array_append_new(list, row_json(&row));
    }
    for (uint32_t i = 0; (variable = facet_variable_at(i)); i++)
        failed |= json_array_append_new(variables, variable_json(variable));
    json_t *settings = json_pack("{s:o, s:o}", "settings", list, "variables", variables);
    int status = settings && !failed ? command_print_json(settings) : command_out_of_memory(self);
    json_decref(settings);
    return status;
}

static int print_table(const struct command *self)
{
    static const struct view_column columns[] = {{"VARIABLE", 0}, {"VALUE", 0}, {"FROM", 0}, {NULL, 0}};
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    bool complete = table != NULL;
    const struct facet_variable *variable;
    struct row row;

    for (uint32_t id = 0; complete && facet_config_setting(id); id++) {
        look_up(id, &row);
        complete = view_row(table, (const char *const[]){row.setting->variable, row.value, row.from}, 3);
    }
    for (uint32_t i = 0; complete && (variable = facet_variable_at(i)); i++) {
        const char *value = getenv(variable->name);
        bool is_set = value && *value;
        complete = view_row(
            table, (const char *const[]){variable->name, is_set ? value : "", is_set ? "environment" : "unset"}, 3);
    }
    return complete && scols_print_table(table) == 0 ? EXIT_DONE : command_out_of_memory(self);
}

/* Words on lines of at most LINE_WIDTH columns, indented. */
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
    const struct facet_setting *setting;
    const struct facet_variable *variable;

    for (uint32_t id = 0; (setting = facet_config_setting(id)); id++) {
        printf("\n%s\n", setting->variable);
        print_paragraph(setting->help);
    }
    for (uint32_t i = 0; (variable = facet_variable_at(i)); i++) {
        printf("\n%s\n", variable->name);
        print_paragraph(variable->help);
    }
}

static int run(const struct command *self, int argc, char **argv)
{
    bool json = false;
    int status = EXIT_DONE;
    struct facet_error error = {0};

    if (!command_options_plain(self, argc, argv, &json, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    status = json ? print_json(self) : print_table(self);
    if (status == EXIT_DONE && !json)
        print_help();
    if (status == EXIT_DONE && facet_config_check(&error) != FACET_OK)
        return command_refuse(self, false, &error, NULL);
    return status;
}

const struct command command_config = {
    .name = "config",
    .help = "usage: facet config [--json]\n"
            "\n"
            "Shows every setting, its value now and where that comes from. Settings are\n"
            "environment variables. Those of providers, interposers and integrations follow.\n"
            "A private daemon has the settings and the providers' variables of whoever\n"
            "started it, and of other variables what FACET_KEEP_ENV names.\n"
            "\n"
            "  --json    print them as JSON\n",
    .run = run,
};
