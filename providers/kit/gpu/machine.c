/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the beginning and the end of a GPU provider's machine, and the checks of its devices. Never: frees memory that
 * a driver still uses.
 */
#include "machine.h"

#include "provider_kit.h"

void gpu_machine_init(struct gpu_machine *machine)
{
    pthread_mutex_init(&machine->context_lock, NULL);
    pthread_cond_init(&machine->user_left, NULL);
    gpu_executor_init(&machine->executor);
}

bool gpu_machine_close(struct gpu_machine *machine)
{
    if (!gpu_contexts_free(machine) || !gpu_executor_close(machine))
        return false;
    pthread_mutex_destroy(&machine->context_lock);
    pthread_cond_destroy(&machine->user_left);
    return true;
}

static enum facet_status not_offered(struct facet_error *error)
{
    return facet_kit_fail(error, FACET_UNSUPPORTED,
                          "the operation: not offered by the installed driver in the GPU's present mode");
}

enum facet_status gpu_device_check(const struct gpu_machine *machine, uint32_t device, uint64_t capability,
                                   struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, machine->count, error);

    if (status != FACET_OK || (machine->infos[device].capabilities & capability) == capability)
        return status;
    return not_offered(error);
}

enum facet_status gpu_devices_check(const struct gpu_machine *machine, uint64_t capability, struct facet_error *error)
{
    for (uint32_t device = 0; device < machine->count; device++)
        if (machine->infos[device].capabilities & capability)
            return FACET_OK;
    return machine->count ? not_offered(error) : FACET_OK;
}
