/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing functions that are bound to VFIO to a virtual machine: the text for its monitor, and the monitor's commands.
 *
 * Owns: the forms of QEMU, libvirt and Cloud Hypervisor; hot-plug and unplug through QEMU's monitor socket (QMP).
 * Never: binds or unbinds a function (facet/passthrough_bind.h), starts a VM, or silently leaves half of a request
 * attached.
 *
 *     struct facet_attach_function gpu = {.size = sizeof gpu, .address = address, .bars = function->bars,
 *                                         .bar_count = FACET_PCI_BARS_COUNT};
 *     struct facet_attach_request request = {.size = sizeof request, .functions = &gpu, .count = 1};
 *     facet_attach_render(FACET_ATTACH_QEMU, &request, &texts, &error);
 *     for (uint32_t i = 0; facet_attach_texts_at(texts, i); i++) ... an argument of the command line ...
 *     facet_attach_texts_destroy(texts);
 *
 *     facet_qmp_open(&(struct facet_qmp_config){.size = sizeof(struct facet_qmp_config), .socket = path}, &qmp,
 * &error); facet_qmp_attach(qmp, &request, reports, &error); facet_qmp_close(qmp);
 *
 * Functions of one device (same domain, bus and device) become functions of one device in the VM, behind one root port,
 * so that the guest's driver finds the audio function of a GPU in the expected place. Each virtual function and each
 * mediated device has a port of its own. Values are escaped for their target; quoting for a shell is up to the printing
 * program.
 *
 * Thread rule: any number of threads may render, which keeps no state; one thread at a time may use a connection. Times
 * are nanoseconds of CLOCK_MONOTONIC. Errors, besides those named: FACET_INVALID_ARGUMENT, FACET_OUT_OF_RANGE,
 * FACET_NO_MEMORY. Outputs are untouched on failure. Source: QEMU's qapi/qdev.json, qapi/pci.json and docs/pcie.txt;
 * libvirt's formatdomain; Cloud Hypervisor's vfio.md and cloud-hypervisor.yaml.
 */
#ifndef FACET_ATTACH_H
#define FACET_ATTACH_H

#include <facet/pci.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- the functions --- */

#define FACET_ATTACH_FUNCTIONS 32u /* in one request */
#define FACET_ATTACH_ID_SIZE   64u

/* Flags of a function. */
#define FACET_ATTACH_PRIMARY     (UINT32_C(1) << 0) /* the VM's first VGA (x-vga); one at most; QEMU only */
#define FACET_ATTACH_NO_ROM      (UINT32_C(1) << 1) /* hide the function's expansion ROM */
#define FACET_ATTACH_NO_DISPLAY  (UINT32_C(1) << 2) /* a vGPU whose display is not shown */
#define FACET_ATTACH_VIRTUAL     (UINT32_C(1) << 3) /* a virtual function: a device of its own in the VM */
#define FACET_ATTACH_CLIQUE      (UINT32_C(1) << 4) /* the member `clique` is set */
#define FACET_ATTACH_GUEST_IOMMU (UINT32_C(1) << 5) /* behind the VM's own IOMMU; Cloud Hypervisor only */

struct facet_attach_function {
    uint32_t size;
    uint32_t flags;                   /* FACET_ATTACH_* of a function */
    struct facet_pci_address address; /* on the host; ignored when `mdev` is given */
    const char *mdev;                 /* UUID of a mediated device; NULL: the function itself */
    const char *id;                   /* its name in the VM: a letter, then letters, digits, "-._"; NULL:
                                         facet_attach_id() */
    const char *port;                 /* id of an existing root port; NULL: a new port is made, or on hot-plug the
                                         first free port is taken */
    const char *romfile;              /* a file to show as the function's ROM; NULL: the function's own ROM */
    const struct facet_pci_bar *bars; /* as in struct facet_pci_function; NULL: no window size is requested */
    uint32_t bar_count;
    uint32_t clique; /* 0 to 15; GPUs with the same number speak to each other directly */
    int32_t fd;      /* its VFIO device, opened by the process that starts QEMU; 0: QEMU opens it. Needs
                        FACET_ATTACH_IOMMUFD */
    uint32_t reserved;
};

