/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet place`: reserving parts of this node's devices, and its verbs. Never: decides; the daemon does. */
#include "place.h"

#include <stdio.h>
#include <string.h>

#include <facet/limits.h>
#include <facet/spec.h>

#include "client.h"
#include "view.h"

#define FOLDER "/v1/reservations/"

/* The options of all verbs together. Borrowed from argv, except the slots. */
struct options {
    json_t *slots;
    const char *strategy, *affinity, *name, *render;
    bool dry_run, json, no_start;
};

static void drop_options(struct options *options)
{
    json_decref(options->slots);
}
#define CLEANUP_OPTIONS __attribute__((cleanup(drop_options)))

#define COMMON_WORDS {"no-start", no_argument, NULL, OPTION_NO_START}, COMMAND_OPTION_JSON, COMMAND_OPTION_HELP

/* --- options ------------------------------------------------------------------------------------------------------ */

/* Takes --slot sim.device=0.5. Checks as much as is possible without a daemon. */
static bool add_slot(const struct command *self, struct options *options, const char *text)
{
    const char *equals = strchr(text, '=');
    struct facet_spec_slot_name parts;
    struct facet_error error;
    char slot[160];
    int64_t amount;

    if (!equals || equals - text >= (ptrdiff_t)sizeof slot) {
        command_usage(self, "--slot '%.160s': expected NAME=AMOUNT, such as sim.device=0.5", text);
        return false;
    }
    snprintf(slot, sizeof slot, "%.*s", (int)(equals - text), text);
    if (facet_spec_parse_slot_name(slot, &parts, &error) != FACET_OK ||
        facet_amount_parse(equals + 1, "amount", &amount, &error) != FACET_OK) {
        command_usage(self, "--slot '%.160s': %s", text, error.message);
        return false;
    }
    if (json_object_get(options->slots, slot)) {
        command_usage(self, "--slot '%.160s': expected each slot once", text);
        return false;
    }
    if (!options->slots)
        options->slots = json_object();
    return json_object_set_new(options->slots, slot, json_string(equals + 1)) == 0;
}

static bool take_option(const struct command *self, struct options *options, int option)
{
    switch (option) {
    case OPTION_SLOT:
        return add_slot(self, options, optarg);
    case OPTION_STRATEGY:
        options->strategy = optarg;
        return true;
    case OPTION_AFFINITY:
        options->affinity = optarg;
        return true;
    case OPTION_NAME:
        options->name = optarg;
        return true;
    case OPTION_RENDER:
        options->render = optarg;
        return true;
    case OPTION_DRY_RUN:
        return options->dry_run = true;
    case OPTION_JSON:
        return options->json = true;
    case OPTION_NO_START:
        return options->no_start = true;
    default:
        return false;
    }
}

/* False: the caller returns *ret_exit. */
static bool read_options(const struct command *self, int argc, char **argv, const struct option *words,
                         struct options *options, int *ret_exit)
{
    int option;

    *ret_exit = EXIT_USAGE;
    while ((option = command_option(self, argc, argv, ":h", words)) != -1) {
        if (option == 'h')
            *ret_exit = command_help(self);
        if (option == 'h' || !take_option(self, options, option))
            return false;
    }
    return true;
}

static bool is_one_of(const char *text, const char *const *names)
{
    while (*names && strcmp(*names, text) != 0)
        names++;
    return *names != NULL;
}

static enum facet_status check_options(const struct options *options, struct facet_error *error)
{
    static const char *const strategies[] = {"evenly", "fill", NULL};
    static const char *const affinities[] = {"none", "interleaved", "prefer-single-node", NULL};
    static const char *const forms[] = {"docker", "oci", "cdi", "env", "environment", NULL};

    if (options->strategy && !is_one_of(options->strategy, strategies))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "strategy",
                                    "strategy '%.40s': expected evenly or fill", options->strategy);
    if (options->affinity && !is_one_of(options->affinity, affinities))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "affinity",
                                    "affinity '%.40s': expected none, interleaved or prefer-single-node",
                                    options->affinity);
    if (options->render && !is_one_of(options->render, forms))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "render",
                                    "render '%.40s': expected docker, oci, cdi or environment", options->render);
    return options->name ? facet_check_name(options->name, "name", error) : FACET_OK;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static int refuse_with_advice(const struct command *self, const struct options *options,
                              const struct facet_error *error, const struct client *client)
{
    return command_refuse(self, options->json, error, client->advice);
}

/* Prints only the configuration, for pipes. Warns of the members that the form cannot express. */
static int print_rendered(const struct command *self, const json_t *answer)
{
    const json_t *rendered = json_object_get(answer, "rendered"), *left;
    size_t index;

    if (!rendered)
        return EXIT_REFUSED;
    json_array_foreach (json_object_get(rendered, "left"), index, left)
        command_warn(self, "left to you: %s: %s", view_text(left, "pointer"), view_text(left, "message"));
    return command_print_json(json_object_get(rendered, "configuration"));
}

static int print_answer(const struct command *self, const struct options *options, json_t *answer)
{
    if (view_has(answer, "warning"))
        command_warn(self, "%s", view_text(answer, "warning"));
    if (options->json) {
        int printed = command_print_json(answer);
        return printed == EXIT_DONE && options->render && !view_has(answer, "rendered") ? EXIT_REFUSED : printed;
    }
    if (options->render)
        return print_rendered(self, answer);
    json_t *list = json_pack("[O]", answer);
    int status = list ? place_print_table(self, list) : command_out_of_memory(self);
    json_decref(list);
    return status;
}

static void write_render_query(const struct options *options, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s%s", options->render ? "?render=" : "", options->render ? options->render : "");
}

/* --- verbs -------------------------------------------------------------------------------------------------------- */

static json_t *body_of(const struct options *options)
{
    json_t *body = json_pack("{s:O}", "slots", options->slots);

    if (options->strategy)
        json_object_set_new(body, "strategy", json_string(options->strategy));
    if (options->affinity)
        json_object_set_new(body, "affinity", json_string(options->affinity));
    if (options->name)
        json_object_set_new(body, "name", json_string(options->name));
    if (options->dry_run)
        json_object_set_new(body, "dry_run", json_true());
    return body;
}

static int run_reserve(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {{"slot", required_argument, NULL, OPTION_SLOT},
                                          {"strategy", required_argument, NULL, OPTION_STRATEGY},
                                          {"affinity", required_argument, NULL, OPTION_AFFINITY},
                                          {"name", required_argument, NULL, OPTION_NAME},
                                          {"render", required_argument, NULL, OPTION_RENDER},
                                          {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
                                          COMMON_WORDS,
                                          COMMAND_OPTION_END};
    CLEANUP_OPTIONS struct options options = {0};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    CLIENT_CLEANUP_JSON json_t *body = NULL, *answer = NULL;
    char path[64] = FOLDER;
    int status;

    if (!read_options(self, argc, argv, words, &options, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    if (!options.slots)
        return command_usage(self, "nothing to reserve; give --slot NAME=AMOUNT, 'facet spec show' lists the slots");
    body = body_of(&options);
    write_render_query(&options, path + strlen(FOLDER) - 1, sizeof path - strlen(FOLDER) + 1);
    if (check_options(&options, &error) != FACET_OK || client_open(&client, !options.no_start, &error) != FACET_OK ||
        client_call(&client, "POST", path, body, &answer, &error) != FACET_OK)
        return refuse_with_advice(self, &options, &error, &client);
    if (client.environment_note[0])
        command_warn(self, "%s", client.environment_note);
    return print_answer(self, &options, answer);
}

static int run_list(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {COMMON_WORDS, COMMAND_OPTION_END};
    CLEANUP_OPTIONS struct options options = {0};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    CLIENT_CLEANUP_JSON json_t *answer = NULL;
    int status;

    if (!read_options(self, argc, argv, words, &options, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    if (client_open(&client, !options.no_start, &error) != FACET_OK ||
        client_call(&client, "GET", "/v1/reservations", NULL, &answer, &error) != FACET_OK)
        return refuse_with_advice(self, &options, &error, &client);
    if (options.json)
        return command_print_json(answer);
    if (json_array_size(json_object_get(answer, "reservations")) == 0) {
        fprintf(stderr, "no reservations; 'facet place --slot NAME=AMOUNT' makes one\n");
        return EXIT_DONE;
    }
    return place_print_table(self, json_object_get(answer, "reservations"));
}

static int run_show(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        {"render", required_argument, NULL, OPTION_RENDER}, COMMON_WORDS, COMMAND_OPTION_END};
    CLEANUP_OPTIONS struct options options = {0};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    CLIENT_CLEANUP_JSON json_t *answer = NULL;
    char suffix[32];
    int status;

    if (!read_options(self, argc, argv, words, &options, &status))
        return status;
    if (!command_operands(self, argc, argv, 1, 1, "the reservation"))
        return EXIT_USAGE;
    write_render_query(&options, suffix, sizeof suffix);
    if (check_options(&options, &error) != FACET_OK || client_open(&client, !options.no_start, &error) != FACET_OK ||
        client_call_in(&client, "GET", FOLDER, argv[optind], suffix, NULL, &answer, &error) != FACET_OK)
        return refuse_with_advice(self, &options, &error, &client);
    return print_answer(self, &options, answer);
}

static int run_release(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {COMMON_WORDS, COMMAND_OPTION_END};
    CLEANUP_OPTIONS struct options options = {0};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    int status;

    if (!read_options(self, argc, argv, words, &options, &status))
        return status;
    if (!command_operands(self, argc, argv, 1, argc, "the reservation"))
        return EXIT_USAGE;
    if (client_open(&client, !options.no_start, &error) != FACET_OK)
        return refuse_with_advice(self, &options, &error, &client);
    status = EXIT_DONE;
    for (int i = optind; i < argc; i++) {
        CLIENT_CLEANUP_JSON json_t *answer = NULL;
        if (client_call_in(&client, "DELETE", FOLDER, argv[i], "", NULL, &answer, &error) != FACET_OK)
            status = refuse_with_advice(self, &options, &error, &client);
        else if (options.json)
            command_print_json(answer);
    }
    return status;
}

/* --- the table of verbs ------------------------------------------------------------------------------------------- */

#define COMMON_HELP                                                                                                    \
    "      --no-start         do not start a daemon when none is running\n"                                            \
    "      --json             print the daemon's answer, as JSON\n"

static const struct command list = {
    .name = "place list",
    .help = "usage: facet place list [--no-start] [--json]\n"
            "\n"
            "Lists the reservations of this node, a line for each part: how much of which\n"
            "device, and why it cannot be used when its device is not there.\n"
            "\n" COMMON_HELP,
    .run = run_list,
};

static const struct command show = {
    .name = "place show",
    .help = "usage: facet place show RESERVATION [--render FORM] [--no-start] [--json]\n"
            "\n"
            "Shows one reservation, given by name or id.\n"
            "\n"
            "      --render FORM      print what its container or process tree needs: docker,\n"
            "                         oci, cdi or environment\n" COMMON_HELP,
    .run = run_show,
};

static const struct command release = {
    .name = "place release",
    .help = "usage: facet place release RESERVATION... [--no-start] [--json]\n"
            "\n"
            "Gives reservations back. Refused while a virtual GPU is in one, and a second\n"
            "time.\n"
            "\n" COMMON_HELP,
    .run = run_release,
};

static const struct command *const children[] = {&list, &show, &release, &place_fleet, &place_replay, NULL};

/* Runs the named verb; without one, reserves. */
static int run_place(const struct command *self, int argc, char **argv)
{
    if (argc > 1 && argv[1][0] != '-')
        return command_dispatch(self, argc, argv);
    return run_reserve(self, argc, argv);
}

const struct command command_place = {
    .name = "place",
    .help = "usage: facet place --slot NAME=AMOUNT... [--strategy S] [--affinity A]\n"
            "                   [--name NAME] [--dry-run] [--render FORM] [--json]\n"
            "       facet place list|show|release|fleet|replay ...\n"
            "\n"
            "Reserves amounts of this node's slots, all of them or nothing, and says which\n"
            "devices they are of. A reservation stays until it is released, across restarts\n"
            "of the daemon and of the machine.\n"
            "\n"
            "      --slot NAME=AMOUNT a slot of 'facet spec show' and how much of it:\n"
            "                         sim.device=0.5. May be given more than once\n"
            "      --strategy S       evenly, the default: the device that fits best, else\n"
            "                         equal parts; fill: each device to its end\n"
            "      --affinity A       none, interleaved or prefer-single-node, of NUMA nodes\n"
            "      --name NAME        default reservation-1, reservation-2, ...\n"
            "      --dry-run          say what would be granted, and keep nothing\n"
            "      --render FORM      print what its container or process tree needs: docker,\n"
            "                         oci, cdi or environment\n" COMMON_HELP "\n"
            "  list       list the reservations\n"
            "  show       show one\n"
            "  release    give some back\n"
            "  fleet      choose a node of a fleet for one job\n"
            "  replay     run test vectors of allocation maps\n",
    .children = children,
    .repeats = (const char *const[]){"--slot", NULL},
    .run = run_place,
};
