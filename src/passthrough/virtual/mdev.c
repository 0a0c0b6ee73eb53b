/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: making and removing mediated devices. Never: makes a device last beyond a reboot. */
#include <facet/virtual.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "passthrough/scan/tree.h"
#include "passthrough/virtual/sysfs.h"

enum { PATH_SIZE = 192, TYPE_SIZE = 64 };

struct making {
    int root;
    int parent;
    const struct facet_mdev_request *request;
    char uuids[FACET_MDEV_COUNT][FACET_MDEV_UUID_SIZE];
    uint32_t done;
};

/* --- names --- */

static bool is_uuid(const char *text)
{
    size_t i = 0;

    for (; i + 1 < FACET_MDEV_UUID_SIZE && text[i]; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f') ||
                   (text[i] >= 'A' && text[i] <= 'F');
        if (dash ? text[i] != '-' : !hex)
            return false;
    }
    return i + 1 == FACET_MDEV_UUID_SIZE && !text[i];
}

/* Copies a UUID in lower case, as the kernel writes it. */
static enum facet_status copy_uuid(const char *text, char ret_uuid[FACET_MDEV_UUID_SIZE], struct facet_error *error)
{
    if (!text || !is_uuid(text))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "uuid",
                                    "uuid '%.60s': expected one like "
                                    "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001",
                                    text ? text : "");
    for (size_t i = 0; i < FACET_MDEV_UUID_SIZE; i++)
        ret_uuid[i] = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] + 32 : text[i]);
    return FACET_OK;
}

static enum facet_status make_uuid(char ret_uuid[FACET_MDEV_UUID_SIZE], struct facet_error *error)
{
    uint8_t b[16];

    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return facet_error_errno(error, errno, "no random numbers for a UUID");
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); /* version 4: random */
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    snprintf(ret_uuid, FACET_MDEV_UUID_SIZE, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return FACET_OK;
}

static enum facet_status name_devices(struct making *making, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; status == FACET_OK && i < making->request->count; i++) {
        status = making->request->uuids ? copy_uuid(making->request->uuids[i], making->uuids[i], error)
                                        : make_uuid(making->uuids[i], error);
        for (uint32_t j = 0; status == FACET_OK && j < i; j++)
            if (strcmp(making->uuids[i], making->uuids[j]) == 0)
                status = facet_error_argument(error, FACET_INVALID_ARGUMENT, "uuids", "uuid '%s' is named twice",
                                              making->uuids[i]);
    }
    return status;
}

/* --- the types that can be made --- */

static bool take_name(void *context, char *name)
{
    facet_names_add(context, name);
    return true;
}

static enum facet_status check_type(const struct making *making, struct facet_error *error)
{
    char path[PATH_SIZE];
    struct facet_names types = {0};
    const char *type = making->request->type;

    tree_each_name(making->parent, "mdev_supported_types", take_name, &types);
    if (!types.text[0])
        return facet_error_set(error, FACET_UNSUPPORTED, "its driver makes no mediated devices");
    snprintf(path, sizeof path, "mdev_supported_types/%s", type);
    if (!tree_exists(making->parent, path))
        return facet_error_argument(error, FACET_UNSUPPORTED, "type", "type '%s' is not known; expected one of %s",
                                    type, types.text);
    return FACET_OK;
}

/* Checks that enough devices can be made. An unreadable count is accepted, because the kernel itself refuses then. */
static enum facet_status check_room(const struct making *making, struct facet_error *error)
{
    char path[PATH_SIZE];
    uint64_t left = 0;

    snprintf(path, sizeof path, "mdev_supported_types/%s/available_instances", making->request->type);
    if (tree_read_number(making->parent, path, 10, UINT32_MAX, &left) != FACET_PCI_READ ||
        left >= making->request->count)
        return FACET_OK;
    return facet_error_set(error, FACET_NO_SPACE, "type '%s': %" PRIu64 " can be made now, %" PRIu32 " are wanted",
                           making->request->type, left, making->request->count);
}

static void device_path(const char *uuid, char ret_path[PATH_SIZE])
{
    snprintf(ret_path, PATH_SIZE, "sys/bus/mdev/devices/%s", uuid);
}

static enum facet_status check_unused(const struct making *making, struct facet_error *error)
{
    char path[PATH_SIZE];

    for (uint32_t i = 0; i < making->request->count; i++) {
        device_path(making->uuids[i], path);
        if (tree_exists(making->root, path))
            return facet_error_argument(error, FACET_ALREADY_EXISTS, "uuid", "'%s' is there already", making->uuids[i]);
    }
    return FACET_OK;
}

/* --- making --- */

static enum facet_status remove_device(int root, const char *uuid, struct facet_error *error)
{
    char path[PATH_SIZE];

