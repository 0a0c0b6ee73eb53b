/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading the command line. Never: touches a file. */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "conf.h"
#include "service.h"

enum {
    EXIT_USAGE = 2,
};

static const char help[] =
    "usage: facetd [--foreground] [--private] [--config FILE] [--socket PATH] [--ready-fd N]\n"
    "\n"
    "Keeps the virtual GPUs of this machine: hands them out, shares device time among them, and remembers them.\n"
    "Goes to the background; answers on <runtime folder>/facetd.sock.\n"
    "\n"
    "  --foreground     stay in this terminal, log to standard error\n"
    "  --private        leave when there has been nothing to do for FACET_IDLE_EXIT_S seconds; exit quietly when\n"
    "                   another facetd serves already\n"
    "  --config FILE    read settings there; root's default is " CONF_DEFAULT_PATH ", --private reads none\n"
    "  --socket PATH    answer there instead\n"
    "  --ready-fd N     write an empty line to descriptor N when ready, or one line that says why not\n"
    "  --version        print the version\n"
    "  --help           print this\n"
    "\n"
    "SIGHUP reads the file again. A service manager may pass the socket. Settings are also environment\n"
    "variables, which go before the file: see facetd(8).\n";

static const struct option long_options[] = {
    {"foreground", no_argument, NULL, 'f'},
    {"private", no_argument, NULL, 'p'},
    {"config", required_argument, NULL, 'c'},
    {"socket", required_argument, NULL, 's'},
    {"ready-fd", required_argument, NULL, 'r'},
    {"resume", required_argument, NULL, 'R'}, /* by service_start_again() alone */
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* Prints `text` and exits. Closes the stream to see errors such as a full disk. */
_Noreturn static void print_and_exit(const char *text)
{
    if (fputs(text, stdout) < 0 || fclose(stdout) != 0) {
        fprintf(stderr, "facetd: cannot write standard output: %s\n", strerror(errno));
        exit(EXIT_FAILURE);
    }
    exit(EXIT_SUCCESS);
}

_Noreturn static void usage_error(const char *message)
{
    fprintf(stderr, "facetd: %s\nTry 'facetd --help'.\n", message);
    exit(EXIT_USAGE);
}

static int read_descriptor(const char *text)
{
    char *end;

    errno = 0;
    long fd = strtol(text, &end, 10);
    if (errno || end == text || *end || fd < 0 || fd > INT_MAX || fcntl((int)fd, F_GETFD) < 0)
        usage_error("--ready-fd: expected the number of an open descriptor");
    return (int)fd;
}

static void read_path(const char *text, char path[FACET_PATH_SIZE], const char *refusal)
{
    if (text[0] != '/' || strlen(text) >= FACET_PATH_SIZE)
        usage_error(refusal);
    snprintf(path, FACET_PATH_SIZE, "%s", text);
}

static void read_resume(const char *text, struct options *options)
{
    int passed, end = 0;

    if (sscanf(text, "%d,%d,%d%n", &options->lock_fd, &options->socket_fd, &passed, &end) != 3 || text[end] ||
        fcntl(options->lock_fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(options->socket_fd, F_SETFD, FD_CLOEXEC) < 0 ||
        !service_is_listening(options->socket_fd))
        usage_error("--resume: only facetd itself may use this option");
    options->socket_is_passed = passed;
}

static void read_option(int option, struct options *options)
{
    switch (option) {
    case 'f':
        options->foreground = true;
        break;
    case 'p':
        options->private = true;
        break;
    case 'c':
        read_path(optarg, options->config, "--config: expected an absolute path");
        options->config_is_named = true;
        break;
    case 's':
        read_path(optarg, options->socket, "--socket: expected an absolute path");
        break;
    case 'R':
        read_resume(optarg, options);
        break;
    case 'r':
        options->ready_fd = read_descriptor(optarg);
        break;
    case 'V':
        print_and_exit("facetd " FACET_VERSION "\n");
    case 'h':
        print_and_exit(help);
    default:
        fputs("Try 'facetd --help'.\n", stderr);
        exit(EXIT_USAGE);
    }
}

void options_read(int argc, char **argv, struct options *ret_options)
{
    struct options options = {.ready_fd = -1, .lock_fd = -1, .socket_fd = -1};
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        read_option(option, &options);
    if (optind < argc)
        usage_error("expected options only");
    /* The file is the machine's: a daemon that a user starts by hand does not use its folders. */
    if (!options.config_is_named && geteuid() == 0)
        snprintf(options.config, sizeof options.config, "%s", CONF_DEFAULT_PATH);
    if (options.private)
        options.config[0] = '\0';
    *ret_options = options;
}

enum facet_status options_resolve(struct options *options, struct facet_error *error)
{
    enum facet_status status = facet_config_check(error);

    if (status == FACET_OK)
        status = facet_path_runtime(options->runtime, sizeof options->runtime, error);
    if (status == FACET_OK)
        status = facet_path_state(options->state, sizeof options->state, error);
    if (status == FACET_OK && !options->socket[0])
        status = facet_path_socket(options->socket, sizeof options->socket, error);
    return status;
}
