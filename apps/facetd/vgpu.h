/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One vGPU inside the registry, and its segment.
 *
 * Owns: struct registry and struct vgpu, shared by registry.c and restore.c only; putting a segment under the
 * scheduler and taking it away.
 * Never: touches the database (registry.c) or locks: the caller holds the registry's lock.
 */
#ifndef FACETD_VGPU_H
#define FACETD_VGPU_H

#include <pthread.h>

#include "registry.h"

struct vgpu {
    struct vgpu_row row;
    const struct facet_device_record *device; /* NULL while it is not there */
    bool scheduled;
    char trouble[256];      /* why it is not scheduled */
    uint64_t tidy_after_ns; /* an ephemeral vGPU is not removed before */
};

struct registry {
    pthread_mutex_t lock; /* guards everything below */
    struct store *store;
    struct scheduler *scheduler;
    const struct facet_device_table *devices;
    char segments[FACET_PATH_SIZE - 64]; /* <runtime>/vgpu */
    struct vgpu *vgpus;
    size_t count, capacity;
};

/* <runtime>/vgpu/<id> */
void vgpu_segment_path(const struct registry *registry, const char *id, char *ret_path, size_t size);

/* Makes room for one more, so that adding it cannot fail when everything else has been done. */
enum facet_status registry_reserve(struct registry *registry, struct facet_error *error);

/* Makes the segment and puts it under the scheduler; on failure neither is left. Sets vgpu->scheduled. */
enum facet_status vgpu_install(struct registry *registry, struct vgpu *vgpu, struct facet_error *error);

/* The same with the segment that an earlier daemon left. On failure the segment stays as it was. */
enum facet_status vgpu_adopt(struct registry *registry, struct vgpu *vgpu, struct facet_error *error);

/* Takes it from the scheduler and removes the segment. */
enum facet_status vgpu_withdraw(struct registry *registry, struct vgpu *vgpu, struct facet_error *error);

bool vgpu_in_use(struct registry *registry, const struct vgpu *vgpu);

/* Start-up: fills the registry from the database (restore.c). */
enum facet_status registry_restore(struct registry *registry, struct facet_error *error);

#endif
