/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a container's access to a chip: its node, the nodes that all chips share, the driver's files.
 * Never: names a file of the driver's that is not on this machine.
 *
 * FACET_ASCEND_ROOT: a folder that holds the driver's files, instead of /; for tests.
 */
#include <stdlib.h>
#include <unistd.h>

#include "ascend.h"

/* The nodes and files of the driver that its installation guide lists for containers. */
static const char *const shared_nodes[] = {"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"};
static const char *const driver_files[] = {"/usr/local/Ascend/driver/lib64", "/usr/local/Ascend/driver/version.info",
                                           "/usr/local/dcmi", "/usr/local/bin/npu-smi", "/etc/ascend_install.info"};

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MAX_ITEMS    (2 + COUNT(shared_nodes) + COUNT(driver_files))

static void fill_item(struct facet_container_item *item, uint32_t kind, const char *host, const char *guest)
{
    *item = (struct facet_container_item){.size = sizeof *item, .kind = kind};
    item->flags = kind == FACET_CONTAINER_MOUNT ? FACET_CONTAINER_READ_ONLY : 0;
    FACET_KIT_TEXT(item->host, host);
    FACET_KIT_TEXT(item->guest, guest);
}

static bool file_exists(const char *file)
{
    const char *root = getenv("FACET_ASCEND_ROOT");
    char path[1024];

    return (size_t)snprintf(path, sizeof path, "%s%s", root ? root : "", file) < sizeof path && access(path, F_OK) == 0;
}

static uint32_t collect_items(const struct ascend_chip *chip, struct facet_container_item *items)
{
    char node[32], number[16];
    uint32_t count = 0;

    snprintf(node, sizeof node, "/dev/davinci%u", chip->physical);
    snprintf(number, sizeof number, "%u", chip->physical);
    fill_item(&items[count++], FACET_CONTAINER_DEVICE_NODE, node, node);
    for (size_t i = 0; i < COUNT(shared_nodes); i++)
        fill_item(&items[count++], FACET_CONTAINER_DEVICE_NODE, shared_nodes[i], shared_nodes[i]);
    for (size_t i = 0; i < COUNT(driver_files); i++) {
        if (file_exists(driver_files[i]))
            fill_item(&items[count++], FACET_CONTAINER_MOUNT, driver_files[i], driver_files[i]);
    }
    fill_item(&items[count++], FACET_CONTAINER_ENVIRONMENT, number, "ASCEND_VISIBLE_DEVICES");
    return count;
}

static enum facet_status ascend_container_items(struct facet_provider_instance *instance, uint32_t device,
                                                const char *partition_uuid, void *items, uint32_t item_size,
                                                uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_container_item found[MAX_ITEMS];
    enum facet_status status = ascend_device_check(instance, device, FACET_CAN_CONTAINER, error);

    if (status != FACET_OK)
        return status;
    if (partition_uuid && *partition_uuid)
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.64s': Ascend devices have none", partition_uuid);
    return facet_kit_list_items(found, sizeof *found, collect_items(&instance->chips[device], found), items, item_size,
                                capacity, ret_count, error);
}

const struct facet_container_ops ascend_container_ops = {
    .size = sizeof ascend_container_ops,
    .items = ascend_container_items,
};
