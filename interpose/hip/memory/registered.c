/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the charge of managed variables, from the call by which code that hipcc generated registers them until it
 * unregisters them.
 * Never: refuses a variable, or makes the runtime begin a device (begin.h): these calls return no result, and run
 * before main().
 *
 * A managed variable is charged in full, wherever its pages are. It is charged when its device begins, or at once if
 * the device has begun already. If the quota has too little left, the next charge for code includes the variable.
 */
#include <stdlib.h>

#include "charge.h"
#include "code.h"
#include "interpose/hip/begin.h"
#include "interpose/hip/measure.h"

struct variable {
    struct variable *next;
    const void *modules;
    uint32_t device;
    bool owed; /* the quota had too little left: the next charge for code includes it */
    uint64_t bytes;
};

static struct variable *variables; /* protected by facet_hip_devices_hold() */

void facet___hipRegisterManagedVar(void *modules, void **pointer, void *start, const char *name, size_t size,
                                   unsigned alignment)
{
    uint32_t device = facet_hip_current_device();
    struct variable *variable = malloc(sizeof *variable);
    bool held = facet_hip_devices_hold();

    facet_hip_charge_pause(); /* the runtime may allocate it through its own exported functions; it is charged below */
    facet_hip_driver.__hipRegisterManagedVar(modules, pointer, start, name, size, alignment);
    facet_hip_charge_resume();
    if (held && variable && device < FACET_HIP_TENANTS) {
        *variable = (struct variable){
            .next = variables, .modules = modules, .device = device, .bytes = facet_memory_round(size, FACET_HIP_STEP)};
        variables = variable;
        variable = NULL;
        variables->owed = !facet_hip_begin_with(device, variables->bytes);
        if (variables->owed)
            facet_hip_code_owes(device, variables->bytes);
    }
    free(variable);
    if (held)
        facet_hip_devices_let_go();
}

static void forget_modules(const void *modules)
{
    for (struct variable **at = &variables; *at;) {
        struct variable *variable = *at;

        if (variable->modules != modules) {
            at = &variable->next;
            continue;
        }
        *at = variable->next;
        if (!variable->owed)
            facet_hip_begin_without(variable->device, variable->bytes);
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
    bool held = facet_hip_devices_hold();

    for (uint32_t i = 0; held && i < facet_hip_process.count; i++)
        facet_hip_measure_held(&measures[i], i);
    facet_hip_driver.__hipUnregisterFatBinary(modules);
    if (!held)
        return;
    forget_modules(modules);
    for (uint32_t i = 0; i < facet_hip_process.count; i++)
        if (atomic_load(&facet_hip_initialized[i]))
            facet_hip_code_unloaded(i, facet_hip_measure_shrunk(&measures[i]));
    facet_hip_devices_let_go();
}

void facet_hip_registered_forked(void)
{
    while (variables) {
        struct variable *gone = variables;

        variables = gone->next;
        free(gone);
    }
}
