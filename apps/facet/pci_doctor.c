/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci doctor`: findings about this host, and their sources. Never: changes anything. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <facet/doctor.h>

#include "base/cleanup.h"
#include "pci.h"
#include "view.h"

static const char help[] = "usage: facet pci doctor [--root DIR] [--json]\n"
                           "\n"
                           "Checks what a host needs to hand accelerators to virtual machines, and says what\n"
                           "to do where something is missing. Exit status 1 when nothing can be handed on.\n"
                           "\n"
                           "  --root DIR  look at the copy of another machine below DIR\n"
                           "  --json      an array of findings\n";

/* ---- other facts about the machine ---- */

/* Distributions that have one QEMU only have it in a place of its own. */
static const char ask_version[] =
    "for qemu in qemu-system-$(uname -m) /usr/libexec/qemu-kvm; do "
    "command -v \"$qemu\" >/dev/null && exec \"$qemu\" --version; done 2>/dev/null; exit 127";

/* "QEMU emulator version 7.2.13 (Debian ...)" */
static void ask_qemu(struct facet_doctor_environment *environment)
{
    FILE *pipe = popen(ask_version, "re"); /* NOLINT(cert-env33-c): nothing of a caller is in it */
    unsigned major = 0, minor = 0;

    if (!pipe)
        return;
    if (fscanf(pipe, "QEMU emulator version %5u.%5u", &major, &minor) == 2)
        environment->qemu_version = major << 16 | minor;
    int status = pclose(pipe);
    bool missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    environment->qemu = missing ? FACET_PCI_NO : FACET_PCI_YES;
}

static uint32_t ask_kernel(void)
{
    struct utsname name;
    unsigned major, minor;

    return uname(&name) == 0 && sscanf(name.release, "%5u.%5u", &major, &minor) == 2 ? major << 16 | minor : 0;
}

static uint64_t ask_memory_lock(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return 0;
    return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

/* Access rights are not enough: there may be no driver behind it. */
static uint32_t ask_kvm(void)
{
    FACET_CLEANUP_FD int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

    return kvm >= 0 ? FACET_PCI_YES : FACET_PCI_NO;
}

/* Of another machine only its files are known. */
static struct facet_doctor_environment ask_environment(bool here)
{
    struct facet_doctor_environment environment = {.size = sizeof environment};

    if (!here)
        return environment;
    environment.kvm = ask_kvm();
    environment.memory_lock_bytes = ask_memory_lock();
    environment.kernel_version = ask_kernel();
    ask_qemu(&environment);
    return environment;
}

/* ---- output ---- */

static int print_json(const struct facet_doctor_finding *findings)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < FACET_DOCTOR_CHECKS; i++)
        json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:s}", "check", findings[i].check, "state",
                                               facet_doctor_state_name(findings[i].state), "found", findings[i].text,
                                               "advice", findings[i].advice));
    int exit = command_print_json(array);
    json_decref(array);
    return exit;
}

static const char *color_of(uint32_t state)
{
    static const char *const colors[FACET_DOCTOR_STATES] = {"\033[32m", "\033[31m", "\033[33m", "\033[33m"};

    return view_color() ? colors[state] : "";
}

static void print_people(const struct facet_doctor_finding *findings)
{
    for (uint32_t i = 0; i < FACET_DOCTOR_CHECKS; i++) {
        const struct facet_doctor_finding *finding = &findings[i];

        printf("%s%-7s%s %-12s %s\n", color_of(finding->state), facet_doctor_state_name(finding->state),
               view_color() ? "\033[0m" : "", finding->check, finding->text);
        if (finding->advice[0])
            printf("%21s%s\n", "", finding->advice);
    }
}

static int examine(const struct command *self, const char *root, bool json)
{
    struct facet_doctor_finding findings[FACET_DOCTOR_CHECKS];
    struct facet_doctor_environment environment = ask_environment(strcmp(root, "/") == 0);
    struct facet_error error = {0};
    int exit;
    PCI_CLEANUP_SNAPSHOT struct facet_pci_snapshot *snapshot =
        pci_look(self, root, FACET_PCI_SCAN_HOLDERS, json, &exit);

    if (!snapshot)
        return exit;
    if (facet_doctor_examine(snapshot, &environment, findings, &error))
        return command_refuse(self, json, &error, NULL);
    if (json)
        exit = print_json(findings);
    else
        print_people(findings);
    for (uint32_t i = 0; i < FACET_DOCTOR_CHECKS && exit == EXIT_DONE; i++)
        if (findings[i].state == FACET_DOCTOR_BAD)
            exit = EXIT_REFUSED;
    return exit;
}

static int run_doctor(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        PCI_OPTION_LOOK_ROOT,
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_END,
    };
    struct pci_look_options options;
    int exit;

    if (!pci_read_look(self, argc, argv, words, 0, "", &options, &exit))
        return exit;
    return examine(self, options.root, options.json);
}

const struct command command_pci_doctor = {.name = "pci doctor", .help = help, .run = run_doctor};
