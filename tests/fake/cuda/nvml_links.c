/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the connections of the fake libnvidia-ml.so.1's devices, the traffic on their links, values by field number.
 * Never: connects devices that the state does not have: a single device has no NVLink.
 *
 * Each device has 18 links, which go to the other devices in turn. Devices 2N and 2N + 1 are behind one PCIe switch.
 */
#include <string.h>
#include <time.h>

#include "nvml_fake.h"

#define LINK_MBPS       26562u
#define ALL_LINKS       UINT32_MAX
#define PCIE_GENERATION 5u
#define PCIE_WIDTH      16u

static uint32_t link_count(void)
{
    return fake_state()->device_count > 1 ? NVML_NVLINK_MAX_LINKS : 0;
}

static uint32_t peer_of(uint32_t device, uint32_t link)
{
    uint32_t count = fake_state()->device_count;
    return (device + 1 + link % (count - 1)) % count;
}

static struct fake_health *health_of(uint32_t device)
{
    return &fake_state()->management.health[device];
}

static bool link_is_up(uint32_t device, uint32_t link)
{
    return link < link_count() && !(atomic_load(&health_of(device)->links_down) >> link & 1);
}

static uint32_t links_up(uint32_t device)
{
    uint32_t up = 0;

    for (uint32_t link = 0; link < link_count(); link++)
        up += link_is_up(device, link);
    return up;
}

/* NVML_ERROR_INVALID_ARGUMENT for a link that the device does not have; NOT_SUPPORTED if there is no NVLink at all. */
static nvmlReturn_t enter_link(nvmlDevice_t handle, unsigned link, bool arguments_valid, uint32_t *ret_device)
{
    FAKE_ENTER_GPU(handle, arguments_valid && link < NVML_NVLINK_MAX_LINKS, device);
    *ret_device = device;
    return link_count() ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

#define ENTER_LINK(handle, link, arguments_valid, device)                                                              \
    uint32_t device;                                                                                                   \
    nvmlReturn_t entered_ = enter_link(handle, link, arguments_valid, &device);                                        \
    if (entered_ != NVML_SUCCESS)                                                                                      \
    return entered_

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned link, int *active)
{
    ENTER_LINK(handle, link, active, device);
    *active = link_is_up(device, link);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t handle, unsigned link, unsigned *version)
{
    ENTER_LINK(handle, link, version, device);
    (void)device;
    *version = 4;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t handle, unsigned link, int capability, unsigned *value)
{
    ENTER_LINK(handle, link, value, device);
    *value = capability == NVML_NVLINK_CAP_P2P_SUPPORTED && link_is_up(device, link);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t handle, unsigned link, nvmlPciInfo_t *info)
{
    ENTER_LINK(handle, link, info, device);
    fake_pci(peer_of(device, link), info);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t handle, unsigned link, int counter, unsigned long long *value)
{
    ENTER_LINK(handle, link, value && counter >= 0 && counter <= NVML_NVLINK_ERROR_DL_CRC_FLIT, device);
    *value = atomic_load(&health_of(device)->link_errors);
    return NVML_SUCCESS;
}

static nvmlReturn_t answer_value(nvmlDevice_t handle, unsigned *ret_value, unsigned value)
{
    FAKE_ENTER_GPU(handle, ret_value, device);
    (void)device;
    *ret_value = value;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t handle, unsigned *generation)
{
    return answer_value(handle, generation, PCIE_GENERATION);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t handle, unsigned *generation)
{
    return answer_value(handle, generation, PCIE_GENERATION);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t handle, unsigned *width)
{
    return answer_value(handle, width, PCIE_WIDTH);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t handle, unsigned *width)
{
    return answer_value(handle, width, PCIE_WIDTH);
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t handle, int counter, unsigned *kib_per_second)
{
    FAKE_ENTER_GPU(handle, kib_per_second && (counter == NVML_PCIE_UTIL_TX_BYTES || counter == NVML_PCIE_UTIL_RX_BYTES),
                   device);
    struct fake_health *health = health_of(device);
    *kib_per_second = atomic_load(counter == NVML_PCIE_UTIL_TX_BYTES ? &health->pcie_tx_kib : &health->pcie_rx_kib);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t handle, unsigned *count)
{
    FAKE_ENTER_GPU(handle, count, device);
    *count = atomic_load(&health_of(device)->pcie_replays);
    return NVML_SUCCESS;
}

static int ancestor_of(uint32_t device, uint32_t other)
{
    if (device == other)
        return NVML_TOPOLOGY_INTERNAL;
    return device / 2 == other / 2 ? NVML_TOPOLOGY_SINGLE : NVML_TOPOLOGY_SYSTEM;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t handle, nvmlDevice_t other, int *level)
{
    uint32_t second;

    FAKE_ENTER_GPU(handle, level, first);
    nvmlReturn_t result = fake_enter_gpu(other, true, &second);
    if (result == NVML_SUCCESS)
        *level = ancestor_of(first, second);
    return result;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t handle, int level, unsigned *count, nvmlDevice_t *devices)
{
    unsigned found = 0;

    FAKE_ENTER_GPU(handle, count && (devices || *count == 0), device);
    for (uint32_t other = 0; other < fake_state()->device_count; other++) {
        if (other == device || ancestor_of(device, other) != level)
            continue;
        if (found < *count)
            devices[found] = fake_handle(other);
        found++;
    }
    *count = found;
    return NVML_SUCCESS;
}

