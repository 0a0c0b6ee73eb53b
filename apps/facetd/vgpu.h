/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the registry, shared by registry.c (reading), create.c, change.c, restore.c and reserve.c.
 *
 * Owns: struct registry and struct vgpu; putting a segment under the scheduler and taking it away.
 * Never: seen by other files.
 *
 * Only the holder of the change lock writes to the list, and it may read it; it takes `lock` to write what others read.
 */
#ifndef FACETD_VGPU_H
#define FACETD_VGPU_H

#include <pthread.h>

#include "grant.h"
#include "registry.h"

struct vgpu {
    struct vgpu_row row;
    const struct facet_device_record *device; /* NULL while it is missing */
    bool scheduled;
    bool damaged;            /* processes live in its segment, which cannot be believed: no process may enter */
    char trouble[256];       /* why it is not served, or not removed; empty when all is well */
    char notice[128];        /* an incident while it was served; empty when there was none */
    uint64_t retry_after_ns; /* an ephemeral vGPU is not removed before; a failed step is not retried before */
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
    struct reservation_list reservations; /* as the list of vGPUs */
};

/* <runtime>/vgpu/<id> */
void vgpu_segment_path(const struct registry *registry, const char *id, char *ret_path, size_t size);

/* NULL when there is none; by id or name. */
struct vgpu *registry_look_up(const struct registry *registry, const char *ref);

/* A copy of the whole state; with `lock`. */
void vgpu_describe(const struct registry *registry, const struct vgpu *vgpu, struct vgpu_info *ret_info);

/* With the change lock: makes room for one more, so that adding cannot fail when everything else has been done; adds;
 * removes. The last two take `lock`. */
enum facet_status registry_reserve(struct registry *registry, struct facet_error *error);
void registry_add(struct registry *registry, const struct vgpu *vgpu);
void registry_forget(struct registry *registry, const struct vgpu *vgpu);

/* With the change lock: replaces the list's entry `listed` by `vgpu`. */
void registry_publish(struct registry *registry, struct vgpu *listed, const struct vgpu *vgpu);

/* One vGPU, in the list or about to be, before its provider: struct grant_others of the rest, with the change lock. */
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

/* Like vgpu_install() with the segment that an earlier daemon left. On failure the segment stays as it was. */
enum facet_status vgpu_adopt(struct registry *registry, struct vgpu *vgpu, struct facet_error *error);

/* Takes it from the scheduler and removes the segment. */
enum facet_status vgpu_withdraw(struct registry *registry, struct vgpu *vgpu, struct facet_error *error);

bool vgpu_in_use(struct registry *registry, const struct vgpu *vgpu);

/* Fills a change's answer about a vGPU of the list; takes `lock`. */
void registry_tell(struct registry *registry, const struct vgpu *vgpu, struct vgpu_info *ret_info);

/*
 * With the change lock (restore.c): makes a vGPU that was acknowledged work again: its part of the device, its segment,
 * its scheduling. When that fails it says why in vgpu->trouble. `vgpu` is of the list, or about to be.
 */
void vgpu_serve(struct registry *registry, struct vgpu *vgpu);

/* Like vgpu_serve() for one of the list, which others may be reading. */
void vgpu_serve_again(struct registry *registry, struct vgpu *listed);

/* removal.c: refuses with FACET_BAD_STATE, and says which device is missing. */
enum facet_status vgpu_device_missing(const struct vgpu *vgpu, struct facet_error *error);

/* With the change lock (removal.c): removes the rest of one that is half made or half removed; then its row. */
enum facet_status vgpu_finish_removal(struct registry *registry, const struct vgpu *vgpu, struct facet_error *error);

/*
 * With the change lock (registry.c): warns of quotas that exceed their device's memory in sum, where the request names
 * a quota, and there is no other warning.
 */
void registry_tell_crowding(const struct registry *registry, const struct request *request, struct vgpu_info *info);

/* identity.c: 16 random hexadecimal digits, and the present time. */
enum facet_status registry_random_id(char ret_id[VGPU_ID_SIZE], struct facet_error *error);
uint64_t registry_wall_clock_ns(void);

/*
 * With the change lock (reserve.c): the id of a reservation, and its first usable device (NULL: not asked); the limits
 * of a vGPU in it whose request names none; whether a vGPU about to be made leaves reservations their parts, or stays
 * within its own; the present state of the reservations, which asks providers; the reservations of the database.
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
