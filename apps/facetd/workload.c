/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: turning the items of providers into a configuration. Never: lets one device's item overwrite another's. */
#include "workload.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/paths.h"
#include "device/listing.h"
#include "device/node.h"
#include "limiter/entrance_cuda.h"
#include "limiter/entrance_hip.h"
#include "limiter/given.h"
#include "limiter/refused.h"
#include "limiter/tenant.h"

struct building {
    const struct facet_device_table *devices;
    struct sessions *sessions;
    struct facet_workload *workload;
    json_t *environment; /* each variable's list of values, without duplicates */
    char *warning;
    size_t warning_size;
    struct facet_error *error;
};

static void drop_json(json_t **json)
{
    json_decref(*json);
}
#define CLEANUP_JSON __attribute__((cleanup(drop_json)))

/* --- items -------------------------------------------------------------------------------------------------------- */

static enum facet_status add_variable(struct building *building, const char *name, const char *value)
{
    json_t *values = json_object_get(building->environment, name), *known;
    size_t index;

    json_array_foreach (values, index, known)
        if (strcmp(json_string_value(known), value) == 0)
            return FACET_OK;
    if (!values) {
        values = json_array();
        json_object_set_new(building->environment, name, values);
    }
    if (json_array_append_new(values, json_string(value)) < 0)
        return facet_error_set(building->error, FACET_CORRUPT, "the provider's variable '%.60s' is no text", name);
    return FACET_OK;
}

/* Adds a device node, with its device numbers if it exists here, because some runtimes require them. */
static enum facet_status add_node(struct building *building, const struct facet_container_item *item, bool read_only)
{
    const char *path = item->guest[0] ? item->guest : item->host;
    struct stat file;
    enum facet_status status =
        facet_workload_add_device_node(building->workload, item->host, path, read_only ? "r" : "rw", building->error);

    if (status != FACET_OK || stat(item->host, &file) < 0 || !(S_ISCHR(file.st_mode) || S_ISBLK(file.st_mode)))
        return status;
    return facet_workload_set_device_numbers(building->workload, path, S_ISCHR(file.st_mode) ? 'c' : 'b',
                                             major(file.st_rdev), minor(file.st_rdev), building->error);
}

static enum facet_status add_item(struct building *building, const struct facet_container_item *item)
{
    bool read_only = item->flags & FACET_CONTAINER_READ_ONLY;

    switch (item->kind) {
    case FACET_CONTAINER_DEVICE_NODE:
        return add_node(building, item, read_only);
    case FACET_CONTAINER_MOUNT:
        return facet_workload_add_mount(
            building->workload,
            &(struct facet_workload_mount){.size = sizeof(struct facet_workload_mount),
                                           .writable = !read_only,
                                           .type = "bind",
                                           .source = item->host,
                                           .target = item->guest[0] ? item->guest : item->host},
            building->error);
    case FACET_CONTAINER_ENVIRONMENT:
        return item->guest[0] ? add_variable(building, item->guest, item->host) : FACET_OK;
    default:
        return FACET_OK;
    }
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static void warn_of_part(struct building *building, const struct reservation_part *part, const char *why)
{
    size_t used = strlen(building->warning);

    snprintf(building->warning + used, building->warning_size - used, "%s%s: %.120s", used ? "; " : "",
             part->facet_id[0] ? part->facet_id : part->device, why);
}

static const struct facet_device_record *device_of(const struct building *building, const struct reservation_part *part)
{
    for (uint32_t i = 0; i < facet_device_table_count(building->devices); i++) {
        const struct facet_device_record *device = facet_device_table_at(building->devices, i);
        if (strcmp(device->id, part->facet_id) == 0)
            return device;
    }
    return NULL;
}

static enum facet_status read_container_items(struct building *building, const struct facet_device_record *device,
                                              const struct reservation_part *part, void **ret_items,
                                              uint32_t *ret_count, struct facet_error *error)
{
    CLEANUP_USE struct provider_use use = {0};
    bool whole = strcmp(part->device, facet_node_device_id(building->devices, device)) == 0;
    enum facet_status status = sessions_use(building->sessions, device, &use, error);

    if (status != FACET_OK)
        return status;
    const struct facet_listing_query query = {.provider = use.provider,
                                              .instance = use.instance,
                                              .kind = FACET_LISTING_CONTAINER,
                                              .device = use.device,
                                              .text = whole ? "" : part->device};
    return facet_listing_read(&query, ret_items, ret_count, error);
}

static enum facet_status add_part(struct building *building, const struct reservation_part *part)
{
    const struct facet_device_record *device = device_of(building, part);
    FACET_CLEANUP_FREE void *items = NULL;
    struct facet_error reason;
    uint32_t count = 0;
    enum facet_status status = FACET_OK;

