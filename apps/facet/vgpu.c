/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet vgpu` and its verbs. Never: decides anything; the daemon does. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "request.h"
#include "vgpu_view.h"
#include "view.h"

/* The options of all verbs together. */
struct options {
    struct request request;
    bool json, force, no_start;
};

#define COMMON_WORDS {"no-start", no_argument, NULL, OPTION_NO_START}, COMMAND_OPTION_JSON, COMMAND_OPTION_HELP

/* False: the caller returns *ret_exit. */
static bool read_options(const struct command *self, int argc, char **argv, const char *letters,
                         const struct option *words, struct options *options, int *ret_exit)
{
    int option;

    while ((option = command_option(self, argc, argv, letters, words)) != -1) {
        if (request_option(&options->request, option, optarg))
            continue;
        if (option == 'h' || option == '?') {
            *ret_exit = option == 'h' ? command_help(self) : EXIT_USAGE;
            return false;
        }
        options->json |= option == OPTION_JSON;
        options->force |= option == OPTION_FORCE;
        options->no_start |= option == OPTION_NO_START;
    }
    return true;
}

static int refuse_with_advice(const struct command *self, const struct options *options,
                              const struct facet_error *error, const struct client *client)
{
    return command_refuse(self, options->json, error, client->advice);
}

static void warn_of_vgpu(const struct command *self, const json_t *vgpu)
{
    if (view_has(vgpu, "warning"))
        command_warn(self, "%s", view_text(vgpu, "warning"));
}

static int run_create(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {REQUEST_WORDS, COMMON_WORDS, COMMAND_OPTION_END};
    struct options options = {0};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    CLIENT_CLEANUP_JSON json_t *body = NULL, *vgpu = NULL;
    int status = EXIT_DONE;

    if (!read_options(self, argc, argv, ":h" REQUEST_LETTERS, words, &options, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    if (request_check(&options.request, &error) != FACET_OK ||
        client_open(&client, !options.no_start, &error) != FACET_OK ||
        request_body(&options.request, &client, options.request.device, &body, &error) != FACET_OK ||
        client_call(&client, "POST", "/v1/vgpus", body, &vgpu, &error) != FACET_OK)
        return refuse_with_advice(self, &options, &error, &client);
    if (client.environment_note[0])
        command_warn(self, "%s", client.environment_note);
    warn_of_vgpu(self, vgpu);
    if (options.json)
        return command_print_json(vgpu);
    puts(view_text(vgpu, "name"));
    return EXIT_DONE;
}

static bool has_label(const json_t *vgpu, const char *wanted)
{
    char key[FACET_LABEL_KEY_MOST + 2];
    const char *value = request_split_label(wanted, key);
    const char *present = json_string_value(json_object_get(json_object_get(vgpu, "labels"), key));

    return present && (!value || strcmp(present, value) == 0);
}

/* Removes from the answer the vGPUs that lack a label of the request. */
static void keep_labelled(json_t *answer, const struct request *request)
{
    json_t *vgpus = json_object_get(answer, "vgpus");

    for (size_t i = json_array_size(vgpus); i-- > 0;)
        for (uint32_t k = 0; k < request->label_count; k++)
            if (!has_label(json_array_get(vgpus, i), request->labels[k])) {
                json_array_remove(vgpus, i);
                break;
            }
}

static int run_list(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        {"label", required_argument, NULL, OPTION_LABEL}, COMMON_WORDS, COMMAND_OPTION_END};
    struct options options = {0};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    CLIENT_CLEANUP_JSON json_t *answer = NULL;
    int status = EXIT_DONE;

    if (!read_options(self, argc, argv, ":h", words, &options, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    if (request_check_filter(&options.request, &error) != FACET_OK)
        return command_refuse(self, options.json, &error, NULL);
    if (client_open(&client, !options.no_start, &error) != FACET_OK ||
        client_call(&client, "GET", "/v1/vgpus", NULL, &answer, &error) != FACET_OK)
        return refuse_with_advice(self, &options, &error, &client);
    keep_labelled(answer, &options.request);
    if (options.json)
        return command_print_json(answer);
    if (json_array_size(json_object_get(answer, "vgpus")) == 0 && options.request.label_count) {
        fprintf(stderr, "no virtual GPU has %s%s\n", options.request.label_count > 1 ? "all of these labels" : "label ",
                options.request.label_count > 1 ? "" : options.request.labels[0]);
        return EXIT_DONE;
    }
    if (json_array_size(json_object_get(answer, "vgpus")) == 0) {
        fprintf(stderr, "no virtual GPUs; 'facet vgpu create' makes one, 'facet run' makes its own\n");
        return EXIT_DONE;
    }
    return vgpu_print_list(self, answer);
}

/* Runs show, freeze or resume: makes one call about one vGPU. */
static int call_one_vgpu(const struct command *self, int argc, char **argv, const char *method, const char *suffix,
                         int (*print)(const struct command *self, const json_t *vgpu))
{
    static const struct option words[] = {COMMON_WORDS, COMMAND_OPTION_END};
    struct options options = {0};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    CLIENT_CLEANUP_JSON json_t *vgpu = NULL;
    int status = EXIT_DONE;

    if (!read_options(self, argc, argv, ":h", words, &options, &status))
        return status;
    if (!command_operands(self, argc, argv, 1, 1, "the vGPU"))
        return EXIT_USAGE;
    if (client_open(&client, !options.no_start, &error) != FACET_OK ||
        client_call_vgpu(&client, method, argv[optind], suffix, NULL, &vgpu, &error) != FACET_OK)
        return refuse_with_advice(self, &options, &error, &client);
    if (options.json)
        return command_print_json(vgpu);
    return print ? print(self, vgpu) : EXIT_DONE;
}

static int run_show(const struct command *self, int argc, char **argv)
{
    return call_one_vgpu(self, argc, argv, "GET", "", vgpu_print_card);
}

static int run_freeze(const struct command *self, int argc, char **argv)
{
    return call_one_vgpu(self, argc, argv, "POST", "/freeze", NULL);
}

static int run_resume(const struct command *self, int argc, char **argv)
{
    return call_one_vgpu(self, argc, argv, "POST", "/resume", NULL);
}

/* A percentage of memory means the vGPU's own device, which only the daemon knows. */
static enum facet_status patch_vgpu(struct client *client, const char *ref, const struct request *request,
                                    json_t **ret_vgpu, struct facet_error *error)
{
    CLIENT_CLEANUP_JSON json_t *body = NULL, *before = NULL;
    enum facet_status status = client_call_vgpu(client, "GET", ref, "", NULL, &before, error);

    if (status == FACET_OK)
        status = request_body(request, client, view_text(before, "device"), &body, error);
    if (status == FACET_OK)
        status = client_call_vgpu(client, "PATCH", ref, "", body, ret_vgpu, error);
    return status;
}

static int run_set(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {REQUEST_LIMIT_WORDS, COMMON_WORDS, COMMAND_OPTION_END};
    struct options options = {0};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    CLIENT_CLEANUP_JSON json_t *vgpu = NULL;
    int status = EXIT_DONE;

    if (!read_options(self, argc, argv, ":h" REQUEST_LIMIT_LETTERS, words, &options, &status))
        return status;
    if (!command_operands(self, argc, argv, 1, 1, "the vGPU"))
        return EXIT_USAGE;
    if (!request_first_given(&options.request))
        return command_usage(self, "nothing to set; give -m, -c, --priority, --idle-freeze or --label");
    if (request_check(&options.request, &error) != FACET_OK ||
        client_open(&client, !options.no_start, &error) != FACET_OK ||
        patch_vgpu(&client, argv[optind], &options.request, &vgpu, &error) != FACET_OK)
        return refuse_with_advice(self, &options, &error, &client);
    warn_of_vgpu(self, vgpu);
    return options.json ? command_print_json(vgpu) : EXIT_DONE;
}

static int run_destroy(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {{"force", no_argument, NULL, OPTION_FORCE}, COMMON_WORDS, COMMAND_OPTION_END};
    struct options options = {0};
    struct facet_error error = {0};
    CLIENT_CLEANUP struct client client = {0};
    int status = EXIT_DONE;

    if (!read_options(self, argc, argv, ":h", words, &options, &status))
        return status;
    if (!command_operands(self, argc, argv, 1, argc, "the vGPU"))
        return EXIT_USAGE;
    if (client_open(&client, !options.no_start, &error) != FACET_OK)
        return refuse_with_advice(self, &options, &error, &client);
    for (int i = optind; i < argc; i++) {
        CLIENT_CLEANUP_JSON json_t *answer = NULL;
        if (client_call_vgpu(&client, "DELETE", argv[i], options.force ? "?force=1" : "", NULL, &answer, &error) !=
            FACET_OK)
            status = refuse_with_advice(self, &options, &error, &client);
        else
            warn_of_vgpu(self, answer);
        if (answer && options.json)
            command_print_json(answer);
    }
    return status;
}

#define COMMON_HELP                                                                                                    \
    "      --no-start           do not start a daemon when none is running\n"                                          \
    "      --json               print the daemon's answer, as JSON\n"

static const char *const repeats_label[] = {"--label", NULL};

static const struct command create = {
    .name = "vgpu create",
    .help = "usage: facet vgpu create [-d DEVICE] [-m MEMORY] [-c REQUEST[:LIMIT]]\n"
            "                         [--mode MODE] [--template T] [--priority P]\n"
            "                         [--idle-freeze S] [--reservation R] [--name NAME]\n"
            "                         [--oversubscribe] [--label KEY=VALUE] [--json]\n"
            "\n"
            "Creates a virtual GPU that stays until it is destroyed, across restarts of the\n"
            "daemon and of the machine, and prints its name. Programs run in it through\n"
            "'facet run --vgpu NAME'.\n"
            "\n"
            "  -d, --device DEVICE      an id, uuid or index of 'facet devices'; default 0\n"
            "  -m, --memory MEMORY      quota: 512M, 2G, 50%; default all of the device's\n"
            "  -c, --compute REQ[:LIM]  guaranteed share and cap: 30, 0.3, 30:60; default\n"
            "                           best effort without a cap\n"
            "      --mode MODE          shared, soft, hard or partitioned; default soft\n"
            "      --template T         of 'facet devices DEVICE', when partitioned; default\n"
            "                           the smallest that holds MEMORY and REQUEST\n"
            "      --priority P         low, normal or high; default normal\n"
            "      --idle-freeze S      freeze when idle for S seconds, until the next launch\n"
            "      --reservation R      within what 'facet place' reserved: its first device\n"
            "                           that can be used, and as much by default; hard\n"
            "                           cannot have more\n"
            "      --oversubscribe      swap its memory to the host's when others need the\n"
            "                           device's, so that quotas may sum above it (CUDA)\n"
            "      --name NAME          default vgpu-1, vgpu-2, ...\n"
            "      --label KEY=VALUE    a mark to find it by ('facet vgpu list --label KEY');\n"
            "                           repeat it for several\n" COMMON_HELP,
    .repeats = repeats_label,
    .run = run_create,
};

static const struct command list = {
    .name = "vgpu list",
    .help = "usage: facet vgpu list [--label KEY[=VALUE]] [--no-start] [--json]\n"
            "\n"
            "Lists the virtual GPUs: the share asked for (REQUEST:CAP), the share measured\n"
            "over the last second, memory used and its limit, and the processes inside.\n"
            "\n"
            "      --label KEY[=VALUE]  only those with this label; repeat it for several\n" COMMON_HELP,
    .repeats = repeats_label,
    .run = run_list,
};

static const struct command show = {
    .name = "vgpu show",
    .help = "usage: facet vgpu show VGPU [--no-start] [--json]\n"
            "\n"
            "Shows everything about one virtual GPU, given by name or id.\n"
            "\n" COMMON_HELP,
    .run = run_show,
};

static const struct command set = {
    .name = "vgpu set",
    .help = "usage: facet vgpu set VGPU [-m MEMORY] [-c REQUEST[:LIMIT]] [--priority P]\n"
            "                          [--idle-freeze S] [--label KEY=VALUE]\n"
            "\n"
            "Changes limits while programs run. A memory quota below what is in use refuses\n"
            "new allocations until enough is freed. Memory and compute of the modes hard and\n"
            "partitioned are set once, when the virtual GPU is created.\n"
            "\n"
            "  -m, --memory MEMORY      quota: 512M, 2G, 50%\n"
            "  -c, --compute REQ[:LIM]  guaranteed share and cap: 30, 0.3, 30:60\n"
            "      --priority P         low, normal or high\n"
            "      --idle-freeze S      freeze after S seconds without a launch; 0: never\n"
            "      --label KEY=VALUE    add or change this label; KEY= removes it\n" COMMON_HELP,
    .repeats = repeats_label,
    .run = run_set,
};

static const struct command freeze = {
    .name = "vgpu freeze",
    .help = "usage: facet vgpu freeze VGPU [--no-start] [--json]\n"
            "\n"
            "Stops admitting work of the virtual GPU; its programs wait, its memory stays.\n"
            "A frozen one stays frozen.\n"
            "\n" COMMON_HELP,
    .run = run_freeze,
};

static const struct command resume = {
    .name = "vgpu resume",
    .help = "usage: facet vgpu resume VGPU [--no-start] [--json]\n"
            "\n"
            "Lets a frozen virtual GPU go on.\n"
            "\n" COMMON_HELP,
    .run = run_resume,
};

static const struct command destroy = {
    .name = "vgpu destroy",
    .help = "usage: facet vgpu destroy VGPU... [--force] [--no-start] [--json]\n"
            "\n"
            "Removes virtual GPUs. Refused while programs run inside, unless forced: then\n"
            "their work is admitted no more.\n"
            "\n"
            "      --force              even while programs run inside, or while the device's\n"
            "                           provider is lost: its part is given back later\n" COMMON_HELP,
    .run = run_destroy,
};

static const struct command *const children[] = {&create, &list, &show, &set, &freeze, &resume, &destroy, NULL};

const struct command command_vgpu = {
    .name = "vgpu",
    .help = "usage: facet vgpu create|list|show|set|freeze|resume|destroy ...\n"
            "\n"
            "A virtual GPU is a device with a memory quota and a share of its time.\n"
            "\n"
            "  create     make one that stays until it is destroyed\n"
            "  list       list them\n"
            "  show       show everything about one\n"
            "  set        change its limits while programs run\n"
            "  freeze     stop admitting its work\n"
            "  resume     let it go on\n"
            "  destroy    remove it\n",
    .children = children,
    .run = command_dispatch,
};
