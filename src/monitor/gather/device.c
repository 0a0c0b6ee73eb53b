/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: converting a provider's metrics of a device into measurements. Never: asks the provider. */
#include <string.h>

#include <facet/provider/metrics.h>

#include "monitor/gather/read.h"

#define HERTZ_OF_MHZ     1000000
#define PERCENT_OF_MILLI 100    /* thousandths of a percent in a thousandth of the whole */
#define WHOLE            100000 /* 100 percent, in thousandths of a percent */

/* The type of a member: uint64_t, uint32_t, int32_t. */
enum shape { WIDE, NARROW, SIGNED };

static const struct reading {
    enum gather_meter meter;
    enum shape shape;
    size_t offset;
    uint64_t valid;
    int64_t factor;
} readings[] = {
#define READING(meter, shape, member, bit, factor)                                                                     \
    {                                                                                                                  \
        GATHER_##meter, shape, offsetof(struct facet_device_metrics, member), FACET_METRIC_##bit, factor               \
    }
    READING(MEMORY_USED, WIDE, memory_used_bytes, MEMORY_USED, 1),
    READING(POWER, WIDE, power_mw, POWER, 1),
    READING(ENERGY, WIDE, energy_mj, ENERGY, 1),
    READING(TEMPERATURE, SIGNED, temperature_mc, TEMPERATURE, 1),
    READING(CLOCK, NARROW, clock_mhz, CLOCK, HERTZ_OF_MHZ),
    READING(PCIE_RX, WIDE, pcie_rx_bytes, PCIE_RX, 1),
    READING(PCIE_TX, WIDE, pcie_tx_bytes, PCIE_TX, 1),
    READING(BUSY_TIME, WIDE, busy_ns, BUSY, 1),
    READING(COMPUTE_ACTIVE, NARROW, compute_active_milli, COMPUTE_ACTIVE, PERCENT_OF_MILLI),
    READING(TENSOR_ACTIVE, NARROW, tensor_active_milli, TENSOR_ACTIVE, PERCENT_OF_MILLI),
    READING(MEMORY_ACTIVE, NARROW, memory_active_milli, MEMORY_ACTIVE, PERCENT_OF_MILLI),
    READING(ENCODER_ACTIVE, NARROW, encoder_active_milli, ENCODER_ACTIVE, PERCENT_OF_MILLI),
    READING(DECODER_ACTIVE, NARROW, decoder_active_milli, DECODER_ACTIVE, PERCENT_OF_MILLI),
    READING(ECC_CORRECTED, WIDE, ecc_corrected, ECC_CORRECTED, 1),
    READING(ECC_UNCORRECTED, WIDE, ecc_uncorrected, ECC_UNCORRECTED, 1),
#undef READING
};
#define METERS (uint32_t)(sizeof readings / sizeof readings[0])

static struct gather_value value_of_u64(const void *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return value > INT64_MAX ? (struct gather_value){.reason = FACET_UNMEASURED_OUT_OF_RANGE}
                             : (struct gather_value){.value = (int64_t)value};
}

static struct gather_value value_of(const struct facet_device_metrics *metrics, const struct reading *reading)
{
    struct gather_value value = {0};
    const char *at = (const char *)metrics + reading->offset;
    uint32_t narrow;
    int32_t level;

    if (!(metrics->valid & reading->valid))
        return GATHER_ABSENT;
    if (reading->shape == WIDE) {
        value = value_of_u64(at);
    } else if (reading->shape == NARROW) {
        memcpy(&narrow, at, sizeof narrow);
        value.value = narrow;
    } else {
        memcpy(&level, at, sizeof level);
        value.value = level;
    }
    if (value.reason == FACET_MEASURED)
        value.reason = gather_multiply(reading->factor, &value.value);
    return value;
}

static struct gather_value capacity_of(const struct reading *reading, uint64_t memory_bytes)
{
    if (reading->meter == GATHER_MEMORY_USED && memory_bytes > 0)
        return value_of_u64(&memory_bytes);
    if (facet_meter_at(reading->meter)->type == FACET_METER_UTILIZATION)
        return (struct gather_value){.value = WHOLE};
    return GATHER_ABSENT;
}

enum facet_status facet_gather_device(const struct facet_device_metrics *metrics, uint64_t memory_bytes,
                                      uint64_t now_ns, struct facet_measurement *measurements, uint32_t *count,
                                      struct facet_error *error)
{
    enum facet_status status = gather_begin(measurements, count, METERS, error);
    struct gather_output output = {.out = measurements, .time_ns = now_ns};

    if (status != FACET_OK)
        return status;
    if (metrics && metrics->size < sizeof *metrics)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "metrics", "metrics: expected a struct of %zu bytes",
                                    sizeof *metrics);
    for (uint32_t i = 0; i < METERS; i++)
        gather_put_of(&output, readings[i].meter,
                      metrics ? value_of(metrics, &readings[i])
                              : (struct gather_value){.reason = FACET_UNMEASURED_GONE},
                      capacity_of(&readings[i], memory_bytes));
    *count = output.count;
    return FACET_OK;
}
