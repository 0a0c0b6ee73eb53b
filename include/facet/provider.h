/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider ABI: what a vendor implements so that Facet can list and carve its devices.
 *
 * Owns: the entry point, the version rules, and the tables of operations that cross the boundary.
 * Never: names a vendor, or changes the meaning or place of a published field.
 *
 * A provider is a shared object that exports exactly one symbol, `facet_provider_entry`.
 *
 * Versions. Major must match exactly. Minor is negotiated: the host states its own, the provider states the minor it
 * was built for, and both sides use the smaller. Every struct and table begins with its size, so that newer members are
 * recognised by the size and never read past it. Members are only ever appended.
 *
 * Absence. Any operation may be NULL, and a table may be shorter than the host's: the host treats both as unsupported.
 *
 * Rules for every operation, unless its comment says otherwise:
 *  - callable from any thread, several at a time;
 *  - never prints, never exits, never installs signal handlers, never blocks for ever;
 *  - strings in structs are printable ASCII, NUL-terminated inside their arrays; the caller owns all buffers it passes;
 *  - outputs come last and are untouched on failure; a failing call may describe itself in `error` (may be NULL).
 *
 * Listing has no side effects on the device and takes no memory on it; opening pays.
 */
#ifndef FACET_PROVIDER_H
#define FACET_PROVIDER_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>
#include <facet/limits.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FACET_PROVIDER_ABI_MAJOR 1
#define FACET_PROVIDER_ABI_MINOR 0

/* What the host tells a provider at entry. Valid for the duration of the call. */
struct facet_provider_host {
    uint32_t size; /* of this struct, as the host was built */
    uint16_t abi_major;
    uint16_t abi_minor;
    struct facet_error *error; /* a provider that refuses says here why; never NULL */
};

enum facet_device_kind {
    FACET_DEVICE_OTHER = 0,
    FACET_DEVICE_CPU = 1,
    FACET_DEVICE_GPU = 2,
    FACET_DEVICE_NPU = 3,
    FACET_DEVICE_ACCELERATOR = 4, /* FPGA and the like */
};

/* Bits of facet_device_info.valid: a field whose bit is clear was not measured. Absent is not zero. */
#define FACET_DEVICE_HAS_MEMORY         (UINT64_C(1) << 0)
#define FACET_DEVICE_HAS_MAX_ALLOC      (UINT64_C(1) << 1)
#define FACET_DEVICE_HAS_COMPUTE_UNITS  (UINT64_C(1) << 2)
#define FACET_DEVICE_HAS_CLOCK          (UINT64_C(1) << 3)
#define FACET_DEVICE_HAS_NUMA           (UINT64_C(1) << 4)
#define FACET_DEVICE_HAS_PCI            (UINT64_C(1) << 5)
#define FACET_DEVICE_HAS_MAX_PARTITIONS (UINT64_C(1) << 6)

/* Bits of facet_device_info.modes: (1 << enum facet_mode). */
#define FACET_DEVICE_MODE(mode) (UINT32_C(1) << (mode))

/* One device. Fixed layout, pinned by static asserts below and by the ABI test. */
struct facet_device_info {
    uint32_t size;  /* set by the caller to sizeof; a provider writes at most that much */
    uint32_t index; /* place in this provider's list, from 0 */
    uint64_t valid; /* FACET_DEVICE_HAS_* */

    char uuid[64];  /* stable across restarts of program and machine */
    char name[128]; /* as the vendor writes it */
    char vendor[64];
    char driver_version[128];
    char address[256];    /* how the matching interposer finds this device; see the provider's header comment */
    char pci_address[16]; /* "0000:01:00.0"; empty when not PCI */

    uint32_t kind;            /* enum facet_device_kind */
    uint32_t modes;           /* FACET_DEVICE_MODE bits that this device supports */
    uint64_t memory_bytes;    /* all of the device's memory */
    uint64_t max_alloc_bytes; /* the largest single allocation */
    uint32_t compute_units;
    uint32_t clock_mhz;
    int32_t numa_node;
    uint32_t max_partitions;
    uint64_t reserved[4]; /* zero */
};

FACET_STATIC_ASSERT(sizeof(struct facet_device_info) == 744, "ABI: facet_device_info");
FACET_STATIC_ASSERT(offsetof(struct facet_device_info, uuid) == 16, "ABI: uuid");
FACET_STATIC_ASSERT(offsetof(struct facet_device_info, memory_bytes) == 680, "ABI: memory_bytes");

enum facet_health {
    FACET_HEALTH_UNKNOWN = 0,
    FACET_HEALTH_OK = 1,
    FACET_HEALTH_DEGRADED = 2,
    FACET_HEALTH_FAILED = 3,
};

/* An opened provider. Opaque to the host. */
struct facet_provider_instance;

/* Finding out about devices. */
struct facet_device_ops {
    uint64_t size; /* of this table, as the provider was built */

    /* Opens the vendor's runtime. Called once before any other operation; may take seconds. */
    enum facet_status (*open)(struct facet_provider_instance **ret_instance, struct facet_error *error);

    /* Closes it. Called once, when no other call is under way. NULL instance is allowed. */
    void (*close)(struct facet_provider_instance *instance);

    /*
     * Writes the number of devices to *ret_count and, when `capacity` is enough, their descriptions to `infos`.
     * `infos` is an array of `capacity` structs of `info_size` bytes each. Too small a capacity (0 included):
     * *ret_count is written, nothing else is, and FACET_TOO_SMALL is returned; never a truncated list. No devices: OK
     * and 0.
     */
    enum facet_status (*list)(struct facet_provider_instance *instance, void *infos, uint32_t info_size,
                              uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

    /* Health of one device now. FACET_NOT_FOUND for an unknown index. */
    enum facet_status (*health)(struct facet_provider_instance *instance, uint32_t index, uint32_t *ret_health,
                                struct facet_error *error);
};

struct facet_provider {
    uint32_t size; /* of this struct, as the provider was built */
    uint16_t abi_major;
    uint16_t abi_minor;
    const char *name;        /* [a-z][a-z0-9_-]{0,31}; the prefix of device ids, "opencl:0" */
    const char *version;     /* of the provider, for people */
    const char *description; /* one line */
    uint64_t traits;         /* FACET_PROVIDER_* */
    const struct facet_device_ops *device;
};

#define FACET_PROVIDER_SIMULATED (UINT64_C(1) << 0) /* its devices do not exist; shown everywhere */
#define FACET_PROVIDER_TEMPLATE  (UINT64_C(1) << 1) /* has no devices by design */

FACET_STATIC_ASSERT(sizeof(struct facet_provider) == 48, "ABI: facet_provider");
FACET_STATIC_ASSERT(sizeof(struct facet_device_ops) == 40, "ABI: facet_device_ops");

/*
 * The one exported symbol. Called once, before anything else. On success writes a pointer to static data that stays
 * valid until the object is closed. Refuses with FACET_ABI_MISMATCH when host->abi_major is not its own.
 */
typedef enum facet_status (*facet_provider_entry_func)(const struct facet_provider_host *host,
                                                       const struct facet_provider **ret_provider);

#define FACET_PROVIDER_ENTRY_NAME "facet_provider_entry"

FACET_API enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                                 const struct facet_provider **ret_provider);

#ifdef __cplusplus
}
#endif
#endif
