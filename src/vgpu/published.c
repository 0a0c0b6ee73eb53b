/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the format of a driver's published file, written and read by one table of fields. Never: opens a file. */
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgpu/published.h"

#include "base/integer.h"

#define ITEMS_MAX FACET_DRIVER_VGPUS /* the most devices, or vGPUs, of one driver */
#define TEXT_SIZE 128u               /* room for the longest text of a field */

/*
 * The largest numbers that are believed: 2^60 bytes, nanoseconds (36 years) and launches. A vGPU's measured share of a
 * device may exceed the whole when its streams run at once, but not a thousandfold.
 */
#define BYTES_MAX          (UINT64_C(1) << 60)
#define TIME_MAX_NS        (UINT64_C(1) << 60)
#define LAUNCHES_MAX       (UINT64_C(1) << 60)
#define WHOLE_MILLI        ((uint64_t)FACET_MILLI_WHOLE)
#define SIDE_BY_SIDE_MILLI (1000 * WHOLE_MILLI)
#define NO_BOUND           0u /* of texts, which are bounded by the size of their member */

enum kind { TEXT, U32, U64 };

/* A member of a struct, and the bit in the struct's `valid` that says whether it is known; 0: it is always known. */
struct field {
    const char *name;
    enum kind kind;
    size_t offset, size;
    uint32_t valid;
    uint64_t max;
};

#define FIELD(type, member, kind, bit, max)                                                                            \
    {                                                                                                                  \
#member, kind, offsetof(struct type, member), sizeof(((struct type *)NULL)->member), bit, max                  \
    }
#define DEVICE(member, kind, bit, max) FIELD(facet_driver_device, member, kind, bit, max)
#define VGPU(member, kind, bit, max)   FIELD(facet_vgpu_info, member, kind, bit, max)

static const struct field device_fields[] = {
    DEVICE(id, TEXT, 0, NO_BOUND),
    DEVICE(name, TEXT, 0, NO_BOUND),
    DEVICE(lost, U32, 0, 1),
    DEVICE(units, U32, 0, UINT32_MAX),
    DEVICE(vgpus, U32, 0, ITEMS_MAX),
    DEVICE(utilization_milli, U32, FACET_DRIVER_HAS_UTILIZATION, WHOLE_MILLI),
    DEVICE(busy_ns, U64, FACET_DRIVER_HAS_BUSY, TIME_MAX_NS),
    DEVICE(memory_bytes, U64, 0, BYTES_MAX),
    DEVICE(memory_used_bytes, U64, 0, BYTES_MAX),
    DEVICE(promised_bytes, U64, 0, BYTES_MAX),
};

static const struct field vgpu_fields[] = {
    VGPU(id, U32, 0, UINT32_MAX),
    VGPU(status, U32, 0, FACET_VGPU_DESTROYED),
    VGPU(name, TEXT, 0, NO_BOUND),
    VGPU(device, U32, 0, ITEMS_MAX),
    VGPU(streams, U32, 0, UINT32_MAX),
    VGPU(request_milli, U32, 0, WHOLE_MILLI),
    VGPU(limit_milli, U32, 0, WHOLE_MILLI),
    VGPU(compute_milli, U32, FACET_VGPU_HAS_COMPUTE, SIDE_BY_SIDE_MILLI),
    VGPU(queued, U32, 0, UINT32_MAX),
    VGPU(running, U32, 0, UINT32_MAX),
    VGPU(memory_limit_bytes, U64, FACET_VGPU_HAS_MEMORY, BYTES_MAX),
    VGPU(memory_allocated_bytes, U64, FACET_VGPU_HAS_MEMORY, BYTES_MAX),
    VGPU(memory_reserved_bytes, U64, FACET_VGPU_HAS_MEMORY, BYTES_MAX),
    VGPU(memory_peak_bytes, U64, FACET_VGPU_HAS_MEMORY, BYTES_MAX),
    VGPU(allocations, U64, FACET_VGPU_HAS_MEMORY, LAUNCHES_MAX),
    VGPU(launched_total, U64, 0, LAUNCHES_MAX),
    VGPU(completed_total, U64, 0, LAUNCHES_MAX),
    VGPU(busy_ns, U64, 0, TIME_MAX_NS),
    VGPU(delay_ns, U64, FACET_VGPU_HAS_RECORDS, TIME_MAX_NS),
    VGPU(failed_total, U64, FACET_VGPU_HAS_RECORDS, LAUNCHES_MAX),
    VGPU(cancelled_total, U64, FACET_VGPU_HAS_RECORDS, LAUNCHES_MAX),
};

