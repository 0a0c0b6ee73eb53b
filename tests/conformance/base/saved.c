/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: snapshots of the base device: a copy of the structs and memory of the contexts that leave the device.
 * Never: resumes a file that does not begin with the magic of a snapshot.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base.h"

enum { CONTEXTS, RESERVATIONS, STREAMS, PAGES, MAPS, KINDS };

struct header {
    char magic[8];
    char worker[FACET_WORKER_SIZE]; /* empty: all */
    uint64_t size;                  /* of everything behind the header */
    uint32_t count[KINDS];
};

/* The part behind the header: the structs of each kind in turn, then the content of each of the pages. */
struct content {
    struct header header;
    char *bytes;
};

/* Runs the block for each entry of a table that belongs to a context that is marked in `leaving`. */
#define FOR_EACH_LEAVING(one, table, count)                                                                            \
    for (typeof(instance->table[0]) *one = instance->table; one < instance->table + (count); one++)                    \
        if (is_leaving(instance, leaving, one->context))

static bool is_leaving(struct facet_provider_instance *instance, const bool *leaving, uint64_t context)
{
    const struct base_context *one = base_find_context(instance, context);

    return one && leaving[one - instance->contexts];
}

/* Marks the worker's contexts that are on the device. */
static enum facet_status choose_contexts(const struct facet_provider_instance *instance, const char *worker,
                                         bool *ret_leaving, struct facet_error *error)
{
    bool any = false, any_saved = false;

    for (int i = 0; i < BASE_CONTEXTS; i++) {
        const struct base_context *one = &instance->contexts[i];
        bool matches = one->number && (!worker || strcmp(one->worker, worker) == 0);

        ret_leaving[i] = matches && !one->is_saved;
        any = any || ret_leaving[i];
        any_saved = any_saved || (matches && one->is_saved);
    }
    if (any)
        return FACET_OK;
    return facet_kit_fail(error, any_saved ? FACET_BAD_STATE : FACET_NOT_FOUND, "worker '%.63s' %s the device",
                          worker ? worker : "", any_saved ? "is off" : "has nothing on");
}

static void put_bytes(FILE *file, const void *bytes, size_t size, uint32_t *count)
{
    if (fwrite(bytes, 1, size, file) == size)
        ++*count;
}

/* Writes the number of the pages instead of the pointer, which is of no use to another process. */
static void put_map(FILE *file, const struct base_map *map, uint32_t *count)
{
    struct base_map copy = *map;

    copy.pages = (struct base_pages *)(uintptr_t)map->pages->number;
    put_bytes(file, &copy, sizeof copy, count);
}

static void put_structs(FILE *file, struct facet_provider_instance *instance, const bool *leaving, uint32_t *count)
{
    uint32_t contents = 0;

    for (int i = 0; i < BASE_CONTEXTS; i++)
        if (leaving[i])
            put_bytes(file, &instance->contexts[i], sizeof instance->contexts[i], &count[CONTEXTS]);
    FOR_EACH_LEAVING (one, reservations, BASE_RESERVATIONS)
        put_bytes(file, one, sizeof *one, &count[RESERVATIONS]);
    FOR_EACH_LEAVING (one, streams, BASE_STREAMS)
        put_bytes(file, one, sizeof *one, &count[STREAMS]);
    FOR_EACH_LEAVING (one, pages, BASE_PAGES)
        put_bytes(file, one, sizeof *one, &count[PAGES]);
    FOR_EACH_LEAVING (one, maps, BASE_MAPS)
        put_map(file, one, &count[MAPS]);
    FOR_EACH_LEAVING (one, pages, BASE_PAGES)
        put_bytes(file, one->data, one->bytes, &contents);
}

