/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: checking requests, the functions' ids in the VM, the sizes of bridge windows, the functions that share a slot.
 * Never: reads the host.
 */
#include "passthrough/attach/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sized.h"
#include "base/text.h"

enum { CLIQUE_MAX = 15, SEGMENT_MAX = 15, PORT_MAX = 255, UUID_LENGTH = 36, ROMFILE_MAX = 4096 };

void facet_attach_id(const struct facet_attach_function *function, char ret_id[FACET_ATTACH_ID_SIZE])
{
    const struct facet_pci_address *at = &function->address;

    if (function->id)
        snprintf(ret_id, FACET_ATTACH_ID_SIZE, "%s", function->id);
    else if (function->mdev)
        snprintf(ret_id, FACET_ATTACH_ID_SIZE, "facet-%.*s", UUID_LENGTH, function->mdev);
    else
        snprintf(ret_id, FACET_ATTACH_ID_SIZE, "facet-%04" PRIx32 "-%02x-%02x.%x", at->domain, at->bus, at->device,
                 at->function);
}

void facet_attach_path(const struct facet_attach_function *function, char ret_path[FACET_ATTACH_PATH_SIZE])
{
    char address[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(&function->address, address);
    if (function->mdev)
        snprintf(ret_path, FACET_ATTACH_PATH_SIZE, "/sys/bus/mdev/devices/%.*s", UUID_LENGTH, function->mdev);
    else
        snprintf(ret_path, FACET_ATTACH_PATH_SIZE, "/sys/bus/pci/devices/%s", address);
}

/* --- windows --- */

static uint64_t round_up_window(uint64_t bytes)
{
    uint64_t power = UINT64_C(1) << 20; /* a bridge's windows come in MiB */

    while (bytes && power < bytes && power << 1)
        power <<= 1;
    return bytes ? power : 0;
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static void sum_bars(const struct facet_pci_bar *bars, uint32_t count, uint64_t *prefetchable, uint64_t *other)
{
    for (uint32_t i = 0; bars && i < count; i++) {
        bool fits_prefetchable = bars[i].is_64bit && bars[i].is_prefetchable;
        if (bars[i].is_memory && i != FACET_PCI_ROM)
            *(fits_prefetchable ? prefetchable : other) =
                add_capped(*(fits_prefetchable ? prefetchable : other), bars[i].bytes);
    }
}

void facet_attach_windows(const struct facet_pci_bar *bars, uint32_t count, uint64_t *ret_prefetchable,
                          uint64_t *ret_other)
{
    uint64_t prefetchable = 0, other = 0;

    sum_bars(bars, count, &prefetchable, &other);
    *ret_prefetchable = round_up_window(prefetchable);
    *ret_other = round_up_window(other);
}

/* --- one function --- */

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* The names that QEMU, libvirt and Cloud Hypervisor all accept. */
static enum facet_status check_name(const char *what, const char *name, struct facet_error *error)
{
    size_t length = strnlen(name, FACET_ATTACH_ID_SIZE);
    bool good = is_letter(name[0]) && length < FACET_ATTACH_ID_SIZE;

    for (size_t i = 0; good && i < length; i++)
        good = is_letter(name[i]) || is_digit(name[i]) || strchr("-._", name[i]);
    if (good)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, what,
                                "%s '%.70s': expected a letter, then letters, digits, '-', '.' and '_', at most %u",
                                what, name, FACET_ATTACH_ID_SIZE - 1);
}

static bool is_uuid(const char *text)
{
    size_t i = 0;

    for (; i < UUID_LENGTH && text[i]; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool hex = is_digit(text[i]) || (text[i] >= 'a' && text[i] <= 'f') || (text[i] >= 'A' && text[i] <= 'F');
        if (dash ? text[i] != '-' : !hex)
            return false;
    }
    return i == UUID_LENGTH && !text[i];
}

/* Whether a path is UTF-8 without control characters, which XML and JSON cannot hold. */
static bool is_path(const char *text)
{
    size_t length = strnlen(text, ROMFILE_MAX), step;

    if (length == 0 || length == ROMFILE_MAX)
        return false;
    for (; *text; text += step) {
        step = facet_text_character(text);
        if (!step || facet_text_is_control(text))
            return false;
    }
    return true;
}

static enum facet_status check_rom(const struct facet_attach_function *function, struct facet_error *error)
{
    if (!function->romfile)
        return FACET_OK;
    if (function->flags & FACET_ATTACH_NO_ROM)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "romfile",
                                    "romfile '%.80s': expected none, as the ROM is to be hidden", function->romfile);
    if (!is_path(function->romfile))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "romfile",
                                    "romfile '%.80s': expected a path in UTF-8, without control characters",
                                    function->romfile);
    return FACET_OK;
}

