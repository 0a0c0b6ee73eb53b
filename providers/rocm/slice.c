/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: slices as masks of units. Never: gives a worker a unit that is reserved for another. */
#include "slice.h"

#include <stdlib.h>

#include "rocm.h"

struct slice {
    struct rocm_units mask;
    uint32_t units, words; /* words: of a mask of all units of the GPU */
    bool is_promised;      /* its units are reserved for one worker */
};

static struct facet_provider_instance *instance_of(struct gpu_machine *machine)
{
    return (struct facet_provider_instance *)machine;
}

static bool mask_has(const struct rocm_units *mask, uint32_t unit)
{
    return mask->words[unit / 32] >> unit % 32 & 1;
}

static uint32_t units_of(const struct gpu_machine *machine, uint32_t device)
{
    uint32_t units = machine->infos[device].compute_units;

    return units < ROCM_MASK_WORDS * 32 ? units : ROCM_MASK_WORDS * 32;
}

/* Selects the first units of `within` (NULL: all) that are not in `without` (NULL: none); returns their number. */
static uint32_t choose_units(const struct gpu_machine *machine, uint32_t device, const struct rocm_units *within,
                             const struct rocm_units *without, uint32_t units, struct rocm_units *ret_mask)
{
    struct rocm_units mask = {0};
    uint32_t found = 0;

    for (uint32_t unit = 0; unit < units_of(machine, device); unit++) {
        if ((within && !mask_has(within, unit)) || (without && mask_has(without, unit)))
            continue;
        if (found++ < units)
            mask.words[unit / 32] |= UINT32_C(1) << unit % 32;
    }
    *ret_mask = mask;
    return found;
}

static enum facet_status new_slice(const struct gpu_machine *machine, uint32_t device, const struct rocm_units *mask,
                                   uint32_t units, bool is_promised, gpu_slice_handle *ret_slice,
                                   struct facet_error *error)
{
    struct slice *slice = malloc(sizeof *slice);

    if (!slice)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for some of the compute units");
    *slice = (struct slice){*mask, units, (units_of(machine, device) + 31) / 32, is_promised};
    *ret_slice = slice;
    return FACET_OK;
}

enum facet_status rocm_slice_take(struct gpu_machine *machine, uint32_t device, uint32_t units,
                                  gpu_slice_handle *ret_slice, uint32_t *ret_units, struct facet_error *error)
{
    struct rocm_units *promised = &instance_of(machine)->promised[device], mask;
    uint32_t available = choose_units(machine, device, NULL, promised, units, &mask);

    if (units > available)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "%" PRIu32 " compute units: expected at most the %" PRIu32 " that no worker has", units,
                              available);
    enum facet_status status = new_slice(machine, device, &mask, units, true, ret_slice, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < ROCM_MASK_WORDS; i++)
        promised->words[i] |= mask.words[i];
    *ret_units = units;
    return FACET_OK;
}

enum facet_status rocm_slice_bound(struct gpu_machine *machine, uint32_t device, gpu_slice_handle within,
                                   uint32_t units, gpu_slice_handle *ret_slice, struct facet_error *error)
{
    const struct rocm_units *promised = &instance_of(machine)->promised[device];
    const struct slice *outer = within;
    struct rocm_units mask;

    if (units >= (outer ? outer->units : units_of(machine, device)))
        return FACET_OK;
    if (outer)
        choose_units(machine, device, &outer->mask, NULL, units, &mask);
    else if (choose_units(machine, device, NULL, promised, units, &mask) < units)
        choose_units(machine, device, NULL, NULL, units, &mask);
    return new_slice(machine, device, &mask, units, false, ret_slice, error);
}

void rocm_slice_drop(struct gpu_machine *machine, uint32_t device, gpu_slice_handle handle)
{
    struct rocm_units *promised = &instance_of(machine)->promised[device];
    struct slice *slice = handle;

    for (uint32_t i = 0; i < ROCM_MASK_WORDS && slice->is_promised; i++)
        promised->words[i] &= ~slice->mask.words[i];
    free(slice);
}

enum facet_status rocm_slice_enter(struct gpu_machine *machine, uint32_t device, gpu_slice_handle slice,
                                   struct facet_error *error)
{
    (void)slice;
    return machine->driver->enter(machine, device, error);
}

enum facet_status rocm_slice_stream(struct gpu_machine *machine, gpu_slice_handle handle, gpu_stream_handle *ret_stream,
                                    struct facet_error *error)
{
    const struct rocm_runtime *runtime = &instance_of(machine)->runtime;
    const struct slice *slice = handle;
    hipStream_t stream = NULL;
    hipError_t result = runtime->hipExtStreamCreateWithCUMask(&stream, slice->words, slice->mask.words);

    if (result != hipSuccess)
        return rocm_runtime_fail(runtime, error, "hipExtStreamCreateWithCUMask", result);
    *ret_stream = stream;
    return FACET_OK;
}
