/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accelerator metadata: one document that describes a node's accelerators to an orchestrator.
 *
 * Owns: node documents: resource specs (slots), device infos and node info; their checks; the older views of them.
 * Never: loses a member that it does not know, takes absent for zero, or rounds an amount.
 *
 *     facet_spec_create(&spec, &error);
 *     facet_spec_put_device(spec, &(struct facet_spec_device){.size = sizeof(struct facet_spec_device),
 *         .device_id = "GPU-5a", .device_name = "cuda", .model_name = "H100", .health = FACET_SPEC_HEALTHY}, &error);
 *     facet_spec_put_slot(spec, &(struct facet_spec_slot){.size = sizeof(struct facet_spec_slot),
 *         .slot_name = "cuda.device", .type = FACET_SLOT_COUNT, .shares = &(struct facet_spec_share){
 *             .device_id = "GPU-5a", .amount_micro = FACET_AMOUNT_ONE}, .share_count = 1}, &error);
 *     facet_spec_write(spec, &text, &error);
 *     facet_spec_destroy(spec);
 *
 * A node has any number of slots and of devices, so two GPUs cut into partitions, six whole GPUs and an NPU fit into
 * one document. Its form is schemas/accelerator-node.schema.json. facet_document_check() checks a document by this
 * schema, and by rules that a schema cannot express: names and identities are unique, shares are of devices that exist,
 * and sums are right.
 *
 * Reading and changing. The get functions fill a struct whose texts are borrowed until the next change of the document.
 * Of a list inside a struct (`units`, ...) they give the number of items; another function reads each item. The put
 * functions replace the item of the same name, or append it. A member that is NULL, or whose bit in `valid` is clear,
 * is absent afterwards. A list that is NULL stays as it was, and so do members that this version does not know. So
 * nothing is lost when an item is read, changed and put back.
 *
 * Amounts are micro-units (1 = 10^-6) in int64_t here, and exact decimals in JSON ("0.5"). So an amount of a slot that
 * is counted in bytes is at most 9,223,372,036,854 bytes (8.3 TiB). Sizes are bytes. No number is a floating-point
 * number.
 *
 * The translation table of Backend.AI's proposal "Redefining Accelerator Metadata", row by row. A function's name in
 * parentheses is that of the later interface, BEP-1016; a header in parentheses declares the functions before it
 * in its row:
 *     get_metadata, available_slots -> get_resource_spec    facet_spec_get_slot(), facet_spec_write()
 *         (configurable_slots is all slots, and available_slots, here too, those with an amount)
 *     list_devices                                          facet_spec_get_device(); facet_spec_legacy_devices()
 *     get_version, extra_info, get_node_hwinfo (get_node_info)
 *                                                           facet_spec_get_component(), facet_spec_health()
 *     get_attached_devices -> to_device_list                facet_spec_device_list() (alloc_to_devices)
 *     restore_from_container -> reconstruct_from_kernel     facet_resources_load() (facet/workload.h), then
 *                                                           facet_maps_commit() (facet/allocation.h) with the
 *                                                           grants that it read
 *     generate_resource_data -> write_into_kernel           facet_resources_save() (facet/workload.h)
 *     get_hooks, generate_docker_args, get_docker_networks, generate_mounts, get_additional_gids,
 *     get_additional_allowed_syscalls -> query_workload_config
 *                                                           facet_lifecycle_create(), facet_workload_render()
 *         (create_lifecycle_hook: struct facet_lifecycle_hook, facet/workload.h)
 *     create_alloc_map                                      facet_maps_create() (facet/allocation.h)
 *     gather_node_measures (gather_node_metrics)            facet_gather_node(), facet_gather_device()
 *                                                           (facet/measurement.h)
 *     gather_container_measures (gather_workload_metrics)   facet_gather_container() (facet/measurement.h)
 *     gather_process_measures (gather_process_metrics)      facet_gather_process() (facet/measurement.h)
 *
 * Owner: the caller owns documents, lists of violations, and returned texts (free them with free()). Thread rule: one
 * thread at a time may change a document; any number of threads may read a document that no thread changes. Errors,
 * besides those named: FACET_INVALID_ARGUMENT, FACET_NO_MEMORY. After an error nothing has changed. Source:
 * Backend.AI's proposals "Redefining Accelerator Metadata" and BEP-1016; docs/spec.md.
 */
#ifndef FACET_SPEC_H
#define FACET_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/slot.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- slot names --- */

