/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: groups of multiprocessors, and slices of them. Never: gives a worker a group that is reserved for another. */
#include "slice.h"

#include <stdlib.h>

#include "cuda.h"
#include "mps.h"

struct slice {
    CUgreenCtx green;      /* NULL: the slice is a context of MPS */
    CUcontext mps_context; /* the slice's context, with MPS */
    uint64_t groups;
    uint32_t units;
    bool is_promised; /* its groups, or units, are reserved for one worker */
};

static struct facet_provider_instance *instance_of(struct gpu_machine *machine)
{
    return (struct facet_provider_instance *)machine;
}

/* --- groups --- */

static unsigned split_most(const struct cuda_driver *driver, const CUdevResource *whole, unsigned least)
{
    unsigned count = 0;

    return driver->cuDevSmResourceSplitByCount(NULL, &count, whole, NULL, 0, least) == CUDA_SUCCESS ? count : 0;
}

/* Multiprocessors that do not fill a group become a last, smaller group. */
static void split_groups(const struct cuda_driver *driver, const CUdevResource *whole, unsigned count, unsigned least,
                         struct cuda_groups *groups)
{
    CUdevResource rest = {0};

    if (driver->cuDevSmResourceSplitByCount(groups->all, &count, whole, &rest, 0, least) != CUDA_SUCCESS)
        return;
    groups->count = count;
    if (rest.type == CU_DEV_RESOURCE_TYPE_SM && rest.sm.smCount)
        groups->all[groups->count++] = rest;
}

static void find_groups(const struct cuda_driver *driver, CUdevice ordinal, struct cuda_groups *ret_groups)
{
    CUdevResource whole = {0};
    unsigned least, count;

    if (!cuda_driver_can_partition(driver) ||
        driver->cuDeviceGetDevResource(ordinal, &whole, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
        whole.type != CU_DEV_RESOURCE_TYPE_SM || !whole.sm.smCount)
        return;
    least = whole.sm.smCount / CUDA_MOST_GROUPS + 1;
    while ((count = split_most(driver, &whole, least)) >= CUDA_MOST_GROUPS)
        least++;
    if (count)
        split_groups(driver, &whole, count, least, ret_groups);
}

static uint32_t units_of(const struct cuda_groups *groups, uint64_t which)
{
    uint32_t units = 0;

    for (uint32_t i = 0; i < groups->count; i++)
        units += which >> i & 1 ? groups->all[i].sm.smCount : 0;
    return units;
}

static uint64_t choose_groups(const struct cuda_groups *groups, uint64_t from, uint32_t units)
{
    uint64_t chosen = 0;
    uint32_t found = 0;

    for (uint32_t i = 0; i < groups->count && found < units; i++) {
        if (!(from >> i & 1))
            continue;
        chosen |= UINT64_C(1) << i;
        found += groups->all[i].sm.smCount;
    }
    return found < units ? 0 : chosen;
}

uint64_t cuda_groups_find(const struct cuda_driver *driver, CUdevice ordinal, struct cuda_groups *ret_groups)
{
    *ret_groups = (struct cuda_groups){0};
    find_groups(driver, ordinal, ret_groups);
    if (ret_groups->count)
        return FACET_CAN_LIMIT_COMPUTE | FACET_CAN_CONTROL;
    return cuda_mps_is_used(driver, ordinal) ? FACET_CAN_LIMIT_COMPUTE : 0;
}

/* --- slices --- */

static enum facet_status no_units(uint32_t units, uint32_t unreserved, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NO_SPACE,
                          "%" PRIu32 " multiprocessors: expected at most the %" PRIu32 " that no worker has", units,
                          unreserved);
}

static CUresult make_green_context(const struct cuda_driver *driver, const struct cuda_groups *groups, CUdevice ordinal,
                                   struct slice *slice)
{
    CUdevResource parts[CUDA_MOST_GROUPS];
    CUdevResourceDesc description;
    unsigned count = 0;

    for (uint32_t i = 0; i < groups->count; i++) {
        if (slice->groups >> i & 1)
            parts[count++] = groups->all[i];
    }
    CUresult result = driver->cuDevResourceGenerateDesc(&description, parts, count);
    if (result == CUDA_SUCCESS)
        result = driver->cuGreenCtxCreate(&slice->green, description, ordinal, CU_GREEN_CTX_DEFAULT_STREAM);
    return result;
}

static enum facet_status new_green_slice(struct gpu_machine *machine, uint32_t device, uint64_t chosen,
                                         struct slice **ret_slice, struct facet_error *error)
{
    const struct facet_provider_instance *instance = instance_of(machine);
    const struct cuda_groups *groups = &instance->groups[device];
    struct slice *slice = calloc(1, sizeof *slice);

    if (!slice)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a part of the multiprocessors");
    slice->groups = chosen;
    slice->units = units_of(groups, chosen);
    CUresult result = make_green_context(&instance->driver, groups, machine->devices[device].ordinal, slice);
    if (result != CUDA_SUCCESS) {
        free(slice);
        return cuda_driver_fail(&instance->driver, error, "cuGreenCtxCreate", result);
    }
    *ret_slice = slice;
    return FACET_OK;
}

