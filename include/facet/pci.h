/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PCI functions of a machine, as its kernel describes them: identity, driver, holders and shared resources of each.
 *
 * Owns: addresses, and the snapshot: one scan of all functions and of the host's means to hand them on.
 * Never: writes anything, wakes a device that sleeps, or gives a verdict; that is facet/passthrough.h.
 *
 *     int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
 *     facet_pci_scan(&(struct facet_pci_scan_config){.size = sizeof(struct facet_pci_scan_config), .root = root},
 *                    &snapshot, &error);
 *     for (uint32_t i = 0; i < facet_pci_snapshot_count(snapshot); i++)
 *         ... facet_pci_snapshot_at(snapshot, i)->address ...
 *     facet_pci_snapshot_destroy(snapshot);
 *
 * Everything is read below one directory, so that a copy of another machine's /sys, /proc and /etc can be scanned as
 * well. Every attribute may be missing, malformed, or vanish while it is read: then `unread` says why, and the field
 * holds its neutral value. A function that vanishes as a whole is not in the snapshot. A scan takes time: of several
 * functions that vanish or appear together during it, the snapshot may have some only.
 *
 * Thread rule: a snapshot never changes; any number of threads may read it. Its pointers are valid as long as the
 * snapshot. Errors, besides those named: FACET_INVALID_ARGUMENT, FACET_NO_MEMORY. Outputs are untouched on failure.
 * Source: the kernel's Documentation/ABI/testing/sysfs-bus-pci; PCI Express Base Specification 6.0, chapter 7.
 */
#ifndef FACET_PCI_H
#define FACET_PCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- addresses --- */

struct facet_pci_address {
    uint32_t domain; /* 0 to 0xffff; larger behind Intel's VMD */
    uint8_t bus;
    uint8_t device; /* 0 to 31 */
    /* 0 to 7; with ARI a function's number has 8 bits, which the kernel shows as device and function */
    uint8_t function;
    uint8_t reserved; /* 0 */
};

#define FACET_PCI_ADDRESS_SIZE 24u

/* Parses "0000:01:00.0", or "01:00.0", which is in domain 0; upper or lower case, with no text before or after it. */
FACET_API enum facet_status facet_pci_address_parse(const char *text, struct facet_pci_address *ret_address,
                                                    struct facet_error *error);

/* Prints an address as the kernel does: at least 4 digits of domain. */
FACET_API void facet_pci_address_print(const struct facet_pci_address *address, char ret_text[FACET_PCI_ADDRESS_SIZE]);

/* Less than, equal to or greater than 0, in the order of domain, bus, device, function. */
FACET_API int facet_pci_address_compare(const struct facet_pci_address *a, const struct facet_pci_address *b);

/* --- one function --- */

/* The kind follows from the class; `npu` from the class and the vendor. */
enum facet_pci_kind {
    FACET_PCI_KIND_OTHER = 0,
    FACET_PCI_KIND_BRIDGE = 1,  /* to another bus, or of the host: never handed on */
    FACET_PCI_KIND_GPU = 2,     /* class 03: VGA, 3D, display */
    FACET_PCI_KIND_NPU = 3,     /* class 12 (processing accelerator), and models known to be one */
    FACET_PCI_KIND_AUDIO = 4,   /* 0403: the sound of a GPU's connectors */
    FACET_PCI_KIND_USB = 5,     /* 0c03, 0c80: the USB-C connector of a GPU, and its controller */
    FACET_PCI_KIND_STORAGE = 6, /* class 01 */
    FACET_PCI_KIND_NETWORK = 7, /* class 02 */
};
#define FACET_PCI_KINDS 8u

FACET_API const char *facet_pci_kind_name(uint32_t kind); /* "gpu"; NULL when unknown */

/* The attributes for each of which a snapshot says why it could not be read. */
enum facet_pci_attribute {
    FACET_PCI_IDENTITY = 0, /* vendor, device, subsystem, class, revision */
    FACET_PCI_NAMES = 1,    /* from the list of PCI ids */
    FACET_PCI_CONFIG = 2,   /* header type, capabilities, serial, and ACS of bridges */
    FACET_PCI_SLOT = 3,
    FACET_PCI_DRIVER = 4,
    FACET_PCI_OVERRIDE = 5,
    FACET_PCI_NUMA = 6,
    FACET_PCI_LINK = 7,
    FACET_PCI_GROUP = 8,
    FACET_PCI_RESET = 9,
    FACET_PCI_BARS = 10,
    FACET_PCI_RESIZE = 11,
    FACET_PCI_BOOT_VGA = 12,
    FACET_PCI_SRIOV = 13,
    FACET_PCI_TYPES = 14, /* of mediated devices and of vendors' virtual GPUs */
    FACET_PCI_POWER = 15,
    FACET_PCI_D3COLD = 16,
    FACET_PCI_AER = 17,
    FACET_PCI_HOLDERS = 18,
    FACET_PCI_USES = 19,
};
#define FACET_PCI_ATTRIBUTES 20u