/* Flags of a request. */
#define FACET_ATTACH_IOMMUFD (UINT32_C(1) << 0) /* /dev/iommu in place of a VFIO container */
#define FACET_ATTACH_MANAGED (UINT32_C(1) << 1) /* libvirt binds and unbinds by itself */

#define FACET_ATTACH_VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

/* Zeroed members mean the default. */
struct facet_attach_request {
    uint32_t size;
    uint32_t flags;      /* FACET_ATTACH_* of a request */
    uint32_t count;      /* 1 to FACET_ATTACH_FUNCTIONS */
    uint32_t first_port; /* number of the first root port that is made: its chassis and slot; default 1, at most 255 */
    const struct facet_attach_function *functions;
    int32_t iommufd_fd;       /* /dev/iommu, opened by the process that starts QEMU; 0: QEMU opens it. Needs
                                 FACET_ATTACH_IOMMUFD */
    uint32_t segment;         /* PCI segment of the VM, 0 to 15; Cloud Hypervisor only */
    uint32_t qemu_version;    /* FACET_ATTACH_VERSION(); 0: unknown and not checked; iommufd needs QEMU 9.0 */
    uint32_t kernel_version;  /* the host's kernel; iommufd needs Linux 6.6 */
    uint32_t libvirt_version; /* iommufd needs libvirt 12.1, and this version must be known */
    uint32_t reserved;
};

/* The name that a function or mediated device has in the VM when it was not given one: "facet-0000-65-00.0". */
FACET_API void facet_attach_id(const struct facet_attach_function *function, char ret_id[FACET_ATTACH_ID_SIZE]);

/*
 * The sizes of the windows that a root port needs for these BARs: one window for 64-bit prefetchable BARs, one for all
 * other memory BARs. Each size is a power of two, because firmware aligns a window to its size; 0 when there are no
 * such BARs.
 */
FACET_API void facet_attach_windows(const struct facet_pci_bar *bars, uint32_t count, uint64_t *ret_prefetchable,
                                    uint64_t *ret_other);

/* --- forms --- */

enum facet_attach_form {
    FACET_ATTACH_QEMU = 0,         /* arguments of the command line: root ports, then the functions */
    FACET_ATTACH_LIBVIRT = 1,      /* a <hostdev> for each function */
    FACET_ATTACH_CLOUD = 2,        /* arguments of cloud-hypervisor's command line */
    FACET_ATTACH_CLOUD_ADD = 3,    /* bodies of PUT /api/v1/vm.add-device, one for each function */
    FACET_ATTACH_CLOUD_REMOVE = 4, /* bodies of PUT /api/v1/vm.remove-device */
};
#define FACET_ATTACH_FORMS 5u

FACET_API const char *facet_attach_form_name(uint32_t form); /* "cloud_hypervisor_add"; NULL when unknown */

struct facet_attach_texts;

/* FACET_UNSUPPORTED: the form cannot express a part of the request, or a version is too low for it. */
FACET_API enum facet_status facet_attach_render(uint32_t form, const struct facet_attach_request *request,
                                                struct facet_attach_texts **ret_texts, struct facet_error *error);
FACET_API uint32_t facet_attach_texts_count(const struct facet_attach_texts *texts);
FACET_API const char *facet_attach_texts_at(const struct facet_attach_texts *texts, uint32_t index); /* NULL: no more */
FACET_API void facet_attach_texts_destroy(struct facet_attach_texts *texts);                         /* NULL is fine */

/* --- a running QEMU --- */

struct facet_qmp;

/* Zeroed members mean the default. */
struct facet_qmp_config {
    uint32_t size;
    uint32_t reserved;
    const char *socket;  /* the path of a Unix socket on which QEMU serves QMP. Must be given */
    uint64_t timeout_ns; /* for all calls on this connection together, counted from opening; default 30 s */
    uint64_t used_ns;    /* the part of timeout_ns that may be spent on waiting until the guest uses the plugged
                            functions; default 5 s */
    const char *driver; /* QEMU's name of the plugged device; default "vfio-pci". A device of any other name, such as an
                           emulated one, is given the properties id, bus and addr alone */
};

