/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet pci attach`. Never: binds a function; it refuses one that has a driver of the host. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "passthrough/driver.h"
#include "pci_attachment.h"
#include "pci_cloud.h"

#define TIMEOUT_NS (30 * FACET_NS_PER_S)

/* --- options --- */

static int refuse_value(const struct command *self, const char *option_name, const char *expected)
{
    return command_usage(self, "%s '%s': expected %s", option_name, optarg, expected);
}

#define TARGETS "--qemu, --qmp, --libvirt, --cloud-hypervisor"

static bool read_number(const struct command *self, const char *option_name, uint32_t least, uint32_t most,
                        uint32_t *ret, int *ret_exit)
{
    char *end = NULL;
    unsigned long number = strtoul(optarg, &end, 10);

    if (optarg[0] >= '0' && optarg[0] <= '9' && !*end && number >= least && number <= most) {
        *ret = (uint32_t)number;
        return true;
    }
    *ret_exit = command_usage(self, "%s '%s': expected %" PRIu32 " to %" PRIu32, option_name, optarg, least, most);
    return false;
}

static bool read_version(const struct command *self, const char *option_name, uint32_t *ret, int *ret_exit)
{
    if (pci_attachment_version(optarg, ret))
        return true;
    *ret_exit = refuse_value(self, option_name, "a version such as 9.0");
    return false;
}

/* Reads an option of the whole request. */
static bool read_request_option(const struct command *self, int option, struct pci_attachment *attachment,
                                int *ret_exit)
{
    struct facet_attach_request *request = &attachment->request;

    switch (option) {
    case OPTION_QEMU:
        return pci_attachment_target(self, attachment, PCI_TARGET_QEMU, TARGETS, ret_exit);
    case OPTION_QMP:
        return pci_attachment_target(self, attachment, PCI_TARGET_QMP, TARGETS, ret_exit);
    case OPTION_LIBVIRT:
        return pci_attachment_target(self, attachment, PCI_TARGET_LIBVIRT, TARGETS, ret_exit);
    case OPTION_CLOUD:
        return pci_attachment_target(self, attachment, PCI_TARGET_CLOUD, TARGETS, ret_exit);
    case OPTION_IOMMUFD:
        request->flags |= FACET_ATTACH_IOMMUFD;
        return true;
    case OPTION_MANAGED:
        request->flags |= FACET_ATTACH_MANAGED;
        return true;
    case OPTION_FIRST_PORT:
        return read_number(self, "first port", 1, 255, &request->first_port, ret_exit);
    case OPTION_SEGMENT:
        return read_number(self, "segment", 0, 15, &request->segment, ret_exit);
    case OPTION_QEMU_VERSION:
        return read_version(self, "version of QEMU", &request->qemu_version, ret_exit);
    case OPTION_LIBVIRT_VERSION:
        return read_version(self, "version of libvirt", &request->libvirt_version, ret_exit);
    default:
        return pci_attachment_option(self, option, attachment, ret_exit);
    }
}

/* Reads an option of functions into `chosen`. Once the operands are known, give_common_options() copies it to them. */
static bool read_attach_option(const struct command *self, int option, struct pci_attachment *attachment,
                               struct facet_attach_function *chosen, int *ret_exit)
{
    switch (option) {
    case OPTION_NAME:
        chosen->id = optarg;
        return true;
    case OPTION_PORT:
        chosen->port = optarg;
        return true;
    case OPTION_ROMFILE:
        chosen->romfile = optarg;
        return true;
    case OPTION_PRIMARY:
        chosen->flags |= FACET_ATTACH_PRIMARY;
        return true;
    case OPTION_NO_ROM:
        chosen->flags |= FACET_ATTACH_NO_ROM;
        return true;
    case OPTION_NO_DISPLAY:
        chosen->flags |= FACET_ATTACH_NO_DISPLAY;
        return true;
    case OPTION_GUEST_IOMMU:
        chosen->flags |= FACET_ATTACH_GUEST_IOMMU;
        return true;
    case OPTION_CLIQUE:
        chosen->flags |= FACET_ATTACH_CLIQUE;
        return read_number(self, "clique", 0, 15, &chosen->clique, ret_exit);
    default:
        return read_request_option(self, option, attachment, ret_exit);
    }
}

/* Name, port, ROM and VGA are the first function's only; the other options hold for all. */
static void give_common_options(struct pci_attachment *attachment, const struct facet_attach_function *chosen)
{
    for (uint32_t i = 0; i < attachment->request.count; i++) {
        struct facet_attach_function *function = &attachment->functions[i];
        function->flags |= chosen->flags & ~(i == 0 ? 0 : FACET_ATTACH_PRIMARY);
        function->clique = chosen->clique;
        if (i > 0)
            continue;
        function->id = chosen->id;
        function->port = chosen->port;
        function->romfile = chosen->romfile;
    }
}

static bool read_options(const struct command *self, int argc, char **argv, struct pci_attachment *attachment,
                         int *ret_exit)
{
    static const struct option words[] = {COMMAND_OPTION_JSON,
                                          COMMAND_OPTION_HELP,
                                          {"qemu", no_argument, NULL, OPTION_QEMU},
                                          {"qmp", required_argument, NULL, OPTION_QMP},
                                          {"libvirt", no_argument, NULL, OPTION_LIBVIRT},
                                          {"cloud-hypervisor", optional_argument, NULL, OPTION_CLOUD},
                                          {"iommufd", no_argument, NULL, OPTION_IOMMUFD},
                                          {"managed", no_argument, NULL, OPTION_MANAGED},
                                          {"first-port", required_argument, NULL, OPTION_FIRST_PORT},
                                          {"segment", required_argument, NULL, OPTION_SEGMENT},
                                          {"qemu-version", required_argument, NULL, OPTION_QEMU_VERSION},
                                          {"libvirt-version", required_argument, NULL, OPTION_LIBVIRT_VERSION},
                                          {"name", required_argument, NULL, OPTION_NAME},
                                          {"port", required_argument, NULL, OPTION_PORT},
                                          {"romfile", required_argument, NULL, OPTION_ROMFILE},
                                          {"primary", no_argument, NULL, OPTION_PRIMARY},
                                          {"no-rom", no_argument, NULL, OPTION_NO_ROM},
                                          {"no-display", no_argument, NULL, OPTION_NO_DISPLAY},
                                          {"guest-iommu", no_argument, NULL, OPTION_GUEST_IOMMU},
                                          {"clique", required_argument, NULL, OPTION_CLIQUE},
                                          {"timeout", required_argument, NULL, OPTION_TIMEOUT},
                                          {"root", required_argument, NULL, OPTION_ROOT},
                                          COMMAND_OPTION_END};
    struct facet_attach_function chosen = {0};
    int option;

    while ((option = command_option(self, argc, argv, ":h", words)) != -1)
        if (!read_attach_option(self, option, attachment, &chosen, ret_exit))
            return false;
    if (attachment->target == PCI_TARGET_NONE) {
        *ret_exit = command_usage(self, "no target: expected one of " TARGETS);
        return false;
    }
    if (attachment->request.flags & FACET_ATTACH_MANAGED && attachment->target != PCI_TARGET_LIBVIRT) {
        *ret_exit = command_usage(self, "--managed needs --libvirt: only libvirt binds by itself");
        return false;
    }
    if (!pci_attachment_operands(self, argc, argv, attachment, ret_exit))
        return false;
    give_common_options(attachment, &chosen);
    return true;
}

/* --- the host --- */

static enum facet_status check_mdev(const struct pci_attachment *attachment, const char *uuid,
                                    struct facet_error *error)
{
    if (pci_attachment_has_mdev(attachment, uuid))
        return FACET_OK;
    return facet_error_set(error, FACET_NOT_FOUND, "'%.60s' is not on this machine", uuid);
}

static enum facet_status check_function(const struct pci_attachment *attachment, struct facet_attach_function *function,
                                        struct facet_error *error)
{
    char address[FACET_PCI_ADDRESS_SIZE];
    bool managed = attachment->target == PCI_TARGET_LIBVIRT && (attachment->request.flags & FACET_ATTACH_MANAGED);

    if (function->mdev)
        return check_mdev(attachment, function->mdev, error);
    const struct facet_pci_function *found =
        attachment->snapshot ? facet_pci_snapshot_find(attachment->snapshot, &function->address) : NULL;
    facet_pci_address_print(&function->address, address);
    if (!found)
        return facet_error_set(error, FACET_NOT_FOUND, "'%s' is not on this machine", address);
    function->bars = found->bars;
    function->bar_count = FACET_PCI_BARS_COUNT;
    if (found->is_virtual)
        function->flags |= FACET_ATTACH_VIRTUAL;
    if (found->kind == FACET_PCI_KIND_BRIDGE)
        return facet_error_set(error, FACET_BAD_STATE, "'%s' is a bridge; expected a function behind it", address);
    if (found->is_vfio || managed)
        return FACET_OK;
    if (!found->driver[0])
        return facet_error_set(error, FACET_BAD_STATE, "'%s' has no driver; 'facet pci bind' gives it vfio-pci",
                               address);
    return facet_error_set(error, FACET_BAD_STATE, "'%s' is driven by '%s'; 'facet pci bind' gives it vfio-pci",
                           address, found->driver);
}

static bool is_requested_function(const struct pci_attachment *attachment, const struct facet_pci_function *function)
{
    for (uint32_t i = 0; i < attachment->request.count; i++)
        if (!attachment->functions[i].mdev &&
            facet_pci_address_compare(&attachment->functions[i].address, &function->address) == 0)
            return true;
    return false;
}

/* No VM can open an IOMMU group while a host driver uses a part of it. The requested functions are checked already. */
static void warn_of_group(const struct command *self, const struct pci_attachment *attachment,
                          const struct facet_attach_function *function)
{
    const struct facet_pci_function *other,
        *found = attachment->snapshot ? facet_pci_snapshot_find(attachment->snapshot, &function->address) : NULL;
    char address[FACET_PCI_ADDRESS_SIZE], member[FACET_PCI_ADDRESS_SIZE];

    if (function->mdev || !found || found->group < 0)
        return;
    facet_pci_address_print(&found->address, address);
    for (uint32_t i = 0; (other = facet_pci_snapshot_at(attachment->snapshot, i)); i++) {
        if (other->group != found->group || is_requested_function(attachment, other) ||
            driver_is_harmless(other->driver) || driver_is_port(other->driver))
            continue;
        facet_pci_address_print(&other->address, member);
        command_warn(self, "'%s': no VM can open it while %s of the same IOMMU group %d has the host's driver '%s'",
                     address, member, found->group, other->driver);
    }
}

/* Checks the functions on this host. A failed check refuses an attachment, but only warns before printing arguments,
 * which may be for another machine. */
static enum facet_status scan_host(const struct command *self, struct pci_attachment *attachment,
                                   struct facet_error *error)
{
    for (uint32_t i = 0; i < attachment->request.count; i++) {
        enum facet_status status = check_function(attachment, &attachment->functions[i], error);
        if (status != FACET_OK && attachment->socket)
            return status;
        if (status != FACET_OK)
            command_warn(self, "%s", error->message);
        else
            warn_of_group(self, attachment, &attachment->functions[i]);
    }
    return FACET_OK;
}

/* --- printing --- */

/* Prints a text as one word for a shell, in single quotes where it needs them. */
static void print_quoted(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=,./:+@%";

    if (text[0] && text[strspn(text, plain)] == '\0') {
        fputs(text, stdout);
        return;
    }
    putchar('\'');
    for (; *text; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, '\0'}, stdout);
    putchar('\'');
}

/* Prints one option and its values on each line, with '\\' at its end, so that a user can paste them into a script. */
static void print_arguments(const struct facet_attach_texts *texts)
{
    const char *text;

    for (uint32_t i = 0; (text = facet_attach_texts_at(texts, i)); i++) {
        if (i > 0)
            fputs(text[0] == '-' ? " \\\n" : " ", stdout);
        print_quoted(text);
    }
    putchar('\n');
}

static int print_json(const struct command *self, uint32_t form, const struct facet_attach_texts *texts)
{
    json_t *list = json_array();
    const char *text;
    bool failed = false;

    for (uint32_t i = 0; (text = facet_attach_texts_at(texts, i)); i++)
        failed |= json_array_append_new(list, json_string(text)) < 0;
    json_t *json = json_pack("{s:s, s:o}", "form", facet_attach_form_name(form), "texts", list);
    if (!json || failed) {
        json_decref(json);
        return command_out_of_memory(self);
    }
    command_print_json(json);
    json_decref(json);
    return EXIT_DONE;
}

static int print_form(const struct command *self, const struct pci_attachment *attachment, struct facet_error *error)
{
    PCI_CLEANUP_TEXTS struct facet_attach_texts *texts = NULL;
    uint32_t form = attachment->target == PCI_TARGET_LIBVIRT ? FACET_ATTACH_LIBVIRT
                    : attachment->target == PCI_TARGET_CLOUD ? FACET_ATTACH_CLOUD
                                                             : FACET_ATTACH_QEMU;

    if (facet_attach_render(form, &attachment->request, &texts, error) != FACET_OK)
        return command_refuse(self, attachment->json, error, NULL);
    if (attachment->json)
        return print_json(self, form, texts);
    if (form != FACET_ATTACH_LIBVIRT) {
        print_arguments(texts);
        return EXIT_DONE;
    }
    for (uint32_t i = 0; i < facet_attach_texts_count(texts); i++)
        fputs(facet_attach_texts_at(texts, i), stdout);
    return EXIT_DONE;
}

/* --- attaching --- */

static enum facet_status attach_qmp(const struct pci_attachment *attachment, struct facet_attach_report *reports,
                                    struct facet_error *error)
{
    PCI_CLEANUP_QMP struct facet_qmp *qmp = NULL;
    enum facet_status status = pci_attachment_qmp(attachment, &qmp, error);

    return status == FACET_OK ? facet_qmp_attach(qmp, &attachment->request, reports, error) : status;
}

static json_t *report_json(const struct facet_attach_function *function, const struct facet_attach_report *report)
{
    char address[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(&function->address, address);
    json_t *json = json_pack("{s:s, s:s, s:s*, s:i}", function->mdev ? "mdev" : "address",
                             function->mdev ? function->mdev : address, "id", report->id, "port",
                             report->port[0] ? report->port : NULL, "function", (int)report->function);
    /* Unknown values are left out, as zero would be a value. */
    if (report->used != FACET_PCI_UNKNOWN)
        json_object_set_new(json, "used", json_boolean(report->used == FACET_PCI_YES));
    return json;
}

static int print_reports(const struct command *self, const struct pci_attachment *attachment,
                         const struct facet_attach_report *reports)
{
    static const char *const used[] = {"", "; the guest does not use it yet", "; the guest uses it"};
    json_t *list = json_array();

    for (uint32_t i = 0; i < attachment->request.count; i++) {
        const struct facet_attach_report *report = &reports[i];
        if (attachment->json)
            json_array_append_new(list, report_json(&attachment->functions[i], report));
        else if (report->port[0])
            printf("%s: behind '%s', function %" PRIu32 "%s\n", report->id, report->port, report->function,
                   used[report->used]);
        else
            printf("%s: in the VM\n", report->id);
    }
    return pci_attachment_print(self, attachment, "attached", list);
}

static int attach_functions(const struct command *self, struct pci_attachment *attachment, struct facet_error *error)
{
    struct facet_attach_report reports[FACET_ATTACH_FUNCTIONS];

    for (uint32_t i = 0; i < FACET_ATTACH_FUNCTIONS; i++)
        reports[i] = (struct facet_attach_report){.size = sizeof reports[i]};
    enum facet_status status = attachment->target == PCI_TARGET_QMP ? attach_qmp(attachment, reports, error)
                                                                    : pci_cloud_attach(attachment, reports, error);
    if (status != FACET_OK)
        return command_refuse(self, attachment->json, error, NULL);
    return print_reports(self, attachment, reports);
}

static int run_attach(const struct command *self, int argc, char **argv)
{
    PCI_CLEANUP_ATTACHMENT struct pci_attachment attachment = {.root_fd = -1, .timeout_ns = TIMEOUT_NS};
    struct facet_error error = {0};
    int status = EXIT_DONE;

    if (!read_options(self, argc, argv, &attachment, &status))
        return status;
    if (pci_attachment_begin(&attachment, &error) != FACET_OK || scan_host(self, &attachment, &error) != FACET_OK)
        return command_refuse(self, attachment.json, &error, NULL);
    return attachment.socket ? attach_functions(self, &attachment, &error) : print_form(self, &attachment, &error);
}

const struct command command_pci_attach = {
    .name = "pci attach",
    .help = "usage: facet pci attach --qemu|--qmp SOCKET|--libvirt|\n"
            "                        --cloud-hypervisor[=SOCKET] [option]... ADDRESS...\n"
            "\n"
            "Prints the arguments or XML that give a VM functions bound to VFIO; with a\n"
            "SOCKET, plugs them into a running VM, all or none. ADDRESS is 0000:01:00.0, or\n"
            "the UUID of a mediated device.\n"
            "\n"
            "      --qemu                 arguments of QEMU's command line\n"
            "      --qmp SOCKET           plug into the QEMU that serves QMP there\n"
            "      --libvirt              XML of libvirt\n"
            "      --cloud-hypervisor[=SOCKET]\n"
            "                             arguments of Cloud Hypervisor, or plug in there\n"
            "      --iommufd              use /dev/iommu: QEMU 9.0, kernel 6.6, libvirt 12.1\n"
            "      --qemu-version, --libvirt-version VERSION\n"
            "                             refuse what this version cannot do\n"
            "      --name ID              id of the first function in the VM\n"
            "      --port ID              root port of the first function\n"
            "      --first-port NUMBER    number of the first root port that is made (1)\n"
            "      --primary              the first function is the VM's first VGA\n"
            "      --romfile FILE         ROM of the first function\n"
            "      --no-rom, --no-display\n"
            "                             all functions: hide the ROM, show no picture\n"
            "      --clique NUMBER        GPUs of one number may access each other directly\n"
            "      --segment NUMBER, --guest-iommu\n"
            "                             Cloud Hypervisor: PCI segment, the VM's own IOMMU\n"
            "      --managed              libvirt binds and unbinds by itself\n"
            "      --timeout SECONDS      for all calls to a running VM together (30)\n"
            "      --root DIR             the tree that holds sys and proc (/)\n"
            "      --json                 print JSON\n",
    .run = run_attach,
};
