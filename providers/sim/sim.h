/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine: declarations that the files of this provider share.
 *
 * Owns: the instance, its one lock, its clock, and the interface between the core (profiles, partitions, limits,
 * events, faults) and the engine (contexts, memory, streams, load).
 * Never: pretends to be real: every name that leaves this provider has "simulated" in it, and kernels take modelled
 * time.
 *
 * Locking: every operation takes instance->lock at its start and releases it at its end; functions declared here are
 * called with it held. No thread waits with it held, except in sim_clock_wait(), which releases it meanwhile.
 *
 * Settings (environment):
 *   - FACET_SIM_PROFILE: the machine: a file, or the name of a shipped profile ("h100", "h200x8"); without it there are
 *     no devices.
 *   - FACET_SIM_STATE: a folder in which partitions and limits outlive the process, as they would in a driver, and in
 *     which all processes see each other's use; without it all lives in the instance.
 *   - FACET_SIM_VISIBLE_DEVICES: uuids of the visible devices and partitions, with commas; without it all are visible.
 *   - FACET_SIM_FAULTS: a script of faults (a file), with devices and links as this process sees them.
 *   - FACET_SIM_CLOCK: "stepped" or a speed in thousandths ("1000", the default: as fast as the wall clock).
 */
#ifndef FACET_SIM_H
#define FACET_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <facet/provider.h>

struct sim_machine; /* machine.h: the machine of the profile; does not change */
struct sim_record;  /* state.h: the existing partitions and limits */
struct sim_state;   /* state.h: partitions and limits, possibly shared through a folder */
struct sim_faults;  /* faults.c: the faults of the script, with their times */
struct sim_events;  /* core.h: the last events */
struct sim_engine;  /* engine.h: contexts, memory, streams */

/*
 * Modelled time. Not stepped, it follows CLOCK_MONOTONIC, times `speed_milli` / 1000. Stepped, it stands still until a
 * thread waits, and then jumps to the awaited moment, so that tests are exact and fast.
 */
struct sim_clock {
    bool stepped;
    uint32_t speed_milli; /* 1000: as fast as the wall clock */
    uint64_t now_ns;      /* if stepped: the model's time */
    uint64_t started_ns;  /* if not: CLOCK_MONOTONIC at model time 0 */
    pthread_cond_t changed;
};

struct facet_provider_instance {
    pthread_mutex_t lock;
    struct sim_clock clock;
    struct sim_machine *machine;
    struct sim_state *state;
    struct sim_faults *faults;
    struct sim_events *events;
    struct sim_engine *engine;
};

/* The engine's model of a device. Filled from the profile. */
struct sim_model {
    uint32_t compute_units;
    uint32_t groups_per_unit; /* work-groups that a unit runs at a time */
    uint32_t clock_mhz;       /* at full speed */
    uint32_t clock_low_mhz;   /* fully throttled */
    uint64_t memory_bytes;
    uint32_t bandwidth_mbps;
    uint64_t idle_mw, peak_mw, limit_mw; /* power when idle, with every unit at work, and at which the clock falls */
    int32_t ambient_mc, limit_mc;        /* temperature when idle, and at which the clock falls */
    uint32_t heat_mc_per_w;              /* steady rise of the temperature per watt above idle */
    uint64_t heat_time_ns;               /* time constant of the rise */
    uint32_t page_bytes;
};

/* --- the core, for the engine --- */

const struct facet_device_info *sim_device_info(const struct facet_provider_instance *instance, uint32_t device);
const struct sim_model *sim_device_model(const struct facet_provider_instance *instance, uint32_t device);

/* The share of a context of `worker` on a device or partition. */
struct sim_share {
    uint64_t memory_bytes; /* of the device, the partition, or the worker's limit */
    bool memory_limited;   /* by a worker's limit: beyond it is FACET_QUOTA, else FACET_NO_SPACE */
    uint32_t first_unit;   /* exclusive compute units; whole device: 0 .. compute_units */
    uint32_t compute_units;
    bool exclusive; /* no other worker's kernels run on those units */
    char partition_uuid[64];
};

/* FACET_NOT_FOUND (device, partition), FACET_BUSY (partitioned device and no partition named, or the reverse),
 * FACET_DEVICE_LOST. `partition_uuid` and `worker` may be NULL or "". */
enum facet_status sim_share_of(struct facet_provider_instance *instance, uint32_t device, const char *partition_uuid,
                               const char *worker, struct sim_share *ret_share, struct facet_error *error);

