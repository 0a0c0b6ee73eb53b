/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: hot-unplug: finding the devices, asking the guest, waiting for QEMU's event that each is gone.
 * Never: asks again while an earlier request is under way, because a guest takes a second request as an order to keep
 * the device.
 */
#include "passthrough/attach/unplug.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { PATH_SIZE = 320 };

static const char peripheral[] = "/machine/peripheral/";

/* --- one device --- */

/* Asks QEMU to unplug a device. FACET_OK: QEMU's event will follow, or the device is gone already (`deleted`). */
static enum facet_status ask_to_unplug(struct facet_qmp *qmp, struct facet_qmp_watch *watch, struct facet_error *error)
{
    struct facet_error why = {0};
    enum facet_status status = facet_qmp_call(qmp, "device_del", json_pack("{s:s}", "id", watch->id), 0, NULL, &why);

    if (status == FACET_NOT_FOUND) {
        watch->deleted = true;
        return FACET_OK;
    }
    /* An earlier request is under way, and its event will come. */
    if (status == FACET_BAD_STATE && strstr(why.message, "in the process of unplug"))
        return FACET_OK;
    if (status != FACET_OK && error)
        *error = why;
    return status;
}

static enum facet_status wait_gone(struct facet_qmp *qmp, struct facet_qmp_watch *watch, uint64_t until_ns,
                                   struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    while (status == FACET_OK && !watch->deleted && !watch->refused)
        status = facet_qmp_listen(qmp, until_ns, error);
    if (status == FACET_TIMEOUT)
        return facet_error_set(error, status, "the guest has not given it up in time; it is still in the VM");
    if (status == FACET_OK && !watch->deleted)
        return facet_error_set(error, FACET_BUSY, "the guest refuses to give it up");
    return status;
}

static enum facet_status unplug_device(struct facet_qmp *qmp, struct facet_qmp_watch *watch, uint64_t until_ns,
                                       struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    /* The device left together with another function of its slot. */
    if (watch->deleted)
        return FACET_OK;
    watch->refused = false;
    status = ask_to_unplug(qmp, watch, error);
    if (status == FACET_OK)
        status = wait_gone(qmp, watch, until_ns, error);
    return status == FACET_OK ? FACET_OK : facet_error_prefix(error, "'%s'", watch->id);
}

enum facet_status facet_qmp_unplug(struct facet_qmp *qmp, const char *id, uint64_t until_ns, struct facet_error *error)
{
    struct facet_qmp_watch watch = {.id = id};

    qmp->watches = &watch;
    qmp->watch_count = 1;
    enum facet_status status = unplug_device(qmp, &watch, until_ns, error);
    qmp->watches = NULL;
    qmp->watch_count = 0;
    return status;
}

/* --- finding the device of a function --- */

/* Whether the VM's device `id` is the function. The host address or path with which the device was made tells. */
static enum facet_status is_function(struct facet_qmp *qmp, const struct facet_attach_function *function,
                                     const char *id, bool *ret_matches, struct facet_error *error)
{
    char path[PATH_SIZE], own_path[FACET_ATTACH_PATH_SIZE];
    struct facet_pci_address address;
    FACET_CLEANUP_JSON json_t *host = NULL;
    FACET_CLEANUP_JSON json_t *sysfs = NULL;

    snprintf(path, sizeof path, "%s%.250s", peripheral, id);
    enum facet_status status = facet_qmp_get(qmp, path, "host", &host, error);
    if (status == FACET_OK || status == FACET_BAD_STATE)
        status = facet_qmp_get(qmp, path, "sysfsdev", &sysfs, error);
    if (status != FACET_OK && status != FACET_BAD_STATE)
        return status;
    facet_attach_path(function, own_path);
    bool by_host = !function->mdev && json_is_string(host) &&
                   facet_pci_address_parse(json_string_value(host), &address, NULL) == FACET_OK &&
                   facet_pci_address_compare(&address, &function->address) == 0;
    *ret_matches = by_host || (json_is_string(sysfs) && strcmp(json_string_value(sysfs), own_path) == 0);
    return FACET_OK;
}

static enum facet_status search_peripherals(struct facet_qmp *qmp, const json_t *peripherals,
                                            const struct facet_attach_function *function,
                                            char ret_id[FACET_ATTACH_ID_SIZE], struct facet_error *error)
{
    size_t index;
    const json_t *member;

    json_array_foreach (peripherals, index, member) {
        const char *name = json_string_value(json_object_get(member, "name"));
        const char *type = json_string_value(json_object_get(member, "type"));
        bool matches = false;
        if (strncmp(type, "child<vfio-pci", strlen("child<vfio-pci")) != 0 || strlen(name) >= FACET_ATTACH_ID_SIZE)
            continue;
        enum facet_status status = is_function(qmp, function, name, &matches, error);
        if (status != FACET_OK)
            return status;
        if (matches) {
            snprintf(ret_id, FACET_ATTACH_ID_SIZE, "%s", name);
            return FACET_OK;
        }
    }
    return facet_error_set(error, FACET_NOT_FOUND, "the VM has no device '%s'", ret_id);
}

static enum facet_status find_device(struct facet_qmp *qmp, const json_t *peripherals,
                                     const struct facet_attach_function *function, char ret_id[FACET_ATTACH_ID_SIZE],
                                     struct facet_error *error)
{
    enum facet_status status = facet_attach_check_function(function, error);

    if (status != FACET_OK)
        return status;
    facet_attach_id(function, ret_id);
    if (facet_qmp_type_of(peripherals, ret_id))
        return FACET_OK;
    if (function->id)
        return facet_error_set(error, FACET_NOT_FOUND, "the VM has no device '%s'", ret_id);
    return search_peripherals(qmp, peripherals, function, ret_id, error);
}