/*
 * Connects, and agrees on capabilities. FACET_NOT_FOUND, FACET_PERMISSION, FACET_IO: no process answers at `socket`.
 * FACET_TIMEOUT: QEMU does not answer; it serves one client at a time. FACET_CORRUPT: the answer is not QMP.
 */
FACET_API enum facet_status facet_qmp_open(const struct facet_qmp_config *config, struct facet_qmp **ret_qmp,
                                           struct facet_error *error);
FACET_API void facet_qmp_close(struct facet_qmp *qmp);              /* NULL is fine */
FACET_API uint32_t facet_qmp_version(const struct facet_qmp *qmp);  /* QEMU's, as FACET_ATTACH_VERSION() makes it */
FACET_API int64_t facet_qmp_process(const struct facet_qmp *qmp);   /* QEMU's process id; 0: not known */
FACET_API uint64_t facet_qmp_deadline(const struct facet_qmp *qmp); /* ns of CLOCK_MONOTONIC */

/* The outcome of plugging one function in. */
struct facet_attach_report {
    uint32_t size;
    uint32_t used; /* enum facet_pci_known: the guest has enabled the function's memory, as a driver or firmware does;
                      unknown while the VM is paused, or when the function has no memory */
    uint32_t function; /* its number in the VM */
    uint32_t reserved;
    char id[FACET_ATTACH_ID_SIZE];
    char port[FACET_ATTACH_ID_SIZE];
};

/*
 * Plugs all functions of `request` in, or none; `ret_reports` has room for one report per function. A function without
 * a named port goes to a root port of QEMU that has nothing behind it and takes hot-plugs. A device that the guest does
 * not use is no failure; the report shows it. After a failure the plugged functions are taken out again, which may take
 * another 2 s; the message names the functions that could not be taken out. FACET_ALREADY_EXISTS: an id is in use.
 * FACET_NOT_FOUND: no such port. FACET_NO_SPACE: no free port. FACET_TIMEOUT, FACET_IO, FACET_CORRUPT as for
 * facet_qmp_open(). FACET_BAD_STATE: QEMU refused; the message has QEMU's own text.
 */
FACET_API enum facet_status facet_qmp_attach(struct facet_qmp *qmp, const struct facet_attach_request *request,
                                             struct facet_attach_report *ret_reports, struct facet_error *error);

/*
 * Asks the guest to give the functions up, and waits until each is out of QEMU. A function is found by its `id`, else
 * by facet_attach_id(), else by QEMU's record of its host address. Functions that share a slot go together, so all of
 * them must be named. FACET_NOT_FOUND: QEMU has no such device. FACET_BUSY: the guest refuses. FACET_TIMEOUT: the guest
 * does not answer. The device is then still in the VM, the message names it and says whether the VM runs, and the call
 * may be made again. FACET_BAD_STATE: functions that were not named share the slot, or QEMU refused.
 */
FACET_API enum facet_status facet_qmp_detach(struct facet_qmp *qmp, const struct facet_attach_function *functions,
                                             uint32_t count, struct facet_error *error);

/* --- processes that have a VFIO node open --- */

/*
 * Finds a process that has one of these device nodes ("/dev/vfio/12") open, by reading proc below `root`, a descriptor
 * of the directory that holds proc. With a `pid` other than 0 only that process is checked. `ret_pid` is 0 when there
 * is none. FACET_PERMISSION: no holder was found, but some process may not be read, so the answer is unknown.
 */
FACET_API enum facet_status facet_attach_find_holder(int root, int64_t pid, const char *const *nodes, uint32_t count,
                                                     int64_t *ret_pid, struct facet_error *error);

/*
 * Waits until `pid` has none of the nodes open any more: QEMU says that a device is deleted a moment before it closes
 * it. Only then may the function be unbound. A process that is gone has closed everything. FACET_TIMEOUT.
 */
FACET_API enum facet_status facet_attach_wait_closed(int root, int64_t pid, const char *const *nodes, uint32_t count,
                                                     uint64_t deadline_ns, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
