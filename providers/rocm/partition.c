/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: compute partitions: the templates of a GPU, and the holders of its parts.
 * Never: changes the mode of a GPU whose parts have holders, or that a process uses, or the mode of its memory.
 *
 * A GPU's compute dies are its slices. A mode ("CPX") partitions all dies at once, into equal parts. So there is one
 * template for each mode, named by the modes of compute and memory: "CPX/NPS1". Taking the first part of a GPU sets the
 * template's mode; releasing the last part restores the earlier mode. An administrator sets the mode of the memory, and
 * only templates that are compatible with it are listed.
 *
 * A part has its own memory only if there are as many parts of memory as of compute. Otherwise several parts share one
 * part of memory, and the driver does not report their shares.
 */
#include <stdlib.h>

#include "rocm.h"
#include "sysfs.h"

#define MAX_MODES 8u

struct template
{
    char mode[ROCM_MODE_SIZE];
    struct facet_partition_template info;
};

/* The state of a GPU, with the file of its holdings locked. */
struct view {
    const struct facet_provider_instance *instance;
    uint32_t device;
    const struct rocm_gpu *gpu;
    struct rocm_modes modes;
    struct rocm_holdings holdings;
    struct template templates[MAX_MODES];
    uint32_t template_count;
};

static uint32_t memory_parts(const char *memory)
{
    unsigned long parts = strtoul(memory + strlen("NPS"), NULL, 10);

    return parts >= 1 && parts <= ROCM_MAX_PARTS ? (uint32_t)parts : 0;
}

/* The driver's rule: each part of memory serves the same number of parts of compute. */
static bool modes_are_compatible(const char *compute, uint32_t parts, uint32_t memory_part_count)
{
    if (memory_part_count == 1 || parts == memory_part_count)
        return true;
    return memory_part_count && strcmp(compute, "CPX") == 0 && parts % memory_part_count == 0;
}

static void list_templates(struct view *view)
{
    const struct facet_device_info *whole = &view->instance->gpu.infos[view->device];
    uint32_t memory_part_count = memory_parts(view->modes.memory), dies = view->gpu->dies;
    char available[MAX_MODES][ROCM_MODE_SIZE];
    uint32_t count = rocm_modes_available(view->gpu, available, MAX_MODES);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t parts = rocm_mode_parts(available[i], dies);
        struct template *template = &view->templates[view->template_count];

        if (parts < 2 || dies % parts || parts > ROCM_MAX_PARTS ||
            !modes_are_compatible(available[i], parts, memory_part_count))
            continue;
        *template = (struct template){.info = {.size = sizeof template->info,
                                               .compute_units = whole->compute_units / parts,
                                               .compute_milli = FACET_MILLI_WHOLE / parts,
                                               .length = dies / parts,
                                               .max_count = parts}};
        FACET_KIT_TEXT(template->mode, available[i]);
        snprintf(template->info.id, sizeof template->info.id, "%.15s/%.15s", available[i], view->modes.memory);
        if (parts == memory_part_count) {
            template->info.memory_bytes = whole->memory_bytes / parts;
            template->info.valid = FACET_PARTITION_HAS_MEMORY;
        }
        view->template_count++;
    }
}

bool rocm_is_partitioned(const struct rocm_smi *smi, const struct rocm_gpu *gpu)
{
    const char *setting = getenv("FACET_ROCM_PARTITIONS");
    char available[MAX_MODES][ROCM_MODE_SIZE];
    struct rocm_modes modes;

    if (gpu->dies < 2 || !rocm_modes_read(smi, gpu, &modes) || rocm_modes_available(gpu, available, MAX_MODES) < 2)
        return false;
    return (setting && strcmp(setting, "1") == 0) || rocm_mode_parts(modes.compute, gpu->dies) != 1;
}

/* Reads the state of a GPU. After FACET_OK the caller must call close_view(). */
static enum facet_status open_view(struct facet_provider_instance *instance, uint32_t device, struct view *ret_view,
                                   struct facet_error *error)
{
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_PARTITION, error);

    if (status != FACET_OK)
        return status;
    *ret_view = (struct view){.instance = instance, .device = device, .gpu = &instance->gpus[device]};
    status = rocm_holdings_open(ret_view->gpu->pci, &ret_view->holdings, error);
    if (status != FACET_OK)
        return status;
    if (!rocm_modes_read(&instance->smi, ret_view->gpu, &ret_view->modes)) {
        rocm_holdings_close(&ret_view->holdings);
        return facet_kit_fail(error, FACET_DEVICE_LOST, "device %" PRIu32 ": its mode cannot be read any more", device);
    }
    rocm_holdings_settle(&ret_view->holdings, ret_view->modes.compute);
    list_templates(ret_view);
    return FACET_OK;
}

