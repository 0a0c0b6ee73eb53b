/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: dispatch over the tables of verbs, option errors, refusals. Never: knows what a verb does. */
#include "command.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "nearest.h"

enum { LINE_SIZE = 1024, OPTIONS_MOST = 1024 };

static const char *last_word(const struct command *command)
{
    const char *space = strrchr(command->name, ' ');

    return space ? space + 1 : command->name;
}

const struct command *command_child(const struct command *self, const char *word)
{
    for (const struct command *const *child = self->children; child && *child; child++)
        if (strcmp(last_word(*child), word) == 0)
            return *child;
    return NULL;
}

static const char *child_word(const void *list, unsigned index)
{
    const struct command *const *children = list;

    return children && children[index] ? last_word(children[index]) : NULL;
}

static const char *option_word(const void *list, unsigned index)
{
    return ((const struct option *)list)[index].name;
}

/* "facet vgpu create"; "facet" for the root, whose name is empty. */
static void print_name(FILE *file, const struct command *self)
{
    fprintf(file, self->name[0] ? "facet %s" : "facet", self->name);
}

static void print_message(const struct command *self, const char *kind, const char *format, va_list arguments)
{
    char line[LINE_SIZE];

    vsnprintf(line, sizeof line, format, arguments);
    facet_text_make_line(line);
    print_name(stderr, self);
    fprintf(stderr, ": %s%s\n", kind, line);
}

