/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that all verbs of the `facet` command share: the table of verbs, options, refusals, output.
 *
 * Owns: the form of the command's output: one line per failure, exit statuses, help texts, JSON on standard output.
 * Never: talks to the daemon (client.h) or knows what a verb does.
 */
#ifndef FACET_COMMAND_H
#define FACET_COMMAND_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <facet/error.h>

enum exit_status {
    EXIT_DONE = 0,
    EXIT_REFUSED = 1,          /* a valid request that cannot be met now */
    EXIT_USAGE = 2,            /* the request itself is wrong */
    EXIT_NOT_EXECUTABLE = 126, /* a shell's status after a program that it cannot execute */
    EXIT_NOT_FOUND = 127,      /* a shell's status after a program that it cannot find */
};

/* Values of long options that have no letter. */
enum long_option {
    OPTION_JSON = 256,
    OPTION_MODE,
    OPTION_TEMPLATE,
    OPTION_PRIORITY,
    OPTION_IDLE_FREEZE,
    OPTION_NAME,
    OPTION_REPORT,
    OPTION_VGPU,
    OPTION_FORCE,
    OPTION_ONCE,
    OPTION_INTERVAL,
    OPTION_NO_START,
    OPTION_TARGET,
    OPTION_STD,
    OPTION_CHECK,
    OPTION_STATS,
    OPTION_NO_CACHE,
    OPTION_LIST_TARGETS,
    OPTION_KERNEL,
    OPTION_GLOBAL,
    OPTION_GROUP,
    OPTION_OFFSET,
    OPTION_ARG,
    OPTION_PRINT,
    OPTION_OUT,
    OPTION_TIMEOUT,
    OPTION_SCHEMA,
    OPTION_TO,
    OPTION_CDI,
    OPTION_SECCOMP,
    OPTION_PARTIAL,
    OPTION_ROOT,
    OPTION_QEMU,
    OPTION_QMP,
    OPTION_LIBVIRT,
    OPTION_CLOUD,
    OPTION_IOMMUFD,
    OPTION_MANAGED,
    OPTION_FIRST_PORT,
    OPTION_SEGMENT,
    OPTION_QEMU_VERSION,
    OPTION_LIBVIRT_VERSION,
    OPTION_PORT,
    OPTION_ROMFILE,
    OPTION_PRIMARY,
    OPTION_NO_ROM,
    OPTION_NO_DISPLAY,
    OPTION_GUEST_IOMMU,
    OPTION_CLIQUE,
    OPTION_SLOT,
    OPTION_STRATEGY,
    OPTION_AFFINITY,
    OPTION_DRY_RUN,
    OPTION_RENDER,
    OPTION_RESERVATION,
    OPTION_OVERSUBSCRIBE,
    OPTION_LABEL,
};

#define COMMAND_OPTION_HELP                                                                                            \
    {                                                                                                                  \
        "help", no_argument, NULL, 'h'                                                                                 \
    }
#define COMMAND_OPTION_JSON                                                                                            \
    {                                                                                                                  \
        "json", no_argument, NULL, OPTION_JSON                                                                         \
    }
#define COMMAND_OPTION_END                                                                                             \
    {                                                                                                                  \
        NULL, 0, NULL, 0                                                                                               \
    }

struct command {
    const char *name;                      /* as typed after "facet": "vgpu create" */
    const char *help;                      /* begins with "usage: facet ...", ends with a newline */
    const struct command *const *children; /* a list that ends with NULL; NULL: the command has no children */
    const char *const *repeats;            /* options that may be repeated ("-D"), ending with NULL; NULL: none may */
    int (*run)(const struct command *self, int argc, char **argv); /* argv[0] is the last word of the name */
};

/* Each verb has a file of its own. `vgpu`, `kernel`, `pci`, `place`, `provider` and `spec` have children. */
extern const struct command command_devices, command_run, command_vgpu, command_top, command_metrics, command_provider,
    command_config, command_compile, command_kernel, command_place, command_simulate, command_spec, command_pci;

/* The child of `self` called `word`; NULL when there is none. */
const struct command *command_child(const struct command *self, const char *word);

/* Refuses `word`, which names no child of `self`, and suggests the nearest; returns EXIT_USAGE. */
int command_unknown(const struct command *self, const char *word);

/* Runs the child of `self` that argv[1] names, or refuses it, suggesting the nearest. */
int command_dispatch(const struct command *self, int argc, char **argv);

/*
 * Returns the next option as getopt_long() does, and -1 when there are no more. It refuses a wrong option, and a second
 * value of an option that takes one, and returns '?': the caller returns EXIT_USAGE. `letters` begins with ":" or "+:".
 */
int command_option(const struct command *self, int argc, char **argv, const char *letters, const struct option *words);

/* Reads the options of a verb that has only --help and --json. True: go on; else return *ret_exit. */
bool command_options_plain(const struct command *self, int argc, char **argv, bool *ret_json, int *ret_exit);

/* Refuses fewer than `required` operands after optind, more than `allowed`, and an empty one; `operands` names them. */
bool command_operands(const struct command *self, int argc, char **argv, int required, int allowed,
                      const char *operands);

int command_help(const struct command *self);

/* "facet NAME: text" on standard error; returns EXIT_USAGE. */
int command_usage(const struct command *self, const char *format, ...) FACET_PRINTF(2, 3);

/*
 * Says why the verb failed: one line on standard error, and with `json` the error object on standard output.
 * `advice` may be NULL. Returns the exit status that suits the error.
 */
int command_refuse(const struct command *self, bool json, const struct facet_error *error, const char *advice);

void command_warn(const struct command *self, const char *format, ...) FACET_PRINTF(2, 3);

/* Reports that memory is out; returns EXIT_REFUSED. */
int command_out_of_memory(const struct command *self);

/* Reads 0.1 to 3600 seconds, written with at most three decimals. */
bool command_read_interval(const char *text, uint64_t *ret_ns);

/* Prints the daemon's answer, indented by two. */
int command_print_json(const json_t *json);

#endif
