/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node document: the device table of this machine, in the form of facet/spec.h.
 *
 * Owns: a device's names, slots and members in the document that an orchestrator reads; one builder for the command and
 * the daemon, which reach providers in different ways.
 * Never: prints, or makes up a measurement.
 */
#ifndef FACET_DEVICE_NODE_H
#define FACET_DEVICE_NODE_H

#include <jansson.h>

#include <facet/spec.h>

#include "device/table.h"

/* The present state of a device. */
struct facet_node_look {
    uint32_t health;  /* enum facet_health; as in the table when it was not read anew */
    char reason[360]; /* why the health is not ok; may be empty */
    /* A reference to the result of facet_device_describe(). NULL: the provider was not asked, because the device cannot
     * be partitioned or its provider is lost. */
    json_t *full;
};

/* Fills `look`, whose `health` is the table's at first. Called for each device in the order of the table. */
typedef enum facet_status (*facet_node_look_func)(void *context, const struct facet_device_record *device,
                                                  struct facet_node_look *look, struct facet_error *error);

struct facet_node_config {
    const struct facet_device_table *devices;
    const uint32_t *chosen;    /* the devices to describe, as indexes into the table */
    uint32_t count;            /* how many are chosen; 0: all devices */
    facet_node_look_func look; /* NULL: opens the providers whose devices can be partitioned, one after the other */
    void *context;             /* of `look` */
};

/* Makes the document. Errors: those of `look`, the first of which ends the call; FACET_NO_MEMORY. */
enum facet_status facet_node_describe(const struct facet_node_config *config, struct facet_spec **ret_spec,
                                      struct facet_error *error);

/*
 * The document's id of a device: its uuid, which outlives a restart; or the table's id, when the device has no uuid or
 * an earlier device of the provider has the same. Valid as long as the table.
 */
const char *facet_node_device_id(const struct facet_device_table *devices, const struct facet_device_record *device);

#endif
