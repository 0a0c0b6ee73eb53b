/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small helpers for providers, so that each keeps the rules of facet/provider.h in the same way.
 *
 * Owns: the entry point, the checks that every operation begins with, texts, the two-call rule, copies of structs in
 * the size that the host knows, generated stable uuids, devices as nodes of the topology, error texts, the time of day.
 * Never: needs a library. A provider compiles against include/facet/ and this header, and links to neither libfacet nor
 * the kit, so all functions are static.
 *
 * providers/null shows how to use it.
 */
#ifndef FACET_PROVIDER_KIT_H
#define FACET_PROVIDER_KIT_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <facet/provider.h>

#define FACET_KIT_UNUSED __attribute__((unused))

/* Fills `error` (when not NULL) and returns `status`: providers do not link to the library that has facet_error_set. */
FACET_KIT_UNUSED FACET_PRINTF(3, 4) static enum facet_status
    facet_kit_fail(struct facet_error *error, enum facet_status status, const char *format, ...)
{
    va_list arguments;

    if (!error)
        return status;
    error->status = status;
    error->argument[0] = '\0';
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status;
}

/* The timestamp of readings and events. */
FACET_KIT_UNUSED static uint64_t facet_kit_now_ns(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The first check of an entry point: the major version must be the one that this provider was built for. */
FACET_KIT_UNUSED static enum facet_status facet_kit_check_host(const struct facet_provider_host *host)
{
    if (host->size >= sizeof *host && host->abi_major == FACET_PROVIDER_ABI_MAJOR)
        return FACET_OK;
    /* The place of `error` is unknown in a host of another major version, so it is not written. */
    return FACET_ABI_MISMATCH;
}

/* Does all that an entry point must do: returns `provider`, static data, to a compatible host. */
FACET_KIT_UNUSED static enum facet_status facet_kit_enter(const struct facet_provider_host *host,
                                                          const struct facet_provider *provider,
                                                          const struct facet_provider **ret_provider)
{
    enum facet_status status = facet_kit_check_host(host);

    if (status == FACET_OK)
        *ret_provider = provider;
    return status;
}

/* Copies `source` as printable ASCII without blanks at its ends, cut to fit; other characters become '_'. */
FACET_KIT_UNUSED static void facet_kit_text(char *target, size_t size, const char *source)
{
    size_t length = 0;

    while (*source == ' ')
        source++;
    for (; length + 1 < size && source[length]; length++)
        target[length] = source[length] < 0x20 || source[length] > 0x7e ? '_' : source[length];
    while (length > 0 && target[length - 1] == ' ')
        length--;
    target[length] = '\0';
}

/* facet_kit_text() for an array member. */
#define FACET_KIT_TEXT(array, source) facet_kit_text((array), sizeof(array), (source))

/* A device as a node of the topology. */
FACET_KIT_UNUSED static struct facet_topology_node facet_kit_device_node(const struct facet_device_info *info)
{
    struct facet_topology_node node;

    memset(&node, 0, sizeof node);
    node.size = sizeof node;
    node.index = info->index;
    node.kind = FACET_NODE_DEVICE;
    node.valid = FACET_NODE_HAS_DEVICE;
    node.device = info->index;
    if (info->valid & FACET_DEVICE_HAS_NUMA) {
        node.valid |= FACET_NODE_HAS_NUMA;
        node.numa_node = info->numa_node;
    }
    FACET_KIT_TEXT(node.uuid, info->uuid);
    FACET_KIT_TEXT(node.name, info->name);
    FACET_KIT_TEXT(node.pci_address, info->pci_address);
    return node;
}

/*
 * The two-call rule, for a list of any struct: returns all `count` items of `source_size` bytes at `source`; if
 * `capacity` is less than `count`, returns only `count`. Copies no more of each item than the host's struct has room
 * for, and sets the copy's `size` to the copied bytes.
 */
FACET_KIT_UNUSED static enum facet_status facet_kit_list_items(const void *source, uint32_t source_size, uint32_t count,
                                                               void *items, uint32_t item_size, uint32_t capacity,
                                                               uint32_t *ret_count, struct facet_error *error)
{
    uint32_t size = item_size < source_size ? item_size : source_size;

    if (!ret_count)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_count: expected a place for the count, not NULL");
    if (size < sizeof size)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "item_size %" PRIu32 ": expected at least %zu", item_size,
                              sizeof size);
    if (!items && capacity > 0)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "items: expected room for %" PRIu32 ", not NULL",
                              capacity);
    *ret_count = count;
    if (capacity < count)
        return facet_kit_fail(error, FACET_TOO_SMALL, "room for %" PRIu32 " items, expected %" PRIu32, capacity, count);
    for (uint32_t i = 0; i < count; i++) {
        char *item = (char *)items + (size_t)i * item_size;

        memcpy(item, (const char *)source + (size_t)i * source_size, size);
        memcpy(item, &size, sizeof size);
    }
    return FACET_OK;
}

/* facet_kit_list_items() for facet_device_ops.list. */
FACET_KIT_UNUSED static enum facet_status facet_kit_list(const struct facet_device_info *devices, uint32_t count,
                                                         void *infos, uint32_t info_size, uint32_t capacity,
                                                         uint32_t *ret_count, struct facet_error *error)
{
    return facet_kit_list_items(devices, sizeof *devices, count, infos, info_size, capacity, ret_count, error);
}

/*
 * Copies one struct to the host's at `target`: as much of the `source_size` bytes at `source` as its `size` has room
 * for.
 */
FACET_KIT_UNUSED static enum facet_status facet_kit_struct(const void *source, uint32_t source_size, void *target,
                                                           struct facet_error *error)
{
    uint32_t size;