/* Header and content in one block, for the caller to free(). NULL: no memory. */
static char *pack_worker(struct facet_provider_instance *instance, const char *worker, const bool *leaving,
                         size_t *ret_size)
{
    struct header header = {.magic = "base 2"};
    char *bytes = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&bytes, &size);

    if (!file)
        return NULL;
    FACET_KIT_TEXT(header.worker, worker ? worker : "");
    fwrite(&header, sizeof header, 1, file);
    put_structs(file, instance, leaving, header.count);
    if (fclose(file) != 0 || size < sizeof header) {
        free(bytes);
        return NULL;
    }
    header.size = size - sizeof header;
    memcpy(bytes, &header, sizeof header);
    *ret_size = size;
    return bytes;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t count = write(fd, bytes + at, size - at);
        if (count <= 0)
            return false;
        at += (size_t)count;
    }
    return true;
}

/* The entry of a worker's saved bytes, or a free entry; NULL when all are in use. */
static struct base_saved *find_saved(struct facet_provider_instance *instance, const char *worker)
{
    struct base_saved *empty = NULL;

    for (int i = 0; i < BASE_WORKERS; i++) {
        struct base_saved *one = &instance->saved[i];
        if (one->bytes && strcmp(one->worker, worker ? worker : "") == 0)
            return one;
        if (!one->bytes && !empty)
            empty = one;
    }
    return empty;
}

/* Keeps `bytes`, or writes them to `fd`. Owns them from here on, also on failure. */
static enum facet_status keep_saved(struct facet_provider_instance *instance, const char *worker, int fd, char *bytes,
                                    size_t size, struct facet_error *error)
{
    struct base_saved *slot = find_saved(instance, worker);

    if (fd < 0 && !slot) {
        free(bytes);
        return facet_kit_fail(error, FACET_NO_SPACE, "all %d places for snapshots are in use: expected a descriptor",
                              BASE_WORKERS);
    }
    if (fd >= 0) {
        bool written = write_all(fd, bytes, size);
        free(bytes);
        return written ? FACET_OK : facet_kit_fail(error, FACET_IO, "descriptor %d cannot be written", fd);
    }
    free(slot->bytes);
    *slot = (struct base_saved){.bytes = bytes, .size = size};
    FACET_KIT_TEXT(slot->worker, worker ? worker : "");
    return FACET_OK;
}

static enum facet_status base_save(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                   int fd, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);
    bool leaving[BASE_CONTEXTS];
    size_t size = 0;

    BASE_LOCK(instance);
    if (status == FACET_OK)
        status = choose_contexts(instance, worker, leaving, error);
    if (status != FACET_OK)
        return status;
    char *bytes = pack_worker(instance, worker, leaving, &size);
    if (!bytes)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a snapshot");
    status = keep_saved(instance, worker, fd, bytes, size, error);
    for (int i = 0; status == FACET_OK && i < BASE_CONTEXTS; i++)
        if (leaving[i]) {
            base_free_context_resources(instance, instance->contexts[i].number);
            instance->contexts[i].is_saved = true;
        }
    return status;
}

static bool read_all(int fd, void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t count = read(fd, (char *)bytes + at, size - at);
        if (count <= 0)
            return false;
        at += (size_t)count;
    }
    return true;
}

/* Reads from the position of `fd`, or, if it is -1, from the bytes kept here. The caller frees content->bytes, also on
 * failure. */
static enum facet_status read_snapshot(struct facet_provider_instance *instance, const char *worker, int fd,
                                       struct content *content, struct facet_error *error)
{
    const struct base_saved *saved = find_saved(instance, worker);
    struct header *header = &content->header;

    if (fd < 0 && (!saved || !saved->bytes))
        return facet_kit_fail(error, FACET_NOT_FOUND, "nothing is kept here of '%.63s'", worker ? worker : "");
    if (fd < 0)
        memcpy(header, saved->bytes, sizeof *header);
    else if (!read_all(fd, header, sizeof *header) || memcmp(header->magic, "base 2", 7) != 0 ||
             header->size > 2 * BASE_MEMORY)
        return facet_kit_fail(error, FACET_CORRUPT, "expected a snapshot of this provider");
    content->bytes = malloc(header->size + 1);
    if (!content->bytes)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a snapshot");
    if (fd < 0)
        memcpy(content->bytes, saved->bytes + sizeof *header, header->size);
    else if (!read_all(fd, content->bytes, header->size))
        return facet_kit_fail(error, FACET_CORRUPT, "expected %" PRIu64 " bytes more", header->size);
    if (strcmp(header->worker, worker ? worker : "") != 0)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "snapshot of '%.63s': expected one of '%.63s'", header->worker,
                              worker ? worker : "");
    return FACET_OK;
}

