/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the allocation of a device's units to holders: finding room, placing, releasing.
 * Never: gives a unit to two holders.
 */
#include "opencl.h"

#include <stdlib.h>

#include <facet/opencl_address.h>

struct facet_opencl_holder *facet_opencl_holder_find(const struct facet_opencl_device *device,
                                                     enum facet_opencl_holder_kind kind, const char *name)
{
    struct facet_opencl_holder *holder = device->holders;

    while (holder && (holder->kind != kind || strcmp(holder->name, name) != 0))
        holder = holder->next;
    return holder;
}

/* Inserts by start; holders without units come first. */
static void insert_holder(struct facet_opencl_device *device, struct facet_opencl_holder *holder)
{
    struct facet_opencl_holder **link = &device->holders;

    while (*link && (*link)->start + (*link)->length <= holder->start)
        link = &(*link)->next;
    holder->next = *link;
    *link = holder;
}

static void unlink_holder(struct facet_opencl_device *device, struct facet_opencl_holder *holder)
{
    struct facet_opencl_holder **link = &device->holders;

    while (*link != holder)
        link = &(*link)->next;
    *link = holder->next;
}

struct facet_opencl_holder *facet_opencl_holder_add(struct facet_opencl_device *device,
                                                    enum facet_opencl_holder_kind kind, const char *name)
{
    struct facet_opencl_holder *holder = calloc(1, sizeof *holder);

    if (!holder)
        return NULL;
    holder->kind = kind;
    FACET_KIT_TEXT(holder->name, name);
    insert_holder(device, holder);
    return holder;
}

void facet_opencl_holder_remove(struct facet_opencl_device *device, struct facet_opencl_holder *holder)
{
    unlink_holder(device, holder);
    free(holder);
}

const struct facet_opencl_holder *facet_opencl_holder_of_units(const struct facet_opencl_device *device, uint32_t start,
                                                               uint32_t length)
{
    const struct facet_opencl_holder *holder = device->holders;

    while (holder && (holder->start + holder->length <= start || start + length <= holder->start))
        holder = holder->next;
    return holder;
}

/* The first of the smallest free stretches that fit (best fit), so that the longest stretches remain. */
static bool find_free_units(const struct facet_opencl_device *device, uint32_t units, uint32_t length,
                            uint32_t *ret_start)
{
    uint32_t at = 0, smallest = UINT32_MAX;

    for (const struct facet_opencl_holder *holder = device->holders;; holder = holder->next) {
        uint32_t free_units = (holder ? holder->start : units) - at;

        if (free_units >= length && free_units < smallest) {
            smallest = free_units;
            *ret_start = at;
        }
        if (!holder)
            return smallest != UINT32_MAX;
        at = holder->start + holder->length;
    }
}

static enum facet_status choose_start(const struct facet_opencl_device *device, uint32_t units, uint32_t length,
                                      uint32_t *start, struct facet_error *error)
{
    if (*start == FACET_PLACEMENT_ANY)
        return find_free_units(device, units, length, start)
                   ? FACET_OK
                   : facet_kit_fail(error, FACET_NO_SPACE,
                                    "no %" PRIu32 " neighbouring units of %" PRIu32 " are free: destroy a partition or "
                                    "clear a worker",
                                    length, units);
    if (*start > units - length)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "start %" PRIu32 ": expected at most %" PRIu32, *start,
                              units - length);
    const struct facet_opencl_holder *other = facet_opencl_holder_of_units(device, *start, length);
    if (!other)
        return FACET_OK;
    return facet_kit_fail(error, FACET_NO_SPACE,
                          "units %" PRIu32 " to %" PRIu32 ": %s %s has %" PRIu32 " from unit %" PRIu32 " on", *start,
                          *start + length - 1, other->kind == FACET_OPENCL_PARTITION ? "partition" : "worker",
                          other->name, other->length, other->start);
}

/* Makes the sub-device as the layer in a tenant will, so that a driver that refuses does so before a tenant starts. */
static enum facet_status try_sub_device(cl_device_id device, uint32_t start, uint32_t length, struct facet_error *error)
{
    const cl_device_partition_property counts[] = {CL_DEVICE_PARTITION_BY_COUNTS, start ? start : length,
                                                   start ? length : CL_DEVICE_PARTITION_BY_COUNTS_LIST_END,
                                                   CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_device_id parts[2] = {NULL};
    cl_uint units = 0;
    cl_int code = clCreateSubDevices(device, counts, start ? 2 : 1, parts, NULL);

    if (code != CL_SUCCESS)
        return facet_opencl_fail(error, "clCreateSubDevices", code);
    code = clGetDeviceInfo(parts[start ? 1 : 0], CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    clReleaseDevice(parts[0]);
    if (start)
        clReleaseDevice(parts[1]);
    if (code != CL_SUCCESS)
        return facet_opencl_fail(error, "CL_DEVICE_MAX_COMPUTE_UNITS", code);
    if (units != length)
        return facet_kit_fail(error, FACET_IO, "the driver made a sub-device of %u units, expected %" PRIu32, units,
                              length);
    return FACET_OK;
}

enum facet_status facet_opencl_holder_place(struct facet_provider_instance *instance, uint32_t device,
                                            struct facet_opencl_holder *holder, uint32_t start, uint32_t length,
                                            struct facet_error *error)
{
    struct facet_opencl_device *target = &instance->devices[device];
    enum facet_status status = choose_start(target, instance->infos[device].compute_units, length, &start, error);

    if (status == FACET_OK)
        status = try_sub_device(target->id, start, length, error);
    if (status != FACET_OK)
        return status;
    unlink_holder(target, holder);
    holder->start = start;
    holder->length = length;
    insert_holder(target, holder);
    return FACET_OK;
}

void facet_opencl_holder_address(const struct facet_device_info *info, const struct facet_opencl_holder *holder,
                                 char *ret_address)
{
    if (holder->length > 0)
        facet_opencl_address_part(info->address, holder->start, holder->length, ret_address);
    else
        memcpy(ret_address, info->address, FACET_OPENCL_ADDRESS_SIZE);
}

static uint32_t count_holders(const struct facet_opencl_device *device, enum facet_opencl_holder_kind kind)
{
    uint32_t count = 0;

    for (const struct facet_opencl_holder *holder = device->holders; holder; holder = holder->next)
        count += holder->kind == kind;
    return count;
}

/* Under the lock: describes the current holders of one kind. The caller frees the result; NULL: no memory. */
static char *describe_holders(const struct facet_device_info *info, const struct facet_opencl_device *device,
                              const struct facet_opencl_listing *listing, uint32_t *ret_count)
{
    uint32_t count = count_holders(device, listing->kind);
    char *all = calloc(count ? count : 1, listing->size);
    char *at = all;

    for (const struct facet_opencl_holder *holder = device->holders; all && holder; holder = holder->next) {
        if (holder->kind == listing->kind) {
            listing->describe(info, holder, at);
            at += listing->size;
        }
    }
    *ret_count = count;
    return all;
}

enum facet_status facet_opencl_holder_list(struct facet_provider_instance *instance, uint32_t device,
                                           const struct facet_opencl_listing *listing, void *items, uint32_t item_size,
                                           uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    uint32_t count;

    pthread_mutex_lock(&instance->lock);
    char *all = describe_holders(&instance->infos[device], &instance->devices[device], listing, &count);
    pthread_mutex_unlock(&instance->lock);
    if (!all)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " items", count);
    enum facet_status status =
        facet_kit_list_items(all, listing->size, count, items, item_size, capacity, ret_count, error);
    free(all);
    return status;
}