    device_path(uuid, path);
    FACET_CLEANUP_FD int device = tree_open_directory(root, path);
    if (device < 0)
        return facet_error_argument(error, FACET_NOT_FOUND, "uuid", "there is no mediated device '%s'", uuid);
    enum facet_status status = facet_sysfs_write(device, "remove", "1", error);
    if (status == FACET_OK && tree_exists(root, path))
        return facet_error_set(error, FACET_BAD_STATE, "the kernel did not remove '%s'", uuid);
    return status;
}

static enum facet_status make_device(const struct making *making, const char *uuid, struct facet_error *error)
{
    char path[PATH_SIZE], type[TYPE_SIZE] = "";

    snprintf(path, sizeof path, "mdev_supported_types/%s/create", making->request->type);
    enum facet_status status = facet_sysfs_write(making->parent, path, uuid, error);
    if (status != FACET_OK)
        return status;
    device_path(uuid, path);
    FACET_CLEANUP_FD int device = tree_open_directory(making->root, path);
    if (device < 0)
        return facet_error_set(error, FACET_BAD_STATE, "the kernel did not make '%s'", uuid);
    if (tree_read_link_name(device, "mdev_type", type, sizeof type) != FACET_PCI_READ ||
        strcmp(type, making->request->type) != 0)
        return facet_error_set(error, FACET_BAD_STATE, "'%s' became of type '%s', not '%s'", uuid, type,
                               making->request->type);
    return FACET_OK;
}

static void undo_making(const struct making *making, struct facet_error *error)
{
    for (uint32_t i = making->done; i > 0; i--) {
        enum facet_status status = remove_device(making->root, making->uuids[i - 1], NULL);
        if (status != FACET_OK && status != FACET_NOT_FOUND)
            facet_sysfs_add_not_undone(error, making->uuids[i - 1]);
    }
}

static enum facet_status make_devices(struct making *making, struct facet_error *error)
{
    enum facet_status status = check_type(making, error);

    if (status == FACET_OK)
        status = check_room(making, error);
    if (status == FACET_OK)
        status = check_unused(making, error);
    while (status == FACET_OK && making->done < making->request->count)
        status = make_device(making, making->uuids[making->done++], error);
    if (status != FACET_OK)
        undo_making(making, error);
    return status;
}

static enum facet_status check_request(const struct facet_mdev_request *request, struct facet_error *error)
{
    if (!request || request->size != sizeof *request)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request", "request: expected one of size %zu",
                                    sizeof *request);
    if (request->count < 1 || request->count > FACET_MDEV_COUNT)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "count", "count %" PRIu32 ": expected 1 to %u",
                                    request->count, FACET_MDEV_COUNT);
    if (!request->type || !request->type[0] || strlen(request->type) >= TYPE_SIZE || strchr(request->type, '/') ||
        request->type[0] == '.')
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "type", "type '%.70s': expected one of the parent's",
                                    request->type ? request->type : "");
    return FACET_OK;
}

enum facet_status facet_mdev_create(int root, const struct facet_mdev_request *request,
                                    char (*ret_uuids)[FACET_MDEV_UUID_SIZE], struct facet_error *error)
{
    struct making making = {.root = root, .request = request};
    char address[FACET_PCI_ADDRESS_SIZE];
    enum facet_status status = check_request(request, error);

    if (status == FACET_OK)
        status = name_devices(&making, error);
    if (status != FACET_OK)
        return status;
    struct facet_error why = {0};
    FACET_CLEANUP_FD int parent = facet_sysfs_open_function(root, &request->parent, &why);
    making.parent = parent;
    status = parent < 0 ? why.status : make_devices(&making, &why);
    if (status == FACET_OK) {
        memcpy(ret_uuids, making.uuids, request->count * sizeof making.uuids[0]);
        return FACET_OK;
    }
    facet_pci_address_print(&request->parent, address);
    if (parent >= 0)
        facet_error_prefix(&why, "'%s'", address);
    if (error)
        *error = why;
    return status;
}

enum facet_status facet_mdev_remove(int root, const char *uuid, struct facet_error *error)
{
    char path[PATH_SIZE], name[FACET_MDEV_UUID_SIZE];
    int64_t pid = 0;
    enum facet_status status = copy_uuid(uuid, name, error);

    if (status != FACET_OK)
        return status;
    device_path(name, path);
    FACET_CLEANUP_FD int device = tree_open_directory(root, path);
    if (device >= 0)
        status = facet_sysfs_holder(root, device, &pid, error);
    if (status != FACET_OK)
        return facet_error_prefix(error, "whether '%s' is in use", name);
    if (pid)
        return facet_error_set(error, FACET_BUSY, "'%s' is open in process %" PRId64, name, pid);
    return remove_device(root, name, error);
}
