/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing whole PCI functions to virtual machines: whether a function may be handed on, and the reasons if not.
 *
 * Owns: the verdict on a set of functions, with all its reasons at once.
 * Never: reads or changes the host: a verdict is made from a snapshot (facet/pci.h) alone. Functions are bound by
 * facet/passthrough_bind.h.
 *
 *     facet_passthrough_judge(snapshot, &wish, &verdict, &error);          show verdict->answer, verdict->reasons
 *
 * Thread rule: pure; any thread. Errors: FACET_INVALID_ARGUMENT, FACET_NO_MEMORY, and those named. Outputs are
 * untouched on failure. Source: the kernel's Documentation/driver-api/vfio.rst; libvirt's order of checks for host
 * devices.
 */
#ifndef FACET_PASSTHROUGH_H
#define FACET_PASSTHROUGH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/pci.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- reasons --- */

enum facet_passthrough_weight {
    FACET_PASSTHROUGH_STOP = 0,       /* the function must not be handed on */
    FACET_PASSTHROUGH_UNMEASURED = 1, /* whether it may be handed on is unknown */
    FACET_PASSTHROUGH_WARNING = 2,    /* the function may be handed on, with a drawback */
};

/* X(NAME, name, weight, remedy) */
#define FACET_PASSTHROUGH_REASON_TABLE(X)                                                                              \
    X(BRIDGE, bridge, STOP, "name a function behind it")                                                               \
    X(LOST, lost, STOP, "rescan the bus or power the machine off and on; then look at its log")                        \
    X(STUCK, stuck, STOP,                                                                                              \
      "end the process that has it open; a reset ends by itself; else read the host's log and restart the host")       \
    X(NO_IOMMU, no_iommu, STOP,                                                                                        \
      "switch the IOMMU (VT-d, AMD-Vi, SMMU) on in the firmware; Intel also wants intel_iommu=on for the kernel")      \
    X(NO_GROUP, no_group, STOP, "see in the kernel's log why the IOMMU left it out")                                   \
    X(NO_VFIO, no_vfio, STOP, "install the kernel's module vfio-pci")                                                  \
    X(NO_INTERRUPT_REMAPPING, no_interrupt_remapping, STOP,                                                            \
      "switch interrupt remapping on in the firmware; vfio_iommu_type1.allow_unsafe_interrupts=1 works without")       \
    X(GROUP_DRIVER, group_driver, STOP, "hand on the whole group, or unbind that function first")                      \
    X(GROUP_OPEN, group_open, STOP, "stop that virtual machine: a group is for one at a time")                         \
    X(HELD, held, STOP, "end these processes; for NVIDIA's driver that includes nvidia-persistenced")                  \
    X(ONLY_GPU, only_gpu, STOP, "keep a GPU for the host's screen, or say that none is wanted")                        \
    X(CONSOLE, console, STOP, "boot with initcall_blacklist=sysfb_init, or video=efifb:off for older kernels")         \
    X(NETWORK_UP, network_up, STOP, "take the interface down, if you do not need it to reach this machine")            \
    X(DISK_USED, disk_used, STOP, "unmount it; never hand on the disk that the host runs from")                        \
    X(HAS_VIRTUALS, has_virtuals, STOP, "hand on one of its virtual functions, or remove them all")                    \
    X(UNREAD, unread, UNMEASURED, "run as root, on the host itself")                                                   \
    X(NO_RESET, no_reset, WARNING, "a second start may fail until the host reboots; look for a vendor's reset module") \
    X(BUS_RESET, bus_reset, WARNING, "give all functions that the reset hits to one virtual machine")                  \
    X(COMPANION, companion, WARNING, "add it, if the guest's driver wants the whole device")                           \
    X(ACS_OVERRIDE, acs_override, WARNING, "trust the guests, or remove pcie_acs_override")                            \
    X(UNSAFE_INTERRUPTS, unsafe_interrupts, WARNING, "trust the guests, or switch interrupt remapping on")             \
    X(SLEEPS, sleeps, WARNING, "load vfio-pci with disable_idle_d3=1 if it does not wake")                             \
    X(LARGE_BAR, large_bar, WARNING, "give its root port a window (QEMU: pref64-reserve) and firmware that maps it")   \
    X(MEMORY_LOCK, memory_lock, WARNING, "raise RLIMIT_MEMLOCK of the process that starts the virtual machine")        \
    X(FAR, far, WARNING, "pin the virtual machine to the device's NUMA node")                                          \
    X(USERS_UNKNOWN, users_unknown, WARNING, "make sure yourself that nothing uses it any more")