/* --- functions that share a slot --- */

static enum facet_status slot_of(struct facet_qmp *qmp, const char *path, json_int_t *ret_slot,
                                 struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *place = NULL;
    enum facet_status status = facet_qmp_get(qmp, path, "addr", &place, error);

    if (status == FACET_OK && (!json_is_integer(place) || json_integer_value(place) > UINT8_MAX))
        return facet_error_set(error, FACET_CORRUPT, "qom-get: '%.100s' without an address on its bus", path);
    if (status == FACET_OK) /* -1: the device has no address yet */
        *ret_slot = json_integer_value(place) >> 3;
    return status;
}

static bool is_named(char (*ids)[FACET_ATTACH_ID_SIZE], uint32_t count, const char *path)
{
    const char *name = strncmp(path, peripheral, strlen(peripheral)) == 0 ? path + strlen(peripheral) : path;

    for (uint32_t i = 0; i < count; i++)
        if (strcmp(ids[i], name) == 0)
            return true;
    return false;
}

/* Refuses to unplug some functions of a slot only, because all its functions leave the guest together. */
static enum facet_status check_slot(struct facet_qmp *qmp, char (*ids)[FACET_ATTACH_ID_SIZE], uint32_t count,
                                    uint32_t index, struct facet_error *error)
{
    char path[PATH_SIZE];
    FACET_CLEANUP_JSON json_t *bus = NULL;
    FACET_CLEANUP_JSON json_t *neighbours = NULL;
    json_int_t own_slot = 0, other = 0;
    size_t i;
    const json_t *neighbour;

    snprintf(path, sizeof path, "%s%.63s", peripheral, ids[index]);
    enum facet_status status = facet_qmp_get(qmp, path, "parent_bus", &bus, error);
    if (status == FACET_OK)
        status = slot_of(qmp, path, &own_slot, error);
    if (status == FACET_OK && !json_is_string(bus))
        status = facet_error_set(error, FACET_CORRUPT, "qom-get: a bus without a path");
    if (status == FACET_OK)
        status = facet_qmp_bus_devices(qmp, json_string_value(bus), &neighbours, error);
    json_array_foreach (neighbours, i, neighbour) {
        const char *name = json_string_value(neighbour);
        if (is_named(ids, count, name))
            continue;
        status = slot_of(qmp, name, &other, error);
        if (status != FACET_OK)
            return status;
        if (own_slot == other)
            return facet_error_set(error, FACET_BAD_STATE,
                                   "'%s' shares its slot with '%.100s', which would "
                                   "leave as well; name both",
                                   ids[index], name);
    }
    return status;
}

/* --- the whole --- */

static enum facet_status prepare_unplug(struct facet_qmp *qmp, const struct facet_attach_function *functions,
                                        uint32_t count, char (*ids)[FACET_ATTACH_ID_SIZE], struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *peripherals = NULL;
    enum facet_status status = facet_qmp_list(qmp, "/machine/peripheral", &peripherals, error);

    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        status = find_device(qmp, peripherals, &functions[i], ids[i], error);
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        status = check_slot(qmp, ids, count, i, error);
    return status;
}

/* Adds to an error that a paused VM's guest cannot answer, and which of several devices are unplugged already. */
static void explain_state(struct facet_error *error, const char *state, const struct facet_qmp_watch *watches,
                          uint32_t count)
{
    struct facet_error first = *error;
    char unplugged[160] = "";

    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(unplugged);
        if (watches[i].deleted)
            snprintf(unplugged + used, sizeof unplugged - used, "%s'%s'",
                     used ? ", " : "; unplugged already: ", watches[i].id);
    }
    bool paused = first.status == FACET_TIMEOUT && strcmp(state, "running") != 0;
    facet_error_argument(error, first.status, first.argument, "%s%s%s%s%s", first.message,
                         paused ? "; the guest cannot answer, the VM is '" : "", paused ? state : "", paused ? "'" : "",
                         unplugged);
}

static enum facet_status unplug_all(struct facet_qmp *qmp, struct facet_qmp_watch *watches, uint32_t count,
                                    struct facet_error *error)
{
    char state[FACET_ATTACH_ID_SIZE] = "";
    enum facet_status status = facet_qmp_state(qmp, state, error);

    if (status != FACET_OK)
        return status;
    qmp->watches = watches;
    qmp->watch_count = count;
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        status = unplug_device(qmp, &watches[i], UINT64_MAX, error);
    qmp->watches = NULL;
    qmp->watch_count = 0;
    if (status != FACET_OK)
        explain_state(error, state, watches, count);
    return status;
}

enum facet_status facet_qmp_detach(struct facet_qmp *qmp, const struct facet_attach_function *functions, uint32_t count,
                                   struct facet_error *error)
{
    char ids[FACET_ATTACH_FUNCTIONS][FACET_ATTACH_ID_SIZE];
    struct facet_qmp_watch watches[FACET_ATTACH_FUNCTIONS];
    struct facet_error unheard = {0};

    error = error ? error : &unheard;
    if (count < 1 || count > FACET_ATTACH_FUNCTIONS)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "count", "count %" PRIu32 ": expected 1 to %u functions",
                                    count, FACET_ATTACH_FUNCTIONS);
    enum facet_status status = prepare_unplug(qmp, functions, count, ids, error);
    for (uint32_t i = 0; i < count; i++)
        watches[i] = (struct facet_qmp_watch){.id = ids[i]};
    if (status == FACET_OK)
        status = unplug_all(qmp, watches, count, error);
    return status == FACET_OK ? FACET_OK : facet_error_prefix(error, "QEMU on '%.120s'", qmp->socket);
}
