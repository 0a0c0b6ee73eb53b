/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the fake machine that only the management library shows: health, samples, events, MIG.
 *
 * Owns: the part `management` of struct fake_state. All of it is 0 in a machine that is healthy, idle and not divided.
 * Never: is written by the fake driver.
 */
#ifndef FAKE_CUDA_NVML_STATE_H
#define FAKE_CUDA_NVML_STATE_H

#include <stdatomic.h>
#include <stdint.h>

#define FAKE_EVENTS        64u
#define FAKE_GPU_INSTANCES 15u /* one past the highest id that a GPU instance can have */
#define FAKE_SLICES        7u  /* compute slices of a GPU */

/* Written by tests. */
struct fake_health {
    _Atomic uint64_t throttle;               /* nvmlClocksThrottleReason* */
    _Atomic uint32_t celsius;                /* replaces the temperature that follows from the load; 0: not set */
    _Atomic uint64_t corrected, uncorrected; /* memory errors since the driver was loaded */
    _Atomic uint32_t rows_corrected, rows_uncorrected, rows_pending, rows_failed; /* remapped */
    _Atomic uint32_t pcie_replays;
    _Atomic uint32_t pcie_tx_kib, pcie_rx_kib;     /* per second */
    _Atomic uint64_t pcie_tx_bytes, pcie_rx_bytes; /* in total */
    _Atomic uint32_t pcie_narrow;                  /* 1: these totals are reported in 32 bits */
    _Atomic uint32_t links_down;                   /* a bit for each NVLink that is not active */
    _Atomic uint64_t link_tx_kib, link_rx_kib;     /* of each active NVLink, in total */
    _Atomic uint64_t link_errors;                  /* of each error counter of each NVLink */
};

/* The busy time at the last sample. The value of a period is reported after the period has ended. */
struct fake_sample {
    uint64_t sampled_ns, busy_ns;
    uint64_t stamp_us; /* CLOCK_REALTIME at the end of the period of `percent`; 0: no period has ended */
    uint32_t percent;
};

struct fake_compute_instance {
    _Atomic uint32_t profile_plus_one; /* 0: free */
    _Atomic uint32_t start;
};

struct fake_gpu_instance {
    _Atomic uint32_t profile_plus_one; /* 0: free */
    _Atomic uint32_t start;
    _Atomic uint32_t made_count; /* instances made in this entry so far: a new instance has a new UUID */
    struct fake_compute_instance computes[FAKE_SLICES];
};

struct fake_mig {
    _Atomic uint32_t mode, pending;
    struct fake_gpu_instance instances[FAKE_GPU_INSTANCES];
};

/* The partition modes of an AMD GPU. 0: one part of all dies, and one part of the memory. */
struct fake_modes {
    _Atomic uint32_t compute; /* AMDSMI_COMPUTE_PARTITION_* */
    _Atomic uint32_t memory;  /* AMDSMI_MEMORY_PARTITION_* */
};

struct fake_event {
    uint32_t device;
    uint64_t type, data;
};

struct fake_management {
    struct fake_health health[FAKE_DEVICES];
    _Atomic uint32_t compute_mode[FAKE_DEVICES];
    struct fake_sample samples[FAKE_DEVICES];
    struct fake_sample process_samples[FAKE_PROCESSES][FAKE_DEVICES];
    struct fake_mig mig[FAKE_DEVICES];
    struct fake_modes modes[FAKE_DEVICES];
    _Atomic uint32_t event_count; /* events raised so far; futex word */
    struct fake_event events[FAKE_EVENTS];
};

#endif
