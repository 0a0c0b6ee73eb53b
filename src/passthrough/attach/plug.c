/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: hot-plug as a transaction: all of a request's functions are in the VM at the end, or none is.
 * Never: leaves a function behind without naming it in the error.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "passthrough/attach/qmp.h"
#include "passthrough/attach/unplug.h"

/* The time that undoing may take, even beyond the connection's deadline. */
#define UNDO_NS (2 * FACET_NS_PER_S)

static const char object_id[] = "iommufd0";

struct plugging {
    struct facet_qmp *qmp;
    const struct facet_attach_request *request;
    struct facet_attach_layout layout;
    char ports[FACET_ATTACH_FUNCTIONS][FACET_ATTACH_ID_SIZE];
    uint32_t done[FACET_ATTACH_FUNCTIONS]; /* indices of functions that were plugged, or may have been */
    uint32_t done_count;
    bool made_object;
};

/* --- the arguments of device_add --- */

static int put_argument(json_t *arguments, const char *name, json_t *value)
{
    return json_object_set_new(arguments, name, value);
}

static int put_place(json_t *arguments, const struct facet_attach_function *function, const char *id)
{
    char text[FACET_ATTACH_PATH_SIZE];

    if (function->fd)
        return put_argument(arguments, "fd", json_string(id));
    if (function->mdev || function->address.domain > 0xffff) {
        facet_attach_path(function, text);
        return put_argument(arguments, "sysfsdev", json_string(text));
    }
    facet_pci_address_print(&function->address, text);
    return put_argument(arguments, "host", json_string(text));
}

static int put_settings(json_t *arguments, const struct facet_attach_function *function)
{
    int failed = 0;

    if (function->flags & FACET_ATTACH_PRIMARY)
        failed |= put_argument(arguments, "x-vga", json_true());
    if (function->flags & FACET_ATTACH_NO_DISPLAY)
        failed |= put_argument(arguments, "display", json_string("off"));
    if (function->flags & FACET_ATTACH_NO_ROM)
        failed |= put_argument(arguments, "rombar", json_integer(0));
    if (function->romfile)
        failed |= put_argument(arguments, "romfile", json_string(function->romfile));
    if (function->flags & FACET_ATTACH_CLIQUE)
        failed |= put_argument(arguments, "x-nv-gpudirect-clique", json_integer(function->clique));
    return failed;
}

/* NULL: out of memory. */
static json_t *arguments_of(const struct plugging *plugging, uint32_t slot_index, uint32_t member)
{
    const struct facet_attach_slot *slot = &plugging->layout.slots[slot_index];
    const struct facet_attach_function *function = &plugging->request->functions[slot->members[member]];
    const char *id = plugging->layout.ids[slot->members[member]], *driver = plugging->qmp->driver;
    char place[16];
    int failed = 0;

    snprintf(place, sizeof place, "0x0.%x", slot->numbers[member]);
    json_t *arguments = json_pack("{s:s, s:s, s:s, s:s}", "driver", driver, "id", id, "bus",
                                  plugging->ports[slot_index], "addr", place);
    if (slot->count > 1 && member == 0)
        failed |= put_argument(arguments, "multifunction", json_true());
    if (strncmp(driver, "vfio-pci", strlen("vfio-pci")) == 0) {
        failed |= put_place(arguments, function, id);
        failed |= put_settings(arguments, function);
        if (plugging->request->flags & FACET_ATTACH_IOMMUFD)
            failed |= put_argument(arguments, "iommufd", json_string(object_id));
    }
    if (arguments && !failed)
        return arguments;
    json_decref(arguments);
    return NULL;
}

/* --- steps --- */

static enum facet_status check_names(struct plugging *plugging, const json_t *peripherals, struct facet_error *error)
{
    for (uint32_t i = 0; i < plugging->request->count; i++) {
        if (facet_qmp_type_of(peripherals, plugging->layout.ids[i]))
            return facet_error_set(error, FACET_ALREADY_EXISTS, "'%s' is in the VM already", plugging->layout.ids[i]);
        if (plugging->request->functions[i].flags & FACET_ATTACH_GUEST_IOMMU)
            return facet_error_argument(error, FACET_UNSUPPORTED, "flags",
                                        "'%s': the guest's IOMMU is no setting of a "
                                        "function in QEMU",
                                        plugging->layout.ids[i]);
        /* JSON takes only UTF-8, and its failure names no reason. */
        json_t *path =
            json_string(plugging->request->functions[i].romfile ? plugging->request->functions[i].romfile : "");
        if (!path)
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "romfile", "'%s': romfile: expected UTF-8",
                                        plugging->layout.ids[i]);
        json_decref(path);
    }
    return FACET_OK;
}

static enum facet_status hand_over(struct facet_qmp *qmp, const char *name, int fd, struct facet_error *error)
{
    return fd ? facet_qmp_call(qmp, "getfd", json_pack("{s:s}", "fdname", name), fd, NULL, error) : FACET_OK;
}