enum facet_status facet_attach_check_function(const struct facet_attach_function *function, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (function->size != sizeof *function)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "size",
                                    "size of a function %" PRIu32 ": expected %zu", function->size, sizeof *function);
    FACET_NEED_RESERVED("a function", function, error);
    if (function->address.device > 31 || function->address.function > 7)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "address",
                                    "address: device %u, function %u: "
                                    "expected at most 31 and 7",
                                    function->address.device, function->address.function);
    if (function->mdev && !is_uuid(function->mdev))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "mdev", "mdev '%.60s': expected a UUID",
                                    function->mdev);
    if (function->clique > CLIQUE_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "clique", "clique %" PRIu32 ": expected 0 to %d",
                                    function->clique, CLIQUE_MAX);
    if (function->fd < 0)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "fd",
                                    "fd %" PRId32 ": expected 0 for none, or a "
                                    "descriptor",
                                    function->fd);
    if (function->id)
        status = check_name("id", function->id, error);
    if (status == FACET_OK && function->port)
        status = check_name("port", function->port, error);
    return status == FACET_OK ? check_rom(function, error) : status;
}

/* --- a request --- */

static enum facet_status check_numbers(const struct facet_attach_request *request, struct facet_error *error)
{
    if (request->count < 1 || request->count > FACET_ATTACH_FUNCTIONS || !request->functions)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "count", "count %" PRIu32 ": expected 1 to %u functions",
                                    request->count, FACET_ATTACH_FUNCTIONS);
    if (request->first_port > PORT_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "first_port", "first_port %" PRIu32 ": expected 1 to %d",
                                    request->first_port, PORT_MAX);
    if (request->segment > SEGMENT_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "segment", "segment %" PRIu32 ": expected 0 to %d",
                                    request->segment, SEGMENT_MAX);
    if (request->iommufd_fd < 0 || (request->iommufd_fd && !(request->flags & FACET_ATTACH_IOMMUFD)))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "iommufd_fd",
                                    "iommufd_fd %" PRId32 ": expected a descriptor, and only with iommufd",
                                    request->iommufd_fd);
    return FACET_OK;
}

static bool is_same_function(const struct facet_attach_function *a, const struct facet_attach_function *b)
{
    if (a->mdev || b->mdev)
        return a->mdev && b->mdev && strcasecmp(a->mdev, b->mdev) == 0;
    return facet_pci_address_compare(&a->address, &b->address) == 0;
}

/* Compares a function with the functions before it. */
static enum facet_status check_unique(const struct facet_attach_request *request,
                                      const struct facet_attach_layout *layout, uint32_t index,
                                      struct facet_error *error)
{
    const struct facet_attach_function *function = &request->functions[index];

    for (uint32_t i = 0; i < index; i++) {
        if (is_same_function(&request->functions[i], function) || strcmp(layout->ids[i], layout->ids[index]) == 0)
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "functions",
                                        "'%s' is named twice; expected each function and id once", layout->ids[index]);
        if (request->functions[i].flags & function->flags & FACET_ATTACH_PRIMARY)
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "functions",
                                        "'%s' and '%s' are both primary; expected one at most", layout->ids[i],
                                        layout->ids[index]);
    }
    return FACET_OK;
}

static enum facet_status check_all(const struct facet_attach_request *request, struct facet_attach_layout *layout,
                                   struct facet_error *error)
{
    enum facet_status status = check_numbers(request, error);

    for (uint32_t i = 0; status == FACET_OK && i < request->count; i++) {
        const struct facet_attach_function *function = &request->functions[i];
        status = facet_attach_check_function(function, error);
        if (status != FACET_OK)
            break;
        facet_attach_id(function, layout->ids[i]);
        status = check_unique(request, layout, i, error);
        if (status == FACET_OK && function->fd && !(request->flags & FACET_ATTACH_IOMMUFD))
            status = facet_error_argument(error, FACET_INVALID_ARGUMENT, "fd",
                                          "'%s' has a descriptor; expected that "
                                          "with iommufd only",
                                          layout->ids[i]);
    }
    return status;
}

/* --- slots --- */

static bool needs_own_slot(const struct facet_attach_function *function)
{
    return function->mdev || (function->flags & FACET_ATTACH_VIRTUAL);
}

static bool same_device(const struct facet_attach_function *a, const struct facet_attach_function *b)
{
    return !needs_own_slot(a) && !needs_own_slot(b) && a->address.domain == b->address.domain &&
           a->address.bus == b->address.bus && a->address.device == b->address.device;
}

static struct facet_attach_slot *slot_of(const struct facet_attach_request *request, struct facet_attach_layout *layout,
                                         const struct facet_attach_function *function)
{
    for (uint32_t i = 0; i < layout->count; i++)
        if (same_device(&request->functions[layout->slots[i].members[0]], function))
            return &layout->slots[i];
    layout->slots[layout->count] = (struct facet_attach_slot){0};
    return &layout->slots[layout->count++];
}