    if (!target)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "the struct to write to: expected an address, not NULL");
    memcpy(&size, target, sizeof size);
    if (size < sizeof size)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "size %" PRIu32 ": expected at least %zu", size,
                              sizeof size);
    if (size > source_size)
        size = source_size;
    memcpy(target, source, size);
    memcpy(target, &size, sizeof size);
    return FACET_OK;
}

/*
 * Checks a struct of the host, of which `known` bytes are known here. Nonzero bytes after them, set by a newer host,
 * are refused, because they would be lost silently. A size more than 4 KiB beyond the known one is treated as not set.
 */
FACET_KIT_UNUSED static enum facet_status facet_kit_check_size(const char *name, const void *given, size_t known,
                                                               struct facet_error *error)
{
    const unsigned char *bytes = (const unsigned char *)given;
    uint32_t size;

    memcpy(&size, given, sizeof size);
    if (size > known + 4096)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "%s: size %" PRIu32 ": expected that of its struct, %zu",
                              name, size, known);
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return facet_kit_fail(error, FACET_UNSUPPORTED,
                                  "%s: byte %zu of %" PRIu32 " is set: this provider knows only %zu", name, i, size,
                                  known);
    return FACET_OK;
}

/*
 * Copies the host's launch. It may be shorter than ours, like that of ABI 1.1: missing members become zeros. It may be
 * longer if the further bytes are zeros.
 */
FACET_KIT_UNUSED static enum facet_status facet_kit_launch(const struct facet_launch *launch,
                                                           struct facet_launch *ret_launch, struct facet_error *error)
{
    const uint32_t least = offsetof(struct facet_launch, offset);

    if (!launch)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "launch: expected an address, not NULL");
    if (launch->size < least)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "launch: size %" PRIu32 ": expected at least %" PRIu32,
                              launch->size, least);
    enum facet_status status = facet_kit_check_size("launch", launch, sizeof *launch, error);
    if (status != FACET_OK)
        return status;
    if (launch->dimensions > 3)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "dimensions %" PRIu32 ": expected 1, 2 or 3, or 0 for 3",
                              launch->dimensions);
    memset(ret_launch, 0, sizeof *ret_launch);
    memcpy(ret_launch, launch, launch->size < sizeof *launch ? launch->size : sizeof *launch);
    ret_launch->size = sizeof *ret_launch;
    if (ret_launch->reserved)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "reserved, of launch: expected 0: it has no meaning here");
    return FACET_OK;
}

/* The two-call rule for a text, for functions like facet_device_ops.properties. */
FACET_KIT_UNUSED static enum facet_status facet_kit_text_out(const char *source, char *text, uint32_t capacity,
                                                             uint32_t *ret_size, struct facet_error *error)
{
    uint32_t size = (uint32_t)strlen(source) + 1;

    if (!ret_size)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_size: expected a place for the size, not NULL");
    if (!text && capacity > 0)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "text: expected room for %" PRIu32 " bytes, not NULL",
                              capacity);
    *ret_size = size;
    if (capacity < size)
        return facet_kit_fail(error, FACET_TOO_SMALL, "room for %" PRIu32 " bytes, expected %" PRIu32, capacity, size);
    memcpy(text, source, size);
    return FACET_OK;
}

/* The first check of every operation on a device. */
FACET_KIT_UNUSED static enum facet_status facet_kit_check_device(uint32_t device, uint32_t count,
                                                                 struct facet_error *error)
{
    if (device < count)
        return FACET_OK;
    return facet_kit_fail(error, FACET_NOT_FOUND, "device %" PRIu32 ": expected less than %" PRIu32, device, count);
}

/* Whether `worker` may name a worker: [A-Za-z0-9][A-Za-z0-9._-]*, at most 63 bytes. */
FACET_KIT_UNUSED static enum facet_status facet_kit_check_worker(const char *worker, struct facet_error *error)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    if (!worker)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "worker: expected a name, not NULL");
    size_t length = strspn(worker, letters);
    if (length == 0 || length >= FACET_WORKER_SIZE || worker[length] || strchr("._-", worker[0]))
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT,
                              "worker '%.64s': expected [A-Za-z0-9][A-Za-z0-9._-]*, at most %d bytes", worker,
                              FACET_WORKER_SIZE - 1);
    return FACET_OK;
}

/* The usual text form of a uuid of sixteen bytes. `ret_text` has room for 37 bytes. */
FACET_KIT_UNUSED static void facet_kit_uuid_text(const unsigned char bytes[16], char *ret_text)
{
    for (int i = 0, at = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            ret_text[at++] = '-';
        at += snprintf(ret_text + at, 3, "%02x", bytes[i]);
    }
}

__extension__ typedef unsigned __int128 facet_kit_u128;

/*
 * A uuid for a device that has none of its own: the 128-bit FNV-1a hash of a text that stays the same across restarts,
 * marked as version 8 (RFC 9562: made by the application's own rule). Not for secrets. `ret_text`: 37 bytes.
 */
FACET_KIT_UNUSED static void facet_kit_uuid_of(const char *text, char *ret_text)
{
    const facet_kit_u128 prime = ((facet_kit_u128)1 << 88) + 0x13b;
    facet_kit_u128 hash = ((facet_kit_u128)UINT64_C(0x6c62272e07bb0142) << 64) + UINT64_C(0x62b821756295c58d);
    unsigned char bytes[16];

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * prime;
    for (int i = 15; i >= 0; i--, hash >>= 8)
        bytes[i] = (unsigned char)hash;
    bytes[6] = (unsigned char)(0x80 | (bytes[6] & 0x0f)); /* version 8 */
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f)); /* variant */
    facet_kit_uuid_text(bytes, ret_text);
}

#endif