    if (part->trouble[0] || !device) {
        warn_of_part(building, part, part->trouble[0] ? part->trouble : "the device is not there");
        return FACET_OK;
    }
    bool lists_items = device->info.capabilities & FACET_CAN_CONTAINER;
    if (!facet_device_takes_programs(device))
        warn_of_part(building, part,
                     "it runs kernels only, of 'facet kernel run' and the library: no program can enter a vGPU there");
    else if (!lists_items)
        warn_of_part(building, part, "its provider does not say what a container needs");
    if (!lists_items)
        return FACET_OK;
    if (read_container_items(building, device, part, &items, &count, &reason) != FACET_OK) {
        warn_of_part(building, part, reason.message);
        return FACET_OK;
    }
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        status = add_item(building, &((struct facet_container_item *)items)[i]);
    return status;
}

static enum facet_status join_values(struct building *building, const char *name, const json_t *values)
{
    size_t size = 1, used = 0;

    for (size_t i = 0; i < json_array_size(values); i++)
        size += json_string_length(json_array_get(values, i)) + 1;
    FACET_CLEANUP_FREE char *text = calloc(1, size);
    if (!text)
        return facet_error_set(building->error, FACET_NO_MEMORY, "no memory for variable '%.60s'", name);
    for (size_t i = 0; i < json_array_size(values); i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "," : "",
                                 json_string_value(json_array_get(values, i)));
    return facet_workload_set(building->workload, FACET_WORKLOAD_ENVIRONMENT, name, text, building->error);
}

static enum facet_status build_workload(struct building *building, const struct reservation *reservation)
{
    enum facet_status status = FACET_OK;
    const char *name;
    json_t *values;

    if (reservation->id[0]) /* a planned reservation has no id */
        status = facet_workload_set(building->workload, FACET_WORKLOAD_RESOURCE_DATA, "FACET_RESERVATION",
                                    reservation->id, building->error);
    for (uint32_t i = 0; status == FACET_OK && i < reservation->part_count; i++)
        status = add_part(building, &reservation->parts[i]);
    json_object_foreach (building->environment, name, values) {
        if (status == FACET_OK)
            status = join_values(building, name, values);
    }
    return status;
}

enum facet_status workload_describe(const struct facet_device_table *devices, struct sessions *sessions,
                                    const struct reservation *reservation, struct facet_workload **ret_workload,
                                    char *ret_warning, size_t size, struct facet_error *error)
{
    CLEANUP_WORKLOAD struct facet_workload *workload = NULL;
    CLEANUP_JSON json_t *environment = json_object();
    enum facet_status status = environment ? facet_workload_create(&workload, error)
                                           : facet_error_set(error, FACET_NO_MEMORY, "no memory for a configuration");

    ret_warning[0] = '\0';
    if (status == FACET_OK)
        status = build_workload(&(struct building){devices, sessions, workload, environment, ret_warning, size, error},
                                reservation);
    if (status == FACET_OK)
        *ret_workload = FACET_TAKE_PTR(workload);
    return status;
}

/* --- a vGPU ------------------------------------------------------------------------------------------------------- */

/* Adds a file at the same path as on the host, so that a plain process finds it as well. */
static enum facet_status add_path(struct facet_workload *workload, const char *path, bool writable,
                                  struct facet_error *error)
{
    const struct facet_workload_mount mount = {
        .size = sizeof mount, .writable = writable, .type = "bind", .source = path, .target = path};

    return facet_workload_add_mount(workload, &mount, error);
}

/*
 * Adds the vGPU's segment. Its folder is read-only, and over it lie the files that tenants write: so a container's root
 * cannot change the limits, or remove a file.
 */
static enum facet_status add_segment(struct facet_workload *workload, const char *segment, struct facet_error *error)
{
    static const char *const written[] = {"usage", FACET_REFUSED_FILE};
    enum facet_status status = add_path(workload, segment, false, error);

    for (size_t i = 0; status == FACET_OK && i < sizeof written / sizeof *written; i++) {
        char path[FACET_PATH_SIZE];

        if ((size_t)snprintf(path, sizeof path, "%s/%s", segment, written[i]) >= sizeof path)
            return facet_error_set(error, FACET_OUT_OF_RANGE, "path of segment folder '%s' is too long", segment);
        status = add_path(workload, path, true, error);
    }
    return status;
}

/* A second configuration in one container replaces FACET_VGPU_DIR, and adds a variable of this name (given.h). */
static enum facet_status add_folder_variables(struct facet_workload *workload, const struct vgpu_info *vgpu,
                                              struct facet_error *error)
{
    char name[64];
    enum facet_status status =
        facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, FACET_ENV_VGPU_DIR, vgpu->segment, error);

    facet_given_variable(vgpu->row.id, name, sizeof name);
    return status == FACET_OK ? facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, name, vgpu->segment, error)
                              : status;
}

