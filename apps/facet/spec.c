/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet spec`: showing, checking and rendering documents for orchestrators. Never: starts a daemon. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/workload.h>

#include "base/cleanup.h"
#include "device/node.h"
#include "inventory.h"
#include "view.h"

enum { CHOSEN_MAX = 256 };

static void drop_violations(struct facet_violations **violations)
{
    facet_violations_destroy(*violations);
}
#define CLEANUP_VIOLATIONS __attribute__((cleanup(drop_violations)))

static void drop_spec(struct facet_spec **spec)
{
    facet_spec_destroy(*spec);
}
#define CLEANUP_SPEC __attribute__((cleanup(drop_spec)))

static void drop_workload(struct facet_workload **workload)
{
    facet_workload_destroy(*workload);
}
#define CLEANUP_WORKLOAD __attribute__((cleanup(drop_workload)))

/* --- show ------------------------------------------------------------------------------------------------------- */

static bool add_slot(struct libscols_table *table, const struct facet_spec_slot *slot)
{
    char amount[FACET_AMOUNT_SIZE];

    facet_amount_format(slot->amount_micro, amount, FACET_AMOUNT_SIZE);
    return view_row(table,
                    (const char *const[]){slot->slot_name, facet_slot_type_name(slot->type),
                                          slot->valid & FACET_SPEC_SLOT_HAS_AMOUNT ? amount : NULL, slot->description},
                    4);
}

static bool add_device(struct libscols_table *table, const struct facet_spec_device *device)
{
    char memory[VIEW_SIZE], node[VIEW_SIZE], units[VIEW_SIZE];

    snprintf(node, sizeof node, "%" PRIu32, device->numa_node);
    snprintf(units, sizeof units, "%" PRIu64, device->processing_units);
    return view_row(table,
                    (const char *const[]){
                        device->device_name,
                        device->device_id,
                        device->model_name,
                        device->valid & FACET_SPEC_DEVICE_HAS_MEMORY ? view_memory(device->total_memory, memory) : NULL,
                        device->valid & FACET_SPEC_DEVICE_HAS_PROCESSING ? units : NULL,
                        device->valid & FACET_SPEC_DEVICE_HAS_NUMA ? node : NULL,
                        facet_spec_health_name(device->health),
                    },
                    7);
}

static int print_spec(const struct command *self, const struct facet_spec *spec)
{
    static const struct view_column slot_columns[] = {
        {"SLOT", 0}, {"TYPE", 0}, {"AMOUNT", SCOLS_FL_RIGHT}, {"ABOUT", SCOLS_FL_TRUNC}, {NULL, 0}};
    static const struct view_column device_columns[] = {{"DEVICE", 0},
                                                        {"ID", 0},
                                                        {"MODEL", SCOLS_FL_TRUNC},
                                                        {"MEMORY", SCOLS_FL_RIGHT},
                                                        {"UNITS", SCOLS_FL_RIGHT},
                                                        {"NODE", SCOLS_FL_RIGHT},
                                                        {"HEALTH", 0},
                                                        {NULL, 0}};
    VIEW_CLEANUP_TABLE struct libscols_table *slots = view_table(slot_columns);
    VIEW_CLEANUP_TABLE struct libscols_table *devices = view_table(device_columns);
    struct facet_spec_slot slot = {.size = sizeof slot};
    struct facet_spec_device device = {.size = sizeof device};
    bool complete = slots && devices;

    for (uint32_t i = 0; complete && facet_spec_get_slot(spec, i, &slot, NULL) == FACET_OK; i++)
        complete = add_slot(slots, &slot);
    for (uint32_t i = 0; complete && facet_spec_get_device(spec, i, &device, NULL) == FACET_OK; i++)
        complete = add_device(devices, &device);
    if (complete && facet_spec_device_count(spec) == 0) {
        puts("no devices; 'facet provider list' says why");
        return EXIT_DONE;
    }
    if (!complete || scols_print_table(slots) != 0)
        return command_out_of_memory(self);
    putchar('\n');
    return scols_print_table(devices) == 0 ? EXIT_DONE : command_out_of_memory(self);
}

struct show {
    bool json;
    const char *chosen[CHOSEN_MAX];
    uint32_t count;
};

static bool read_show(const struct command *self, int argc, char **argv, struct show *show, int *ret_exit)
{
    static const struct option words[] = {
        COMMAND_OPTION_JSON, COMMAND_OPTION_HELP, {"device", required_argument, NULL, 'd'}, COMMAND_OPTION_END};
    int option;

    while ((option = command_option(self, argc, argv, ":hd:", words)) != -1) {
        if (option == OPTION_JSON) {
            show->json = true;
        } else if (option == 'd' && show->count < CHOSEN_MAX) {
            show->chosen[show->count++] = optarg;
        } else if (option == 'd') {
            *ret_exit = command_usage(self, "--device '%.64s': expected at most %d devices", optarg, CHOSEN_MAX);
            return false;
        } else {
            *ret_exit = option == 'h' ? command_help(self) : EXIT_USAGE;
            return false;
        }
    }
    *ret_exit = EXIT_USAGE;
    return command_operands(self, argc, argv, 0, 0, "");
}

/* Finds the indices of the devices that were named, each once. */
static enum facet_status choose_devices(const struct facet_device_table *devices, const struct show *show,
                                        uint32_t *ret_chosen, uint32_t *ret_count, struct facet_error *error)
{
    const struct facet_device_record *device;

    for (uint32_t i = 0; i < show->count; i++) {
        enum facet_status status = facet_device_table_find(devices, show->chosen[i], &device, error);
        uint32_t index = 0, position = 0;
        if (status != FACET_OK)
            return status;
        while (facet_device_table_at(devices, index) != device)
            index++;
        while (position < *ret_count && ret_chosen[position] != index)
            position++;
        if (position == *ret_count)
            ret_chosen[(*ret_count)++] = index;
    }
    return FACET_OK;
}

static int refuse_show(const struct command *self, const struct show *show, struct facet_error *error)
{
    inventory_explain(error);
    return command_refuse(self, show->json, error, NULL);
}

static int run_show(const struct command *self, int argc, char **argv)
{
    struct show show = {0};
    struct facet_error error = {0};
    INVENTORY_CLEANUP struct facet_device_table *devices = NULL;
    CLEANUP_SPEC struct facet_spec *spec = NULL;
    FACET_CLEANUP_FREE char *text = NULL;
    uint32_t chosen[CHOSEN_MAX], count = 0;
    int status = EXIT_DONE;

    if (!read_show(self, argc, argv, &show, &status))
        return status;
    if (inventory_open(&devices, &error) != FACET_OK ||
        choose_devices(devices, &show, chosen, &count, &error) != FACET_OK ||
        facet_node_describe(&(struct facet_node_config){.devices = devices, .chosen = chosen, .count = count}, &spec,
                            &error) != FACET_OK ||
        facet_spec_write(spec, &text, &error) != FACET_OK)
        return refuse_show(self, &show, &error);
    if (!show.json)
        return print_spec(self, spec);
    fputs(text, stdout);
    return EXIT_DONE;
}

static const struct command show = {
    .name = "spec show",
    .help = "usage: facet spec show [-d DEVICE]... [--json]\n"
            "\n"
            "Describes this node for an orchestrator: the resource slots and how much of each\n"
            "there is, and the devices with their memory, units, NUMA nodes and health. A\n"
            "device that is cut into partitions gives those, in slots of their own, and not\n"
            "itself. No daemon is needed, and nothing is changed.\n"
            "\n"
            "  -d, --device DEVICE   only this one; may be given more than once\n"
            "      --json            print the whole document: 'facet spec schema node' is\n"
            "                        its form\n",
    .repeats = (const char *const[]){"--device", NULL},
    .run = run_show,
};

/* --- documents from files --------------------------------------------------------------------------------------- */

static enum facet_status read_stream(FILE *file, const char *name, char **ret_text, size_t *ret_bytes,
                                     struct facet_error *error)
{
    size_t bytes = 0, capacity = 65536;
    FACET_CLEANUP_FREE char *text = NULL;

    for (;;) {
        char *larger = realloc(text, capacity);
        if (!larger)
            return facet_error_errno(error, ENOMEM, "no memory for '%.80s'", name);
        text = larger;
        bytes += fread(text + bytes, 1, capacity - bytes, file);
        if (bytes < capacity || bytes > FACET_DOCUMENT_BYTES)
            break;
        capacity *= 2;
    }
    if (ferror(file))
        return facet_error_errno(error, errno, "cannot read '%.80s'", name);
    *ret_bytes = bytes;
    *ret_text = FACET_TAKE_PTR(text);
    return FACET_OK;
}

static enum facet_status read_document(const char *name, char **ret_text, size_t *ret_bytes, struct facet_error *error)
{
    FACET_CLEANUP_FILE FILE *file = NULL;

    if (strcmp(name, "-") == 0)
        return read_stream(stdin, "standard input", ret_text, ret_bytes, error);
    file = fopen(name, "re");
    if (!file)
        return facet_error_errno(error, errno, "cannot read '%.80s'", name);
    return read_stream(file, name, ret_text, ret_bytes, error);
}

/* The kind of document with that name. False: there is none. */
static bool find_kind(const char *name, uint32_t *ret_kind)
{
    for (uint32_t kind = 0; facet_document_name(kind); kind++) {
        if (strcmp(facet_document_name(kind), name) == 0) {
            *ret_kind = kind;
            return true;
        }
    }
    return false;
}

/* The kind that a document names; a node document when it names none. */
static uint32_t guess_kind(const char *text, size_t bytes)
{
    json_t *json = json_loadb(text, bytes, 0, NULL);
    const char *format = json_string_value(json_object_get(json, "format"));
    bool workload = format && strcmp(format, "facet-accelerator-workload") == 0;

    json_decref(json);
    return workload ? FACET_DOCUMENT_WORKLOAD : FACET_DOCUMENT_NODE;
}

/* --- validate --------------------------------------------------------------------------------------------------- */

struct check {
    bool json;
    bool has_kind; /* --schema was given */
    uint32_t kind; /* valid only with `has_kind` */
};

static bool read_check(const struct command *self, int argc, char **argv, struct check *check, int *ret_exit)
{
    static const struct option words[] = {COMMAND_OPTION_JSON,
                                          COMMAND_OPTION_HELP,
                                          {"schema", required_argument, NULL, OPTION_SCHEMA},
                                          COMMAND_OPTION_END};
    int option;

    while ((option = command_option(self, argc, argv, ":h", words)) != -1) {
        if (option == OPTION_JSON) {
            check->json = true;
        } else if (option == OPTION_SCHEMA && find_kind(optarg, &check->kind)) {
            check->has_kind = true;
        } else if (option == OPTION_SCHEMA) {
            *ret_exit = command_usage(self, "schema '%s' is not known; expected node or workload", optarg);
            return false;
        } else {
            *ret_exit = option == 'h' ? command_help(self) : EXIT_USAGE;
            return false;
        }
    }
    *ret_exit = EXIT_USAGE;
    return command_operands(self, argc, argv, 1, 1, "FILE");
}

static int print_violations_json(const struct command *self, const char *kind,
                                 const struct facet_violations *violations)
{
    struct facet_violation violation = {.size = sizeof violation};
    json_t *list = json_array();

    for (uint32_t i = 0; facet_violations_get(violations, i, &violation, NULL) == FACET_OK; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "pointer", violation.pointer, "message", violation.message));
    json_t *json = json_pack("{s:b, s:s, s:I, s:o}", "valid", facet_violations_total(violations) == 0, "schema", kind,
                             "total", (json_int_t)facet_violations_total(violations), "violations", list);
    return inventory_print_json(self, json);
}

/* Prints `text`, the name of a file or member, without control characters, and then what `format` makes. */
static void print_line(const char *text, const char *format, ...) FACET_PRINTF(2, 3);
static void print_line(const char *text, const char *format, ...)
{
    va_list arguments;

    for (; *text; text++)
        putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

static void print_violations(const char *name, const struct facet_violations *violations)
{
    uint64_t total = facet_violations_total(violations);
    uint32_t shown = facet_violations_count(violations);
    struct facet_violation violation = {.size = sizeof violation};

    for (uint32_t i = 0; facet_violations_get(violations, i, &violation, NULL) == FACET_OK; i++)
        print_line(violation.pointer[0] ? violation.pointer : "(document)", ": %s", violation.message);
    if (total == 0)
        print_line(name, ": valid");
    else if (shown < total)
        print_line(name, ": %" PRIu64 " violations, of which the first %" PRIu32 " are shown", total, shown);
    else
        print_line(name, ": %" PRIu64 " violation%s", total, total == 1 ? "" : "s");
}

static int run_validate(const struct command *self, int argc, char **argv)
{
    struct check check = {0};
    struct facet_error error = {0};
    CLEANUP_VIOLATIONS struct facet_violations *violations = NULL;
    FACET_CLEANUP_FREE char *text = NULL;
    size_t bytes = 0;
    int status = EXIT_DONE;

    if (!read_check(self, argc, argv, &check, &status))
        return status;
    if (read_document(argv[optind], &text, &bytes, &error) != FACET_OK)
        return command_refuse(self, check.json, &error, NULL);
    uint32_t kind = check.has_kind ? check.kind : guess_kind(text, bytes);
    if (facet_document_check(kind, text, bytes, &violations, &error) != FACET_OK) {
        command_refuse(self, check.json, &error, NULL);
        return EXIT_REFUSED;
    }
    if (check.json)
        print_violations_json(self, facet_document_name(kind), violations);
    else
        print_violations(argv[optind], violations);
    return facet_violations_total(violations) ? EXIT_REFUSED : EXIT_DONE;
}

static const struct command validate = {
    .name = "spec validate",
    .help = "usage: facet spec validate [--schema NAME] [--json] FILE|-\n"
            "\n"
            "Checks a node document or a workload's configuration and prints all that is\n"
            "wrong with it, a line each: where, as a JSON pointer, and what was expected. The\n"
            "exit status is 1 when it is not valid.\n"
            "\n"
            "      --schema NAME   node or workload; else what the document calls itself\n"
            "      --json          print the list as JSON\n",
    .run = run_validate,
};

/* --- schema ----------------------------------------------------------------------------------------------------- */

static int run_schema(const struct command *self, int argc, char **argv)
{
    bool json = false;
    int status = EXIT_DONE;
    uint32_t kind = 0;

    if (!command_options_plain(self, argc, argv, &json, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 1, "NAME"))
        return EXIT_USAGE;
    if (optind == argc) {
        for (; facet_document_name(kind); kind++)
            puts(facet_document_name(kind));
        return EXIT_DONE;
    }
    if (!find_kind(argv[optind], &kind))
        return command_usage(self, "schema '%s' is not known; expected node or workload", argv[optind]);
    fputs(facet_document_schema(kind), stdout);
    return EXIT_DONE;
}

static const struct command schema = {
    .name = "spec schema",
    .help = "usage: facet spec schema [NAME]\n"
            "\n"
            "Prints the JSON Schema (2020-12) of a document, node or workload, for any\n"
            "validator; without a name, the names.\n",
    .run = run_schema,
};

/* --- render ----------------------------------------------------------------------------------------------------- */

struct render {
    bool partial, json;
    uint32_t form;
    const char *to, *device, *profile;
    char kind[256];
};

static int refuse_form(const struct command *self, const char *text)
{
    return command_usage(self, text ? "form '%s' is not known; expected docker, oci, cdi or env" : "--to is missing",
                         text);
}

/* "vendor.com/class=name" */
static bool read_cdi(const struct command *self, const char *text, struct render *render, int *ret_exit)
{
    const char *equals = strchr(text, '=');

    if (equals && (size_t)(equals - text) < sizeof render->kind) {
        snprintf(render->kind, sizeof render->kind, "%.*s", (int)(equals - text), text);
        render->device = equals + 1;
        return true;
    }
    *ret_exit = command_usage(self, "CDI name '%s': expected vendor/class=name", text);
    return false;
}

static bool read_render_option(const struct command *self, int option, struct render *render, int *ret_exit)
{
    switch (option) {
    case OPTION_JSON: /* the output is JSON without the option, too; refusals are with it */
        render->json = true;
        return true;
    case OPTION_PARTIAL:
        render->partial = true;
        return true;
    case OPTION_SECCOMP:
        render->profile = optarg;
        return true;
    case OPTION_CDI:
        return read_cdi(self, optarg, render, ret_exit);
    case OPTION_TO:
        render->to = optarg;
        for (render->form = 0; facet_render_name(render->form); render->form++)
            if (strcmp(facet_render_name(render->form), optarg) == 0)
                return true;
        *ret_exit = refuse_form(self, optarg);
        return false;
    default:
        *ret_exit = option == 'h' ? command_help(self) : EXIT_USAGE;
        return false;
    }
}

static bool read_render(const struct command *self, int argc, char **argv, struct render *render, int *ret_exit)
{
    static const struct option words[] = {COMMAND_OPTION_HELP,
                                          COMMAND_OPTION_JSON,
                                          {"to", required_argument, NULL, OPTION_TO},
                                          {"cdi", required_argument, NULL, OPTION_CDI},
                                          {"seccomp", required_argument, NULL, OPTION_SECCOMP},
                                          {"partial", no_argument, NULL, OPTION_PARTIAL},
                                          COMMAND_OPTION_END};
    int option;

    while ((option = command_option(self, argc, argv, ":h", words)) != -1)
        if (!read_render_option(self, option, render, ret_exit))
            return false;
    *ret_exit = EXIT_USAGE;
    if (!render->to)
        refuse_form(self, NULL);
    return render->to && command_operands(self, argc, argv, 1, 1, "FILE");
}

static enum facet_status render_file(const char *name, const struct render *render, char **ret_text,
                                     struct facet_violations **ret_unset, struct facet_error *error)
{
    FACET_CLEANUP_FREE char *text = NULL;
    FACET_CLEANUP_FREE char *profile = NULL;
    CLEANUP_WORKLOAD struct facet_workload *workload = NULL;
    size_t bytes = 0, profile_bytes = 0;
    enum facet_status status = read_document(name, &text, &bytes, error);

    if (status == FACET_OK && render->profile)
        status = read_document(render->profile, &profile, &profile_bytes, error);
    if (status == FACET_OK)
        status = facet_workload_read(text, bytes, &workload, error);
    char *terminated = profile ? realloc(profile, profile_bytes + 1) : NULL;
    if (terminated) {
        profile = terminated;
        profile[profile_bytes] = '\0';
    }
    if (status != FACET_OK || (profile && !terminated))
        return status != FACET_OK ? status : facet_error_errno(error, ENOMEM, "no memory for the profile");
    const struct facet_render_options options = {.size = sizeof options,
                                                 .cdi_kind = render->device ? render->kind : NULL,
                                                 .cdi_device = render->device,
                                                 .seccomp_profile = profile};
    return facet_workload_render(workload, render->form, &options, ret_text, render->partial ? ret_unset : NULL, error);
}

static int run_render(const struct command *self, int argc, char **argv)
{
    struct render render = {0};
    struct facet_error error = {0};
    struct facet_violation unset_item = {.size = sizeof unset_item};
    CLEANUP_VIOLATIONS struct facet_violations *unset_settings = NULL;
    FACET_CLEANUP_FREE char *text = NULL;
    int status = EXIT_DONE;

    if (!read_render(self, argc, argv, &render, &status))
        return status;
    if (render_file(argv[optind], &render, &text, &unset_settings, &error) != FACET_OK) {
        /* Only a member that the form lacks can be left out. With the argument `workload` nothing would remain. */
        bool partial = error.status == FACET_UNSUPPORTED && strcmp(error.argument, "workload") != 0;
        command_refuse(self, render.json, &error, partial ? "use --partial to render the rest" : NULL);
        return EXIT_REFUSED;
    }
    for (uint32_t i = 0; facet_violations_get(unset_settings, i, &unset_item, NULL) == FACET_OK; i++)
        command_warn(self, "%s is left to you: %s", unset_item.pointer + 1, unset_item.message);
    fputs(text, stdout);
    return EXIT_DONE;
}

static const struct command render = {
    .name = "spec render",
    .help = "usage: facet spec render --to docker|oci|cdi|env [--partial] [--cdi NAME]\n"
            "                         [--seccomp FILE] [--json] FILE|-\n"
            "\n"
            "Prints a workload's configuration as what a container engine takes, as JSON: the\n"
            "body of Docker's POST /containers/create, what is merged into an OCI runtime's\n"
            "config.json, a CDI specification, or the environment of a process. What the form\n"
            "cannot say is an error.\n"
            "\n"
            "      --to FORM        docker, oci, cdi or env\n"
            "      --partial        leave out what the form cannot say, with a warning each\n"
            "      --cdi NAME       vendor.com/class=name of the CDI device that is made\n"
            "      --seccomp FILE   the profile that allowed system calls are added to\n"
            "      --json           print refusals as JSON, too; the form always is JSON\n",
    .run = run_render,
};

const struct command command_spec = {
    .name = "spec",
    .help = "usage: facet spec show|validate|schema|render ...\n"
            "\n"
            "What orchestrators read: the node's slots and devices, and what a workload needs\n"
            "to use them.\n"
            "\n"
            "  show       describe this node\n"
            "  validate   check a document, and say all that is wrong with it\n"
            "  schema     print the JSON Schema of a document\n"
            "  render     write a workload's configuration for Docker, OCI, CDI or exec\n",
    .children = (const struct command *const[]){&show, &validate, &schema, &render, NULL},
    .run = command_dispatch,
};
