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

#define MOST      FACET_DRIVER_VGPUS /* devices, or vGPUs, of one driver */
#define TEXT_SIZE 128u               /* the longest text of a field */

/*
 * Upper bounds of numbers: an exbibyte, 36 years of nanoseconds, as many launches; parts of a whole. A vGPU's measured
 * part of a device may exceed the whole where its streams run side by side: a thousandfold does not happen.
 */
#define BYTES        (UINT64_C(1) << 60)
#define TIME         (UINT64_C(1) << 60)
#define LAUNCHES     (UINT64_C(1) << 60)
#define WHOLE        ((uint64_t)FACET_MILLI_WHOLE)
#define SIDE_BY_SIDE (1000 * WHOLE)
#define LENGTH       0u /* texts have their own bound */

enum kind { TEXT, U32, U64 };

/* A member of a struct, and the bit in its `valid` without which it is not known; 0: always. */
struct field {
    const char *name;
    enum kind kind;
    size_t offset, size;
    uint32_t valid;
    uint64_t most;
};

#define FIELD(type, member, kind, bit, most)                                                                           \
    {                                                                                                                  \
#member, kind, offsetof(struct type, member), sizeof(((struct type *)NULL)->member), bit, most                 \
    }
#define DEVICE(member, kind, bit, most) FIELD(facet_driver_device, member, kind, bit, most)
#define VGPU(member, kind, bit, most)   FIELD(facet_vgpu_info, member, kind, bit, most)

static const struct field device_fields[] = {
    DEVICE(id, TEXT, 0, LENGTH),
    DEVICE(name, TEXT, 0, LENGTH),
    DEVICE(lost, U32, 0, 1),
    DEVICE(units, U32, 0, UINT32_MAX),
    DEVICE(vgpus, U32, 0, MOST),
    DEVICE(utilization_milli, U32, FACET_DRIVER_HAS_UTILIZATION, WHOLE),
    DEVICE(busy_ns, U64, FACET_DRIVER_HAS_BUSY, TIME),
    DEVICE(memory_bytes, U64, 0, BYTES),
    DEVICE(memory_used_bytes, U64, 0, BYTES),
    DEVICE(promised_bytes, U64, 0, BYTES),
};

static const struct field vgpu_fields[] = {
    VGPU(id, U32, 0, UINT32_MAX),
    VGPU(status, U32, 0, FACET_VGPU_DESTROYED),
    VGPU(name, TEXT, 0, LENGTH),
    VGPU(device, U32, 0, MOST),
    VGPU(streams, U32, 0, UINT32_MAX),
    VGPU(request_milli, U32, 0, WHOLE),
    VGPU(limit_milli, U32, 0, WHOLE),
    VGPU(compute_milli, U32, FACET_VGPU_HAS_COMPUTE, SIDE_BY_SIDE),
    VGPU(queued, U32, 0, UINT32_MAX),
    VGPU(running, U32, 0, UINT32_MAX),
    VGPU(memory_limit_bytes, U64, FACET_VGPU_HAS_MEMORY, BYTES),
    VGPU(memory_allocated_bytes, U64, FACET_VGPU_HAS_MEMORY, BYTES),
    VGPU(memory_reserved_bytes, U64, FACET_VGPU_HAS_MEMORY, BYTES),
    VGPU(memory_peak_bytes, U64, FACET_VGPU_HAS_MEMORY, BYTES),
    VGPU(allocations, U64, FACET_VGPU_HAS_MEMORY, LAUNCHES),
    VGPU(launched_total, U64, 0, LAUNCHES),
    VGPU(completed_total, U64, 0, LAUNCHES),
    VGPU(busy_ns, U64, 0, TIME),
    VGPU(delay_ns, U64, FACET_VGPU_HAS_RECORDS, TIME),
    VGPU(failed_total, U64, FACET_VGPU_HAS_RECORDS, LAUNCHES),
    VGPU(cancelled_total, U64, FACET_VGPU_HAS_RECORDS, LAUNCHES),
};

/* A struct described by its fields; all have their `valid` bits in one uint32_t. */
struct form {
    const struct field *fields;
    size_t count, size, valid_offset;
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct form device_form = {device_fields, COUNT(device_fields), sizeof(struct facet_driver_device),
                                        offsetof(struct facet_driver_device, valid)};
static const struct form vgpu_form = {vgpu_fields, COUNT(vgpu_fields), sizeof(struct facet_vgpu_info),
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

static json_t *write_one(const struct form *form, const char *bytes)
{
    json_t *object = json_object();
    uint32_t valid;

    memcpy(&valid, bytes + form->valid_offset, sizeof valid);
    for (size_t i = 0; i < form->count; i++) {
        const struct field *field = &form->fields[i];

        if ((valid & field->valid) == field->valid)
            json_object_set_new(object, field->name, value_of(field, bytes + field->offset));
    }
    return object;
}

static json_t *write_all(const struct form *form, const void *items, uint32_t count)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, write_one(form, (const char *)items + i * form->size));
    return array;
}

char *facet_published_text(const struct facet_published *driver)
{
    json_t *object = json_object();

    json_object_set_new(object, "pid", json_integer((json_int_t)driver->pid));
    json_object_set_new(object, "program", json_string(driver->program));
    json_object_set_new(object, "devices", write_all(&device_form, driver->device, driver->devices));
    json_object_set_new(object, "vgpus", write_all(&vgpu_form, driver->vgpu, driver->vgpus));
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

    if (!json_is_integer(value) || number < 0 || large > field->most)
        return false;
    memcpy(bytes, field->kind == U32 ? (const void *)&small : (const void *)&large, field->size);
    return true;
}