static void close_view(struct view *view)
{
    rocm_holdings_close(&view->holdings);
}

static const struct template *current_template(const struct view *view)
{
    for (uint32_t i = 0; i < view->template_count; i++)
        if (strcmp(view->templates[i].mode, view->modes.compute) == 0)
            return &view->templates[i];
    return NULL;
}

static enum facet_status find_template(const struct view *view, const char *id, const struct template **ret_template,
                                       struct facet_error *error)
{
    if (!id)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "template_id: expected the id of a template, not NULL");
    for (uint32_t i = 0; i < view->template_count; i++)
        if (strcmp(view->templates[i].info.id, id) == 0) {
            *ret_template = &view->templates[i];
            return FACET_OK;
        }
    return facet_kit_fail(error, FACET_NOT_FOUND, "template '%.32s': expected one that the device lists", id);
}

/* --- one part --- */

/*
 * The uuid of a part depends on its GPU and the time when it was taken: it is stable for its holder, and a later holder
 * gets another.
 */
static void name_part(const struct view *view, const struct template *template, uint32_t number, char uuid[64])
{
    char text[160];

    snprintf(text, sizeof text, "%s %s %" PRIu32 " %" PRIx64, view->instance->gpu.infos[view->device].uuid,
             template->info.id, number, view->holdings.names[number]);
    facet_kit_uuid_of(text, uuid);
}

/* The address has the unique id of the part's node, once the compute driver has a node for the part. */
static void address_part(const struct view *view, const struct template *template, uint32_t number, char *address,
                         size_t size)
{
    struct rocm_node nodes[ROCM_MAX_PARTS];
    uint32_t count = rocm_nodes_of(view->gpu->pci, nodes, ROCM_MAX_PARTS);

    for (uint32_t i = 0; count == template->info.max_count && i < count; i++)
        if (nodes[i].partition == number && (number == 0 || nodes[i].unique_id != view->gpu->unique_id))
            rocm_address_of(nodes[i].unique_id, address, size);
}

static void describe_use(const struct view *view, uint32_t number, struct facet_partition_info *info)
{
    struct rocm_process *processes = NULL;
    uint32_t count = 0;

    if (!rocm_can_list_processes(&view->instance->smi) ||
        rocm_processes_read(view->instance, view->device, &processes, &count, NULL) != FACET_OK)
        return;
    for (uint32_t i = 0; i < count; i++)
        info->in_use |= processes[i].partition == number;
    info->valid |= FACET_PARTITION_HAS_USE;
    free(processes);
}

static void describe_part(const struct view *view, const struct template *template, uint32_t number,
                          struct facet_partition_info *ret_info)
{
    *ret_info = (struct facet_partition_info){.size = sizeof *ret_info,
                                              .valid = template->info.valid,
                                              .device = view->device,
                                              .start = number * template->info.length,
                                              .length = template->info.length,
                                              .memory_bytes = template->info.memory_bytes,
                                              .compute_units = template->info.compute_units,
                                              .compute_milli = template->info.compute_milli};
    FACET_KIT_TEXT(ret_info->template_id, template->info.id);
    name_part(view, template, number, ret_info->uuid);
    address_part(view, template, number, ret_info->address, sizeof ret_info->address);
    describe_use(view, number, ret_info);
}

/* --- operations --- */

static enum facet_status rocm_partition_templates(struct facet_provider_instance *instance, uint32_t device,
                                                  void *items, uint32_t item_size, uint32_t capacity,
                                                  uint32_t *ret_count, struct facet_error *error)
{
    struct facet_partition_template found[MAX_MODES];
    struct view view;
    enum facet_status status = open_view(instance, device, &view, error);

    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < view.template_count; i++)
        found[i] = view.templates[i].info;
    close_view(&view);
    return facet_kit_list_items(found, sizeof *found, view.template_count, items, item_size, capacity, ret_count,
                                error);
}