/* Makes the iommufd object, one for all functions of the VM. An existing one is used. */
static enum facet_status make_object(struct plugging *plugging, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *objects = NULL;
    int fd = plugging->request->iommufd_fd;

    if (!(plugging->request->flags & FACET_ATTACH_IOMMUFD))
        return FACET_OK;
    enum facet_status status = facet_qmp_list(plugging->qmp, "/objects", &objects, error);
    if (status != FACET_OK || facet_qmp_type_of(objects, object_id))
        return status;
    status = hand_over(plugging->qmp, object_id, fd, error);
    if (status != FACET_OK)
        return status;
    json_t *arguments =
        json_pack("{s:s, s:s, s:s*}", "qom-type", "iommufd", "id", object_id, "fd", fd ? object_id : NULL);
    plugging->made_object = true;
    return facet_qmp_call(plugging->qmp, "object-add", arguments, 0, NULL, error);
}

static enum facet_status plug_function(struct plugging *plugging, uint32_t slot, uint32_t member,
                                       struct facet_error *error)
{
    uint32_t index = plugging->layout.slots[slot].members[member];
    const char *id = plugging->layout.ids[index];
    enum facet_status status = hand_over(plugging->qmp, id, plugging->request->functions[index].fd, error);

    if (status == FACET_OK) {
        /* Without an answer, the function may have been plugged all the same. */
        plugging->done[plugging->done_count++] = index;
        status = facet_qmp_call(plugging->qmp, "device_add", arguments_of(plugging, slot, member), 0, NULL, error);
    }
    /* A refused command needs no undo, but QEMU keeps the unused descriptor. */
    if (status == FACET_BAD_STATE || status == FACET_NOT_FOUND) {
        plugging->done_count -= plugging->done_count > 0 && plugging->done[plugging->done_count - 1] == index;
        if (plugging->request->functions[index].fd)
            facet_qmp_call(plugging->qmp, "closefd", json_pack("{s:s}", "fdname", id), 0, NULL, NULL);
    }
    return status == FACET_OK ? FACET_OK : facet_error_prefix(error, "'%s'", id);
}

/* The guest is notified of a slot when its function 0 is plugged, so function 0 comes last. */
static enum facet_status plug_all(struct plugging *plugging, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t slot = 0; status == FACET_OK && slot < plugging->layout.count; slot++)
        for (uint32_t member = plugging->layout.slots[slot].count; status == FACET_OK && member > 0; member--)
            status = plug_function(plugging, slot, member - 1, error);
    return status;
}

static enum facet_status prepare_plugging(struct plugging *plugging, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *peripherals = NULL;
    enum facet_status status = facet_qmp_list(plugging->qmp, "/machine/peripheral", &peripherals, error);

    if (status == FACET_OK)
        status = check_names(plugging, peripherals, error);
    if (status == FACET_OK)
        status = facet_qmp_choose_ports(plugging->qmp, peripherals, &plugging->layout, plugging->ports, error);
    return status == FACET_OK ? make_object(plugging, error) : status;
}

/* --- undoing --- */

/* Adds "; left in the VM: ..." to the first error. */
static void add_left_devices(struct facet_error *error, const char *left)
{
    struct facet_error first = *error;

    facet_error_argument(error, first.status, first.argument, "%s; left in the VM: %s", first.message, left);
}

static void undo_plugging(struct plugging *plugging, struct facet_error *error)
{
    char left[160] = "";
    uint64_t before = plugging->qmp->wire.deadline_ns, until = facet_clock_now_ns() + UNDO_NS;

    plugging->qmp->wire.deadline_ns = until;
    for (uint32_t i = plugging->done_count; i > 0; i--) {
        const char *id = plugging->layout.ids[plugging->done[i - 1]];
        size_t used = strlen(left);
        if (facet_qmp_unplug(plugging->qmp, id, until, NULL) != FACET_OK)
            snprintf(left + used, sizeof left - used, "%s'%s'", used ? ", " : "", id);
    }
    if (plugging->made_object &&
        facet_qmp_call(plugging->qmp, "object-del", json_pack("{s:s}", "id", object_id), 0, NULL, NULL) != FACET_OK) {
        size_t used = strlen(left);
        snprintf(left + used, sizeof left - used, "%sthe object '%s'", used ? ", " : "", object_id);
    }
    plugging->qmp->wire.deadline_ns = before;
    if (left[0] && error)
        add_left_devices(error, left);
}

/* --- the guest's use of a device --- */