/* sim_share_of() in a transaction of the state (state.h), on a device that was checked. */
enum facet_status sim_share_in(struct facet_provider_instance *instance, const struct sim_record *record,
                               uint32_t device, const char *partition_uuid, const char *worker,
                               struct sim_share *ret_share, struct facet_error *error);

/*
 * The beginning of every operation on a device: applies the faults that are due. FACET_NOT_FOUND: there is no such
 * device. FACET_DEVICE_LOST: a fault removed it.
 */
enum facet_status sim_check_device(struct facet_provider_instance *instance, uint32_t device,
                                   struct facet_error *error);

uint64_t sim_clock_now(const struct facet_provider_instance *instance);
/*
 * Waits until the model's time is `until_ns`, or `timeout_ns` of real time have passed (false). Releases the lock while
 * it sleeps. Stepped time jumps instead, but not over a fault or a completion (sim_engine_next()). The function also
 * returns true after any earlier change (a fault, a completion, sim_clock_changed()): the caller checks its condition
 * and waits again. Applies faults and calls sim_engine_advance() as time passes.
 */
bool sim_clock_wait(struct facet_provider_instance *instance, uint64_t until_ns, uint64_t timeout_ns);
/* Wakes all threads in sim_clock_wait() after a change that they may be waiting for (a cancel, a new launch). */
void sim_clock_changed(struct facet_provider_instance *instance);

/* The slowdown of a device that hangs: no kernel completes. */
#define SIM_HANGS UINT32_MAX

/* The slowdown of kernels now, in thousandths of the modelled time; 1000: none. It may be SIM_HANGS. */
uint32_t sim_fault_slowdown_milli(const struct facet_provider_instance *instance, uint32_t device);
/*
 * Applies faults of the script that hit one operation ("memory.alloc"): may crash the process or block forever, if the
 * script asks for that. Releases the lock before it blocks.
 */
void sim_fault_hit_operation(struct facet_provider_instance *instance, uint32_t device, const char *operation);
/*
 * The number of corrected and uncorrected ECC errors so far. The core sends the events of ECC errors, health and links;
 * the engine sends those of throttling, including FACET_THROTTLE_FAULT.
 */
void sim_fault_ecc(const struct facet_provider_instance *instance, uint32_t device, uint64_t *ret_corrected,
                   uint64_t *ret_uncorrected);

void sim_event(struct facet_provider_instance *instance, uint32_t kind, uint32_t device, uint64_t value, uint32_t link,
               const char *uuid, const char *message);

/* Refuses an argument that is NULL: FACET_INVALID_ARGUMENT. */
enum facet_status sim_refuse_null(const char *argument, struct facet_error *error);
/* Takes the instance's lock until the end of the block: SIM_LOCK(instance). */
#define SIM_LOCK(instance)                                                                                             \
    __attribute__((cleanup(sim_unlock), unused)) struct facet_provider_instance *sim_locked_ = sim_lock(instance)
struct facet_provider_instance *sim_lock(struct facet_provider_instance *instance);
void sim_unlock(struct facet_provider_instance *const *instance);

/* --- the engine, for the core --- */

enum facet_status sim_engine_open(struct facet_provider_instance *instance, struct facet_error *error);
void sim_engine_close(struct facet_provider_instance *instance);

bool sim_engine_uses_device(const struct facet_provider_instance *instance, uint32_t device);
bool sim_engine_uses_partition(const struct facet_provider_instance *instance, const char *uuid);
bool sim_engine_uses_worker(const struct facet_provider_instance *instance, uint32_t device, const char *worker);

/* Completes all work that is due at the model's time `now_ns`. */
void sim_engine_advance(struct facet_provider_instance *instance, uint64_t now_ns);
/* The time of the engine's next change without a call; UINT64_MAX: never. */
uint64_t sim_engine_next(const struct facet_provider_instance *instance);
/* The device was lost: its contexts are gone, their streams failed. */
void sim_engine_lose(struct facet_provider_instance *instance, uint32_t device);

/* The tables, for provider.c. */
extern const struct facet_device_ops sim_device_ops;
extern const struct facet_partition_ops sim_partition_ops;
extern const struct facet_limit_ops sim_limit_ops;
extern const struct facet_container_ops sim_container_ops;
extern const struct facet_metrics_ops sim_metrics_ops;     /* engine */
extern const struct facet_memory_ops sim_memory_ops;       /* engine */
extern const struct facet_execution_ops sim_execution_ops; /* engine */
extern const struct facet_snapshot_ops sim_snapshot_ops;   /* engine */

#endif
