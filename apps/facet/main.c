/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the first screen, the table of verbs, the last check of standard output. Never: does a verb's work. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/surroundings.h"
#include "command.h"
#include "launch.h"

static const char first_screen[] = "Facet: one accelerator, many faces. Unmodified programs run in virtual GPUs\n"
                                   "whose memory and compute limits hold.\n"
                                   "\n"
                                   "  facet devices                              what can be carved\n"
                                   "  facet run -m 256M -c 30 -- clinfo          a program with 256 MiB and 30 %\n"
                                   "  facet top                                  who gets what, live\n"
                                   "\n"
                                   "commands\n"
                                   "  devices    list the accelerators of this machine\n"
                                   "  run        run a program in a virtual GPU of its own\n"
                                   "  vgpu       create, list, show, set, freeze, resume, destroy virtual GPUs\n"
                                   "  compile    compile a kernel for a processor or accelerator; see also 'kernel'\n"
                                   "  top        watch share, memory and throttling of every virtual GPU\n"
                                   "  metrics    print the daemon's metrics for Prometheus\n"
                                   "  spec       describe this node and its workloads to orchestrators\n"
                                   "  pci        hand whole accelerators to virtual machines\n"
                                   "  place      reserve parts of this node's devices; see also 'facet simulate'\n"
                                   "  provider   list the providers that drive the devices\n"
                                   "  config     show the settings, their values and where they come from\n"
                                   "  help       explain a command: 'facet help run'; see also 'facet version'\n"
                                   "\n"
                                   "Sizes: 512M, 2G, 50% of the device. Compute: 30, 30%, 0.3; 30:60 caps at 60 %.\n"
                                   "Every command that prints takes --json. No set-up is needed: 'facet run' starts\n"
                                   "the daemon when none is running.\n";

static int run_version(const struct command *self, int argc, char **argv)
{
    bool json = false;
    int status;

    if (!command_options_plain(self, argc, argv, &json, &status))
        return status;
    if (!command_operands(self, argc, argv, 0, 0, ""))
        return EXIT_USAGE;
    printf(json ? "{\n  \"version\": \"%s\"\n}\n" : "facet %s\n", FACET_VERSION);
    return EXIT_DONE;
}

static const struct command root;

static int run_help(const struct command *self, int argc, char **argv)
{
    const struct command *found = &root;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return command_help(self);
    for (int i = 1; i < argc; i++) {
        const struct command *child = command_child(found, argv[i]);
        if (!child)
            return command_unknown(found, argv[i]);
        found = child;
    }
    return command_help(found);
}

static const struct command command_version = {
    .name = "version",
    .help = "usage: facet version [--json]\n\nPrints the version of the command.\n",
    .run = run_version,
};

static const struct command command_explain = {
    .name = "help",
    .help = "usage: facet help [COMMAND...]\n\nExplains a command: 'facet help run', 'facet help vgpu create'.\n",
    .run = run_help,
};

static const struct command *const verbs[] = {
    &command_devices, &command_run,      &command_vgpu,    &command_compile,
    &command_kernel,  &command_top,      &command_metrics, &command_spec,
    &command_place,   &command_simulate, &command_pci,     &command_provider,
    &command_config,  &command_version,  &command_explain, NULL,
};

static const struct command root = {.name = "", .help = first_screen, .children = verbs};

static int dispatch_command(int argc, char **argv)
{
    if (argc < 2)
        return command_help(&root);
    if (strcmp(argv[1], "--version") == 0)
        return run_version(&command_version, 1, argv);
    return command_dispatch(&root, argc, argv);
}

static int output_errnum; /* the errno of the first write to standard output that failed; 0: none failed */

static ssize_t write_output(void *unused, const char *bytes, size_t size)
{
    ssize_t written;

    do
        written = write(STDOUT_FILENO, bytes, size);
    while (written < 0 && errno == EINTR);
    if (written < 0 && output_errnum == 0)
        output_errnum = errno;
    return written < 0 ? 0 : written;
}

/*
 * Makes standard output keep the errno of its first failed write, which may come long before the output is closed.
 */
static void keep_output_error(void)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_output});

    if (!stream)
        return;
    setvbuf(stream, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = stream;
}

/* Flushes standard output: an error such as a full disk may show only here. */
static int close_output(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "facet: cannot write standard output: %s\n", strerror(output_errnum ? output_errnum : errno));
    return status == EXIT_DONE ? EXIT_REFUSED : status;
}

int main(int argc, char **argv)
{
    /* Only LC_CTYPE: numbers are read and written alike in every locale. */
    setlocale(LC_CTYPE, "");
    signal(SIGCHLD, SIG_DFL); /* if it stayed ignored, no child's status could be read */
    launch_ignore_file_size_signal();
    /* Output to a closed descriptor is lost, and close_output() says so. */
    if (!facet_surroundings_open_streams())
        return EXIT_REFUSED;
    keep_output_error();
    return close_output(dispatch_command(argc, argv));
}
