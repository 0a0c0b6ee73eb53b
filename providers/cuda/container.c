/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a container's access to a GPU or a partition: device nodes, and the variable that tells the vendor's container
 * runtime which libraries of the driver to mount.
 * Never: names a library: the vendor's runtime selects them.
 *
 * FACET_CUDA_ROOT: a folder used in place of / when the driver's tables are read; for tests.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cuda.h"

/* The driver's list of the minor numbers of nodes that give access to an instance: "gpu0/gi7/ci0/access 67". */
#define CAPABILITIES "/proc/driver/nvidia-caps/mig-minors"

static const char *const shared_nodes[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"};

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MAX_ITEMS    (1 + COUNT(shared_nodes) + 2 + 1)

struct items {
    struct facet_container_item list[MAX_ITEMS];
    uint32_t count;
};

static void add_item(struct items *items, uint32_t kind, const char *host, const char *guest)
{
    struct facet_container_item *item = &items->list[items->count++];

    *item = (struct facet_container_item){.size = sizeof *item, .kind = kind};
    FACET_KIT_TEXT(item->host, host);
    FACET_KIT_TEXT(item->guest, guest);
}

static void add_node(struct items *items, const char *path)
{
    add_item(items, FACET_CONTAINER_DEVICE_NODE, path, path);
}

static FILE *open_capabilities(void)
{
    const char *root = getenv("FACET_CUDA_ROOT");
    char path[1024];

    if ((size_t)snprintf(path, sizeof path, "%s" CAPABILITIES, root ? root : "") >= sizeof path)
        return NULL;
    return fopen(path, "re");
}

bool cuda_has_part_nodes(void)
{
    FILE *file = open_capabilities();

    if (file)
        fclose(file);
    return file != NULL;
}

/* Adds the node that gives access to `what` ("gpu0/gi7"); false when the driver has none for it. */
static bool add_capability(struct items *items, const char *what)
{
    FILE *file = open_capabilities();
    char name[64], wanted[80], path[64];
    unsigned number;
    bool found = false;

    snprintf(wanted, sizeof wanted, "%s/access", what);
    while (file && !found && fscanf(file, "%63s %u", name, &number) == 2)
        found = strcmp(name, wanted) == 0;
    if (file)
        fclose(file);
    if (!found)
        return false;
    snprintf(path, sizeof path, "/dev/nvidia-caps/nvidia-cap%u", number);
    add_node(items, path);
    return true;
}

static void add_common(struct items *items, const struct cuda_gpu *gpu, const char *uuid)
{
    char path[32];

    /* With MIG on, the GPU's own node is of no use without the nodes of an instance. */
    snprintf(path, sizeof path, "/dev/nvidia%u", gpu->minor);
    add_node(items, path);
    for (size_t i = 0; i < COUNT(shared_nodes); i++)
        add_node(items, shared_nodes[i]);
    add_item(items, FACET_CONTAINER_ENVIRONMENT, uuid, "NVIDIA_VISIBLE_DEVICES");
}

static enum facet_status add_part(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                  struct items *items, struct facet_error *error)
{
    const struct cuda_gpu *gpu = &instance->gpus[device];
    struct cuda_part parts[CUDA_MAX_PARTS];
    uint32_t count = 0, at = 0;
    char what[64];

    pthread_mutex_lock(&instance->parts_lock);
    enum facet_status status = gpu->is_partitioned ? cuda_parts_read(instance, device, parts, &count, error) : FACET_OK;
    pthread_mutex_unlock(&instance->parts_lock);
    if (status != FACET_OK)
        return status;
    while (at < count && strcmp(parts[at].info.uuid, uuid) != 0)
        at++;
    if (at == count || !parts[at].mig)
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.64s': device %" PRIu32 " has no such MIG device",
                              uuid, device);
    snprintf(what, sizeof what, "gpu%u/gi%u", gpu->minor, parts[at].instance_id);
    bool has_both = add_capability(items, what);
    snprintf(what, sizeof what, "gpu%u/gi%u/ci%u", gpu->minor, parts[at].instance_id, parts[at].compute_id);
    has_both = has_both && add_capability(items, what);
    if (!has_both)
        return facet_kit_fail(error, FACET_IO, CAPABILITIES ": no node for %s", what);
    return FACET_OK;
}

static enum facet_status cuda_container_items(struct facet_provider_instance *instance, uint32_t device,
                                              const char *partition_uuid, void *items, uint32_t item_size,
                                              uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct items found = {0};
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_CONTAINER, error);
    bool is_part = partition_uuid && *partition_uuid;

    if (status != FACET_OK)
        return status;
    add_common(&found, &instance->gpus[device], is_part ? partition_uuid : instance->gpu.infos[device].uuid);
    if (is_part)
        status = add_part(instance, device, partition_uuid, &found, error);
    if (status != FACET_OK)
        return status;
    return facet_kit_list_items(found.list, sizeof *found.list, found.count, items, item_size, capacity, ret_count,
                                error);
}

const struct facet_container_ops cuda_container_ops = {
    .size = sizeof cuda_container_ops,
    .items = cuda_container_items,
};
