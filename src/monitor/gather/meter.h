/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of meters, by number, for the files that gather and derive measurements.
 *
 * Owns: the numbers, and the meters that are derived from others. Never: is included outside this room, where meters
 * are named by their keys.
 */
#ifndef FACET_MONITOR_GATHER_METER_H
#define FACET_MONITOR_GATHER_METER_H

#include <facet/measurement.h>

/* X(number, key, name, type, unit, decimals, subjects). Subjects are nodes N, devices D, containers C, processes P. */
#define GATHER_METERS(X)                                                                                               \
    X(CPU_TIME, "cpu_time", "CPU time", ACCUMULATION, NANOSECONDS, 0, N | C | P)                                       \
    X(CPU_LIMIT, "cpu_limit", "CPU time that can be had", GAUGE, PERCENT, 3, N | C)                                    \
    X(CPU_THROTTLED, "cpu_throttled", "Time held back by the CPU limit", ACCUMULATION, NANOSECONDS, 0, C)              \
    X(MEMORY_USED, "memory_used", "Memory used", GAUGE, BYTES, 0, N | D | C | P)                                       \
    X(MEMORY_ANONYMOUS, "memory_anonymous", "Memory of programs", GAUGE, BYTES, 0, C)                                  \
    X(MEMORY_FILE, "memory_file", "Memory of cached files", GAUGE, BYTES, 0, C)                                        \
    X(SWAP_USED, "swap_used", "Swap used", GAUGE, BYTES, 0, N | C | P)                                                 \
    X(IO_READ, "io_read", "Read from storage", ACCUMULATION, BYTES, 0, C | P)                                          \
    X(IO_WRITE, "io_write", "Written to storage", ACCUMULATION, BYTES, 0, C | P)                                       \
    X(NET_RX, "net_rx", "Received from the network", ACCUMULATION, BYTES, 0, N)                                        \
    X(NET_TX, "net_tx", "Sent to the network", ACCUMULATION, BYTES, 0, N)                                              \
    X(TASKS, "tasks", "Processes and threads", GAUGE, COUNT, 0, C)                                                     \
    X(THREADS, "threads", "Threads", GAUGE, COUNT, 0, P)                                                               \
    X(DEVICE_MEMORY_USED, "device_memory_used", "Device memory used", GAUGE, BYTES, 0, C)                              \
    X(POWER, "power", "Power", GAUGE, WATTS, 3, D)                                                                     \
    X(ENERGY, "energy", "Energy", ACCUMULATION, JOULES, 3, D)                                                          \
    X(TEMPERATURE, "temperature", "Temperature", GAUGE, CELSIUS, 3, D)                                                 \
    X(CLOCK, "clock", "Clock", GAUGE, HERTZ, 0, D)                                                                     \
    X(PCIE_RX, "pcie_rx", "Received over PCIe", ACCUMULATION, BYTES, 0, D)                                             \
    X(PCIE_TX, "pcie_tx", "Sent over PCIe", ACCUMULATION, BYTES, 0, D)                                                 \
    X(BUSY_TIME, "busy_time", "Time with work on it", ACCUMULATION, NANOSECONDS, 0, D)                                 \
    X(COMPUTE_ACTIVE, "compute_active", "Compute units at work", UTILIZATION, PERCENT, 3, D)                           \
    X(TENSOR_ACTIVE, "tensor_active", "Tensor units at work", UTILIZATION, PERCENT, 3, D)                              \
    X(MEMORY_ACTIVE, "memory_active", "Memory bandwidth in use", UTILIZATION, PERCENT, 3, D)                           \
    X(ENCODER_ACTIVE, "encoder_active", "Encoder at work", UTILIZATION, PERCENT, 3, D)                                 \
    X(DECODER_ACTIVE, "decoder_active", "Decoder at work", UTILIZATION, PERCENT, 3, D)                                 \
    X(ECC_CORRECTED, "ecc_corrected", "Memory errors corrected", ACCUMULATION, COUNT, 0, D)                            \
    X(ECC_UNCORRECTED, "ecc_uncorrected", "Memory errors not corrected", ACCUMULATION, COUNT, 0, D)                    \
    X(CPU_UTILIZATION, "cpu_utilization", "CPU at work", UTILIZATION, PERCENT, 3, N | C | P)                           \
    X(DEVICE_UTILIZATION, "device_utilization", "Device at work", UTILIZATION, PERCENT, 3, D)                          \
    X(IO_READ_RATE, "io_read_rate", "Reading from storage", RATE, BYTES_PER_SECOND, 3, C | P)                          \
    X(IO_WRITE_RATE, "io_write_rate", "Writing to storage", RATE, BYTES_PER_SECOND, 3, C | P)                          \
    X(NET_RX_RATE, "net_rx_rate", "Receiving from the network", RATE, BITS_PER_SECOND, 3, N)                           \
    X(NET_TX_RATE, "net_tx_rate", "Sending to the network", RATE, BITS_PER_SECOND, 3, N)                               \
    X(PCIE_RX_RATE, "pcie_rx_rate", "Receiving over PCIe", RATE, BYTES_PER_SECOND, 3, D)                               \
    X(PCIE_TX_RATE, "pcie_tx_rate", "Sending over PCIe", RATE, BYTES_PER_SECOND, 3, D)

enum gather_meter {
#define GATHER_NUMBER(number, key, name, type, unit, decimals, subjects) GATHER_##number,
    GATHER_METERS(GATHER_NUMBER)
#undef GATHER_NUMBER
        GATHER_METER_COUNT
};

/* A meter that is derived from two samples of another meter, its source. */
struct gather_derived {
    enum gather_meter meter, source;
    int64_t per;                /* the factor of the source's growth, before the division by nanoseconds */
    int64_t max;                /* the meter's constant capacity; 0: see `capacity` */
    enum gather_meter capacity; /* the meter whose value in the same sample is the capacity; GATHER_METER_COUNT: none */
};

const struct gather_derived *gather_derived_from(const struct facet_meter *source); /* NULL: no meter is derived */
uint32_t gather_statistics_of_type(uint32_t type);                                  /* those that the type allows */

#endif