/* The device called `id` among those of a bus, and of buses behind it; NULL: not shown. */
static const json_t *find_device(const json_t *devices, const char *id)
{
    size_t index;
    const json_t *device;

    json_array_foreach (devices, index, device) {
        const char *name = json_string_value(json_object_get(device, "qdev_id"));
        if (name && strcmp(name, id) == 0)
            return device;
        const json_t *behind = json_object_get(json_object_get(device, "pci_bridge"), "devices");
        const json_t *found = behind ? find_device(behind, id) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

/*
 * QEMU shows the address of a BAR only while the guest has the device decode memory. The guest's driver switches that
 * on; a guest that has only found the device has not.
 */
static uint32_t is_used(const json_t *device)
{
    uint32_t used = FACET_PCI_UNKNOWN;
    size_t index;
    const json_t *region;

    json_array_foreach (json_object_get(device, "regions"), index, region) {
        const json_t *address = json_object_get(region, "address");
        if (json_is_integer(address) && json_integer_value(address) != -1)
            return FACET_PCI_YES;
        used = FACET_PCI_NO;
    }
    return used;
}

static enum facet_status read_use_of_devices(struct plugging *plugging, struct facet_attach_report *reports,
                                             bool *ret_all, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *buses = NULL;
    bool all = true;
    size_t index;
    const json_t *bus;

    enum facet_status status = facet_qmp_call(plugging->qmp, "query-pci", json_object(), 0, &buses, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < plugging->request->count; i++) {
        const json_t *device = NULL;
        json_array_foreach (buses, index, bus)
            device = device ? device : find_device(json_object_get(bus, "devices"), plugging->layout.ids[i]);
        reports[i].used = device ? is_used(device) : (uint32_t)FACET_PCI_NO;
        all = all && reports[i].used != FACET_PCI_NO;
    }
    *ret_all = all;
    return FACET_OK;
}

/* Waits until the guest uses the devices. A use that stays unknown is no error, but the loss of QEMU is one. */
static enum facet_status wait_for_use(struct plugging *plugging, struct facet_attach_report *reports,
                                      struct facet_error *error)
{
    uint64_t until = facet_clock_now_ns() + plugging->qmp->used_ns;
    char state[FACET_ATTACH_ID_SIZE] = "";
    bool all = false;
    struct facet_error why = {0};

    enum facet_status status = facet_qmp_state(plugging->qmp, state, &why);
    if (status == FACET_OK && strcmp(state, "running") != 0)
        return FACET_OK;
    while (status == FACET_OK && !all) {
        status = read_use_of_devices(plugging, reports, &all, &why);
        if (status != FACET_OK || all || facet_clock_now_ns() >= until)
            break;
        /* Waits before it asks again, and receives events meanwhile. */
        uint64_t pause = facet_clock_now_ns() + 100 * FACET_NS_PER_MS;
        while (status == FACET_OK)
            status = facet_qmp_listen(plugging->qmp, pause, &why);
        if (status == FACET_TIMEOUT && facet_clock_now_ns() < plugging->qmp->wire.deadline_ns)
            status = FACET_OK;
    }
    if (status != FACET_IO && status != FACET_CORRUPT)
        return FACET_OK;
    return facet_error_set(error, status, "after it was plugged in: %s", why.message);
}

/* --- the whole --- */

static void report_plugging(const struct plugging *plugging, struct facet_attach_report *reports)
{
    for (uint32_t i = 0; i < plugging->layout.count; i++) {
        const struct facet_attach_slot *slot = &plugging->layout.slots[i];
        for (uint32_t member = 0; member < slot->count; member++) {
            struct facet_attach_report *to = &reports[slot->members[member]];
            *to = (struct facet_attach_report){.size = sizeof *to, .function = slot->numbers[member]};
            memcpy(to->id, plugging->layout.ids[slot->members[member]], sizeof to->id);
            memcpy(to->port, plugging->ports[i], sizeof to->port);
        }
    }
}

static enum facet_status check_sizes(const struct facet_attach_request *request,
                                     const struct facet_attach_report *reports, struct facet_error *error)
{
    for (uint32_t i = 0; i < request->count; i++)
        if (reports[i].size != sizeof reports[i])
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "size",
                                        "size of a report %" PRIu32 ": expected %zu", reports[i].size,
                                        sizeof reports[i]);
    if (request->segment)
        return facet_error_argument(error, FACET_UNSUPPORTED, "segment", "a segment is no setting of QEMU");
    return FACET_OK;
}

enum facet_status facet_qmp_attach(struct facet_qmp *qmp, const struct facet_attach_request *request,
                                   struct facet_attach_report *ret_reports, struct facet_error *error)
{
    struct plugging plugging = {.qmp = qmp, .request = request};
    struct facet_attach_report reports[FACET_ATTACH_FUNCTIONS];
    struct facet_error unheard = {0};

    error = error ? error : &unheard;
    enum facet_status status = facet_attach_lay_out(request, &plugging.layout, error);
    if (status == FACET_OK)
        status = check_sizes(request, ret_reports, error);
    if (status == FACET_OK)
        status = facet_attach_check_versions(request, qmp->version, error);
    if (status != FACET_OK)
        return status;
    status = prepare_plugging(&plugging, error);
    if (status == FACET_OK)
        status = plug_all(&plugging, error);
    report_plugging(&plugging, reports);
    if (status == FACET_OK)
        status = wait_for_use(&plugging, reports, error);
    if (status == FACET_OK) {
        memcpy(ret_reports, reports, request->count * sizeof reports[0]);
        return FACET_OK;
    }
    undo_plugging(&plugging, error);
    return facet_error_prefix(error, "QEMU on '%.120s'", qmp->socket);
}
