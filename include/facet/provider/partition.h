/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI, table `partition`: slices of a device with an identity of their own (NVIDIA MIG instances, AMD compute
 * partitions, OpenCL sub-devices).
 *
 * Owns: templates, their possible places, and the partitions that exist.
 * Never: identifies a partition by its template: the uuid distinguishes two partitions of one template, and all
 * partitions that exist can be listed.
 *
 * A device has slices, numbered from 0. A template takes `length` neighbouring slices, beginning at one of its allowed
 * starts; partitions never overlap. Any other exclusion between templates (a mode that the whole device is in, a
 * template that may exist only once) shows in facet_partition_placement.free.
 */
#ifndef FACET_PROVIDER_PARTITION_H
#define FACET_PROVIDER_PARTITION_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_provider_instance;

#define FACET_PARTITION_HAS_MEMORY   (UINT32_C(1) << 0) /* memory is sliced too, not only compute */
#define FACET_PARTITION_HAS_OVERHEAD (UINT32_C(1) << 1)
#define FACET_PARTITION_HAS_USE      (UINT32_C(1) << 2)

/* Place the partition where it leaves the most room for others. */
#define FACET_PLACEMENT_ANY UINT32_MAX

struct facet_partition_template {
    uint32_t size;
    uint32_t valid; /* FACET_PARTITION_HAS_* */
    char id[32];    /* as the vendor writes it: "3g.40gb" */
    uint64_t memory_bytes;
    uint64_t overhead_bytes; /* of the device's memory, beyond memory_bytes, for each partition of this template */
    uint32_t compute_units;
    uint32_t compute_milli; /* share of the whole device */
    uint32_t length;        /* slices that a partition takes */
    uint32_t max_count;     /* at a time on an otherwise empty device */
};
FACET_STATIC_ASSERT(sizeof(struct facet_partition_template) == 72, "ABI: facet_partition_template");

struct facet_partition_placement {
    uint32_t size;
    uint32_t start; /* first slice */
    uint32_t length;
    uint32_t free; /* 1 when a partition could be created here now */
};
FACET_STATIC_ASSERT(sizeof(struct facet_partition_placement) == 16, "ABI: facet_partition_placement");

struct facet_partition_info {
    uint32_t size;
    uint32_t valid;  /* FACET_PARTITION_HAS_* */
    uint32_t device; /* index of the parent */
    uint32_t start;  /* first slice */
    uint32_t length; /* slices */
    uint32_t in_use; /* 1 while a context, worker or process has it */
    char uuid[64];   /* its identity, unique on the machine */
    char template_id[32];
    char address[256]; /* how the matching interposer finds it, as facet_device_info.address */
    uint64_t memory_bytes;
    uint64_t overhead_bytes;
    uint32_t compute_units;
    uint32_t compute_milli;
};
FACET_STATIC_ASSERT(sizeof(struct facet_partition_info) == 400, "ABI: facet_partition_info");

struct facet_partition_ops {
    uint64_t size; /* of this table, as the provider was built */

    /* Lists the templates of a device (struct facet_partition_template). */
    enum facet_status (*templates)(struct facet_provider_instance *instance, uint32_t device, void *items,
                                   uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                   struct facet_error *error);

    /*
     * Lists the possible starts of a template (struct facet_partition_placement), and whether a partition could be
     * created there now.
     */
    enum facet_status (*placements)(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                    void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                    struct facet_error *error);

    /*
     * Creates a partition, beginning at slice `start` or anywhere (FACET_PLACEMENT_ANY).
     * Errors: FACET_NOT_FOUND (device, template), FACET_OUT_OF_RANGE (not a placement of the template), FACET_NO_SPACE
     * (does not fit beside the present ones; the message names the obstacle), FACET_BAD_STATE (the device is in a mode
     * that excludes it), FACET_BUSY (the device is in use in a way that forbids partitioning).
     */
    enum facet_status (*create)(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                uint32_t start, struct facet_partition_info *ret_info, struct facet_error *error);

    /* The partitions that exist on a device, made by any program (struct facet_partition_info), in order of start. */
    enum facet_status (*list)(struct facet_provider_instance *instance, uint32_t device, void *items,
                              uint32_t item_size, uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

    /* Removes a partition. FACET_BUSY while it is in use; FACET_NOT_FOUND for an unknown uuid, such as that of a
     * removed partition. */
    enum facet_status (*destroy)(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                 struct facet_error *error);
};
FACET_STATIC_ASSERT(sizeof(struct facet_partition_ops) == 48, "ABI: facet_partition_ops");

#ifdef __cplusplus
}
#endif
#endif
