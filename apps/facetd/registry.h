/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vGPUs of this daemon, and the reservations.
 *
 * Owns: the list, and every change to an entry. A change is a transaction over the database, the segment and the
 * scheduler: either all three have it or none has, and a change answered with FACET_OK survives kill -9.
 * Never: speaks HTTP, or decides shares.
 *
 * Thread rule: every function from any thread, except open and close. There are two locks. A change holds the first,
 * also while it waits for disk and provider, so there is one change at a time. A reader takes the second, which is held
 * only for moments. Scheduler threads take neither.
 */
#ifndef FACETD_REGISTRY_H
#define FACETD_REGISTRY_H

#include "base/paths.h"
#include "device/table.h"
#include "grant.h"
#include "request.h"
#include "reservation.h"
#include "scheduler.h"
#include "store.h"

struct registry; /* opaque */

enum vgpu_state {
    VGPU_IDLE,
    VGPU_RUNNING,
    VGPU_FROZEN,
    VGPU_REMOVING, /* half made or half removed; the daemon removes the rest as soon as the provider allows */
    VGPU_STATE_COUNT,
};

/* The state of one vGPU at one moment: a copy. */
struct vgpu_info {
    struct vgpu_row row;
    enum vgpu_state state;
    bool measured; /* `view` was measured; false while the vGPU's device is absent */
    bool damaged;  /* some or all of its numbers are implausible */
    struct scheduler_view view;
    char segment[FACET_PATH_SIZE];
    char warning[256]; /* empty when there is none */
    struct vgpu_environment environment;
    bool simulated; /* its device does not exist */
};

/* The result of a removal. */
struct vgpu_removal {
    char warning[360]; /* empty when there is none */
};

/* The parts of the daemon that the registry uses. */
struct registry_parts {
    const struct facet_device_table *devices;
    struct scheduler *scheduler;
    struct sessions *sessions;
};
/*
 * Restores the vGPUs of the database: adopts existing segments, makes missing ones, moves corrupt ones aside, and
 * removes those that belong to no vGPU. A vGPU whose device is missing is kept, with a warning. `parts` are borrowed,
 * and must outlive the registry.
 */
enum facet_status registry_open(const char *runtime_dir, const char *state_dir, const struct registry_parts *parts,
                                struct registry **ret_registry, struct facet_error *error);

/* vGPUs, their segments and tenants stay. NULL is allowed. */
void registry_close(struct registry *registry);

enum facet_status registry_create(struct registry *registry, const struct request *request, struct vgpu_info *ret_info,
                                  struct facet_error *error);

/* `ref` is an id or a name. */
enum facet_status registry_find(struct registry *registry, const char *ref, struct vgpu_info *ret_info,
                                struct facet_error *error);

/* Puts the limits of the request in place of the vGPU's. */
enum facet_status registry_change(struct registry *registry, const char *ref, const struct request *request,
                                  struct vgpu_info *ret_info, struct facet_error *error);

enum facet_status registry_set_frozen(struct registry *registry, const char *ref, bool frozen,
                                      struct vgpu_info *ret_info, struct facet_error *error);

/*
 * FACET_BUSY while a process or holder has the vGPU, unless `force`. If its device is missing or, with force, its
 * provider is lost, it is removed as far as possible now, and entirely when the device or the provider is back. A
 * second call with force forgets the rest of a vGPU whose device is missing.
 */
enum facet_status registry_destroy(struct registry *registry, const char *ref, bool force,
                                   struct vgpu_removal *ret_removal, struct facet_error *error);

/* Lists all vGPUs, in the order of their creation. The caller frees *ret_infos. */
enum facet_status registry_list(struct registry *registry, struct vgpu_info **ret_infos, size_t *ret_count,
                                struct facet_error *error);
size_t registry_count(struct registry *registry);

/* Whether the device of any vGPU exists. */
bool registry_has_devices(struct registry *registry);

/*
 * Grants the items of `wanted` (with its strategy, affinity and name; an empty name gets a default), on the node as it
 * is now, and records the grant. With `dry_run` nothing is kept, and there is no id. FACET_NO_SPACE and other errors
 * name the slot; FACET_ALREADY_EXISTS: the name. The caller clears *ret_reservation, also in the next two functions.
 */
enum facet_status registry_reservation_create(struct registry *registry, const struct reservation *wanted, bool dry_run,
                                              struct reservation *ret_reservation, struct facet_error *error);
enum facet_status registry_reservation_find(struct registry *registry, const char *ref,
                                            struct reservation *ret_reservation, struct facet_error *error);
enum facet_status registry_reservation_list(struct registry *registry, struct reservation_list *ret_list,
                                            struct facet_error *error);
/* FACET_BUSY while a vGPU is in the reservation; FACET_NOT_FOUND when it was released before. */
enum facet_status registry_reservation_release(struct registry *registry, const char *ref, struct facet_error *error);

/* After a provider came back: makes sure that its vGPUs have their parts, and finishes the removal of half-made
 * ones. */
void registry_reconcile(struct registry *registry, const struct facet_provider_record *provider);

/* The name of the vGPU that has a partition; false when none has. */
bool registry_partition_owner(struct registry *registry, const struct facet_device_record *device,
                              const struct facet_partition_info *partition, char ret_name[FACET_NAME_SIZE]);

/*
 * Removes ephemeral vGPUs that are not in use, and retries steps that failed before. Does nothing while a change is
 * under way.
 */
void registry_tidy(struct registry *registry, uint64_t now_ns);

/* Whether no vGPU is in use, and no ephemeral vGPU remains. */
bool registry_idle(struct registry *registry);

const char *vgpu_state_name(enum vgpu_state state);

#endif