enum facet_passthrough_reason_code {
#define FACET_PASSTHROUGH_REASON_ENUM(NAME, name, weight, advice) FACET_PASSTHROUGH_##NAME,
    FACET_PASSTHROUGH_REASON_TABLE(FACET_PASSTHROUGH_REASON_ENUM)
#undef FACET_PASSTHROUGH_REASON_ENUM
        FACET_PASSTHROUGH_REASONS
};

FACET_API const char *facet_passthrough_reason_name(uint32_t code);   /* "no_iommu"; NULL when unknown */
FACET_API const char *facet_passthrough_reason_advice(uint32_t code); /* the remedy; NULL when unknown */

struct facet_passthrough_reason {
    uint32_t code;                    /* enum facet_passthrough_reason_code */
    uint32_t weight;                  /* enum facet_passthrough_weight */
    struct facet_pci_address address; /* the function that the reason is about */
    char text[240];                   /* the finding, one line: "held by nvidia-smi (pid 4711)" */
};

/* --- judging --- */

enum facet_passthrough_answer {
    FACET_PASSTHROUGH_UNKNOWN = 0,
    FACET_PASSTHROUGH_NO = 1,
    FACET_PASSTHROUGH_YES = 2,
};

FACET_API const char *facet_passthrough_answer_name(uint32_t answer); /* "unknown"; NULL when there is none */

#define FACET_PASSTHROUGH_WHOLE_GROUP                                                                                  \
    (UINT32_C(1) << 0)                                /* also hand on all functions in the IOMMU groups of the named   \
                                                         functions */
#define FACET_PASSTHROUGH_HEADLESS (UINT32_C(1) << 1) /* the host needs no screen */

struct facet_passthrough_wish {
    uint32_t size;
    uint32_t flags; /* FACET_PASSTHROUGH_WHOLE_GROUP, ... */
    const struct facet_pci_address *functions;
    size_t count;
    /* About the virtual machine, where known; 0: not checked. */
    uint64_t memory_bytes;
    uint64_t memory_lock_bytes; /* RLIMIT_MEMLOCK of the process that starts the machine; UINT64_MAX: unlimited */
    uint32_t has_numa_node;
    int32_t numa_node;
    int64_t own_pid; /* a process that may have the functions open, such as the caller; 0: none */
};

struct facet_passthrough_verdict {
    uint32_t size;
    uint32_t answer;                     /* enum facet_passthrough_answer */
    struct facet_pci_address *functions; /* the functions that would be handed on together, by address: the named
                                            functions, and with FACET_PASSTHROUGH_WHOLE_GROUP all others of their
                                            groups */
    size_t function_count;
    struct facet_passthrough_reason *reasons; /* stops first, then unknowns, then warnings */
    size_t reason_count;
};

/*
 * Whether the functions of a wish may be handed on together, with every reason at once. The snapshot must have been
 * taken with FACET_PCI_SCAN_HOLDERS, else the holders are unknown, and with FACET_PCI_SCAN_ALL if a function shares
 * neither a device nor an IOMMU group with an accelerator. The answer is FACET_PASSTHROUGH_YES only when every gate was
 * measured. FACET_NOT_FOUND: a function is not in the snapshot.
 */
FACET_API enum facet_status facet_passthrough_judge(const struct facet_pci_snapshot *snapshot,
                                                    const struct facet_passthrough_wish *wish,
                                                    struct facet_passthrough_verdict **ret_verdict,
                                                    struct facet_error *error);
FACET_API void facet_passthrough_verdict_destroy(struct facet_passthrough_verdict *verdict); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