/* A struct described by its fields; all have their `valid` bits in one uint32_t. */
struct record_format {
    const struct field *fields;
    size_t count, size, valid_offset;
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct record_format device_format = {device_fields, COUNT(device_fields),
                                                   sizeof(struct facet_driver_device),
                                                   offsetof(struct facet_driver_device, valid)};
static const struct record_format vgpu_format = {vgpu_fields, COUNT(vgpu_fields), sizeof(struct facet_vgpu_info),
                                                 offsetof(struct facet_vgpu_info, valid)};

/* ---- writing ---- */

static json_t *value_of(const struct field *field, const char *bytes)
{
    uint64_t number = 0;
    uint32_t small;

    if (field->kind == TEXT)
        return json_string(bytes);
    if (field->kind == U64) {
        memcpy(&number, bytes, sizeof number);
    } else {
        memcpy(&small, bytes, sizeof small);
        number = small;
    }
    return json_integer(facet_integer(number));
}

static json_t *write_item(const struct record_format *record_format, const char *bytes)
{
    json_t *object = json_object();
    uint32_t valid;

    memcpy(&valid, bytes + record_format->valid_offset, sizeof valid);
    for (size_t i = 0; i < record_format->count; i++) {
        const struct field *field = &record_format->fields[i];

        if ((valid & field->valid) == field->valid)
            json_object_set_new(object, field->name, value_of(field, bytes + field->offset));
    }
    return object;
}

static json_t *write_items(const struct record_format *record_format, const void *items, uint32_t count)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, write_item(record_format, (const char *)items + i * record_format->size));
    return array;
}

char *facet_published_text(const struct facet_published *driver)
{
    json_t *object = json_object();

    json_object_set_new(object, "pid", json_integer((json_int_t)driver->pid));
    json_object_set_new(object, "program", json_string(driver->program));
    json_object_set_new(object, "devices", write_items(&device_format, driver->device, driver->devices));
    json_object_set_new(object, "vgpus", write_items(&vgpu_format, driver->vgpu, driver->vgpus));
    char *text = json_dumps(object, JSON_COMPACT);

    json_decref(object);
    return text;
}

/* ---- reading ---- */

static bool take_text(const json_t *value, char *ret_text, size_t size)
{
    const char *text = json_string_value(value);
    size_t length = text ? json_string_length(value) : size;

    if (length >= size)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    memcpy(ret_text, text, length + 1);
    return true;
}

static bool take_value(const struct field *field, const json_t *value, char *bytes)
{
    if (field->kind == TEXT)
        return take_text(value, bytes, field->size);
    json_int_t number = json_integer_value(value);
    uint32_t small = (uint32_t)number;
    uint64_t large = (uint64_t)number;

    if (!json_is_integer(value) || number < 0 || large > field->max)
        return false;
    memcpy(bytes, field->kind == U32 ? (const void *)&small : (const void *)&large, field->size);
    return true;
}

/* Several fields may share a bit, which is set only when all of them are present. */
static uint32_t valid_bits(const struct record_format *record_format, const json_t *object)
{
    uint32_t known = 0, missing = 0;
    char scratch[TEXT_SIZE];

    for (size_t i = 0; i < record_format->count; i++) {
        const struct field *field = &record_format->fields[i];

        known |= field->valid;
        if (!take_value(field, json_object_get(object, field->name), scratch))
            missing |= field->valid;
    }
    return known & ~missing;
}

static enum facet_status refuse_field(const char *list, size_t index, const struct field *field,
                                      struct facet_error *error)
{
    char max[64] = "a short text";

    if (field->kind != TEXT)
        snprintf(max, sizeof max, "a whole number of 0 to %" PRIu64, field->max);
    return facet_error_set(error, FACET_CORRUPT, "%s[%zu].%s: expected %s", list, index, field->name, max);
}

/* A field without a validity bit is required. */
static enum facet_status read_item(const struct record_format *record_format, const json_t *object, const char *list,
                                   size_t index, char *bytes, struct facet_error *error)
{
    uint32_t valid = valid_bits(record_format, object), size = (uint32_t)record_format->size;

    memcpy(bytes, &size, sizeof size);
    for (size_t i = 0; i < record_format->count; i++) {
        const struct field *field = &record_format->fields[i];

        if ((valid & field->valid) == field->valid &&
            !take_value(field, json_object_get(object, field->name), bytes + field->offset))
            return refuse_field(list, index, field, error);
    }
    memcpy(bytes + record_format->valid_offset, &valid, sizeof valid);
    return FACET_OK;
}

