/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instance, its chips, and the operations that each file of this provider offers.
 *
 * Owns: the structs and the rule of the two locks.
 * Never: declares the vendor's interface; that is in dcmi.h and acl.h.
 *
 * Locks. `lock` guards workers and contexts, `event_lock` the events and the last reading of each chip. Neither is
 * taken while the other is held; DCMI's own lock is innermost. Data found at open never changes afterwards and is read
 * without a lock.
 */
#ifndef FACET_ASCEND_H
#define FACET_ASCEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <facet/provider.h>

#include "acl.h"
#include "dcmi.h"
#include "event_kit.h"
#include "provider_kit.h"

/* A worker with limits, contexts or both on one chip. */
struct ascend_worker {
    struct ascend_worker *next;
    char name[FACET_WORKER_SIZE];
    uint32_t valid; /* FACET_WORKER_HAS_* */
    uint32_t cores;
    uint32_t contexts;
    uint64_t limit_bytes;
    uint64_t used_bytes; /* of all its contexts */
};

/* The state of a chip at one reading. Events are differences between two readings. */
struct ascend_reading {
    bool present;
    bool has_ecc;
    uint32_t health; /* enum facet_health */
    uint64_t ecc_uncorrected;
};

struct ascend_chip {
    int card, chip_number; /* DCMI's identification */
    bool has_logic, has_physical;
    int logic;
    unsigned int physical;
    char chip_version[33];
    char die[64]; /* the die's identity, five numbers; empty when it was not read */
    struct ascend_reading last_reading;
    struct ascend_worker *workers;
};

struct ascend_allocation {
    struct ascend_allocation *next;
    void *block; /* the pointer that AscendCL returned */
    uint64_t address, bytes;
};

struct ascend_context {
    struct ascend_context *next;
    uint64_t number;
    uint32_t device;
    void *acl;
    struct ascend_worker *worker;
    struct ascend_allocation *allocations;
};

struct facet_provider_instance {
    struct ascend_dcmi dcmi;
    struct ascend_acl acl;
    char acl_error[256]; /* the reason why CANN is not used; empty otherwise */

    struct facet_device_info *infos;
    struct ascend_chip *chips; /* same indices as infos */
    uint32_t count;

    pthread_mutex_t lock;
    struct ascend_context *contexts;
    uint64_t last_context;

    pthread_mutex_t event_lock;
    struct facet_kit_events events;
};

/* chip.c: finds the chips and describes them. Refuses when the library cannot even count them. */
enum facet_status ascend_chips_find(struct facet_provider_instance *instance, struct facet_error *error);
enum facet_status ascend_device_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                           uint32_t capacity, uint32_t *ret_size, struct facet_error *error);

/* metrics.c. A reading sets a bit for each field that was read. It returns DCMI's code when none was, else 0. */
extern const struct facet_metrics_ops ascend_metrics_ops;
int ascend_metrics_read(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip,
                        struct facet_device_metrics *ret_metrics);
int ascend_processes_read(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip,
                          struct dcmi_process processes[DCMI_MAX_PROCESSES], int *ret_count);

/* topology.c */
enum facet_status ascend_device_nodes(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                      uint32_t capacity, uint32_t *ret_count, struct facet_error *error);
enum facet_status ascend_device_links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                      uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

/* event.c */
enum facet_status ascend_device_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                       struct facet_error *error);
enum facet_status ascend_device_events(struct facet_provider_instance *instance, uint64_t after, void *items,
                                       uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                       struct facet_error *error);
/* The current state of the chip; false when nothing could be read. */
bool ascend_chip_read_state(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip,
                            struct ascend_reading *ret_reading);

/* limit.c */
extern const struct facet_limit_ops ascend_limit_ops;
/* Finds the worker's entry, or adds it. NULL: no memory. The caller holds `lock`. */
struct ascend_worker *ascend_worker_take(struct ascend_chip *chip, const char *name);
/* Frees the entry if it has no limit and no context. The caller holds `lock`. */
void ascend_worker_drop(struct ascend_chip *chip, struct ascend_worker *worker);
void ascend_workers_free(struct ascend_chip *chip);

/* memory.c */
extern const struct facet_memory_ops ascend_memory_ops;
void ascend_contexts_free(struct facet_provider_instance *instance);

/* container.c */
extern const struct facet_container_ops ascend_container_ops;

/* The first check of every operation on a device: the device must exist, and promise `capability`. */
enum facet_status ascend_device_check(const struct facet_provider_instance *instance, uint32_t device,
                                      uint64_t capability, struct facet_error *error);
/* The check for an operation on all devices: one of them must promise `capability`. Without devices it passes. */
enum facet_status ascend_devices_check(const struct facet_provider_instance *instance, uint64_t capability,
                                       struct facet_error *error);

#endif
