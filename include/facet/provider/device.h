/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI, table `device`: the devices, their properties, their health.
 *
 * Owns: struct facet_device_info, properties, health and events.
 * Never: changes a device. Listing has no side effects on a device and takes no memory on it; only opening has a cost.
 *
 * The rules of facet/provider.h hold for every operation.
 */
#ifndef FACET_PROVIDER_DEVICE_H
#define FACET_PROVIDER_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>
#include <facet/limits.h>

#ifdef __cplusplus
extern "C" {
#endif

enum facet_device_kind {
    FACET_DEVICE_OTHER = 0,
    FACET_DEVICE_CPU = 1,
    FACET_DEVICE_GPU = 2,
    FACET_DEVICE_NPU = 3,
    FACET_DEVICE_ACCELERATOR = 4, /* FPGA and the like */
};

/* Bits of facet_device_info.valid: a field whose bit is clear was not measured. */
#define FACET_DEVICE_HAS_MEMORY           (UINT64_C(1) << 0)
#define FACET_DEVICE_HAS_MAX_ALLOC        (UINT64_C(1) << 1)
#define FACET_DEVICE_HAS_COMPUTE_UNITS    (UINT64_C(1) << 2)
#define FACET_DEVICE_HAS_CLOCK            (UINT64_C(1) << 3)
#define FACET_DEVICE_HAS_NUMA             (UINT64_C(1) << 4)
#define FACET_DEVICE_HAS_PCI              (UINT64_C(1) << 5)
#define FACET_DEVICE_HAS_MAX_PARTITIONS   (UINT64_C(1) << 6)
#define FACET_DEVICE_HAS_PEAK_RATE        (UINT64_C(1) << 7) /* since 1.1, as all below */
#define FACET_DEVICE_HAS_MEMORY_BANDWIDTH (UINT64_C(1) << 8)
#define FACET_DEVICE_HAS_PCIE_LINK        (UINT64_C(1) << 9)
#define FACET_DEVICE_HAS_MAX_WORKERS      (UINT64_C(1) << 10)

/* Bits of facet_device_info.modes: (1 << enum facet_mode). */
#define FACET_DEVICE_MODE(mode) (UINT32_C(1) << (mode))

/* Bits of facet_device_info.capabilities: the promises of this device. Each comment names the operations that work. */
#define FACET_CAN_PARTITION       (UINT64_C(1) << 0)  /* partition: all */
#define FACET_CAN_LIMIT_MEMORY    (UINT64_C(1) << 1)  /* limit: set_memory, get, list, clear */
#define FACET_CAN_LIMIT_COMPUTE   (UINT64_C(1) << 2)  /* limit: set_compute, get, list, clear */
#define FACET_CAN_SNAPSHOT        (UINT64_C(1) << 3)  /* snapshot: all */
#define FACET_CAN_DEVICE_METRICS  (UINT64_C(1) << 4)  /* metrics: device */
#define FACET_CAN_PROCESS_METRICS (UINT64_C(1) << 5)  /* metrics: processes */
#define FACET_CAN_LINK_METRICS    (UINT64_C(1) << 6)  /* metrics: links */
#define FACET_CAN_TOPOLOGY        (UINT64_C(1) << 7)  /* device: nodes, links */
#define FACET_CAN_EVENTS          (UINT64_C(1) << 8)  /* device: events */
#define FACET_CAN_CONTAINER       (UINT64_C(1) << 9)  /* container: all */
#define FACET_CAN_MEMORY          (UINT64_C(1) << 10) /* memory: contexts, plain memory, copies */
#define FACET_CAN_MAP_MEMORY      (UINT64_C(1) << 11) /* memory: reserve .. unmap */
#define FACET_CAN_EXECUTE         (UINT64_C(1) << 12) /* execution: load .. cancel */
#define FACET_CAN_REMOTE          (UINT64_C(1) << 13) /* can be used from another machine; promises no operation */
#define FACET_CAN_ENQUEUE         (UINT64_C(1) << 14) /* since 1.2; execution: write, copy, fill */
#define FACET_CAN_SHARE           (UINT64_C(1) << 15) /* since 1.2; execution: set_share, set_priority */
#define FACET_CAN_RECORD          (UINT64_C(1) << 16) /* since 1.2; execution: records */
#define FACET_CAN_SHARE_PAGES     (UINT64_C(1) << 17) /* since 1.3; memory: share_pages */
#define FACET_CAN_MOVE_PAGES      (UINT64_C(1) << 18) /* since 1.3; memory: move */
#define FACET_CAN_CONTROL         (UINT64_C(1) << 19) /* since 1.4; execution: set_bounds .. cancel_launch */
#define FACET_CAN_SCHEDULE        (UINT64_C(1) << 20) /* since 1.4; execution: set_policy */
#define FACET_CAN_MATH            (UINT64_C(1) << 21) /* since 1.4; math: all */

/* One device. Fixed layout, pinned by static asserts below and by the ABI test. */
struct facet_device_info {
    uint32_t size;  /* set by the caller to sizeof; a provider writes at most that much */
    uint32_t index; /* place in this provider's list, from 0 */
    uint64_t valid; /* FACET_DEVICE_HAS_* */

    char uuid[64];  /* stable across restarts of program and machine */
    char name[128]; /* as the vendor writes it */
    char vendor[64];
    char driver_version[128];
    char address[256];    /* how the matching interposer finds this device; see the provider's header comment. Empty: no
                             interposer enters programs on it */
    char pci_address[16]; /* "0000:01:00.0"; empty when not PCI */

    uint32_t kind;            /* enum facet_device_kind */
    uint32_t modes;           /* FACET_DEVICE_MODE bits that this device supports; 0: kernels only, no programs */
    uint64_t memory_bytes;    /* the most that programs can have together, without the driver's own reserve */
    uint64_t max_alloc_bytes; /* the largest single allocation */
    uint32_t compute_units;
    uint32_t clock_mhz;
    int32_t numa_node;
    uint32_t max_partitions; /* the most partitions at a time, if all are of the smallest template */

    /* Since 1.1; zero before. */
    uint64_t capabilities;          /* FACET_CAN_* */
    uint64_t peak_gflops;           /* dense, in the 16-bit format the device is sold for */
    uint32_t memory_bandwidth_mbps; /* 10^6 bytes per second */
    uint16_t pcie_generation;
    uint16_t pcie_width;   /* lanes */
    uint8_t mode_group[4]; /* a number for each enum facet_mode. Modes with the same number may be in use on the device
                              at the same time; a mode with the number 0 only by itself. A conflict is refused */
    uint32_t max_workers;  /* the most workers that may have limits or contexts at a time */
};

FACET_STATIC_ASSERT(sizeof(struct facet_device_info) == 744, "ABI: facet_device_info");
FACET_STATIC_ASSERT(offsetof(struct facet_device_info, uuid) == 16, "ABI: uuid");
FACET_STATIC_ASSERT(offsetof(struct facet_device_info, memory_bytes) == 680, "ABI: memory_bytes");
FACET_STATIC_ASSERT(offsetof(struct facet_device_info, capabilities) == 712, "ABI: capabilities");
FACET_STATIC_ASSERT(offsetof(struct facet_device_info, mode_group) == 736, "ABI: mode_group");

enum facet_health {
    FACET_HEALTH_UNKNOWN = 0,
    FACET_HEALTH_OK = 1,
    FACET_HEALTH_DEGRADED = 2,
    FACET_HEALTH_FAILED = 3,
};

enum facet_event_kind {
    FACET_EVENT_HEALTH = 1,       /* value: enum facet_health, the new one */
    FACET_EVENT_HOTPLUG = 2,      /* value: 1 arrived, 0 left. List the devices again */
    FACET_EVENT_PARTITION = 3,    /* value: 1 created, 0 destroyed; uuid: the partition's */
    FACET_EVENT_ECC = 4,          /* value: number of uncorrected errors so far */
    FACET_EVENT_THROTTLE = 5,     /* value: the present FACET_THROTTLE_* bits; see metrics.h */
    FACET_EVENT_LINK = 6,         /* value: 1 up, 0 down; `link`: index in the list of links */
    FACET_EVENT_VENDOR_ERROR = 7, /* value: the vendor's number (NVIDIA: XID) */
};

struct facet_event {
    uint32_t size;
    uint32_t kind;         /* enum facet_event_kind */
    uint64_t sequence;     /* 1, 2, 3, ... in one instance; a gap means that older events were dropped */
    uint64_t timestamp_ns; /* CLOCK_REALTIME */
    uint64_t value;
    uint32_t device; /* index */
    uint32_t link;
    char uuid[64]; /* of the device, or of the partition */
    char message[96];
};
FACET_STATIC_ASSERT(sizeof(struct facet_event) == 200, "ABI: facet_event");

/* An opened provider. Opaque to the host. */
struct facet_provider_instance;

struct facet_device_ops {
    uint64_t size; /* of this table, as the provider was built */

    /* Opens the vendor's runtime. Called once before any other operation; may take seconds. */
    enum facet_status (*open)(struct facet_provider_instance **ret_instance, struct facet_error *error);

    /* Closes the vendor's runtime. Called once, when no other call is under way. NULL instance is allowed. */
    void (*close)(struct facet_provider_instance *instance);

    /* All devices (struct facet_device_info), in an order that stays the same while no device comes or goes. */
    enum facet_status (*list)(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                              uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

    /* Health of one device now: enum facet_health; FACET_HEALTH_UNKNOWN when the vendor offers no health, never a
     * guess. */
    enum facet_status (*health)(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                struct facet_error *error);

    /* Since 1.1. */

    /*
     * Further properties of one device: lines "key=value\n", NUL-terminated. Common keys: firmware_version,
     * compute_capability, chip, clock_memory_mhz, power_limit_mw, temperature_limit_mc, ecc, persistence_mode. The
     * text's length with its terminator is written to *ret_size; FACET_TOO_SMALL when `capacity` bytes cannot hold it.
     */
    enum facet_status (*properties)(struct facet_provider_instance *instance, uint32_t device, char *text,
                                    uint32_t capacity, uint32_t *ret_size, struct facet_error *error);

    /* The nodes of the machine's topology that the provider knows: its devices, NICs, switches, sockets; and the links
     * between them. See topology.h. */
    enum facet_status (*nodes)(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                               uint32_t capacity, uint32_t *ret_count, struct facet_error *error);
    enum facet_status (*links)(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                               uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

    /* Events (struct facet_event) whose sequence is above `after`, oldest first. Does not wait. Reading removes no
     * event, so that several callers can read. */
    enum facet_status (*events)(struct facet_provider_instance *instance, uint64_t after, void *items,
                                uint32_t item_size, uint32_t capacity, uint32_t *ret_count, struct facet_error *error);
};
FACET_STATIC_ASSERT(offsetof(struct facet_device_ops, properties) == 40, "ABI: facet_device_ops 1.0");
FACET_STATIC_ASSERT(sizeof(struct facet_device_ops) == 72, "ABI: facet_device_ops 1.1");

#ifdef __cplusplus
}
#endif
#endif