/* Reads an array of the text; *ret_items is NULL when it is empty. The caller frees the items, also on failure. */
static enum facet_status read_items(const struct record_format *record_format, const json_t *array, const char *list,
                                    void **ret_items, uint32_t *ret_count, struct facet_error *error)
{
    size_t count = json_array_size(array);
    enum facet_status status = FACET_OK;

    if (!json_is_array(array) || count > ITEMS_MAX)
        return facet_error_set(error, FACET_CORRUPT, "%s: expected an array of up to %u", list, ITEMS_MAX);
    char *items = count > 0 ? calloc(count, record_format->size) : NULL;
    if (count > 0 && !items)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the published devices and vGPUs of a driver");
    *ret_items = items;
    for (size_t i = 0; i < count && status == FACET_OK; i++)
        status = read_item(record_format, json_array_get(array, i), list, i, items + i * record_format->size, error);
    *ret_count = (uint32_t)count;
    return status;
}

/* Two numbers, of which the first must not exceed the second. */
struct order {
    const char *name, *max_name;
    uint64_t value, max;
};

static enum facet_status check_order(const char *list, uint32_t index, const struct order *orders, size_t count,
                                     struct facet_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (orders[i].value > orders[i].max)
            return facet_error_set(error, FACET_CORRUPT, "%s[%u].%s: %" PRIu64 ", expected at most %s, %" PRIu64, list,
                                   index, orders[i].name, orders[i].value, orders[i].max_name, orders[i].max);
    return FACET_OK;
}

/*
 * Checks numbers of one vGPU against each other. Sums over a device are not checked: requests are weights that may sum
 * to more than the whole, a driver may list a device twice, and other programs use the device's memory, too.
 */
static enum facet_status check_vgpu(const struct facet_published *driver, uint32_t index, struct facet_error *error)
{
    const struct facet_vgpu_info *vgpu = &driver->vgpu[index];
    const struct order orders[] = {
        {"request_milli", "limit_milli", vgpu->request_milli, vgpu->limit_milli},
        {"completed_total", "launched_total", vgpu->completed_total, vgpu->launched_total},
        {"memory_reserved_bytes", "memory_peak_bytes", vgpu->memory_reserved_bytes, vgpu->memory_peak_bytes},
    };

    if (vgpu->device >= driver->devices)
        return facet_error_set(error, FACET_CORRUPT,
                               "vgpus[%u].device: %u, expected less than %u, the number of devices", index,
                               vgpu->device, driver->devices);
    for (uint32_t i = 0; i < index; i++)
        if (driver->vgpu[i].id == vgpu->id)
            return facet_error_set(error, FACET_CORRUPT,
                                   "vgpus[%u].id: %u, which vgpus[%u] has, too; expected each once", index, vgpu->id,
                                   i);
    return check_order("vgpus", index, orders, COUNT(orders), error);
}

static enum facet_status check_consistency(const struct facet_published *driver, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < driver->vgpus && status == FACET_OK; i++)
        status = check_vgpu(driver, i, error);
    return status;
}

static enum facet_status read_process(const json_t *object, struct facet_published *driver, struct facet_error *error)
{
    const json_t *pid = json_object_get(object, "pid");

    if (!json_is_object(object) ||
        !take_text(json_object_get(object, "program"), driver->program, sizeof driver->program))
        return facet_error_set(error, FACET_CORRUPT,
                               "expected an object with a text `program`, as a driver publishes it");
    if (!json_is_integer(pid) || json_integer_value(pid) <= 0 || json_integer_value(pid) > INT32_MAX)
        return facet_error_set(error, FACET_CORRUPT, "pid: expected the id of a process");
    driver->pid = json_integer_value(pid);
    return FACET_OK;
}

enum facet_status facet_published_parse(const char *text, size_t length, struct facet_published *ret_driver,
                                        struct facet_error *error)
{
    struct facet_published driver = {0};
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    void *devices = NULL, *vgpus = NULL;
    enum facet_status status = read_process(object, &driver, error);

    if (status == FACET_OK)
        status =
            read_items(&device_format, json_object_get(object, "devices"), "devices", &devices, &driver.devices, error);
    if (status == FACET_OK)
        status = read_items(&vgpu_format, json_object_get(object, "vgpus"), "vgpus", &vgpus, &driver.vgpus, error);
    driver.device = devices;
    driver.vgpu = vgpus;
    json_decref(object);
    if (status == FACET_OK)
        status = check_consistency(&driver, error);
    if (status != FACET_OK)
        facet_published_clear(&driver);
    else
        *ret_driver = driver;
    return status;
}

void facet_published_clear(struct facet_published *driver)
{
    free(driver->device);
    free(driver->vgpu);
}
