/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading operands, and the few files of the host that attaching needs. Never: fails when a file is missing. */
#include "pci_attachment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { UUID_LENGTH = 36, PATH_SIZE = 192 };

/* --- options and operands --- */

bool pci_attachment_target(const struct command *self, struct pci_attachment *attachment, enum pci_target target,
                           const char *expected, int *ret_exit)
{
    if (attachment->target != PCI_TARGET_NONE) {
        *ret_exit = command_usage(self, "two targets; expected one of %s", expected);
        return false;
    }
    attachment->target = target;
    attachment->socket = target == PCI_TARGET_QEMU || target == PCI_TARGET_LIBVIRT ? NULL : optarg;
    return true;
}

bool pci_attachment_option(const struct command *self, int option, struct pci_attachment *attachment, int *ret_exit)
{
    switch (option) {
    case OPTION_JSON:
        attachment->json = true;
        return true;
    case OPTION_ROOT:
        attachment->root = optarg;
        return true;
    case OPTION_TIMEOUT:
        if (command_read_interval(optarg, &attachment->timeout_ns))
            return true;
        *ret_exit = command_usage(self, "timeout '%s': expected 0.1 to 3600 seconds", optarg);
        return false;
    default:
        *ret_exit = option == 'h' ? command_help(self) : EXIT_USAGE;
        return false;
    }
}

static bool read_operand(const struct command *self, const char *text, struct facet_attach_function *function)
{
    struct facet_error error = {0};

    function->size = sizeof *function;
    if (strlen(text) == UUID_LENGTH) {
        function->mdev = text;
        return true;
    }
    if (facet_pci_address_parse(text, &function->address, &error) == FACET_OK)
        return true;
    command_usage(self, "%s", error.message);
    return false;
}

bool pci_attachment_operands(const struct command *self, int argc, char **argv, struct pci_attachment *attachment,
                             int *ret_exit)
{
    *ret_exit = EXIT_USAGE;
    if (!command_operands(self, argc, argv, 1, (int)FACET_ATTACH_FUNCTIONS, "ADDRESS"))
        return false;
    attachment->request.size = sizeof attachment->request;
    attachment->request.functions = attachment->functions;
    for (int i = optind; i < argc; i++)
        if (!read_operand(self, argv[i], &attachment->functions[attachment->request.count++]))
            return false;
    return true;
}

static bool read_number(const char **at, uint32_t *ret_number)
{
    uint32_t number = 0;
    const char *first = *at;

    for (; **at >= '0' && **at <= '9' && number <= 0xffff; (*at)++)
        number = number * 10 + (uint32_t)(**at - '0');
    *ret_number = number;
    return *at != first && number <= 0xffff;
}

bool pci_attachment_version(const char *text, uint32_t *ret_version)
{
    uint32_t major = 0, minor = 0;

    if (!read_number(&text, &major) || *text++ != '.' || !read_number(&text, &minor))
        return false;
    *ret_version = FACET_ATTACH_VERSION(major, minor);
    return *text == '\0' || *text == '.' || *text == '-' || *text == '+';
}

/* --- the host --- */

static void read_kernel(struct pci_attachment *attachment)
{
    char text[128] = "";
    FACET_CLEANUP_FD int fd = openat(attachment->root_fd, "proc/sys/kernel/osrelease", O_RDONLY | O_CLOEXEC);
    uint32_t version = 0;

    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0 && pci_attachment_version(text, &version))
        attachment->request.kernel_version = version;
}

enum facet_status pci_attachment_begin(struct pci_attachment *attachment, struct facet_error *error)
{
    const char *root = attachment->root ? attachment->root : "/";

    attachment->root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (attachment->root_fd < 0)
        return facet_error_errno(error, errno, "cannot open '%.80s'", root);
    attachment->deadline_ns = facet_clock_now_ns() + attachment->timeout_ns;
    read_kernel(attachment);
    /* On a machine without PCI, arguments can still be printed for another one. */
    enum facet_status status = facet_pci_scan(
        &(struct facet_pci_scan_config){
            .size = sizeof(struct facet_pci_scan_config), .flags = FACET_PCI_SCAN_ALL, .root = attachment->root_fd},
        &attachment->snapshot, error);
    return status == FACET_NOT_FOUND ? FACET_OK : status;
}

enum facet_status pci_attachment_qmp(const struct pci_attachment *attachment, struct facet_qmp **ret_qmp,
                                     struct facet_error *error)
{
    return facet_qmp_open(&(struct facet_qmp_config){.size = sizeof(struct facet_qmp_config),
                                                     .socket = attachment->socket,
                                                     .timeout_ns = attachment->timeout_ns},
                          ret_qmp, error);
}

int pci_attachment_print(const struct command *self, const struct pci_attachment *attachment, const char *member,
                         json_t *list)
{
    json_t *json = json_pack("{s:o}", member, list);
    int exit = EXIT_DONE;

    if (!json)
        return command_out_of_memory(self);
    if (attachment->json)
        exit = command_print_json(json);
    json_decref(json);
    return exit;
}

void pci_attachment_end(struct pci_attachment *attachment)
{
    facet_pci_snapshot_destroy(attachment->snapshot);
    facet_cleanup_fd(&attachment->root_fd);
}

/* Reads the last part of a symbolic link's target; empty when there is no link. */
static void read_link(int folder, const char *name, char *ret_text, size_t size)
{
    char target[512];
    ssize_t length = readlinkat(folder, name, target, sizeof target - 1);

    ret_text[0] = '\0';
    if (length <= 0)
        return;
    target[length] = '\0';
    const char *slash = strrchr(target, '/');
    snprintf(ret_text, size, "%.30s", slash ? slash + 1 : target);
}

static int open_device(const struct pci_attachment *attachment, const struct facet_attach_function *function)
{
    char path[PATH_SIZE], address[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(&function->address, address);
    snprintf(path, sizeof path, "sys/bus/%s/devices/%.60s", function->mdev ? "mdev" : "pci",
             function->mdev ? function->mdev : address);
    return openat(attachment->root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

bool pci_attachment_has_mdev(const struct pci_attachment *attachment, const char *uuid)
{
    FACET_CLEANUP_FD int folder = open_device(attachment, &(struct facet_attach_function){.mdev = uuid});

    return folder >= 0;
}

/* Finds /dev/vfio/GROUP and, on kernels that have it, /dev/vfio/devices/vfioN. */
void pci_attachment_nodes(const struct pci_attachment *attachment, const struct facet_attach_function *function,
                          struct pci_nodes *ret_nodes)
{
    char group[32];
    FACET_CLEANUP_FD int folder = open_device(attachment, function);

    *ret_nodes = (struct pci_nodes){0};
    if (folder < 0)
        return;
    read_link(folder, "iommu_group", group, sizeof group);
    if (group[0])
        snprintf(ret_nodes->paths[ret_nodes->count++], sizeof ret_nodes->paths[0], "/dev/vfio/%s", group);
    FACET_CLEANUP_FD int fd = openat(folder, "vfio-dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FACET_CLEANUP_DIR DIR *devices = fd >= 0 ? fdopendir(fd) : NULL;
    if (!devices)
        return;
    (void)FACET_TAKE_FD(fd); /* `devices` owns it now */
    for (const struct dirent *entry; (entry = readdir(devices));)
        if (strncmp(entry->d_name, "vfio", 4) == 0 && ret_nodes->count < 2)
            snprintf(ret_nodes->paths[ret_nodes->count++], sizeof ret_nodes->paths[0], "/dev/vfio/devices/%.40s",
                     entry->d_name);
}