/* Each context's number must be free here, or that of a context that is saved. */
static enum facet_status check_contexts(struct facet_provider_instance *instance, const struct content *content,
                                        struct facet_error *error)
{
    for (uint32_t i = 0; i < content->header.count[CONTEXTS]; i++) {
        struct base_context saved;

        memcpy(&saved, content->bytes + i * sizeof saved, sizeof saved);
        const struct base_context *present = base_find_context(instance, saved.number);
        if (present && !present->is_saved)
            return facet_kit_fail(error, FACET_BUSY, "context %" PRIu64 " is on the device", saved.number);
    }
    return FACET_OK;
}

/* Counts the free entries of a table, whose member `used` is 0. */
#define COUNT_FREE_ENTRIES(table, count, used)                                                                         \
    for (int i = 0; i < (count); i++)                                                                                  \
        free_entries += !instance->table[i].used;

static bool has_free_entries(const struct facet_provider_instance *instance, const uint32_t *count)
{
    uint32_t free_entries = 0;

    COUNT_FREE_ENTRIES(contexts, BASE_CONTEXTS, number)
    bool room = free_entries >= count[CONTEXTS];
    free_entries = 0;
    COUNT_FREE_ENTRIES(reservations, BASE_RESERVATIONS, bytes)
    room = room && free_entries >= count[RESERVATIONS];
    free_entries = 0;
    COUNT_FREE_ENTRIES(streams, BASE_STREAMS, number)
    room = room && free_entries >= count[STREAMS];
    free_entries = 0;
    COUNT_FREE_ENTRIES(pages, BASE_PAGES, number)
    room = room && free_entries >= count[PAGES];
    free_entries = 0;
    COUNT_FREE_ENTRIES(maps, BASE_MAPS, bytes)
    return room && free_entries >= count[MAPS];
}

/* Copies saved structs into the free entries of a table, in their order. */
#define COPY_STRUCTS(kind, table, used)                                                                                \
    for (uint32_t copied = 0, place = 0; copied < content->header.count[kind]; place++) {                              \
        if (instance->table[place].used)                                                                               \
            continue;                                                                                                  \
        memcpy(&instance->table[place], at, sizeof instance->table[0]);                                                \
        at += sizeof instance->table[0];                                                                               \
        copied++;                                                                                                      \
    }

/* Returns where the contents of the pages begin. */
static const char *copy_structs(struct facet_provider_instance *instance, const struct content *content)
{
    const char *at = content->bytes;

    COPY_STRUCTS(CONTEXTS, contexts, number)
    COPY_STRUCTS(RESERVATIONS, reservations, bytes)
    COPY_STRUCTS(STREAMS, streams, number)
    COPY_STRUCTS(PAGES, pages, number)
    COPY_STRUCTS(MAPS, maps, bytes)
    return at;
}

/* Marks the contexts of the snapshot as saved again, or frees their entries for the restored contexts. */
static void set_saved(struct facet_provider_instance *instance, const struct content *content, bool is_saved)
{
    for (uint32_t i = 0; i < content->header.count[CONTEXTS]; i++) {
        struct base_context saved;

        memcpy(&saved, content->bytes + i * sizeof saved, sizeof saved);
        struct base_context *present = base_find_context(instance, saved.number);
        if (present && is_saved)
            present->is_saved = true;
        else if (present)
            *present = (struct base_context){0};
    }
}

