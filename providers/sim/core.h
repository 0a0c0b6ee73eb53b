/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that the files of the core (not the engine) share besides sim.h.
 *
 * Owns: beginning an operation, opening and closing the clock, events, and the faults in effect.
 * Never: declares anything for the engine; that is in sim.h.
 *
 * All functions here are called with the instance's lock held.
 */
#ifndef FACET_SIM_CORE_H
#define FACET_SIM_CORE_H

#include "machine.h"
#include "sim.h"

/* Begins an operation on a device: applies faults that hit `operation`, then calls sim_check_device(). */
enum facet_status sim_begin(struct facet_provider_instance *instance, uint32_t device, const char *operation,
                            struct facet_error *error);

/* --- clock.c --- */

enum facet_status sim_clock_open(struct sim_clock *clock, const char *setting, struct facet_error *error);
void sim_clock_close(struct sim_clock *clock);

/* --- events.c --- */

#define SIM_EVENTS_KEPT 256

struct sim_events {
    uint64_t last; /* sequence of the newest; event n is at n % SIM_EVENTS_KEPT */
    struct facet_event ring[SIM_EVENTS_KEPT];
};

/* --- faults.c --- */

/* Opens the script in `file`; when `file` is NULL or "", the script is empty. */
enum facet_status sim_faults_open(const char *file, const struct sim_machine *machine, struct sim_faults **ret_faults,
                                  struct facet_error *error);
enum facet_status sim_faults_parse(const char *file, const char *text, size_t length, const struct sim_machine *machine,
                                   struct sim_faults **ret_faults, struct facet_error *error);
void sim_faults_close(struct sim_faults *faults);

/* Applies all faults that are due at the model's time, in order. True when there were any. */
bool sim_faults_apply(struct facet_provider_instance *instance);
/* The time of the next fault; UINT64_MAX: none is left. */
uint64_t sim_faults_next(const struct facet_provider_instance *instance);

bool sim_fault_lost(const struct facet_provider_instance *instance, uint32_t device);
bool sim_fault_link_down(const struct facet_provider_instance *instance, uint32_t link);
enum facet_health sim_fault_health(const struct facet_provider_instance *instance, uint32_t device);

#endif