/* The parts of "cuda.device:1g.5gb-mig": lengths of "cuda", "device" and "1g.5gb-mig"; 0: there is none. */
struct facet_spec_slot_name {
    uint32_t device, major, minor;
};
/* Parses device[.major[:minor]]. Each part consists of a-z 0-9 _ - (the minor part also of . and +), and the device
 * begins with a letter. At most 128 characters. */
FACET_API enum facet_status facet_spec_parse_slot_name(const char *text, struct facet_spec_slot_name *ret_name,
                                                       struct facet_error *error);

/* --- checking --- */

enum facet_document {
    FACET_DOCUMENT_NODE = 0,     /* schemas/accelerator-node.schema.json */
    FACET_DOCUMENT_WORKLOAD = 1, /* schemas/accelerator-workload.schema.json */
};

/* A document is at most this long, and an object or array in it at most 2,048 deep. */
#define FACET_DOCUMENT_BYTES (UINT32_C(16) << 20)
#define FACET_VIOLATIONS     4096u /* the most that a list keeps, in at most 1 MiB; all are counted */

FACET_API const char *facet_document_name(uint32_t document); /* "node", "workload"; NULL when there is none */
/* The JSON Schema (2020-12) of a document, a static text; NULL when `document` is unknown. */
FACET_API const char *facet_document_schema(uint32_t document);

struct facet_violations;

struct facet_violation {
    uint32_t size;
    uint32_t reserved;
    const char *pointer; /* the member at fault, by RFC 6901: "/devices/0/device_id"; "" is the whole document */
    const char *message; /* "expected ..., got ..." */
};

/*
 * Lists all errors of a document. FACET_OK means that the document could be checked; it is valid when the list is
 * empty. FACET_INVALID_ARGUMENT: the text is not JSON (not UTF-8, truncated, a member twice in an object, a number too
 * large, nested too deep); the message has line and column. FACET_OUT_OF_RANGE: longer than FACET_DOCUMENT_BYTES.
 */
FACET_API enum facet_status facet_document_check(uint32_t document, const char *text, size_t bytes,
                                                 struct facet_violations **ret_violations, struct facet_error *error);
FACET_API uint32_t facet_violations_count(const struct facet_violations *violations); /* violations that the list
                                                                                         keeps */
FACET_API uint64_t facet_violations_total(const struct facet_violations *violations);
/* `ret_violation` is borrowed from the list. FACET_NOT_FOUND: the list keeps fewer. */
FACET_API enum facet_status facet_violations_get(const struct facet_violations *violations, uint32_t index,
                                                 struct facet_violation *ret_violation, struct facet_error *error);
FACET_API void facet_violations_destroy(struct facet_violations *violations); /* NULL is fine */

/* --- the document --- */

struct facet_spec;

FACET_API enum facet_status facet_spec_create(struct facet_spec **ret_spec, struct facet_error *error);
/* Reads a valid document. Errors as for facet_document_check(); FACET_INVALID_ARGUMENT also when there are violations:
 * the message has the first violation and their number. */
FACET_API enum facet_status facet_spec_read(const char *text, size_t bytes, struct facet_spec **ret_spec,
                                            struct facet_error *error);
/* Writes with an indent of two spaces, and a line feed at the end. The document is checked first, so that the text can
 * be read back. */
FACET_API enum facet_status facet_spec_write(const struct facet_spec *spec, char **ret_text, struct facet_error *error);
FACET_API void facet_spec_destroy(struct facet_spec *spec); /* NULL is fine */

/* --- resource specs --- */

/* One device's part of a slot. Its device_name is the first part of the slot's name. */
struct facet_spec_share {
    const char *device_id;
    int64_t amount_micro;
};

#define FACET_SPEC_SLOT_HAS_FORMAT (UINT32_C(1) << 0) /* binary, round_length */
#define FACET_SPEC_SLOT_HAS_AMOUNT (UINT32_C(1) << 1)

struct facet_spec_slot {
    uint32_t size;
    uint32_t valid;        /* FACET_SPEC_SLOT_HAS_* */
    const char *slot_name; /* must be given */
    uint32_t type;         /* enum facet_slot_type */
    uint32_t binary;       /* shown with powers of 1024 */
    uint32_t round_length; /* the number of decimals to show; at most 18 */
    uint32_t share_count;
    const char *description;
    const char *human_readable_name;
    const char *display_unit;
    const char *display_icon;
    int64_t amount_micro; /* of all devices. Put with shares and without FACET_SPEC_SLOT_HAS_AMOUNT: the sum of the
                             shares */
    const struct facet_spec_share *shares;
    const char *const *exclusive_with; /* names of slots, or patterns with *, that a request may not combine with this
                                          slot */
    uint32_t exclusive_count;
    uint32_t reserved;
};
FACET_API uint32_t facet_spec_slot_count(const struct facet_spec *spec);
/* FACET_NOT_FOUND: there are fewer, here and in the other get functions. */
FACET_API enum facet_status facet_spec_get_slot(const struct facet_spec *spec, uint32_t index,
                                                struct facet_spec_slot *ret_slot, struct facet_error *error);