/* Adds the variables of the lines "NAME=value". */
static enum facet_status add_lines(struct facet_workload *workload, const struct vgpu_environment *environment,
                                   struct facet_error *error)
{
    struct vgpu_environment copy = *environment;
    enum facet_status status = FACET_OK;
    char *rest = NULL;

    for (char *line = strtok_r(copy.lines, "\n", &rest); status == FACET_OK && line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (!equals)
            continue;
        *equals = '\0';
        status = facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, line, equals + 1, error);
    }
    return status;
}

/* Sets the variable to "first", or to "first:before" when the configuration already has a list in it. */
static enum facet_status put_in_front(struct facet_workload *workload, const char *variable, const char *first,
                                      const json_t *environment, struct facet_error *error)
{
    const char *before = json_string_value(json_object_get(environment, variable));
    char list[4 * FACET_PATH_SIZE];

    if ((size_t)snprintf(list, sizeof list, "%s%s%s", first, before ? ":" : "", before ? before : "") >= sizeof list)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "%s: its list is too long", variable);
    return facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, variable, list, error);
}

static enum facet_status add_libraries(struct facet_workload *workload, const char *folder, const char *preload,
                                       const json_t *environment, struct facet_error *error)
{
    enum facet_status status = add_path(workload, folder, false, error);

    if (status == FACET_OK)
        status = put_in_front(workload, "LD_LIBRARY_PATH", folder, environment, error);
    return status == FACET_OK ? put_in_front(workload, "LD_PRELOAD", preload, environment, error) : status;
}

/* Adds the variables that `facet run` sets for an NVIDIA GPU, and the libraries that they name. */
static enum facet_status enter_cuda(struct facet_workload *workload, const char *address, const json_t *environment,
                                    struct facet_error *error)
{
    struct facet_entrance_cuda entrance;
    enum facet_status status = facet_entrance_cuda_find(&entrance, error);

    if (status == FACET_OK)
        status = add_libraries(workload, entrance.folder, entrance.preload, environment, error);
    return status == FACET_OK
               ? facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, FACET_ENTRANCE_CUDA_VISIBLE, address, error)
               : status;
}

/* As enter_cuda(), for an AMD GPU, which is then the only visible one, with index 0. */
static enum facet_status enter_hip(struct facet_workload *workload, const char *address, const json_t *environment,
                                   struct facet_error *error)
{
    char uuid[sizeof((struct facet_segment_device *)0)->address];
    struct facet_entrance_hip entrance;
    enum facet_status status = facet_entrance_hip_find(&entrance, error);

    facet_entrance_hip_uuid(address, uuid, sizeof uuid);
    if (status == FACET_OK)
        status = add_libraries(workload, entrance.folder, entrance.preload, environment, error);
    if (status == FACET_OK)
        status = facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, FACET_ENTRANCE_HIP_VISIBLE, uuid, error);
    return status == FACET_OK
               ? facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, FACET_ENTRANCE_HIP_INDICES, "0", error)
               : status;
}

/*
 * Adds the libraries that only NVIDIA and AMD GPUs need; every OpenCL program loads the layer.
 */
static enum facet_status enter_device(struct facet_workload *workload, const struct vgpu_info *vgpu,
                                      struct facet_error *error)
{
    FACET_CLEANUP_FREE char *text = NULL;
    struct facet_segment_device device;
    enum facet_status status = facet_segment_read_device(vgpu->segment, &device, error);

    if (status == FACET_OK)
        status = facet_workload_write(workload, &text, error);
    if (status != FACET_OK)
        return status;
    CLEANUP_JSON json_t *document = json_loads(text, 0, NULL);
    const json_t *environment = json_object_get(document, "environment");
    if (facet_entrance_is_cuda(device.address))
        return enter_cuda(workload, device.address, environment, error);
    return facet_entrance_is_hip(device.address) ? enter_hip(workload, device.address, environment, error) : FACET_OK;
}

enum facet_status workload_enter(struct facet_workload *workload, const struct vgpu_info *vgpu, bool alone,
                                 struct facet_error *error)
{
    char layer[FACET_PATH_SIZE];
    enum facet_status status = facet_path_shipped("libfacet-opencl-layer.so", layer, sizeof layer, error);

    if (status == FACET_OK)
        status = add_path(workload, layer, false, error);
    if (status == FACET_OK)
        status = add_segment(workload, vgpu->segment, error);
    if (status == FACET_OK && alone)
        status = add_lines(workload, &vgpu->environment, error);
    if (status == FACET_OK)
        status = facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, "OPENCL_LAYERS", layer, error);
    if (status == FACET_OK) /* the name of ocl-icd 2.2, which does not know the former */
        status = facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, "OCL_ICD_LAYERS", layer, error);
    if (status == FACET_OK)
        status = enter_device(workload, vgpu, error);
    return status == FACET_OK ? add_folder_variables(workload, vgpu, error) : status;
}