/* Every processor is equally near to every device. */
nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned cpu, unsigned *count, nvmlDevice_t *devices)
{
    nvmlReturn_t result = fake_initialised(count && (devices || *count == 0));

    if (result != NVML_SUCCESS)
        return result;
    for (uint32_t device = 0; device < fake_state()->device_count && device < *count; device++)
        devices[device] = fake_handle(device);
    *count = fake_state()->device_count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t handle, nvmlDevice_t other, int capability, int *status)
{
    uint32_t second;

    FAKE_ENTER_GPU(handle, status && capability >= NVML_P2P_CAPS_INDEX_READ && capability <= NVML_P2P_CAPS_INDEX_PCI,
                   first);
    nvmlReturn_t result = fake_enter_gpu(other, true, &second);
    if (result == NVML_SUCCESS && first == second)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *status = links_up(first) && links_up(second) ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return result;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t handle, unsigned words, unsigned long *set)
{
    FAKE_ENTER_GPU(handle, words && set, device);
    (void)device;
    memset(set, 0, words * sizeof *set);
    set[0] = 1;
    return NVML_SUCCESS;
}

static uint64_t link_traffic(uint32_t device, uint32_t link, _Atomic uint64_t *kib_of_each)
{
    uint32_t links = link == ALL_LINKS ? links_up(device) : link_is_up(device, link);
    return links * atomic_load(kib_of_each);
}

static bool is_link_field(unsigned field)
{
    return field == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX || field == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX;
}

static bool is_64_bit(unsigned field)
{
    return field == NVML_FI_DEV_ECC_SBE_VOL_TOTAL || field == NVML_FI_DEV_ECC_DBE_VOL_TOTAL ||
           field == NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION || is_link_field(field);
}

/* The value of a field; false when the fake does not know it. */
static bool read_field(uint32_t device, unsigned field, unsigned scope, uint64_t *ret_value)
{
    struct fake_health *health = health_of(device);

    if (is_link_field(field) && link_count() == 0)
        return false;
    switch (field) {
    case NVML_FI_DEV_ECC_CURRENT:
        return *ret_value = NVML_FEATURE_ENABLED, true;
    case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
        return *ret_value = atomic_load(&health->corrected), true;
    case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
        return *ret_value = atomic_load(&health->uncorrected), true;
    case NVML_FI_DEV_MEMORY_TEMP:
        return *ret_value = fake_celsius(device), true;
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
        return *ret_value = fake_energy_mj(device), true;
    case NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON:
        return *ret_value = link_count() ? LINK_MBPS : 0, true;
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
        return *ret_value = link_count(), true;
    case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
        return *ret_value = atomic_load(&health->pcie_replays), true;
    case NVML_FI_DEV_PCIE_COUNT_TX_BYTES:
        return *ret_value = atomic_load(&health->pcie_tx_bytes), true;
    case NVML_FI_DEV_PCIE_COUNT_RX_BYTES:
        return *ret_value = atomic_load(&health->pcie_rx_bytes), true;
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX:
        return *ret_value = link_traffic(device, scope, &health->link_tx_kib), true;
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX:
        return *ret_value = link_traffic(device, scope, &health->link_rx_kib), true;
    case NVML_FI_DEV_REMAPPED_COR:
        return *ret_value = atomic_load(&health->rows_corrected), true;
    case NVML_FI_DEV_REMAPPED_UNC:
        return *ret_value = atomic_load(&health->rows_uncorrected), true;
    case NVML_FI_DEV_REMAPPED_PENDING:
        return *ret_value = atomic_load(&health->rows_pending), true;
    case NVML_FI_DEV_REMAPPED_FAILURE:
        return *ret_value = atomic_load(&health->rows_failed), true;
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT:
        return *ret_value = fake_power_mw(device), true;
    default:
        return false;
    }
}

static void fill_field(uint32_t device, nvmlFieldValue_t *field)
{
    uint64_t value;

    if (!read_field(device, field->fieldId, field->scopeId, &value)) {
        field->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        return;
    }
    bool of_pcie =
        field->fieldId == NVML_FI_DEV_PCIE_COUNT_TX_BYTES || field->fieldId == NVML_FI_DEV_PCIE_COUNT_RX_BYTES;
    bool wide = is_64_bit(field->fieldId) || (of_pcie && !atomic_load(&health_of(device)->pcie_narrow));
    field->valueType = wide ? NVML_VALUE_TYPE_UNSIGNED_LONG_LONG : NVML_VALUE_TYPE_UNSIGNED_INT;
    field->value.ullVal = value; /* little-endian: a shorter member of the union is its beginning */
    field->nvmlReturn = NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, nvmlFieldValue_t *values)
{
    struct timespec now;

    FAKE_ENTER_GPU(handle, values && count > 0, device);
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
        values[i].latencyUsec = 0;
        fill_field(device, &values[i]);
    }
    return NVML_SUCCESS;
}