FACET_API enum facet_status facet_spec_get_share(const struct facet_spec *spec, uint32_t slot, uint32_t index,
                                                 struct facet_spec_share *ret_share, struct facet_error *error);
FACET_API enum facet_status facet_spec_get_exclusive(const struct facet_spec *spec, uint32_t slot, uint32_t index,
                                                     const char **ret_pattern, struct facet_error *error);
FACET_API enum facet_status facet_spec_put_slot(struct facet_spec *spec, const struct facet_spec_slot *slot,
                                                struct facet_error *error);

/* --- devices --- */

enum facet_spec_health {
    FACET_SPEC_HEALTH_UNKNOWN = 0, /* absent */
    FACET_SPEC_HEALTHY = 1,
    FACET_SPEC_DEGRADED = 2,
    FACET_SPEC_OFFLINE = 3,
    FACET_SPEC_UNAVAILABLE = 4,
};
FACET_API const char *facet_spec_health_name(uint32_t health); /* "healthy"; NULL when unknown */

enum facet_spec_support {
    FACET_SPEC_NONE = 0,
    FACET_SPEC_EMULATED = 1,
    FACET_SPEC_NATIVE = 2,
};
FACET_API const char *facet_spec_support_name(uint32_t support); /* "none"; NULL when unknown */

struct facet_spec_unit {
    const char *name; /* "SM", "Tensor Core", "CU", "AI Core" */
    uint64_t count;
};

struct facet_spec_precision {
    const char *format; /* "FP64", "TF32", "BF16", "FP8", "INT4", "FP4" */
    uint32_t support;   /* enum facet_spec_support */
    uint32_t reserved;
};

#define FACET_SPEC_PARTITIONING_HAS_MAX    (UINT32_C(1) << 0)
#define FACET_SPEC_PARTITIONING_HAS_ACTIVE (UINT32_C(1) << 1)

struct facet_spec_partitioning {
    const char *technology; /* "MIG", "fGPU" */
    uint32_t valid;         /* FACET_SPEC_PARTITIONING_HAS_* */
    uint32_t active;        /* the device is in this mode now */
    uint64_t max_partitions;
};

#define FACET_SPEC_DEVICE_HAS_NUMA       (UINT32_C(1) << 0)
#define FACET_SPEC_DEVICE_HAS_MEMORY     (UINT32_C(1) << 1)
#define FACET_SPEC_DEVICE_HAS_BANDWIDTH  (UINT32_C(1) << 2)
#define FACET_SPEC_DEVICE_HAS_L1         (UINT32_C(1) << 3)
#define FACET_SPEC_DEVICE_HAS_L2         (UINT32_C(1) << 4)
#define FACET_SPEC_DEVICE_HAS_SHARED     (UINT32_C(1) << 5)
#define FACET_SPEC_DEVICE_HAS_CHANNELS   (UINT32_C(1) << 6)
#define FACET_SPEC_DEVICE_HAS_SIMULATED  (UINT32_C(1) << 7)
#define FACET_SPEC_DEVICE_HAS_SIZE       (UINT32_C(1) << 8) /* memory_size */
#define FACET_SPEC_DEVICE_HAS_PROCESSING (UINT32_C(1) << 9) /* processing_units */

struct facet_spec_device {
    uint32_t size;
    uint32_t valid;          /* FACET_SPEC_DEVICE_HAS_* */
    const char *device_id;   /* must be given; any characters */
    const char *device_name; /* must be given: "cuda" */
    const char *parent_id;   /* of a partition: the device_id of the device that it is cut from */
    const char *facet_id;    /* "opencl:0", as `facet run -d` takes it */
    const char *uuid;
    const char *serial;
    const char *model_name;
    const char *vendor;
    const char *driver_version;
    const char *provider;
    const char *kind; /* "cpu", "gpu", "npu", "accelerator", "other" */
    const char *hw_location;
    const char *memory_type; /* "HBM3" */
    const char *status_info; /* why it is not healthy; only with a health */
    uint32_t numa_node;
    uint32_t simulated; /* it does not exist */
    uint32_t health;    /* enum facet_spec_health */
    uint32_t unit_count;
    uint64_t total_memory; /* bytes */
    uint64_t bandwidth_bytes_per_second;
    uint64_t l1_cache_per_core;
    uint64_t l2_cache;
    uint64_t shared_mem_per_core;
    uint64_t memory_channels;
    uint64_t memory_size;      /* legacy. Put without its bit: the value of total_memory */
    uint64_t processing_units; /* legacy. Put without its bit: the count of the first item of `units`, or, if `units` is
                                  NULL, of the first unit that the document has for this device */
    const struct facet_spec_unit *units; /* the kind that represents the device's compute power first */
    const struct facet_spec_precision *precisions;
    const struct facet_spec_partitioning *partitionings;
    uint32_t precision_count;
    uint32_t partitioning_count;
};
FACET_API uint32_t facet_spec_device_count(const struct facet_spec *spec);
FACET_API enum facet_status facet_spec_get_device(const struct facet_spec *spec, uint32_t index,
                                                  struct facet_spec_device *ret_device, struct facet_error *error);