/* Several fields may share a bit: it is set when all of them are present, and else none of them counts. */
static uint32_t valid_bits(const struct form *form, const json_t *object)
{
    uint32_t all = 0, missing = 0;
    char scratch[TEXT_SIZE];

    for (size_t i = 0; i < form->count; i++) {
        const struct field *field = &form->fields[i];

        all |= field->valid;
        if (!take_value(field, json_object_get(object, field->name), scratch))
            missing |= field->valid;
    }
    return all & ~missing;
}

static enum facet_status refuse_field(const char *list, size_t index, const struct field *field,
                                      struct facet_error *error)
{
    char most[64] = "a short text";

    if (field->kind != TEXT)
        snprintf(most, sizeof most, "a whole number of 0 to %" PRIu64, field->most);
    return facet_error_set(error, FACET_CORRUPT, "%s[%zu].%s: expected %s", list, index, field->name, most);
}

/* A field without a validity bit is required: without it the rest has no meaning. */
static enum facet_status read_one(const struct form *form, const json_t *object, const char *list, size_t index,
                                  char *bytes, struct facet_error *error)
{
    uint32_t valid = valid_bits(form, object), size = (uint32_t)form->size;

    memcpy(bytes, &size, sizeof size);
    for (size_t i = 0; i < form->count; i++) {
        const struct field *field = &form->fields[i];

        if ((valid & field->valid) == field->valid &&
            !take_value(field, json_object_get(object, field->name), bytes + field->offset))
            return refuse_field(list, index, field, error);
    }
    memcpy(bytes + form->valid_offset, &valid, sizeof valid);
    return FACET_OK;
}

/* NULL with a count of 0: there are none. The caller frees the items, also on failure. */
static enum facet_status read_all(const struct form *form, const json_t *array, const char *list, void **ret_items,
                                  uint32_t *ret_count, struct facet_error *error)
{
    size_t count = json_array_size(array);
    enum facet_status status = FACET_OK;

    if (!json_is_array(array) || count > MOST)
        return facet_error_set(error, FACET_CORRUPT, "%s: expected an array of up to %u", list, MOST);
    char *items = count > 0 ? calloc(count, form->size) : NULL;
    if (count > 0 && !items)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for what a driver publishes");
    *ret_items = items;
    for (size_t i = 0; i < count && status == FACET_OK; i++)
        status = read_one(form, json_array_get(array, i), list, i, items + i * form->size, error);
    *ret_count = (uint32_t)count;
    return status;
}

/* Two numbers of which the first is never above the second. */
struct order {
    const char *name, *most_name;
    uint64_t value, most;
};

static enum facet_status check_order(const char *list, uint32_t index, const struct order *orders, size_t count,
                                     struct facet_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (orders[i].value > orders[i].most)
            return facet_error_set(error, FACET_CORRUPT, "%s[%u].%s: %" PRIu64 ", above %s, %" PRIu64, list, index,
                                   orders[i].name, orders[i].value, orders[i].most_name, orders[i].most);
    return FACET_OK;
}

/*
 * Numbers that the driver reads together. The sum of the shares is no rule: a share is a weight, and vGPUs may be
 * promised more than the whole. Nor are devices: a driver may have one twice, and other programs use its memory, too.
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
        return facet_error_set(error, FACET_CORRUPT, "vgpus[%u].device: %u, of %u devices", index, vgpu->device,
                               driver->devices);
    for (uint32_t i = 0; i < index; i++)
        if (driver->vgpu[i].id == vgpu->id)
            return facet_error_set(error, FACET_CORRUPT, "vgpus[%u].id: %u, that of vgpus[%u], too", index, vgpu->id,
                                   i);
    return check_order("vgpus", index, orders, COUNT(orders), error);
}

static enum facet_status check_sense(const struct facet_published *driver, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < driver->vgpus && status == FACET_OK; i++)
        status = check_vgpu(driver, i, error);
    return status;
}

static enum facet_status read_head(const json_t *object, struct facet_published *driver, struct facet_error *error)
{
    const json_t *pid = json_object_get(object, "pid");

    if (!json_is_object(object) ||
        !take_text(json_object_get(object, "program"), driver->program, sizeof driver->program))
        return facet_error_set(error, FACET_CORRUPT, "not what a driver publishes");
    if (!json_is_integer(pid) || json_integer_value(pid) <= 0 || json_integer_value(pid) > INT32_MAX)
        return facet_error_set(error, FACET_CORRUPT, "pid: expected that of a process");
    driver->pid = json_integer_value(pid);
    return FACET_OK;
}

enum facet_status facet_published_parse(const char *text, size_t length, struct facet_published *ret_driver,
                                        struct facet_error *error)
{
    struct facet_published driver = {0};
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    void *devices = NULL, *vgpus = NULL;
    enum facet_status status = read_head(object, &driver, error);

    if (status == FACET_OK)
        status =
            read_all(&device_form, json_object_get(object, "devices"), "devices", &devices, &driver.devices, error);
    if (status == FACET_OK)
        status = read_all(&vgpu_form, json_object_get(object, "vgpus"), "vgpus", &vgpus, &driver.vgpus, error);
    driver.device = devices;
    driver.vgpu = vgpus;
    json_decref(object);
    if (status == FACET_OK)
        status = check_sense(&driver, error);
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
