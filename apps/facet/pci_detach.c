/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: `facet pci detach`: a function leaves the VM, and then the VM's monitor closes it; only then may it be unbound.
 * Never: unbinds a function.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "pci_attachment.h"
#include "pci_cloud.h"

#define TIMEOUT_NS (60 * FACET_NS_PER_S)

#define TARGETS "--qmp, --cloud-hypervisor"

static bool read_options(const struct command *self, int argc, char **argv, struct pci_attachment *attachment,
                         int *ret_exit)
{
    static const struct option words[] = {COMMAND_OPTION_JSON,
                                          COMMAND_OPTION_HELP,
                                          {"qmp", required_argument, NULL, OPTION_QMP},
                                          {"cloud-hypervisor", required_argument, NULL, OPTION_CLOUD},
                                          {"name", required_argument, NULL, OPTION_NAME},
                                          {"timeout", required_argument, NULL, OPTION_TIMEOUT},
                                          {"root", required_argument, NULL, OPTION_ROOT},
                                          COMMAND_OPTION_END};
    const char *name = NULL;
    int option;

    while ((option = command_option(self, argc, argv, ":h", words)) != -1) {
        if (option == OPTION_NAME)
            name = optarg;
        else if (option == OPTION_QMP || option == OPTION_CLOUD) {
            if (!pci_attachment_target(self, attachment, option == OPTION_QMP ? PCI_TARGET_QMP : PCI_TARGET_CLOUD,
                                       TARGETS, ret_exit))
                return false;
        } else if (!pci_attachment_option(self, option, attachment, ret_exit)) {
            return false;
        }
    }
    if (attachment->target == PCI_TARGET_NONE) {
        *ret_exit = command_usage(self, "no virtual machine is named: expected one of " TARGETS);
        return false;
    }
    if (!pci_attachment_operands(self, argc, argv, attachment, ret_exit))
        return false;
    attachment->functions[0].id = name;
    return true;
}

/*
 * Waits until the VM's monitor has closed the function, which happens a moment after the guest gave it up.
 * FACET_TIMEOUT when it has not, because then the function cannot be unbound. Warns, and does not fail, when that is
 * unknown because the monitor's /proc cannot be read.
 */
static enum facet_status wait_closed(const struct command *self, const struct pci_attachment *attachment, int64_t pid,
                                     const struct facet_attach_function *function, struct facet_error *error)
{
    struct pci_nodes found;
    const char *nodes[2];
    struct facet_error reason = {0};
    char address[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(&function->address, address);
    const char *name = function->mdev ? function->mdev : address;
    pci_attachment_nodes(attachment, function, &found);
    for (uint32_t i = 0; i < found.count; i++)
        nodes[i] = found.paths[i];
    if (found.count == 0 || pid == 0)
        return FACET_OK;
    enum facet_status status =
        facet_attach_wait_closed(attachment->root_fd, pid, nodes, found.count, attachment->deadline_ns, &reason);
    if (status == FACET_TIMEOUT)
        return facet_error_set(
            error, FACET_TIMEOUT,
            "'%s' is out of the VM and cannot be unbound yet: %s; another function of its group may be in the VM", name,
            reason.message);
    if (status != FACET_OK)
        command_warn(self, "'%s': cannot find out whether the VM has closed it: %s", name, reason.message);
    return FACET_OK;
}

static enum facet_status detach_qmp(const struct command *self, const struct pci_attachment *attachment,
                                    struct facet_error *error)
{
    PCI_CLEANUP_QMP struct facet_qmp *qmp = NULL;
    enum facet_status status = pci_attachment_qmp(attachment, &qmp, error);

    if (status == FACET_OK)
        status = facet_qmp_detach(qmp, attachment->functions, attachment->request.count, error);
    for (uint32_t i = 0; status == FACET_OK && i < attachment->request.count; i++)
        status = wait_closed(self, attachment, facet_qmp_process(qmp), &attachment->functions[i], error);
    return status;
}

static int print_result(const struct command *self, const struct pci_attachment *attachment)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < attachment->request.count; i++) {
        char address[FACET_PCI_ADDRESS_SIZE];
        const struct facet_attach_function *function = &attachment->functions[i];
        facet_pci_address_print(&function->address, address);
        if (attachment->json)
            json_array_append_new(list, json_string(function->mdev ? function->mdev : address));
        else
            printf("%s: out of the VM\n", function->mdev ? function->mdev : address);
    }
    return pci_attachment_print(self, attachment, "detached", list);
}

static int run_detach(const struct command *self, int argc, char **argv)
{
    PCI_CLEANUP_ATTACHMENT struct pci_attachment attachment = {.root_fd = -1, .timeout_ns = TIMEOUT_NS};
    struct facet_error error = {0};
    int exit_status = EXIT_DONE;

    if (!read_options(self, argc, argv, &attachment, &exit_status))
        return exit_status;
    enum facet_status status = pci_attachment_begin(&attachment, &error);
    if (status == FACET_OK)
        status = attachment.target == PCI_TARGET_QMP ? detach_qmp(self, &attachment, &error)
                                                     : pci_cloud_detach(&attachment, &error);
    if (status != FACET_OK)
        return command_refuse(self, attachment.json, &error, NULL);
    return print_result(self, &attachment);
}

const struct command command_pci_detach = {
    .name = "pci detach",
    .help = "usage: facet pci detach --qmp SOCKET|--cloud-hypervisor SOCKET [--name ID]\n"
            "                        [--timeout SECONDS] [--root DIR] [--json] ADDRESS...\n"
            "\n"
            "Asks the guest of a running VM to give functions up, and waits until they are\n"
            "out and the VM's monitor has closed them. Then they can be unbound. Functions\n"
            "that share a slot in the VM leave together, and must be named together.\n"
            "\n"
            "      --qmp SOCKET                QEMU, which serves QMP there\n"
            "      --cloud-hypervisor SOCKET   Cloud Hypervisor, with its API there\n"
            "      --name ID                   of the first function in the VM\n"
            "      --timeout SECONDS           for all of it (60)\n"
            "      --root DIR                  the tree that holds sys and proc (/)\n"
            "      --json                      print JSON\n",
    .run = run_detach,
};