static enum facet_status take_green_slice(struct gpu_machine *machine, uint32_t device, uint32_t units,
                                          struct slice **ret_slice, struct facet_error *error)
{
    struct cuda_groups *groups = &instance_of(machine)->groups[device];
    uint64_t chosen = choose_groups(groups, ~groups->promised, units);

    if (!chosen)
        return no_units(units, units_of(groups, ~groups->promised), error);
    enum facet_status status = new_green_slice(machine, device, chosen, ret_slice, error);
    if (status == FACET_OK)
        groups->promised |= chosen;
    return status;
}

static enum facet_status take_mps_slice(struct gpu_machine *machine, uint32_t device, uint32_t units,
                                        struct slice **ret_slice, struct facet_error *error)
{
    struct facet_provider_instance *instance = instance_of(machine);
    struct cuda_groups *groups = &instance->groups[device];
    uint32_t most = cuda_mps_units(machine->infos[device].compute_units);
    uint32_t unreserved = most > groups->promised_units ? most - groups->promised_units : 0;
    struct slice *slice;

    if (units > unreserved)
        return no_units(units, unreserved, error);
    slice = calloc(1, sizeof *slice);
    if (!slice)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a part of the multiprocessors");
    enum facet_status status = cuda_mps_context(&instance->driver, machine->devices[device].ordinal, units,
                                                &slice->mps_context, &slice->units, error);
    if (status != FACET_OK) {
        free(slice);
        return status;
    }
    groups->promised_units += slice->units;
    *ret_slice = slice;
    return FACET_OK;
}

enum facet_status cuda_slice_take(struct gpu_machine *machine, uint32_t device, uint32_t units,
                                  gpu_slice_handle *ret_slice, uint32_t *ret_units, struct facet_error *error)
{
    struct slice *slice = NULL;
    enum facet_status status = instance_of(machine)->groups[device].count
                                   ? take_green_slice(machine, device, units, &slice, error)
                                   : take_mps_slice(machine, device, units, &slice, error);

    if (status != FACET_OK)
        return status;
    slice->is_promised = true;
    *ret_units = slice->units;
    *ret_slice = slice;
    return FACET_OK;
}

enum facet_status cuda_slice_bound(struct gpu_machine *machine, uint32_t device, gpu_slice_handle within,
                                   uint32_t units, gpu_slice_handle *ret_slice, struct facet_error *error)
{
    const struct cuda_groups *groups = &instance_of(machine)->groups[device];
    uint64_t allowed = within ? ((const struct slice *)within)->groups : ~UINT64_C(0);
    struct slice *slice = NULL;

    if (units >= units_of(groups, allowed))
        return FACET_OK;
    uint64_t chosen = within ? 0 : choose_groups(groups, ~groups->promised, units);
    enum facet_status status =
        new_green_slice(machine, device, chosen ? chosen : choose_groups(groups, allowed, units), &slice, error);
    if (status == FACET_OK)
        *ret_slice = slice;
    return status;
}

void cuda_slice_drop(struct gpu_machine *machine, uint32_t device, gpu_slice_handle handle)
{
    struct facet_provider_instance *instance = instance_of(machine);
    struct cuda_groups *groups = &instance->groups[device];
    struct slice *slice = handle;

    if (slice->green)
        instance->driver.cuGreenCtxDestroy(slice->green);
    else
        instance->driver.cuCtxDestroy_v2(slice->mps_context);
    if (slice->is_promised) {
        groups->promised &= ~slice->groups;
        groups->promised_units -= slice->green ? 0 : slice->units;
    }
    free(slice);
}

/* --- work on a slice --- */

enum facet_status cuda_slice_enter(struct gpu_machine *machine, uint32_t device, gpu_slice_handle handle,
                                   struct facet_error *error)
{
    struct facet_provider_instance *instance = instance_of(machine);
    const struct slice *slice = handle;
    CUresult result =
        instance->driver.cuCtxPushCurrent_v2(slice->green ? instance->primaries[device] : slice->mps_context);

    return result == CUDA_SUCCESS ? FACET_OK : cuda_driver_fail(&instance->driver, error, "cuCtxPushCurrent", result);
}

enum facet_status cuda_slice_stream(struct gpu_machine *machine, gpu_slice_handle handle, gpu_stream_handle *ret_stream,
                                    struct facet_error *error)
{
    const struct cuda_driver *driver = &instance_of(machine)->driver;
    const struct slice *slice = handle;
    CUstream stream = NULL;
    CUresult result = slice->green ? driver->cuGreenCtxStreamCreate(&stream, slice->green, CU_STREAM_NON_BLOCKING, 0)
                                   : driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(driver, error, "a stream on a part of the multiprocessors", result);
    *ret_stream = stream;
    return FACET_OK;
}
