/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI, table `metrics`: the measured activity of devices, processes and links.
 *
 * Owns: the readings, each with a validity mask and the moment it was taken.
 * Never: estimates. A field that was not read has its bit clear. Counters grow from an unspecified start, so only their
 * differences have a meaning; levels are momentary. No field is a floating-point number.
 */
#ifndef FACET_PROVIDER_METRICS_H
#define FACET_PROVIDER_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_provider_instance;

/* Bits of facet_device_metrics.valid, in the order of the fields. */
#define FACET_METRIC_POWER           (UINT64_C(1) << 0)
#define FACET_METRIC_ENERGY          (UINT64_C(1) << 1)
#define FACET_METRIC_TEMPERATURE     (UINT64_C(1) << 2)
#define FACET_METRIC_CLOCK           (UINT64_C(1) << 3)
#define FACET_METRIC_MEMORY_USED     (UINT64_C(1) << 4)
#define FACET_METRIC_PCIE_RX         (UINT64_C(1) << 5)
#define FACET_METRIC_PCIE_TX         (UINT64_C(1) << 6)
#define FACET_METRIC_BUSY            (UINT64_C(1) << 7)
#define FACET_METRIC_COMPUTE_ACTIVE  (UINT64_C(1) << 8)
#define FACET_METRIC_TENSOR_ACTIVE   (UINT64_C(1) << 9)
#define FACET_METRIC_MEMORY_ACTIVE   (UINT64_C(1) << 10)
#define FACET_METRIC_ENCODER_ACTIVE  (UINT64_C(1) << 11)
#define FACET_METRIC_DECODER_ACTIVE  (UINT64_C(1) << 12)
#define FACET_METRIC_THROTTLE        (UINT64_C(1) << 13)
#define FACET_METRIC_ECC_CORRECTED   (UINT64_C(1) << 14)
#define FACET_METRIC_ECC_UNCORRECTED (UINT64_C(1) << 15)

/* Bits of facet_device_metrics.throttle: the reasons why the clock is lower than it could be. */
#define FACET_THROTTLE_POWER   (UINT32_C(1) << 0)
#define FACET_THROTTLE_THERMAL (UINT32_C(1) << 1)
#define FACET_THROTTLE_FAULT   (UINT32_C(1) << 2)

struct facet_device_metrics {
    uint32_t size;
    uint32_t device;       /* index */
    uint64_t valid;        /* FACET_METRIC_* */
    uint64_t timestamp_ns; /* CLOCK_REALTIME of the reading */
    uint64_t power_mw;
    uint64_t energy_mj;     /* counter */
    int32_t temperature_mc; /* thousandths of a degree Celsius */
    uint32_t clock_mhz;     /* now */
    uint64_t memory_used_bytes;
    uint64_t pcie_rx_bytes;        /* counter, into the device */
    uint64_t pcie_tx_bytes;        /* counter */
    uint64_t busy_ns;              /* counter: time with at least one kernel on the device */
    uint32_t compute_active_milli; /* share of compute units taken by work, over the last reading interval */
    uint32_t tensor_active_milli;
    uint32_t memory_active_milli; /* share of the peak memory bandwidth */
    uint32_t encoder_active_milli;
    uint32_t decoder_active_milli;
    uint32_t throttle;        /* FACET_THROTTLE_* */
    uint64_t ecc_corrected;   /* counter */
    uint64_t ecc_uncorrected; /* counter */
};
FACET_STATIC_ASSERT(sizeof(struct facet_device_metrics) == 120, "ABI: facet_device_metrics");

#define FACET_PROCESS_HAS_MEMORY   (UINT32_C(1) << 0)
#define FACET_PROCESS_HAS_RESERVED (UINT32_C(1) << 1)
#define FACET_PROCESS_HAS_BUSY     (UINT32_C(1) << 2)
#define FACET_PROCESS_HAS_COMPUTE  (UINT32_C(1) << 3)
#define FACET_PROCESS_HAS_UNITS    (UINT32_C(1) << 4)

/* One process on one device; a process that uses two devices is listed for each. */
struct facet_process_metrics {
    uint32_t size;
    uint32_t device; /* index */
    int32_t pid;     /* as the caller's pid namespace sees it */
    uint32_t valid;  /* FACET_PROCESS_HAS_* */
    uint64_t timestamp_ns;
    uint64_t memory_used_bytes;
    uint64_t memory_reserved_bytes;
    uint64_t busy_ns;        /* counter: device time (execution.h) of its kernels, running ones included */
    uint32_t compute_milli;  /* share of the device, over the last reading interval */
    uint32_t units_active;   /* compute units at work for it now */
    char worker[64];         /* when the provider knows it; else empty */
    char partition_uuid[64]; /* when it runs in a partition; else empty */
};
FACET_STATIC_ASSERT(sizeof(struct facet_process_metrics) == 184, "ABI: facet_process_metrics");

#define FACET_LINK_METRIC_RX     (UINT32_C(1) << 0)
#define FACET_LINK_METRIC_TX     (UINT32_C(1) << 1)
#define FACET_LINK_METRIC_ERRORS (UINT32_C(1) << 2)

struct facet_link_metrics {
    uint32_t size;
    uint32_t link;  /* index in the list of facet_device_ops.links */
    uint32_t type;  /* enum facet_link_type */
    uint32_t valid; /* FACET_LINK_METRIC_* */
    uint64_t timestamp_ns;
    uint64_t rx_bytes; /* counter, as the device sees it */
    uint64_t tx_bytes; /* counter */
    uint64_t errors;   /* counter: replays, CRC errors */
};
FACET_STATIC_ASSERT(sizeof(struct facet_link_metrics) == 48, "ABI: facet_link_metrics");

struct facet_metrics_ops {
    uint64_t size; /* of this table, as the provider was built */

    enum facet_status (*device)(struct facet_provider_instance *instance, uint32_t device,
                                struct facet_device_metrics *ret_metrics, struct facet_error *error);

    /* The processes on a device (struct facet_process_metrics): compute and memory of each. */
    enum facet_status (*processes)(struct facet_provider_instance *instance, uint32_t device, void *items,
                                   uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                   struct facet_error *error);

    /* Traffic of the links that end at a device (struct facet_link_metrics). */
    enum facet_status (*links)(struct facet_provider_instance *instance, uint32_t device, void *items,
                               uint32_t item_size, uint32_t capacity, uint32_t *ret_count, struct facet_error *error);
};
FACET_STATIC_ASSERT(sizeof(struct facet_metrics_ops) == 32, "ABI: facet_metrics_ops");

#ifdef __cplusplus
}
#endif
#endif
