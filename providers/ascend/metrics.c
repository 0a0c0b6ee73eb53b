/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading a chip's sensors and its processes.
 * Never: turns a rate into a counter. DCMI measures the traffic of HCCS and PCIe as an average over a moment, in which
 * the call blocks, so link metrics and PCIe counters are not offered.
 */

#include "ascend.h"

#define MIB              (UINT64_C(1) << 20)
#define MAX_MEMORY_MIB   (UINT64_C(1) << 24)
#define MAX_CLOCK_MHZ    100000u
#define MAX_DECIWATTS    100000 /* 10 kW */
#define MIN_CELSIUS      (-100)
#define MAX_CELSIUS      250 /* a sensor that failed reads 32765 or 32767 */
#define MILLI_OF_PERCENT 10

static int read_power(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip, struct facet_device_metrics *to)
{
    int deciwatts = -1;
    int code = ASCEND_DCMI(dcmi, get_device_power_info, chip->card, chip->chip_number, &deciwatts);

    if (code == 0 && deciwatts >= 0 && deciwatts <= MAX_DECIWATTS) {
        to->power_mw = (uint64_t)deciwatts * 100;
        to->valid |= FACET_METRIC_POWER;
    }
    return code;
}

static int read_temperature(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip,
                            struct facet_device_metrics *to)
{
    int celsius = MAX_CELSIUS + 1;
    int code = ASCEND_DCMI(dcmi, get_device_temperature, chip->card, chip->chip_number, &celsius);

    if (code == 0 && celsius >= MIN_CELSIUS && celsius <= MAX_CELSIUS) {
        to->temperature_mc = celsius * 1000;
        to->valid |= FACET_METRIC_TEMPERATURE;
    }
    return code;
}

static int read_clock(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip, struct facet_device_metrics *to)
{
    unsigned int mhz = MAX_CLOCK_MHZ + 1;
    int code = ASCEND_DCMI(dcmi, get_device_frequency, chip->card, chip->chip_number, DCMI_CLOCK_AI_CORE, &mhz);

    if (code == 0 && mhz <= MAX_CLOCK_MHZ) {
        to->clock_mhz = mhz;
        to->valid |= FACET_METRIC_CLOCK;
    }
    return code;
}

static int read_memory(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip, struct facet_device_metrics *to)
{
    struct dcmi_hbm_info memory = {.used = MAX_MEMORY_MIB + 1};
    int code = ASCEND_DCMI(dcmi, get_device_hbm_info, chip->card, chip->chip_number, &memory);

    if (code == 0 && memory.used <= memory.total && memory.total <= MAX_MEMORY_MIB) {
        to->memory_used_bytes = memory.used * MIB;
        to->valid |= FACET_METRIC_MEMORY_USED;
    }
    return code;
}

static int read_ecc(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip, struct facet_device_metrics *to)
{
    struct dcmi_ecc_info ecc = {0};
    int code = ASCEND_DCMI(dcmi, get_device_ecc_info, chip->card, chip->chip_number, DCMI_COMPONENT_HBM, &ecc);

    /* With ECC off no error is counted: a count of 0 would claim that there was none. */
    if (code == 0 && ecc.enabled == 1) {
        to->ecc_corrected = ecc.single_total;
        to->ecc_uncorrected = ecc.double_total;
        to->valid |= FACET_METRIC_ECC_CORRECTED | FACET_METRIC_ECC_UNCORRECTED;
    }
    return code;
}

static int read_rate(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip, int rate, uint32_t *milli,
                     uint64_t bit, struct facet_device_metrics *to)
{
    unsigned int percent = 101;
    int code = ASCEND_DCMI(dcmi, get_device_utilization_rate, chip->card, chip->chip_number, rate, &percent);

    if (code == 0 && percent <= 100) {
        *milli = percent * MILLI_OF_PERCENT;
        to->valid |= bit;
    }
    return code;
}

