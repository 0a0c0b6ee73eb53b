/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: opening and closing an instance, its lock, and the beginning of operations.
 * Never: reads the environment anywhere but at open.
 */
#include "instance.h"

#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "provider_kit.h"
#include "state.h"

/* Adds the variable's name to the message: the name of a file does not tell a user which variable names it. */
static enum facet_status prefix_variable(const char *variable, enum facet_status status, struct facet_error *error)
{
    char message[sizeof error->message];

    if (status == FACET_OK || !error || strstr(error->message, variable))
        return status;
    memcpy(message, error->message, sizeof message);
    return facet_kit_fail(error, status, "%s: %.*s", variable, (int)(sizeof message - 32), message);
}

static enum facet_status open_parts(struct facet_provider_instance *instance, struct facet_error *error)
{
    enum facet_status status = sim_clock_open(&instance->clock, getenv("FACET_SIM_CLOCK"), error);

    if (status != FACET_OK)
        return status;
    instance->events = calloc(1, sizeof *instance->events);
    if (!instance->events)
        status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for events");
    if (status == FACET_OK)
        status = prefix_variable("FACET_SIM_PROFILE",
                                 sim_machine_open(getenv("FACET_SIM_PROFILE"), &instance->machine, error), error);
    if (status == FACET_OK)
        status = sim_state_open(getenv("FACET_SIM_STATE"), instance->machine, &instance->state, error);
    if (status == FACET_OK)
        status = sim_visible_apply(instance->machine, instance->state, getenv("FACET_SIM_VISIBLE_DEVICES"), error);
    if (status == FACET_OK)
        status = prefix_variable(
            "FACET_SIM_FAULTS",
            sim_faults_open(getenv("FACET_SIM_FAULTS"), instance->machine, &instance->faults, error), error);
    if (status == FACET_OK)
        status = sim_engine_open(instance, error);
    if (status == FACET_OK)
        return FACET_OK;
    sim_state_close(instance->state);
    sim_faults_close(instance->faults);
    sim_machine_close(instance->machine);
    free(instance->events);
    sim_clock_close(&instance->clock);
    return status;
}

enum facet_status sim_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    struct facet_provider_instance *instance;
    enum facet_status status;

    if (!ret_instance)
        return sim_refuse_null("ret_instance", error);
    instance = calloc(1, sizeof *instance);
    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an instance");
    pthread_mutex_init(&instance->lock, NULL);
    status = open_parts(instance, error);
    if (status == FACET_OK) {
        *ret_instance = instance;
        return FACET_OK;
    }
    pthread_mutex_destroy(&instance->lock);
    free(instance);
    return status;
}

void sim_close(struct facet_provider_instance *instance)
{
    if (!instance)
        return;
    sim_engine_close(instance);
    sim_state_close(instance->state);
    sim_faults_close(instance->faults);
    sim_machine_close(instance->machine);
    free(instance->events);
    sim_clock_close(&instance->clock);
    pthread_mutex_destroy(&instance->lock);
    free(instance);
}

struct facet_provider_instance *sim_lock(struct facet_provider_instance *instance)
{
    pthread_mutex_lock(&instance->lock);
    return instance;
}

void sim_unlock(struct facet_provider_instance *const *instance)
{
    pthread_mutex_unlock(&(*instance)->lock);
}

enum facet_status sim_check_device(struct facet_provider_instance *instance, uint32_t device, struct facet_error *error)
{
    sim_faults_apply(instance);
    if (device >= instance->machine->device_count)
        return facet_kit_fail(error, FACET_NOT_FOUND, "device %" PRIu32 ": expected less than %" PRIu32, device,
                              instance->machine->device_count);
    if (sim_fault_lost(instance, device))
        return facet_kit_fail(error, FACET_DEVICE_LOST, "device %" PRIu32 " is lost: a fault of FACET_SIM_FAULTS",
                              device);
    return FACET_OK;
}

enum facet_status sim_begin(struct facet_provider_instance *instance, uint32_t device, const char *operation,
                            struct facet_error *error)
{
    sim_fault_hit_operation(instance, device, operation);
    return sim_check_device(instance, device, error);
}

const struct facet_device_info *sim_device_info(const struct facet_provider_instance *instance, uint32_t device)
{
    return &instance->machine->devices[device].info;
}

const struct sim_model *sim_device_model(const struct facet_provider_instance *instance, uint32_t device)
{
    return &instance->machine->devices[device].product->model;
}

enum facet_status sim_refuse_null(const char *argument, struct facet_error *error)
{
    enum facet_status status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "%s is NULL; expected a value", argument);

    if (error)
        FACET_KIT_TEXT(error->argument, argument);
    return status;
}
