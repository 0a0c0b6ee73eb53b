/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI, table `container`: the items that a container needs to use a device or a partition.
 *
 * Owns: device nodes, mounts and environment, as plain items.
 * Never: touches a container.
 */
#ifndef FACET_PROVIDER_CONTAINER_H
#define FACET_PROVIDER_CONTAINER_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_provider_instance;

enum facet_container_kind {
    FACET_CONTAINER_DEVICE_NODE = 1, /* host and guest: paths */
    FACET_CONTAINER_MOUNT = 2,       /* host and guest: paths */
    /* guest: the variable's name; host: the variable's value. Of a provider that does not ship with Facet, a program
     * that `facet run` starts is given NAME_VISIBLE_DEVICES with a list of devices, and no other variable. */
    FACET_CONTAINER_ENVIRONMENT = 3,
};

#define FACET_CONTAINER_READ_ONLY (UINT32_C(1) << 0)

struct facet_container_item {
    uint32_t size;
    uint32_t kind;  /* enum facet_container_kind */
    uint32_t flags; /* FACET_CONTAINER_* */
    uint32_t reserved;
    char host[512];
    char guest[512];
};
FACET_STATIC_ASSERT(sizeof(struct facet_container_item) == 1040, "ABI: facet_container_item");

struct facet_container_ops {
    uint64_t size; /* of this table, as the provider was built */

    /*
     * Lists the items (struct facet_container_item) that a container needs for a device, or for its partition
     * `partition_uuid` (NULL or "": the whole device). For a partition the parent's own nodes are left out where they
     * would give away the whole device.
     */
    enum facet_status (*items)(struct facet_provider_instance *instance, uint32_t device, const char *partition_uuid,
                               void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                               struct facet_error *error);
};
FACET_STATIC_ASSERT(sizeof(struct facet_container_ops) == 16, "ABI: facet_container_ops");

#ifdef __cplusplus
}
#endif
#endif