int ascend_metrics_read(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip,
                        struct facet_device_metrics *ret_metrics)
{
    struct facet_device_metrics read = {.size = sizeof read, .timestamp_ns = facet_kit_now_ns()};
    const int codes[] = {
        read_power(dcmi, chip, &read),
        read_temperature(dcmi, chip, &read),
        read_clock(dcmi, chip, &read),
        read_memory(dcmi, chip, &read),
        read_ecc(dcmi, chip, &read),
        read_rate(dcmi, chip, DCMI_RATE_AI_CORE, &read.compute_active_milli, FACET_METRIC_COMPUTE_ACTIVE, &read),
        read_rate(dcmi, chip, DCMI_RATE_AI_CUBE, &read.tensor_active_milli, FACET_METRIC_TENSOR_ACTIVE, &read),
        read_rate(dcmi, chip, DCMI_RATE_HBM_BANDWIDTH, &read.memory_active_milli, FACET_METRIC_MEMORY_ACTIVE, &read),
    };
    int worst = DCMI_NOT_OFFERED;

    if (read.valid) {
        *ret_metrics = read;
        return 0;
    }
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i] && codes[i] != DCMI_NOT_OFFERED)
            worst = codes[i];
    }
    return worst;
}

static enum facet_status ascend_metrics_device(struct facet_provider_instance *instance, uint32_t device,
                                               struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    struct facet_device_metrics metrics;
    enum facet_status status = ascend_device_check(instance, device, FACET_CAN_DEVICE_METRICS, error);

    if (status != FACET_OK)
        return status;
    int code = ascend_metrics_read(&instance->dcmi, &instance->chips[device], &metrics);
    if (code)
        return ascend_dcmi_fail(error, "reading the sensors", code);
    metrics.device = device;
    return facet_kit_struct(&metrics, sizeof metrics, ret_metrics, error);
}

int ascend_processes_read(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip,
                          struct dcmi_process processes[DCMI_MAX_PROCESSES], int *ret_count)
{
    memset(processes, 0, DCMI_MAX_PROCESSES * sizeof *processes);
    *ret_count = 0;
    return ASCEND_DCMI(dcmi, get_device_resource_info, chip->card, chip->chip_number, processes, ret_count);
}

/*
 * DCMI reports pids of the host's namespace, which differ from the pids in a container's own pid namespace. In a
 * container, drivers report only the container's own processes.
 */
static uint32_t convert_processes(const struct dcmi_process *from, int count, uint32_t device,
                                  struct facet_process_metrics *to)
{
    uint64_t now = facet_kit_now_ns();
    uint32_t kept_count = 0;

    for (int i = 0; i < count; i++) {
        if (from[i].pid <= 0)
            continue;
        to[kept_count++] = (struct facet_process_metrics){.size = sizeof *to,
                                                          .device = device,
                                                          .pid = from[i].pid,
                                                          .valid = FACET_PROCESS_HAS_MEMORY,
                                                          .timestamp_ns = now,
                                                          .memory_used_bytes = from[i].memory_bytes};
    }
    return kept_count;
}

static enum facet_status ascend_metrics_processes(struct facet_provider_instance *instance, uint32_t device,
                                                  void *items, uint32_t item_size, uint32_t capacity,
                                                  uint32_t *ret_count, struct facet_error *error)
{
    struct dcmi_process processes[DCMI_MAX_PROCESSES];
    struct facet_process_metrics metrics[DCMI_MAX_PROCESSES];
    enum facet_status status = ascend_device_check(instance, device, FACET_CAN_PROCESS_METRICS, error);
    int count = 0;

    if (status != FACET_OK)
        return status;
    int code = ascend_processes_read(&instance->dcmi, &instance->chips[device], processes, &count);
    if (code)
        return ascend_dcmi_fail(error, "dcmi_get_device_resource_info", code);
    if (count < 0 || count > DCMI_MAX_PROCESSES)
        return facet_kit_fail(error, FACET_CORRUPT, "dcmi_get_device_resource_info: %d processes, expected 0 to %d",
                              count, DCMI_MAX_PROCESSES);
    return facet_kit_list_items(metrics, sizeof *metrics, convert_processes(processes, count, device, metrics), items,
                                item_size, capacity, ret_count, error);
}

const struct facet_metrics_ops ascend_metrics_ops = {
    .size = sizeof ascend_metrics_ops,
    .device = ascend_metrics_device,
    .processes = ascend_metrics_processes,
};
