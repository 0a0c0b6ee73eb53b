/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the traffic over the NVLinks between two GPUs, as each of them counts it.
 * Never: reports other links. For PCIe NVML measures only a rate over a moment, which is no counter.
 */
#include <stdlib.h>

#include "cuda.h"

#define KIB UINT64_C(1024)

struct traffic {
    uint64_t rx_bytes, tx_bytes;
};

static bool read_traffic(const struct cuda_nvml *nvml, nvmlDevice_t handle, unsigned link, struct traffic *ret_traffic)
{
    nvmlFieldValue_t fields[] = {{.fieldId = NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, .scopeId = link},
                                 {.fieldId = NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, .scopeId = link}};

    if (CUDA_NVML(nvml, nvmlDeviceGetFieldValues, handle, 2, fields) != NVML_SUCCESS)
        return false;
    for (int i = 0; i < 2; i++)
        if (fields[i].nvmlReturn != NVML_SUCCESS || fields[i].valueType != NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)
            return false;
    *ret_traffic = (struct traffic){fields[0].value.ullVal * KIB, fields[1].value.ullVal * KIB};
    return true;
}

bool cuda_can_read_traffic(const struct cuda_nvml *nvml, nvmlDevice_t handle)
{
    struct traffic traffic;

    return read_traffic(nvml, handle, 0, &traffic);
}

static bool read_errors(const struct cuda_nvml *nvml, nvmlDevice_t handle, unsigned link, uint64_t *ret_errors)
{
    uint64_t errors = 0;

    for (int counter = NVML_NVLINK_ERROR_DL_REPLAY; counter <= NVML_NVLINK_ERROR_DL_CRC_FLIT; counter++) {
        unsigned long long value;

        if (CUDA_NVML(nvml, nvmlDeviceGetNvLinkErrorCounter, handle, link, counter, &value) != NVML_SUCCESS)
            return false;
        errors += value;
    }
    *ret_errors = errors;
    return true;
}

/* Sums over the NVLinks from one GPU to another. If one link lacks a reading, the sum has none either. */
static void sum_traffic(const struct facet_provider_instance *instance, uint32_t device, uint32_t peer,
                        struct facet_link_metrics *metrics)
{
    nvmlDevice_t handle = instance->gpus[device].handle;

    metrics->valid = FACET_LINK_METRIC_RX | FACET_LINK_METRIC_TX | FACET_LINK_METRIC_ERRORS;
    for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
        struct traffic traffic = {0};
        uint64_t errors = 0;

        if (!cuda_nvlink_leads(instance, device, link, peer))
            continue;
        if (!read_traffic(&instance->nvml, handle, link, &traffic))
            metrics->valid &= ~(FACET_LINK_METRIC_RX | FACET_LINK_METRIC_TX);
        if (!read_errors(&instance->nvml, handle, link, &errors))
            metrics->valid &= ~FACET_LINK_METRIC_ERRORS;
        metrics->rx_bytes += traffic.rx_bytes;
        metrics->tx_bytes += traffic.tx_bytes;
        metrics->errors += errors;
    }
    if (!(metrics->valid & FACET_LINK_METRIC_RX))
        metrics->rx_bytes = metrics->tx_bytes = 0;
    if (!(metrics->valid & FACET_LINK_METRIC_ERRORS))
        metrics->errors = 0;
}

enum facet_status cuda_metrics_links(struct facet_provider_instance *instance, uint32_t device, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error)
{
    struct facet_link_metrics found[GPU_MOST];
    struct facet_topology_link *links = NULL;
    uint32_t link_count, count = 0;
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_LINK_METRICS, error);

    if (status == FACET_OK)
        status = cuda_links_read(instance, &links, &link_count, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < link_count; i++) {
        if (links[i].type != FACET_LINK_NVLINK || (links[i].a != device && links[i].b != device))
            continue;
        found[count] = (struct facet_link_metrics){
            .size = sizeof *found, .link = i, .type = links[i].type, .timestamp_ns = facet_kit_now_ns()};
        sum_traffic(instance, device, links[i].a == device ? links[i].b : links[i].a, &found[count]);
        count++;
    }
    free(links);
    return facet_kit_list_items(found, sizeof *found, count, items, item_size, capacity, ret_count, error);
}
