/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider's parts for vGPUs of the modes hard and partitioned.
 *
 * Owns: choosing, taking, checking and giving back a part of a device, through its provider.
 * Never: writes to the database or to a segment, or serves the modes shared and soft, except for their environment.
 *
 * Thread rule: any thread; one at a time per device (the registry's change lock). Each function makes a few calls of
 * the provider, and each of those has a deadline.
 */
#ifndef FACETD_GRANT_H
#define FACETD_GRANT_H

#include "plan.h"
#include "sessions.h"
#include "store.h"

/* Tells whether a partition is another vGPU's, because two vGPUs never have the same partition. */
struct grant_others {
    bool (*have)(const void *context, const struct facet_partition_info *info);
    const void *context;
};

/*
 * Whether `info` describes the row's partition. A uuid alone does not decide: a provider that lost its state may give
 * the uuid to another partition.
 */
bool grant_is_part(const struct vgpu_row *row, const struct facet_partition_info *info);

/*
 * Chooses the template and the first slice of a partition before it is made, so that the row of the database tells a
 * later daemon which partition to look for. `request` may name a template; `row` holds the limits.
 */
enum facet_status grant_choose(struct sessions *sessions, const struct facet_device_record *device,
                               const struct request *request, struct vgpu_row *row, struct facet_error *error);

/*
 * Takes the part that the row asks for, and records the grant: row->slice, and in row->limits the resulting quota and
 * share. On failure nothing is held, except after FACET_DEVICE_LOST, when that is unknown.
 */
enum facet_status grant_take(struct sessions *sessions, const struct facet_device_record *device, struct vgpu_row *row,
                             const struct grant_others *others, struct facet_error *error);

/* Whether the provider still has the part. */
enum facet_status grant_look(struct sessions *sessions, const struct facet_device_record *device,
                             const struct vgpu_row *row, const struct grant_others *others, bool *ret_present,
                             struct facet_error *error);

/*
 * Makes sure, after a restart of the daemon or the provider, that an acknowledged row still has its part. A part that
 * vanished is taken again with the same template and place, or the same limits; `row` gets its new identity.
 */
enum facet_status grant_keep(struct sessions *sessions, const struct facet_device_record *device, struct vgpu_row *row,
                             const struct grant_others *others, struct facet_error *error);

/* Gives the part back. FACET_BUSY while it is in use; FACET_NOT_FOUND when it is gone already, which is harmless. */
enum facet_status grant_release(struct sessions *sessions, const struct facet_device_record *device,
                                const struct vgpu_row *row, const struct grant_others *others,
                                struct facet_error *error);

/*
 * Removes the part, if any, of a vGPU whose creation or removal was cut short. It is found by the worker's name, or as
 * a partition of the row's template at the row's place.
 */
enum facet_status grant_undo(struct sessions *sessions, const struct facet_device_record *device,
                             const struct vgpu_row *row, const struct grant_others *others, struct facet_error *error);

/* The variables that a program needs to find its part: lines "NAME=value". */
struct vgpu_environment {
    char lines[1024];
};

/* Empty when the provider names none. */
enum facet_status grant_environment(struct sessions *sessions, const struct facet_device_record *device,
                                    const struct vgpu_row *row, struct vgpu_environment *ret_environment,
                                    struct facet_error *error);

#endif
