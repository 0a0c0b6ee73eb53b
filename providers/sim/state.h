/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The existing partitions and limits: in memory, or in a folder that processes share.
 *
 * Owns: struct sim_record, its transactions, and its file.
 * Never: decides whether a partition or limit is allowed; partition.c and limit.c do.
 *
 * A transaction: sim_state_begin(), read and change the record, sim_state_end(). Between the two no other thread or
 * process changes it. A change is atomic, also when the process is killed at any moment.
 */
#ifndef FACET_SIM_STATE_H
#define FACET_SIM_STATE_H

#include "machine.h"

struct sim_usages; /* usage.h */

struct sim_partition {
    uint32_t device;
    uint32_t template; /* index among the device's templates */
    uint32_t start;
    char uuid[64];
};

struct sim_worker {
    uint32_t device;
    uint32_t valid; /* FACET_WORKER_HAS_* */
    uint32_t first_unit, compute_units, compute_milli;
    uint64_t memory_bytes;
    char name[FACET_WORKER_SIZE];
};

/* Existing partitions and workers. Partitions are sorted by device and start, workers by their first limit. */
struct sim_record {
    uint64_t serial; /* the number of partitions ever created */
    uint32_t partition_count, worker_count;
    struct sim_partition *partitions;
    struct sim_worker *workers;
};

/* Opens the state in `folder` (made when missing), or in memory when `folder` is NULL or "". */
enum facet_status sim_state_open(const char *folder, const struct sim_machine *machine, struct sim_state **ret_state,
                                 struct facet_error *error);
void sim_state_close(struct sim_state *state);
const char *sim_state_folder(const struct sim_state *state); /* "" in memory */
struct sim_usages *sim_state_usages(const struct sim_state *state);

/* A copy of the current record, without a transaction and without events. */
enum facet_status sim_state_peek(const struct sim_state *state, const struct sim_machine *machine,
                                 struct sim_record *ret_record, struct facet_error *error);

/*
 * FACET_BUSY: another process has held the folder for seconds. FACET_CORRUPT: the file is damaged. Sends events for
 * partitions that other processes have made or destroyed since the last transaction, and reads their use (usage.h).
 */
enum facet_status sim_state_begin(struct facet_provider_instance *instance, struct sim_record **ret_record,
                                  struct facet_error *error);
/*
 * Ends the transaction and returns `status`, or the reason why a change could not be saved. With FACET_OK a changed
 * record is saved, and events are sent for new and removed partitions. Otherwise the record is restored.
 */
enum facet_status sim_state_end(struct facet_provider_instance *instance, enum facet_status status,
                                struct facet_error *error);

/* FACET_NO_MEMORY leaves the record as it was. */
enum facet_status sim_record_add_partition(struct sim_record *record, const struct sim_partition *partition,
                                           struct facet_error *error);
void sim_record_remove_partition(struct sim_record *record, const struct sim_partition *partition);
enum facet_status sim_record_add_worker(struct sim_record *record, const struct sim_worker *worker,
                                        struct facet_error *error);
void sim_record_remove_worker(struct sim_record *record, const struct sim_worker *worker);

/* NULL when there is none. */
struct sim_partition *sim_record_partition(const struct sim_record *record, uint32_t device, const char *uuid);
struct sim_worker *sim_record_worker(const struct sim_record *record, uint32_t device, const char *name);
/* The first partition, or worker, on a device, which excludes another mode; NULL: there is none. */
const struct sim_partition *sim_record_first_partition(const struct sim_record *record, uint32_t device);
const struct sim_worker *sim_record_first_worker(const struct sim_record *record, uint32_t device);

void sim_record_clear(struct sim_record *record);

/* state_text.c: writes the record as text with version and checksum, and reads it. The caller frees the text. */
enum facet_status sim_record_write(const struct sim_record *record, const struct sim_machine *machine, char **ret_text,
                                   size_t *ret_length, struct facet_error *error);
enum facet_status sim_record_read(const char *file, const char *text, size_t length, const struct sim_machine *machine,
                                  struct sim_record *ret_record, struct facet_error *error);

#endif
