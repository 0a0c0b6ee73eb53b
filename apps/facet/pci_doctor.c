/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci doctor`: findings about this host, and their sources. Never: changes anything without --probe, which
 * makes the kernel reset the function that it opens. */
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
#include "pci_probe.h"
#include "view.h"

static const char help[] = "usage: facet pci doctor [--probe ADDRESS] [--root DIR] [--json]\n"
                           "\n"
                           "Checks what a host needs to hand accelerators to virtual machines, and says what\n"
                           "to do where something is missing. Exit status 1 when nothing can be handed on.\n"
                           "\n"
                           "  --probe ADDRESS  also open that function as a virtual machine would, when it\n"
                           "                   is bound by 'facet pci bind'; the kernel resets it\n"
                           "  --root DIR       look at the copy of another machine below DIR\n"
                           "  --json           an array of findings\n";

/* ---- other facts about the machine ---- */

/* Distributions that ship QEMU for a single architecture install it as qemu-kvm. */
static const char ask_version[] =
    "for qemu in qemu-system-$(uname -m) /usr/libexec/qemu-kvm; do "
    "command -v \"$qemu\" >/dev/null && exec \"$qemu\" --version; done 2>/dev/null; exit 127";

/* "QEMU emulator version 7.2.13 (Debian ...)" */
static void ask_qemu(struct facet_doctor_environment *environment)
{
    FILE *pipe = popen(ask_version, "re"); /* NOLINT(cert-env33-c): the command is constant */
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

/* Opens /dev/kvm, because a file with the right mode may have no driver. */
static uint32_t ask_kvm(void)
{
    FACET_CLEANUP_FD int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

    return kvm >= 0 ? FACET_PCI_YES : FACET_PCI_NO;
}

/* Asks this machine. Without `here` the scanned files are another machine's, and all members stay unknown. */
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

/* ---- the function that is probed ---- */

struct findings {
    struct facet_doctor_finding list[FACET_DOCTOR_CHECKS + 1];
    uint32_t count;
};

static const char *advice_of(enum facet_status status)
{
    switch (status) {
    case FACET_BAD_STATE:
        return "'facet pci bind' gives it and its group to VFIO, 'facet pci plan' says what that would do";
    case FACET_BUSY:
        return "'facet pci state' says where it is; a virtual machine that has it must let it go";
    case FACET_PERMISSION:
        return "run as root, or give the user the group's device below /dev/vfio";
    case FACET_QUOTA:
        return "raise the limit of locked memory (ulimit -l)";
    default:
        return "the findings above say what the host lacks; 'facet pci show' has the function in full";
    }
}

static void add_probe(struct findings *findings, const char *root, const struct facet_pci_address *address)
{
    struct facet_doctor_finding *finding = &findings->list[findings->count++];
    FACET_CLEANUP_FD int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct facet_error error = {0};

    *finding = (struct facet_doctor_finding){
        .size = sizeof *finding, .state = FACET_DOCTOR_GOOD, .check = "probe", .advice = ""};
    enum facet_status status = pci_probe(directory, address, finding->text, &error);
    if (status == FACET_OK)
        return;
    finding->state = FACET_DOCTOR_BAD;
    finding->advice = advice_of(status);
    snprintf(finding->text, sizeof finding->text, "%.199s", error.message);
}

/* ---- output ---- */

static int print_json(const struct findings *found)
{
    const struct facet_doctor_finding *findings = found->list;
    json_t *array = json_array();

    for (uint32_t i = 0; i < found->count; i++)
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

static void print_text(const struct findings *findings)
{
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct facet_doctor_finding *finding = &findings->list[i];

        printf("%s%-7s%s %-12s %s\n", color_of(finding->state), facet_doctor_state_name(finding->state),
               view_color() ? "\033[0m" : "", finding->check, finding->text);
        if (finding->advice[0])
            printf("%21s%s\n", "", finding->advice);
    }
}

static int examine_machine(const struct command *self, const struct pci_look_options *options)
{
    struct facet_doctor_environment environment = ask_environment(strcmp(options->root, "/") == 0);
    struct findings findings = {.count = FACET_DOCTOR_CHECKS};
    struct facet_pci_address probed;
    struct facet_error error = {0};
    int exit;

    if (options->probe && facet_pci_address_parse(options->probe, &probed, &error))
        return command_usage(self, "--probe: %s", error.message);
    PCI_CLEANUP_SNAPSHOT struct facet_pci_snapshot *snapshot =
        pci_look(self, options->root, FACET_PCI_SCAN_HOLDERS, options->json, &exit);
    if (!snapshot)
        return exit;
    if (facet_doctor_examine(snapshot, &environment, findings.list, &error))
        return command_refuse(self, options->json, &error, NULL);
    if (options->probe)
        add_probe(&findings, options->root, &probed);
    if (options->json)
        exit = print_json(&findings);
    else
        print_text(&findings);
    for (uint32_t i = 0; i < findings.count && exit == EXIT_DONE; i++)
        if (findings.list[i].state == FACET_DOCTOR_BAD)
            exit = EXIT_REFUSED;
    return exit;
}

static int run_doctor(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        {"probe", required_argument, NULL, 'p'},
        PCI_OPTION_LOOK_ROOT,
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_END,
    };
    struct pci_look_options options;
    int exit;

    if (!pci_read_look(self, argc, argv, words, 0, "", &options, &exit))
        return exit;
    return examine_machine(self, &options);
}

const struct command command_pci_doctor = {.name = "pci doctor", .help = help, .run = run_doctor};