/* Whether the GPU is, or could be put, into the mode of a template. */
static bool can_enter_mode(const struct view *view, const struct template *template)
{
    struct rocm_process *processes = NULL;
    uint32_t count = 0;

    if (strcmp(template->mode, view->modes.compute) == 0)
        return true;
    if (view->holdings.held_parts)
        return false;
    if (!rocm_can_list_processes(&view->instance->smi))
        return true;
    bool read = rocm_processes_read(view->instance, view->device, &processes, &count, NULL) == FACET_OK;
    free(processes);
    return read && count == 0;
}

static enum facet_status rocm_partition_placements(struct facet_provider_instance *instance, uint32_t device,
                                                   const char *template_id, void *items, uint32_t item_size,
                                                   uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_partition_placement found[ROCM_MAX_PARTS];
    const struct template *template = NULL;
    struct view view;
    enum facet_status status = open_view(instance, device, &view, error);
    uint32_t count = 0;

    if (status != FACET_OK)
        return status;
    status = find_template(&view, template_id, &template, error);
    bool open = status == FACET_OK && can_enter_mode(&view, template);
    for (; status == FACET_OK && count < template->info.max_count; count++)
        found[count] = (struct facet_partition_placement){.size = sizeof *found,
                                                          .start = count * template->info.length,
                                                          .length = template->info.length,
                                                          .free = open && !(view.holdings.held_parts >> count & 1)};
    close_view(&view);
    if (status != FACET_OK)
        return status;
    return facet_kit_list_items(found, sizeof *found, count, items, item_size, capacity, ret_count, error);
}

static enum facet_status pick_place(const struct view *view, const struct template *template, uint32_t start,
                                    uint32_t *ret_number, struct facet_error *error)
{
    uint32_t length = template->info.length, number = start / length;

    if (start != FACET_PLACEMENT_ANY && (start % length || number >= template->info.max_count))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "start %" PRIu32 ": expected a placement of '%s'", start,
                              template->info.id);
    if (view->holdings.held_parts && strcmp(template->mode, view->modes.compute) != 0)
        return facet_kit_fail(error, FACET_NO_SPACE, "device %" PRIu32 " is in mode %s, and parts of it are taken",
                              view->device, view->modes.compute);
    for (number = start == FACET_PLACEMENT_ANY ? 0 : number;
         start == FACET_PLACEMENT_ANY && number < template->info.max_count && view->holdings.held_parts >> number & 1;)
        number++;
    if (number == template->info.max_count || view->holdings.held_parts >> number & 1)
        return facet_kit_fail(error, FACET_NO_SPACE, "device %" PRIu32 ": partition %" PRIu32 " of '%s' is taken",
                              view->device, number, template->info.id);
    *ret_number = number;
    return FACET_OK;
}

static enum facet_status enter_mode(struct view *view, const struct template *template, struct facet_error *error)
{
    if (strcmp(template->mode, view->modes.compute) == 0)
        return FACET_OK;
    enum facet_status status = rocm_mode_set(&view->instance->smi, view->gpu, template->mode, error);
    if (status != FACET_OK)
        return status;
    FACET_KIT_TEXT(view->holdings.previous, view->modes.compute);
    FACET_KIT_TEXT(view->holdings.mode, template->mode);
    FACET_KIT_TEXT(view->modes.compute, template->mode);
    return FACET_OK;
}

static enum facet_status take_partition(struct view *view, const char *template_id, uint32_t start,
                                        struct facet_partition_info *ret_info, struct facet_error *error)
{
    const struct template *template = NULL;
    uint32_t number = 0;
    enum facet_status status = find_template(view, template_id, &template, error);

    if (status == FACET_OK)
        status = pick_place(view, template, start, &number, error);
    if (status == FACET_OK)
        status = enter_mode(view, template, error);
    if (status != FACET_OK)
        return status;
    rocm_holdings_take(&view->holdings, number);
    status = rocm_holdings_write(&view->holdings, error);
    if (status == FACET_OK)
        describe_part(view, template, number, ret_info);
    return status;
}

static enum facet_status rocm_partition_create(struct facet_provider_instance *instance, uint32_t device,
                                               const char *template_id, uint32_t start,
                                               struct facet_partition_info *ret_info, struct facet_error *error)
{
    struct facet_partition_info info;
    struct view view;
    enum facet_status status = open_view(instance, device, &view, error);

    if (status != FACET_OK)
        return status;
    /* Nothing is taken for a caller that has no room for the answer. */
    if (!ret_info || ret_info->size < sizeof ret_info->size)
        status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_info: expected a struct with its size set");
    if (status == FACET_OK)
        status = take_partition(&view, template_id, start, &info, error);
    close_view(&view);
    if (status != FACET_OK)
        return status;
    rocm_event_of_partition(instance, device, info.uuid, true);
    return facet_kit_struct(&info, sizeof info, ret_info, error);
}