FACET_API const char *facet_pci_attribute_name(uint32_t attribute); /* "numa"; NULL when unknown */

enum facet_pci_unread {
    FACET_PCI_READ = 0,
    FACET_PCI_UNREAD_ABSENT = 1,     /* this kernel or function does not have it */
    FACET_PCI_UNREAD_PERMISSION = 2, /* this process may not read it */
    FACET_PCI_UNREAD_MALFORMED = 3,  /* the text is not in the expected form */
    FACET_PCI_UNREAD_ASLEEP = 4,     /* reading it would wake the device */
    FACET_PCI_UNREAD_IO = 5,         /* reading failed */
    FACET_PCI_UNREAD_SKIPPED = 6,    /* not requested (flags of the scan), or of no use for this kind */
    FACET_PCI_UNREAD_STUCK = 7,      /* the read has not returned from the kernel: a driver, or a reset, holds the
                                        device's lock */
    FACET_PCI_UNREAD_UNKNOWN = 8,    /* for holders: the device nodes of the driver are unknown */
};
#define FACET_PCI_UNREADS 9u

FACET_API const char *facet_pci_unread_name(uint32_t unread); /* "asleep"; NULL when unknown */

struct facet_pci_link {
    uint32_t speed_mts; /* megatransfers per second and lane: 2500, 5000, 8000, 16000, 32000, 64000; 0: no link */
    uint32_t width;     /* lanes; 0: no link */
};

struct facet_pci_bar {
    uint64_t start; /* on the bus of the host; 0 if this process may not read it */
    uint64_t bytes; /* 0: absent */
    uint64_t sizes; /* resizable: bit n is 2^n MiB; 0: not resizable */
    uint32_t is_memory;
    uint32_t is_64bit;
    uint32_t is_prefetchable;
    uint32_t reserved;
};
#define FACET_PCI_BARS_COUNT 7u /* six, and the expansion ROM */
#define FACET_PCI_ROM        6u

/* The kernel's methods to reset a function, in the kernel's order of preference; bits of `reset_methods`. */
#define FACET_PCI_RESET_DEVICE_SPECIFIC (UINT32_C(1) << 0)
#define FACET_PCI_RESET_ACPI            (UINT32_C(1) << 1)
#define FACET_PCI_RESET_FLR             (UINT32_C(1) << 2)
#define FACET_PCI_RESET_AF_FLR          (UINT32_C(1) << 3)
#define FACET_PCI_RESET_PM              (UINT32_C(1) << 4)
#define FACET_PCI_RESET_BUS             (UINT32_C(1) << 5) /* hits all functions below the bridge */
#define FACET_PCI_RESET_CXL_BUS         (UINT32_C(1) << 6)
#define FACET_PCI_RESETS                7u

FACET_API const char *facet_pci_reset_name(uint32_t method); /* of one bit: "flr"; NULL when unknown */

/* Access control services, of a bridge or of a function of a multi-function device; bits of `acs`. Passthrough needs
 * all of the first four: without them two functions can reach each other past the IOMMU. */
#define FACET_PCI_ACS_SOURCE_VALIDATION   (UINT32_C(1) << 0)
#define FACET_PCI_ACS_REQUEST_REDIRECT    (UINT32_C(1) << 2)
#define FACET_PCI_ACS_COMPLETION_REDIRECT (UINT32_C(1) << 3)
#define FACET_PCI_ACS_UPSTREAM_FORWARDING (UINT32_C(1) << 4)
#define FACET_PCI_ACS_PRESENT             (UINT32_C(1) << 31) /* the function has the ACS capability */

/*
 * A process that has one of the function's device nodes open. The nodes are those that the kernel lists below the
 * function (except keyboards and mice), and those that its driver is known to have elsewhere. Unknown holders are not
 * the same as no holders: if the nodes of an accelerator's driver are unknown, its holders are
 * FACET_PCI_UNREAD_UNKNOWN. The holders are known with no driver, with vfio-pci and with pci-stub.
 */
