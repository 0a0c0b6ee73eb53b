/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the charge of managed variables, from the call by which code that hipcc generated registers them until it
 * unregisters them.
 * Never: refuses a variable, or makes the runtime initialize a device (initialize.h): these calls return no result, and
 * run before main().
 *
 * A managed variable is charged in full, wherever its pages are. It is charged when its device is initialized, or at
 * once if that has happened already. If the quota has too little left, the next charge for code includes the variable.
 */
#include <stdlib.h>

#include "charge.h"
#include "code.h"
#include "interpose/hip/initialize.h"
#include "interpose/hip/measure.h"

struct variable {
    struct variable *next;
    const void *modules;
    uint32_t device;
    bool is_charged_later; /* the quota had too little left: the next charge for code includes it */
    uint64_t bytes;
};

static struct variable *variables; /* protected by facet_hip_devices_lock() */

void facet___hipRegisterManagedVar(void *modules, void **pointer, void *start, const char *name, size_t size,
                                   unsigned alignment)
{
    uint32_t device = facet_hip_current_device();
    struct variable *variable = malloc(sizeof *variable);
    bool locked = facet_hip_devices_lock();

    facet_hip_charge_pause(); /* the runtime may call its own exports to allocate the variable, which is charged below
                               */
    facet_hip_driver.__hipRegisterManagedVar(modules, pointer, start, name, size, alignment);
    facet_hip_charge_resume();
    if (locked && variable && device < FACET_HIP_TENANTS) {
        *variable = (struct variable){
            .next = variables, .modules = modules, .device = device, .bytes = facet_memory_round(size, FACET_HIP_STEP)};
        variables = variable;
        variable = NULL;
        variables->is_charged_later = !facet_hip_device_charge_add(device, variables->bytes);
        if (variables->is_charged_later)
            facet_hip_code_charge_later(device, variables->bytes);
    }
    free(variable);
    if (locked)
        facet_hip_devices_unlock();
}

static void drop_variables(const void *modules)
{
    for (struct variable **at = &variables; *at;) {
        struct variable *variable = *at;

        if (variable->modules != modules) {
            at = &variable->next;
            continue;
        }
        *at = variable->next;
        if (!variable->is_charged_later)
            facet_hip_device_charge_remove(variable->device, variable->bytes);
        free(variable);
    }
}

/*
 * Unloads the code from every device. The freed amount is read from the compute driver's files, which count this
 * process alone: the device's memory in use also falls when another tenant frees memory.
 */
void facet___hipUnregisterFatBinary(void **modules)
{
    struct facet_hip_measure measures[FACET_HIP_TENANTS];
    bool locked = facet_hip_devices_lock();

    for (uint32_t i = 0; locked && i < facet_hip_process.count; i++)
        facet_hip_measure_begin_free(&measures[i], i);
    facet_hip_driver.__hipUnregisterFatBinary(modules);
    if (!locked)
        return;
    drop_variables(modules);
    for (uint32_t i = 0; i < facet_hip_process.count; i++)
        if (atomic_load(&facet_hip_initialized[i]))
            facet_hip_code_unloaded(i, facet_hip_measure_freed(&measures[i]));
    facet_hip_devices_unlock();
}

void facet_hip_registered_forked(void)
{
    while (variables) {
        struct variable *variable = variables;

        variables = variable->next;
        free(variable);
    }
}