/*
 * Keeps the slot's functions in the order of their numbers on the host. There are at most eight, because no function is
 * named twice.
 */
static void insert_into_slot(const struct facet_attach_request *request, struct facet_attach_slot *slot, uint32_t index)
{
    uint32_t at = slot->count++;

    for (; at > 0 &&
           request->functions[slot->members[at - 1]].address.function > request->functions[index].address.function;
         at--)
        slot->members[at] = slot->members[at - 1];
    slot->members[at] = index;
}

/*
 * Gives the slot's functions the numbers that they have on the host if these include 0, without which a guest sees no
 * device; otherwise the numbers from 0 on.
 */
static void number_functions(const struct facet_attach_request *request, struct facet_attach_slot *slot)
{
    bool keep = request->functions[slot->members[0]].address.function == 0 &&
                !needs_own_slot(&request->functions[slot->members[0]]);

    for (uint32_t i = 0; i < slot->count; i++)
        slot->numbers[i] = keep ? request->functions[slot->members[i]].address.function : (uint8_t)i;
}

static enum facet_status finish_slot(const struct facet_attach_request *request, struct facet_attach_slot *slot,
                                     struct facet_error *error)
{
    uint64_t prefetchable = 0, other = 0;

    number_functions(request, slot);
    for (uint32_t i = 0; i < slot->count; i++) {
        const struct facet_attach_function *function = &request->functions[slot->members[i]];
        sum_bars(function->bars, function->bar_count, &prefetchable, &other);
        if (slot->port && function->port && strcmp(slot->port, function->port) != 0)
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "port",
                                        "ports '%s' and '%s' for functions of "
                                        "one device; expected one",
                                        slot->port, function->port);
        slot->port = slot->port ? slot->port : function->port;
    }
    slot->prefetchable = round_up_window(prefetchable);
    slot->other = round_up_window(other);
    return FACET_OK;
}

static enum facet_status check_ports(const struct facet_attach_request *request,
                                     const struct facet_attach_layout *layout, struct facet_error *error)
{
    uint32_t first = request->first_port ? request->first_port : 1;

    for (uint32_t i = 0; i < layout->count; i++)
        for (uint32_t j = 0; j < i && layout->slots[i].port; j++)
            if (layout->slots[j].port && strcmp(layout->slots[i].port, layout->slots[j].port) == 0)
                return facet_error_argument(error, FACET_INVALID_ARGUMENT, "port",
                                            "port '%s' is for two devices; "
                                            "expected one, as a root port holds one",
                                            layout->slots[i].port);
    if (first + layout->count - 1 > PORT_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "first_port",
                                    "first_port %" PRIu32 " and %" PRIu32 " devices: expected numbers to %d", first,
                                    layout->count, PORT_MAX);
    return FACET_OK;
}

enum facet_status facet_attach_lay_out(const struct facet_attach_request *request,
                                       struct facet_attach_layout *ret_layout, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (!request || request->size != sizeof *request)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request", "request: expected one of size %zu",
                                    sizeof *request);
    FACET_NEED_RESERVED("the request", request, error);
    status = check_all(request, ret_layout, error);
    if (status != FACET_OK)
        return status;
    ret_layout->count = 0;
    for (uint32_t i = 0; i < request->count; i++)
        insert_into_slot(request, slot_of(request, ret_layout, &request->functions[i]), i);
    for (uint32_t i = 0; status == FACET_OK && i < ret_layout->count; i++)
        status = finish_slot(request, &ret_layout->slots[i], error);
    return status == FACET_OK ? check_ports(request, ret_layout, error) : status;
}

/* --- versions --- */

static enum facet_status check_floor(const char *what, uint32_t version, uint32_t floor, struct facet_error *error)
{
    if (!version || version >= floor)
        return FACET_OK;
    return facet_error_argument(error, FACET_UNSUPPORTED, what,
                                "%s %" PRIu32 ".%" PRIu32 " has no iommufd; expected %" PRIu32 ".%" PRIu32
                                " or later, or to go without",
                                what, version >> 16, version & 0xffff, floor >> 16, floor & 0xffff);
}

enum facet_status facet_attach_check_versions(const struct facet_attach_request *request, uint32_t qemu_version,
                                              struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (!(request->flags & FACET_ATTACH_IOMMUFD))
        return FACET_OK;
    status = check_floor("kernel", request->kernel_version, FACET_ATTACH_VERSION(6, 6), error);
    return status == FACET_OK ? check_floor("QEMU", qemu_version, FACET_ATTACH_VERSION(9, 0), error) : status;
}