struct facet_pci_holder {
    int64_t pid;
    char command[16]; /* as the kernel has it, control bytes as '?' */
    char node[40];    /* "/dev/nvidia0" */
};

/* The host's use of a function that is not an accelerator: a reason not to take the function away. */
struct facet_pci_use {
    uint32_t is_network; /* an interface that is up; otherwise a block device that is mounted, or is swap */
    uint32_t reserved;
    char name[40];  /* "eth0", "nvme0n1p1" */
    char place[64]; /* its mount point, shortened; empty otherwise */
};

/* A type of virtual device that the function's driver can make. */
struct facet_pci_type {
    char id[64];        /* "nvidia-222", "i915-GVTg_V5_4"; for vendors' virtual GPUs the number of the type */
    char name[64];      /* "GRID T4-1B"; empty when it has none */
    char api[32];       /* "vfio-pci"; empty: unknown */
    uint32_t is_vendor; /* made on a virtual function through the vendor's own file, not as a mediated device */
    uint32_t available; /* the number that can still be made */
    uint32_t current;   /* with is_vendor: 1 for the function's present type */
    uint32_t reserved;
};

struct facet_pci_aer {
    uint64_t correctable;
    uint64_t nonfatal;
    uint64_t fatal;
};

#define FACET_PCI_HEADER_UNKNOWN 0xffu

struct facet_pci_function {
    uint32_t size;
    uint32_t kind; /* enum facet_pci_kind */
    struct facet_pci_address address;
    uint8_t unread[FACET_PCI_ATTRIBUTES]; /* enum facet_pci_unread, by enum facet_pci_attribute */
    uint16_t vendor;
    uint16_t device;
    uint16_t subsystem_vendor;
    uint16_t subsystem_device;
    uint32_t class_code; /* 24 bits: 0x030200 */
    uint8_t revision;
    uint8_t header_type; /* without the multi-function bit: 0 an endpoint, 1 a bridge, 0xff unknown */
    uint8_t is_express;
    uint8_t is_vfio;      /* driven by vfio-pci or one of its variants */
    char vendor_name[64]; /* all texts are empty when unknown, and truncated when too long */
    char device_name[96];
    char subsystem_name[96];
    char driver[40];          /* empty: none */
    char driver_override[40]; /* empty: none */
    char modalias[72];
    char serial[24];                    /* "00-11-22-33-44-55-66-77", from the capability */
    char slot[32];                      /* "4", of the board */
    char cpus[128];                     /* the processors near the function: "0-15,32-47" */
    char power_state[16];               /* "D0" ... "D3cold", "unknown" */
    char runtime_status[16];            /* "active", "suspended", ... */
    int32_t numa_node;                  /* -1: unknown, or the machine has one node */
    int32_t group;                      /* of the IOMMU; -1: none */
    struct facet_pci_link link;         /* the present speed and width; an idle GPU lowers its speed by itself */
    struct facet_pci_link link_maximum; /* the function's best */
    struct facet_pci_bar bars[FACET_PCI_BARS_COUNT];
    uint32_t reset_methods; /* FACET_PCI_RESET_* */
    uint32_t acs;           /* FACET_PCI_ACS_* that are switched on */
    uint32_t boot_vga;      /* the firmware showed its first picture on it */
    uint32_t d3cold_allowed;
    uint32_t sriov_total; /* the most virtual functions it can have */
    uint32_t sriov_count; /* virtual functions that it has */
    uint32_t is_lost;     /* listed, and does not answer: fallen off the bus */
    uint32_t is_virtual;  /* it is a virtual function, of `physical` */
    struct facet_pci_address physical;
    const struct facet_pci_address *virtuals; /* its virtual functions */
    size_t virtual_count;
    const struct facet_pci_address *bridges; /* above it, the nearest first */
    size_t bridge_count;
    const struct facet_pci_type *types;
    size_t type_count;
    const struct facet_pci_holder *holders;
    size_t holder_count;
    const struct facet_pci_use *uses;
    size_t use_count;
    struct facet_pci_aer aer; /* the kernel's counters of errors since it found the function */
};

/* --- accelerators that are not on PCI: listed, never handed on --- */

struct facet_pci_platform {
    char name[64];   /* "accel0", "remoteproc1" */
    char device[96]; /* the kernel's name for it: "fdab0000.npu", "adsp" */
    char driver[32]; /* empty: none, or unknown */
};

