/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that a profile describes: products, devices, nodes and links.
 *
 * Owns: struct sim_machine, read from JSON once and never changed.
 * Never: knows the state of devices; that is in state.h (partitions, limits) and the engine.
 *
 * schemas/sim-profile.schema.json describes the file in JSON Schema; a test keeps the two in step.
 */
#ifndef FACET_SIM_MACHINE_H
#define FACET_SIM_MACHINE_H

#include "json.h"
#include "sim.h"

#define SIM_MAX_DEVICES   64
#define SIM_MAX_SLICES    32
#define SIM_MAX_TEMPLATES 32
#define SIM_MAX_UNITS     4096 /* compute units of a device */

#define SIM_NAME_PATTERN "^[a-z][a-z0-9-]{0,30}$"
#define SIM_PCI_PATTERN  "^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\\.[0-7]$"

struct sim_template {
    struct facet_partition_template info;
    uint32_t compute_slices; /* used by a partition, wherever it is placed */
    uint32_t start_count;
    uint32_t starts[SIM_MAX_SLICES];
    char mode[16]; /* only templates of one mode are on a device at a time; "": the device has no such modes */
};

struct sim_partitioning {
    uint32_t slices; /* 0: the product cannot be partitioned */
    uint32_t compute_slices;
    uint32_t first_units[SIM_MAX_SLICES + 1]; /* the first compute unit of each slice, then the number of all units */
    uint32_t template_count;
    struct sim_template templates[SIM_MAX_TEMPLATES];
};

/* A product: the common data of all devices of one kind. */
struct sim_product {
    char id[32];
    struct facet_device_info info; /* without fields that differ by device */
    struct sim_model model;
    struct sim_partitioning partitioning;
    char properties[1024]; /* lines "key=value\n" */
};

struct sim_device {
    struct facet_device_info info;
    const struct sim_product *product;
    uint32_t number; /* in the profile and in all files; info.index counts only the devices that this process sees */
    bool partial;    /* only partitions of it that `visible` names may be used */
};

struct sim_machine {
    char name[32];
    char file[512];
    uint32_t product_count, device_count, node_count, link_count;
    uint32_t device_total; /* including hidden ones, which are after device_count */
    char *visible;         /* uuids that this process sees, NULL: all */
    struct sim_product *products;
    struct sim_device *devices;
    struct facet_topology_node *nodes; /* the devices first, in their order */
    struct facet_topology_link *links;
};

/* The machine of a profile, by file or by the name of a shipped one. NULL or "": a machine without devices. */
enum facet_status sim_machine_open(const char *profile, struct sim_machine **ret_machine, struct facet_error *error);
/* The machine in `text`; `file` is for messages. */
enum facet_status sim_machine_parse(const char *file, const char *text, size_t length, struct sim_machine **ret_machine,
                                    struct facet_error *error);
void sim_machine_close(struct sim_machine *machine);

/* The index of the device with this number in the profile. UINT32_MAX: there is none. */
uint32_t sim_machine_index(const struct sim_machine *machine, uint32_t number);
/* The index of a template of a device, or FACET_NOT_FOUND. */
enum facet_status sim_machine_template(const struct sim_machine *machine, uint32_t device, const char *id,
                                       uint32_t *ret_template, struct facet_error *error);
/* Whether a link ends at a node. */
bool sim_link_touches(const struct facet_topology_link *link, uint32_t node);

/*
 * visible.c: hides all devices except those of `setting` (FACET_SIM_VISIBLE_DEVICES: uuids of devices and partitions,
 * separated by commas; NULL or "": all). Called once, before the devices are used. FACET_NOT_FOUND.
 */
enum facet_status sim_visible_apply(struct sim_machine *machine, const struct sim_state *state, const char *setting,
                                    struct facet_error *error);
/* Whether the setting names this uuid. */
bool sim_visible_lists_uuid(const struct sim_machine *machine, const char *uuid);

/* machine_product.c, machine_topology.c: parts of the document. They refuse through `at`. */
void sim_product_read(const struct sim_json *at, const char *id, struct sim_product *product);
void sim_topology_read(const struct sim_json *root, struct sim_machine *machine);

#endif