FACET_API enum facet_status facet_spec_get_unit(const struct facet_spec *spec, uint32_t device, uint32_t index,
                                                struct facet_spec_unit *ret_unit, struct facet_error *error);
FACET_API enum facet_status facet_spec_get_precision(const struct facet_spec *spec, uint32_t device, uint32_t index,
                                                     struct facet_spec_precision *ret_precision,
                                                     struct facet_error *error);
FACET_API enum facet_status facet_spec_get_partitioning(const struct facet_spec *spec, uint32_t device, uint32_t index,
                                                        struct facet_spec_partitioning *ret_partitioning,
                                                        struct facet_error *error);
/* Replaces the item with the same device_name and device_id, or appends `device`. */
FACET_API enum facet_status facet_spec_put_device(struct facet_spec *spec, const struct facet_spec_device *device,
                                                  struct facet_error *error);

/* --- node info --- */

struct facet_spec_pair {
    const char *key;
    const char *value;
};

/* A driver, runtime or provider, with its answers to get_version(), extra_info() and get_node_hwinfo(). */
struct facet_spec_component {
    uint32_t size;
    uint32_t health;  /* enum facet_spec_health */
    const char *name; /* must be given: "cuda" */
    const char *version;
    const char *status_info;
    const struct facet_spec_pair *extra;    /* put: merged with the present pairs, key by key */
    const struct facet_spec_pair *metadata; /* about its health; only with a health */
    uint32_t extra_count;
    uint32_t metadata_count;
};
FACET_API uint32_t facet_spec_component_count(const struct facet_spec *spec);
FACET_API enum facet_status facet_spec_get_component(const struct facet_spec *spec, uint32_t index,
                                                     struct facet_spec_component *ret_component,
                                                     struct facet_error *error);
FACET_API enum facet_status facet_spec_get_extra(const struct facet_spec *spec, uint32_t component, uint32_t index,
                                                 struct facet_spec_pair *ret_pair, struct facet_error *error);
FACET_API enum facet_status facet_spec_get_metadata(const struct facet_spec *spec, uint32_t component, uint32_t index,
                                                    struct facet_spec_pair *ret_pair, struct facet_error *error);
FACET_API enum facet_status facet_spec_put_component(struct facet_spec *spec,
                                                     const struct facet_spec_component *component,
                                                     struct facet_error *error);
/* The worst known health of all components and devices; FACET_SPEC_HEALTH_UNKNOWN when none is known. */
FACET_API uint32_t facet_spec_health(const struct facet_spec *spec);

/* --- other forms of a document --- */

/* An amount of a slot that a workload has been given on a device. */
struct facet_spec_grant {
    const char *slot_name;
    const char *device_id;
    int64_t amount_micro;
};

/*
 * The list of devices in the form that Backend.AI had before its proposal: a JSON array of {"device_id", "hw_location",
 * "memory_size", "processing_units", "numa_node", "device_name"}. In this form only a NUMA node can be absent, as null.
 * FACET_UNSUPPORTED names a device whose size or units are unknown, which the form cannot express.
 */
FACET_API enum facet_status facet_spec_legacy_devices(const struct facet_spec *spec, char **ret_text,
                                                      struct facet_error *error);

/*
 * A workload's view of the node (to_device_list): a JSON array of {"device_id", "model_name", "data": {"mem", "proc"},
 * "slots": {slot: amount}}, devices in the document's order. A device is listed once, even if it gives several slots;
 * the devices of unified slots are always listed. FACET_NOT_FOUND names a grant whose slot or device is not in the
 * document.
 */
FACET_API enum facet_status facet_spec_device_list(const struct facet_spec *spec, const struct facet_spec_grant *grants,
                                                   uint32_t count, char **ret_text, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