/* --- the host's means --- */

/* Ranges of memory that a driver of the console holds on a GPU's BAR. */
struct facet_pci_region {
    uint64_t start;
    uint64_t end;   /* the last byte */
    char owner[32]; /* "efifb", "simplefb", "vesafb" */
};

enum facet_pci_known {
    FACET_PCI_UNKNOWN = 0,
    FACET_PCI_NO = 1,
    FACET_PCI_YES = 2,
};

struct facet_pci_host {
    uint32_t size;
    uint32_t iommus;              /* units that the kernel drives; 0: no IOMMU, or switched off */
    uint32_t iommu_off;           /* enum facet_pci_known: the kernel was told not to use one */
    uint32_t interrupt_remapping; /* enum facet_pci_known */
    uint32_t unsafe_interrupts;   /* enum facet_pci_known: vfio may work without interrupt remapping */
    uint32_t acs_override;        /* enum facet_pci_known: groups were split by a setting, not by the hardware */
    uint32_t has_vfio_pci;        /* enum facet_pci_known: the driver is loaded or can be loaded */
    uint32_t has_iommufd;         /* enum facet_pci_known: /dev/iommu exists */
    uint32_t has_noiommu;         /* enum facet_pci_known: vfio may hand functions on without an IOMMU */
    uint32_t disable_idle_d3;     /* enum facet_pci_known: vfio-pci leaves idle devices awake */
    uint64_t dma_entries;         /* the most mappings of one VFIO container; 0: unknown */
    uint64_t memory_bytes;        /* of the machine; 0: unknown */
    uint32_t regions_unread;      /* enum facet_pci_unread */
    uint32_t reserved;
    const struct facet_pci_region *regions;
    size_t region_count;
    const struct facet_pci_platform *platforms;
    size_t platform_count;
};

/* --- the snapshot --- */

/* The parts of a scan that cost the most. */
#define FACET_PCI_SCAN_HOLDERS (UINT32_C(1) << 0) /* the holders of each function: reads all processes */
#define FACET_PCI_SCAN_ALL                                                                                             \
    (UINT32_C(1) << 1) /* every attribute of every function, not only of accelerators and the                          \
                          functions near them */

struct facet_pci_scan_config {
    uint32_t size;
    uint32_t flags; /* FACET_PCI_SCAN_* */
    int root;       /* a descriptor of the directory that holds sys, proc, dev and etc; not closed */
    uint32_t reserved;
    const char *ids; /* the list of PCI ids, below `root`; NULL: the distributions' places */
};

struct facet_pci_snapshot;

/*
 * Scans once. For accelerators and the bridges above them everything is read. For functions that share a device or an
 * IOMMU group with an accelerator, the attributes are read that handing it on depends on. For all other functions
 * identity, driver and group are read. A machine without PCI has an empty snapshot. FACET_NOT_FOUND: there is no sys
 * below `root`. FACET_PERMISSION, FACET_IO: the list of functions cannot be read.
 */
FACET_API enum facet_status facet_pci_scan(const struct facet_pci_scan_config *config,
                                           struct facet_pci_snapshot **ret_snapshot, struct facet_error *error);
FACET_API void facet_pci_snapshot_destroy(struct facet_pci_snapshot *snapshot); /* NULL is fine */

/* Functions in the order of their addresses; NULL beyond the last. */
FACET_API uint32_t facet_pci_snapshot_count(const struct facet_pci_snapshot *snapshot);
FACET_API const struct facet_pci_function *facet_pci_snapshot_at(const struct facet_pci_snapshot *snapshot,
                                                                 uint32_t index);

/* The function at an address; NULL when there is none. */
FACET_API const struct facet_pci_function *facet_pci_snapshot_find(const struct facet_pci_snapshot *snapshot,
                                                                   const struct facet_pci_address *address);

FACET_API const struct facet_pci_host *facet_pci_snapshot_host(const struct facet_pci_snapshot *snapshot);

/* Whether the function is a GPU or an NPU. */
FACET_API bool facet_pci_is_accelerator(const struct facet_pci_function *function);

/*
 * The distance of two functions: 0 for the same device, 1 for one bridge between them, and so on. UINT32_MAX when no
 * bridge is above both, so that their traffic goes through the root complex.
 */
FACET_API uint32_t facet_pci_distance(const struct facet_pci_function *a, const struct facet_pci_function *b);

#ifdef __cplusplus
}
#endif
#endif