int command_usage(const struct command *self, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_message(self, "", format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

void command_warn(const struct command *self, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_message(self, "warning: ", format, arguments);
    va_end(arguments);
}

int command_help(const struct command *self)
{
    fputs(self->help, stdout);
    return EXIT_DONE;
}

/* "create, list, show" */
static void list_children(const struct command *self, char *ret_text, size_t size)
{
    size_t used = 0;

    ret_text[0] = '\0';
    for (const struct command *const *child = self->children; child && *child && used < size; child++)
        used += (size_t)snprintf(ret_text + used, size - used, "%s%s", used ? ", " : "", last_word(*child));
}

int command_unknown(const struct command *self, const char *word)
{
    const char *near = nearest_word(word, child_word, self->children);
    char words[LINE_SIZE / 2];

    list_children(self, words, sizeof words);
    if (near)
        return command_usage(self, "'%s' is not a command; did you mean '%s'?", word, near);
    if (!self->name[0])
        return command_usage(self, "'%s' is not a command; 'facet help' lists them", word);
    return command_usage(self, "'%s' is not a command%s%s; see 'facet help %s'", word, words[0] ? "; expected " : "",
                         words, self->name);
}

int command_dispatch(const struct command *self, int argc, char **argv)
{
    char words[LINE_SIZE / 2];

    list_children(self, words, sizeof words);
    if (argc < 2)
        return command_usage(self, "which one? expected %s; see 'facet help %s'", words, self->name);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return command_help(self);
    if (argv[1][0] == '-')
        return command_usage(self, "option '%s' is not known here; 'facet help %s' lists what is", argv[1], self->name);

    const struct command *child = command_child(self, argv[1]);
    if (!child)
        return command_unknown(self, argv[1]);
    return child->run(child, argc - 1, argv + 1);
}

static void refuse_option(const struct command *self, const char *token, const struct option *words)
{
    char typed[64];
    bool is_long = strncmp(token, "--", 2) == 0;

    if (!is_long) {
        command_usage(self, "option '-%c' is not known; see 'facet help %s'", optopt, self->name);
        return;
    }
    snprintf(typed, sizeof typed, "%.*s", (int)strcspn(token + 2, "="), token + 2);
    const char *near = nearest_word(typed, option_word, words);
    if (optopt)
        command_usage(self, "option '--%s' takes no value", typed);
    else if (near)
        command_usage(self, "option '--%s' is not known; did you mean '--%s'?", typed, near);
    else
        command_usage(self, "option '--%s' is not known; see 'facet help %s'", typed, self->name);
}

/* Writes "--device", or "-D" for an option that has only a letter. */
static void spell_option(int option, const struct option *words, char *ret_name, size_t size)
{
    for (; words->name; words++)
        if (words->val == option && words->has_arg) {
            snprintf(ret_name, size, "--%s", words->name);
            return;
        }
    snprintf(ret_name, size, "-%c", option);
}

static bool may_repeat(const struct command *self, const char *name)
{
    for (const char *const *repeated = self->repeats; repeated && *repeated; repeated++)
        if (strcmp(*repeated, name) == 0)
            return true;
    return false;
}

/*
 * One of two values would be lost, and the command cannot tell which one was meant. A process reads one command line.
 */
static bool is_repeated_option(const struct command *self, int option, const struct option *words)
{
    static struct {
        int option;
        const char *value;
    } seen_options[OPTIONS_MOST];
    static size_t count;
    char name[64];

    spell_option(option, words, name, sizeof name);
    for (size_t i = 0; i < count; i++)
        if (seen_options[i].option == option && !may_repeat(self, name)) {
            command_usage(self, "%s is given twice, '%.80s' and '%.80s'; expected it once", name, seen_options[i].value,
                          optarg);
            return true;
        }
    if (count < OPTIONS_MOST) {
        seen_options[count].option = option;
        seen_options[count++].value = optarg;
    }
    return false;
}

int command_option(const struct command *self, int argc, char **argv, const char *letters, const struct option *words)
{
    opterr = 0;
    int option = getopt_long(argc, argv, letters, words, NULL);

    if (option == '?')
        refuse_option(self, argv[optind - 1], words);
    if (option == ':') {
        command_usage(self, "option '%s' needs a value; see 'facet help %s'", argv[optind - 1], self->name);
        return '?';
    }
    return option > 0 && option != '?' && optarg && is_repeated_option(self, option, words) ? '?' : option;
}

bool command_options_plain(const struct command *self, int argc, char **argv, bool *ret_json, int *ret_exit)
{
    static const struct option words[] = {COMMAND_OPTION_JSON, COMMAND_OPTION_HELP, COMMAND_OPTION_END};
    int option;

    while ((option = command_option(self, argc, argv, ":h", words)) != -1) {
        if (option == OPTION_JSON) {
            *ret_json = true;
            continue;
        }
        *ret_exit = option == 'h' ? command_help(self) : EXIT_USAGE;
        return false;
    }
    return true;
}

bool command_operands(const struct command *self, int argc, char **argv, int required, int allowed,
                      const char *operands)
{
    int given = argc - optind;

    if (given < required) {
        command_usage(self, "%s is missing; see 'facet help %s'", operands, self->name);
        return false;
    }
    if (given > allowed) {
        command_usage(self, "'%s' is one argument too many; see 'facet help %s'", argv[optind + allowed], self->name);
        return false;
    }
    for (int i = optind; i < argc; i++) {
        if (argv[i][0] != '\0')
            continue;
        command_usage(self, "%s is empty; see 'facet help %s'", operands, self->name);
        return false;
    }
    return true;
}

/* EXIT_USAGE for a value that will always be wrong; EXIT_REFUSED for failures that another try may not meet. */
static int exit_of(const struct facet_error *error)
{
    bool wrong_value = error->status == FACET_INVALID_ARGUMENT || error->status == FACET_OUT_OF_RANGE ||
                       (error->status == FACET_NOT_FOUND && strcmp(error->argument, "device") == 0);

    return wrong_value ? EXIT_USAGE : EXIT_REFUSED;
}

static void print_refusal(const struct command *self, const struct facet_error *error, const char *advice)
{
    bool name_argument =
        error->argument[0] && strncasecmp(error->message, error->argument, strlen(error->argument)) != 0;
    /* A message that says what was expected is its own advice. */
    bool give_advice = advice && advice[0] && !strchr(error->message, ';') && !strstr(error->message, "expected");

    print_name(stderr, self);
    fprintf(stderr, ": %s%s%s%s%s\n", name_argument ? error->argument : "", name_argument ? ": " : "", error->message,
            give_advice ? "; " : "", give_advice ? advice : "");
}

int command_refuse(const struct command *self, bool json, const struct facet_error *error, const char *advice)
{
    print_refusal(self, error, advice);
    if (!json)
        return exit_of(error);

    json_t *object = json_pack("{s:{s:s, s:s, s:s, s:s}}", "error", "code", facet_status_name(error->status),
                               "argument", error->argument, "message", error->message, "advice",
                               advice && advice[0] ? advice : facet_status_advice(error->status));
    if (object)
        command_print_json(object);
    json_decref(object);
    return exit_of(error);
}

int command_out_of_memory(const struct command *self)
{
    command_usage(self, "out of memory");
    return EXIT_REFUSED;
}

int command_print_json(const json_t *json)
{
    /* A failed write is noticed once, for everything, when standard output is closed. */
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    return EXIT_DONE;
}

bool command_read_interval(const char *text, uint64_t *ret_ns)
{
    uint64_t ms = 0, scale = 1000;
    const char *at = text;

    for (; *at >= '0' && *at <= '9' && ms < 3600000; at++)
        ms = ms * 10 + (uint64_t)(*at - '0') * 1000;
    bool digits = at != text;
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9' && scale > 1; at++, digits = true)
            ms += (uint64_t)(*at - '0') * (scale /= 10);
    if (!digits || *at || ms < 100 || ms > 3600000)
        return false;
    *ret_ns = ms * FACET_NS_PER_MS;
    return true;
}
