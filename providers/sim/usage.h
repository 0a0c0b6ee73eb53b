/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The use of devices by all processes of a state folder.
 *
 * Owns: the usage file of this instance, and reading those of other processes.
 * Never: counts a dead process: a process locks its file while it lives, and the kernel releases the lock when it ends.
 *
 * An instance without a state folder has no file, and sees no others.
 */
#ifndef FACET_SIM_USAGE_H
#define FACET_SIM_USAGE_H

#include <stdatomic.h>

#include "machine.h"

struct sim_usages;

/*
 * The use of a device or one of its partitions by one worker in one process. Names change only within a transaction of
 * the state. Numbers rise only within a transaction, so that a sum in a transaction is never too small, but they may
 * fall at any time.
 */
struct sim_usage {
    _Atomic uint32_t is_claimed; /* 0: this place is free */
    uint32_t device;             /* its number in the profile */
    _Atomic uint32_t contexts;
    uint32_t unused;
    _Atomic uint64_t used_bytes;
    _Atomic uint64_t reserved_bytes; /* reserved addresses; this number may rise at any time */
    char worker[FACET_WORKER_SIZE];
    char partition_uuid[64];
};

/* The use by another process when the last transaction began. */
struct sim_other {
    int32_t pid; /* 0: in a pid namespace that is not ours */
    uint32_t device;
    uint32_t contexts;
    uint64_t used_bytes, reserved_bytes;
    char worker[FACET_WORKER_SIZE];
    char partition_uuid[64];
};

struct sim_others {
    size_t count;
    struct sim_other *items;
};

/* For the files NAME.use.N of a folder, which the caller keeps open. `folder_fd` -1: there is no folder. */
enum facet_status sim_usages_open(int folder_fd, const char *name, struct sim_usages **ret_usages,
                                  struct facet_error *error);
void sim_usages_close(struct sim_usages *usages);

/* Reads the use by all others, and removes the files of dead processes. Called in a transaction. */
enum facet_status sim_usages_read(struct sim_usages *usages, const struct sim_machine *machine,
                                  struct facet_error *error);

/*
 * Whether a context that is not lost is on the device, in the partition, or of the worker. Contexts of other processes
 * count as they were in the last transaction.
 */
bool sim_uses_device(const struct facet_provider_instance *instance, uint32_t device);
bool sim_uses_partition(const struct facet_provider_instance *instance, const char *uuid);
bool sim_uses_worker(const struct facet_provider_instance *instance, uint32_t device, const char *worker);
/* The use by other processes, as of the last transaction. */
const struct sim_others *sim_others(const struct facet_provider_instance *instance);

/* Claims a place in this process's file, in a transaction. Without a folder *ret_usage is unchanged. */
enum facet_status sim_usage_claim(struct facet_provider_instance *instance, uint32_t device, const char *partition_uuid,
                                  const char *worker, struct sim_usage **ret_usage, struct facet_error *error);
/* Gives the place back; may be called outside a transaction. */
void sim_usage_release(struct sim_usage *usage);

#endif