static enum facet_status rocm_partition_list(struct facet_provider_instance *instance, uint32_t device, void *items,
                                             uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                             struct facet_error *error)
{
    struct facet_partition_info found[ROCM_MAX_PARTS];
    struct view view;
    enum facet_status status = open_view(instance, device, &view, error);
    uint32_t count = 0;

    if (status != FACET_OK)
        return status;
    const struct template *template = current_template(&view);
    for (uint32_t number = 0; template && number < template->info.max_count; number++)
        if (view.holdings.held_parts >> number & 1)
            describe_part(&view, template, number, &found[count++]);
    close_view(&view);
    return facet_kit_list_items(found, sizeof *found, count, items, item_size, capacity, ret_count, error);
}

/* Finds the part that a uuid names among the parts that have holders. */
static enum facet_status find_part(const struct view *view, const char *uuid, uint32_t *ret_number,
                                   struct facet_error *error)
{
    const struct template *template = current_template(view);
    char name[64];

    if (!uuid)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "uuid: expected that of a partition, not NULL");
    for (uint32_t number = 0; template && number < template->info.max_count; number++) {
        if (!(view->holdings.held_parts >> number & 1))
            continue;
        name_part(view, template, number, name);
        if (strcmp(name, uuid) == 0) {
            *ret_number = number;
            return FACET_OK;
        }
    }
    return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.64s': device %" PRIu32 " has no such one", uuid,
                          view->device);
}

static enum facet_status release_partition(struct view *view, const char *uuid, struct facet_error *error)
{
    struct facet_partition_info info = {0};
    uint32_t number = 0;
    enum facet_status status = find_part(view, uuid, &number, error);

    if (status != FACET_OK)
        return status;
    describe_use(view, number, &info);
    if (info.in_use)
        return facet_kit_fail(error, FACET_BUSY, "partition '%.64s': a process uses it", uuid);
    view->holdings.held_parts &= ~(UINT32_C(1) << number);
    status = rocm_holdings_write(&view->holdings, error);
    /*
     * If no part has a holder any more, the earlier mode is restored. A failure is ignored: the next create, or an
     * administrator, can change the mode.
     */
    if (status == FACET_OK && !view->holdings.held_parts && strcmp(view->holdings.previous, view->holdings.mode) != 0)
        rocm_mode_set(&view->instance->smi, view->gpu, view->holdings.previous, NULL);
    return status;
}

static enum facet_status rocm_partition_destroy(struct facet_provider_instance *instance, uint32_t device,
                                                const char *uuid, struct facet_error *error)
{
    struct view view;
    enum facet_status status = open_view(instance, device, &view, error);

    if (status != FACET_OK)
        return status;
    status = release_partition(&view, uuid, error);
    close_view(&view);
    if (status == FACET_OK)
        rocm_event_of_partition(instance, device, uuid, false);
    return status;
}

enum facet_status rocm_check_whole(const struct facet_provider_instance *instance, uint32_t device,
                                   struct facet_error *error)
{
    const struct rocm_gpu *gpu = &instance->gpus[device];
    struct rocm_modes modes;

    if (gpu->dies < 2 || !rocm_modes_read(&instance->smi, gpu, &modes) ||
        rocm_mode_parts(modes.compute, gpu->dies) == 1)
        return FACET_OK;
    return facet_kit_fail(error, FACET_BUSY,
                          "device %" PRIu32 " is partitioned (mode %s): expected one of its partitions", device,
                          modes.compute);
}

enum facet_status rocm_part_find(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                 uint32_t *ret_number, uint32_t *ret_parts, struct facet_error *error)
{
    struct view view;
    enum facet_status status = open_view(instance, device, &view, error);

    if (status != FACET_OK)
        return status;
    status = find_part(&view, uuid, ret_number, error);
    if (status == FACET_OK)
        *ret_parts = current_template(&view)->info.max_count;
    close_view(&view);
    return status;
}

const struct facet_partition_ops rocm_partition_ops = {
    .size = sizeof rocm_partition_ops,
    .templates = rocm_partition_templates,
    .placements = rocm_partition_placements,
    .create = rocm_partition_create,
    .list = rocm_partition_list,
    .destroy = rocm_partition_destroy,
};
