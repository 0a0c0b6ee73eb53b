/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's internals, shared by registry.c (reading), create.c, change.c, restore.c and reserve.c.
 *
 * Owns: struct registry and struct vgpu; putting a segment under the scheduler and taking it away.
 * Never: is included by other files.
 *
 * Only the holder of the change lock writes to the list. It may read the list without `lock`, but writes with it.
 */
#ifndef FACETD_VGPU_H
#define FACETD_VGPU_H

#include <pthread.h>

#include "base/clock.h"
#include "grant.h"
#include "registry.h"

/* An ephemeral vGPU is kept for this long after it was made or restored, so that its maker can become its holder. */
#define EPHEMERAL_GRACE_NS (2 * FACET_NS_PER_S)

struct vgpu {
    struct vgpu_row row;
    const struct facet_device_record *device; /* NULL while it is missing */
    bool scheduled;
    bool damaged; /* processes are in its segment, which is damaged or lost: no other process may enter */
    struct facet_process_identity lost; /* a process in its lost segment; all 0: its segment is not lost */
    char trouble[256];                  /* why it is not served, or not removed; empty when all is well */
    char notice[128];                   /* an incident while it was served; empty when there was none */
    uint64_t retry_after_ns;            /* until then an ephemeral vGPU is kept, and a failed step is not retried */
    struct vgpu_environment environment;
};

struct registry {
    pthread_mutex_t change; /* held by a change from begin to end; taken before `lock`; guards the store */
    pthread_mutex_t lock;   /* guards the list; held for moments */
    struct store *store;
    struct registry_parts parts;
    char segments[FACET_PATH_SIZE - 64]; /* <runtime>/vgpu */
    struct vgpu *vgpus;
    size_t count, capacity;
    struct reservation_list reservations; /* guarded as the list of vGPUs is */
};

/* <runtime>/vgpu/<id> */
void vgpu_segment_path(const struct registry *registry, const char *id, char *ret_path, size_t size);

/* Finds a vGPU by id or name; NULL: there is none. */
struct vgpu *registry_look_up(const struct registry *registry, const char *ref);

/* Copies the whole state. Called with `lock`. */
void vgpu_describe(const struct registry *registry, const struct vgpu *vgpu, struct vgpu_info *ret_info);

/* Called with the change lock: makes room for another vGPU, so that adding cannot fail at the end of a change; adds
 * one; removes one. The last two take `lock`. */
enum facet_status registry_ensure_capacity(struct registry *registry, struct facet_error *error);
void registry_add(struct registry *registry, const struct vgpu *vgpu);
void registry_forget(struct registry *registry, const struct vgpu *vgpu);

/* Called with the change lock: replaces the list's entry `listed` by `vgpu`. */
void registry_publish(struct registry *registry, struct vgpu *listed, const struct vgpu *vgpu);

/* The context of struct grant_others: a vGPU, in the list or about to be added, whose part must be no other vGPU's.
 * Used with the change lock. */
struct claim {
    const struct registry *registry;
    const struct vgpu *vgpu;
};
bool claim_others_have(const void *claim, const struct facet_partition_info *partition);

/* Writes one row in a transaction of its own. */
enum facet_status registry_write_row(struct registry *registry,
                                     enum facet_status (*write)(struct store *, const struct vgpu_row *,
                                                                struct facet_error *),
                                     const struct vgpu_row *row, struct facet_error *error);
enum facet_status registry_delete_row(struct registry *registry, const char *id, struct facet_error *error);

/* Makes the segment and puts it under the scheduler; on failure neither is left. Sets vgpu->scheduled. */
enum facet_status vgpu_install(struct registry *registry, struct vgpu *vgpu, struct facet_error *error);

/* As vgpu_install(), with the segment that an earlier daemon left. On failure the segment stays as it was. */
enum facet_status vgpu_adopt(struct registry *registry, struct vgpu *vgpu, struct facet_error *error);

/* Takes the vGPU from the scheduler, and removes its segment. */
enum facet_status vgpu_withdraw(struct registry *registry, struct vgpu *vgpu, struct facet_error *error);

bool vgpu_in_use(struct registry *registry, const struct vgpu *vgpu);

/* Fills a change's answer about a vGPU of the list; takes `lock`. */
void registry_copy_info(struct registry *registry, const struct vgpu *vgpu, struct vgpu_info *ret_info);

/*
 * Called with the change lock (restore.c). Restores an acknowledged vGPU's part of the device, its segment and its
 * scheduling. On failure, vgpu->trouble says why. `vgpu` is in the list, or about to be added.
 */
void vgpu_serve(struct registry *registry, struct vgpu *vgpu);

/* As vgpu_serve(), for a vGPU of the list, which other threads may be reading. */
void vgpu_serve_again(struct registry *registry, struct vgpu *listed);

/* In removal.c: sets FACET_BAD_STATE and the name of the missing device. */
enum facet_status vgpu_device_missing(const struct vgpu *vgpu, struct facet_error *error);

/* Called with the change lock (removal.c): removes what is left of a half-made or half-removed vGPU, then its row. */
enum facet_status vgpu_finish_removal(struct registry *registry, const struct vgpu *vgpu, struct facet_error *error);

/*
 * Called with the change lock (registry.c): if the request names a quota, warns of quotas whose sum exceeds the
 * device's memory, unless there is another warning.
 */
void registry_warn_of_crowding(const struct registry *registry, const struct request *request, struct vgpu_info *info);

/* identity.c: 16 random hexadecimal digits, and the present time. */
enum facet_status registry_random_id(char ret_id[VGPU_ID_SIZE], struct facet_error *error);
uint64_t registry_wall_clock_ns(void);

/*
 * Called with the change lock (reserve.c). In this order, they find the id of a reservation, and its first usable
 * device unless `ret_device` is NULL; set limits that the request of a vGPU in it does not name; check that a new vGPU
 * stays within its reservation, or takes no reserved part; update the state of all reservations from the providers; and
 * read the reservations of the database.
 */
enum facet_status reserve_resolve(struct registry *registry, const char *ref, char ret_id[VGPU_ID_SIZE],
                                  const char **ret_device, struct facet_error *error);
void reserve_default(const struct registry *registry, const char *id, const struct facet_device_record *device,
                     struct request *request);
enum facet_status reserve_check(const struct registry *registry, const struct vgpu_row *row,
                                const struct facet_device_record *device, struct facet_error *error);
void reserve_look(struct registry *registry);
enum facet_status reserve_restore(struct registry *registry, struct facet_error *error);

#endif
