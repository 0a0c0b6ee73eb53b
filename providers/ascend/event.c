/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: health, and the events made of differences between one reading of a chip and the next.
 * Never: subscribes to DCMI's own events, which are delivered in a thread of the driver. So a state that changes and
 * changes back between two readings is missed.
 */

#include "ascend.h"

static const uint32_t health_of_dcmi[] = {
    [DCMI_HEALTH_OK] = FACET_HEALTH_OK,
    [DCMI_HEALTH_MINOR] = FACET_HEALTH_DEGRADED,
    [DCMI_HEALTH_MAJOR] = FACET_HEALTH_DEGRADED,
    [DCMI_HEALTH_CRITICAL] = FACET_HEALTH_FAILED,
};

#define DCMI_HEALTH_ABSENT 0xffffffffu /* no such chip, or it has not started */

/* Returns DCMI's code; 0: *ret_present and *ret_health were read. */
static int read_health(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip, bool *ret_present,
                       uint32_t *ret_health)
{
    unsigned int health = 0;
    int code = ASCEND_DCMI(dcmi, get_device_health, chip->card, chip->chip_number, &health);
    bool known = health < sizeof health_of_dcmi / sizeof *health_of_dcmi;

    *ret_present = ascend_dcmi_status(code) != FACET_DEVICE_LOST && (code || health != DCMI_HEALTH_ABSENT);
    *ret_health = code == 0 && known ? health_of_dcmi[health] : FACET_HEALTH_UNKNOWN;
    return code;
}

enum facet_status ascend_device_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                       struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, instance->count, error);
    uint32_t health;
    bool present;

    if (status != FACET_OK)
        return status;
    if (!ret_health)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_health: expected an address, not NULL");
    int code = read_health(&instance->dcmi, &instance->chips[device], &present, &health);
    if (!present)
        return facet_kit_fail(error, FACET_DEVICE_LOST, "device %" PRIu32 ": the driver no longer sees it", device);
    if (code && code != DCMI_NOT_OFFERED)
        return ascend_dcmi_fail(error, "dcmi_get_device_health", code);
    *ret_health = health;
    return FACET_OK;
}

bool ascend_chip_read_state(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip,
                            struct ascend_reading *ret_reading)
{
    struct ascend_reading reading = {0};
    struct dcmi_ecc_info ecc = {0};

    if (read_health(dcmi, chip, &reading.present, &reading.health) && reading.present)
        return false;
    if (reading.present &&
        ASCEND_DCMI(dcmi, get_device_ecc_info, chip->card, chip->chip_number, DCMI_COMPONENT_HBM, &ecc) == 0 &&
        ecc.enabled) {
        reading.has_ecc = true;
        reading.ecc_uncorrected = ecc.double_total;
    }
    *ret_reading = reading;
    return true;
}

static void add_event(struct facet_provider_instance *instance, uint32_t device, uint32_t kind, uint64_t value,
                      const char *message)
{
    facet_kit_event_add(&instance->events, device, instance->infos[device].uuid, kind, value, message);
}

static void report_changes(struct facet_provider_instance *instance, uint32_t device, const struct ascend_reading *now)
{
    const struct ascend_reading *before = &instance->chips[device].last_reading;

    if (now->present != before->present)
        add_event(instance, device, FACET_EVENT_HOTPLUG, now->present,
                  now->present ? "the driver sees the device again" : "the driver no longer sees the device");
    if (now->present && now->health != before->health)
        add_event(instance, device, FACET_EVENT_HEALTH, now->health, "the driver reports another health");
    if (now->has_ecc && before->has_ecc && now->ecc_uncorrected > before->ecc_uncorrected)
        add_event(instance, device, FACET_EVENT_ECC, now->ecc_uncorrected, "uncorrected memory errors");
}

static void read_all_chips(struct facet_provider_instance *instance)
{
    for (uint32_t device = 0; device < instance->count; device++) {
        struct ascend_chip *chip = &instance->chips[device];
        struct ascend_reading now;

        if (!(instance->infos[device].capabilities & FACET_CAN_EVENTS) ||
            !ascend_chip_read_state(&instance->dcmi, chip, &now))
            continue;
        report_changes(instance, device, &now);
        if (!now.has_ecc) { /* a failed reading keeps the count of the one before */
            now.has_ecc = chip->last_reading.has_ecc;
            now.ecc_uncorrected = chip->last_reading.ecc_uncorrected;
        }
        chip->last_reading = now;
    }
}

enum facet_status ascend_device_events(struct facet_provider_instance *instance, uint64_t after, void *items,
                                       uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                       struct facet_error *error)
{
    enum facet_status status = ascend_devices_check(instance, FACET_CAN_EVENTS, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->event_lock);
    read_all_chips(instance);
    status = facet_kit_events_give(&instance->events, after, items, item_size, capacity, ret_count, error);
    pthread_mutex_unlock(&instance->event_lock);
    return status;
}