/* Marks the contexts that were restored, once they are in their table. */
static void mark_restored(struct facet_provider_instance *instance, const struct content *content, bool *ret_restored)
{
    memset(ret_restored, 0, BASE_CONTEXTS);
    for (uint32_t i = 0; i < content->header.count[CONTEXTS]; i++) {
        struct base_context saved;

        memcpy(&saved, content->bytes + i * sizeof saved, sizeof saved);
        ret_restored[base_find_context(instance, saved.number) - instance->contexts] = true;
    }
}

static void raise_to(uint64_t *last, uint64_t number)
{
    if (*last < number)
        *last = number;
}

/* Makes all numbers that are given out from now on larger than the restored ones. */
static void reserve_numbers(struct facet_provider_instance *instance, const bool *leaving)
{
    for (int i = 0; i < BASE_CONTEXTS; i++)
        raise_to(&instance->last_number, instance->contexts[i].number);
    FOR_EACH_LEAVING (one, streams, BASE_STREAMS)
        raise_to(&instance->last_number, one->number);
    FOR_EACH_LEAVING (one, pages, BASE_PAGES)
        raise_to(&instance->last_number, one->number);
    FOR_EACH_LEAVING (one, maps, BASE_MAPS)
        raise_to(&instance->last_address, (one->address + one->bytes) / BASE_PAGE * BASE_PAGE + 2 * BASE_PAGE);
    FOR_EACH_LEAVING (one, reservations, BASE_RESERVATIONS)
        raise_to(&instance->last_address, one->address + one->bytes + 2 * BASE_PAGE);
}

/* Gives pages their content, and mappings their pages. False: no memory, and then `data` of some pages is NULL. */
static bool fill_pages(struct facet_provider_instance *instance, const bool *leaving, const char *at)
{
    bool filled = true;

    FOR_EACH_LEAVING (one, pages, BASE_PAGES) {
        one->data = malloc(one->bytes);
        filled = filled && one->data;
        if (one->data)
            memcpy(one->data, at, one->bytes);
        at += one->bytes;
        for (int i = 0; i < BASE_MAPS; i++)
            if (instance->maps[i].context == one->context && (uintptr_t)instance->maps[i].pages == one->number)
                instance->maps[i].pages = one;
    }
    return filled;
}

static enum facet_status restore_contexts(struct facet_provider_instance *instance, const struct content *content,
                                          struct facet_error *error)
{
    enum facet_status status = check_contexts(instance, content, error);
    bool restored[BASE_CONTEXTS];

    if (status != FACET_OK)
        return status;
    if (!has_free_entries(instance, content->header.count))
        return facet_kit_fail(error, FACET_NO_SPACE, "the device has no room for the whole snapshot");
    set_saved(instance, content, false);
    const char *contents = copy_structs(instance, content);
    mark_restored(instance, content, restored);
    reserve_numbers(instance, restored);
    if (fill_pages(instance, restored, contents))
        return FACET_OK;
    for (int i = 0; i < BASE_CONTEXTS; i++)
        if (restored[i])
            base_free_context_resources(instance, instance->contexts[i].number);
    set_saved(instance, content, true);
    return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the pages");
}

static enum facet_status base_resume(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     int fd, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);
    struct content content = {0};

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    status = read_snapshot(instance, worker, fd, &content, error);
    if (status == FACET_OK)
        status = restore_contexts(instance, &content, error);
    free(content.bytes);
    if (status != FACET_OK || fd >= 0)
        return status;
    struct base_saved *saved = find_saved(instance, worker);
    free(saved->bytes);
    *saved = (struct base_saved){0};
    return FACET_OK;
}

/* Refuses: only the calling process can have memory here, and it cannot be moved. */
static enum facet_status base_processes(struct facet_provider_instance *instance, const int32_t *pids, uint32_t count,
                                        struct facet_error *error)
{
    if (!pids || count == 0)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "pids: expected at least 1");
    return facet_kit_fail(error, FACET_NOT_FOUND, "process %" PRId32 " has nothing on a device", pids[0]);
}

const struct facet_snapshot_ops base_snapshot = {
    .size = sizeof base_snapshot,
    .snapshot = base_save,
    .resume = base_resume,
    .snapshot_processes = base_processes,
    .resume_processes = base_processes,
};
