/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: snapshots of the base device: everything of the contexts that leave, as the structs are.
 * Never: is read by another build; magic and sizes see to it.
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
#define FOR_LEAVING(one, table, most)                                                                                  \
    for (typeof(instance->table[0]) *one = instance->table; one < instance->table + (most); one++)                     \
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
    bool any = false, away = false;

    for (int i = 0; i < BASE_CONTEXTS; i++) {
        const struct base_context *one = &instance->contexts[i];
        bool meant = one->number && (!worker || strcmp(one->worker, worker) == 0);

        ret_leaving[i] = meant && !one->away;
        any = any || ret_leaving[i];
        away = away || (meant && one->away);
    }
    if (any)
        return FACET_OK;
    return facet_kit_fail(error, away ? FACET_BAD_STATE : FACET_NOT_FOUND, "worker '%.63s' %s the device",
                          worker ? worker : "", away ? "is off" : "has nothing on");
}

static void put_bytes(FILE *file, const void *bytes, size_t size, uint32_t *count)
{
    if (fwrite(bytes, 1, size, file) == size)
        ++*count;
}

/* A pointer means nothing elsewhere; pages go by their number. */
static void put_map(FILE *file, const struct base_map *map, uint32_t *count)
{
    struct base_map copy = *map;

    copy.pages = (struct base_pages *)(uintptr_t)map->pages->number;
    put_bytes(file, &copy, sizeof copy, count);
}

static void put_all(FILE *file, struct facet_provider_instance *instance, const bool *leaving, uint32_t *count)
{
    uint32_t contents = 0;

    for (int i = 0; i < BASE_CONTEXTS; i++)
        if (leaving[i])
            put_bytes(file, &instance->contexts[i], sizeof instance->contexts[i], &count[CONTEXTS]);
    FOR_LEAVING (one, reservations, BASE_RESERVATIONS)
        put_bytes(file, one, sizeof *one, &count[RESERVATIONS]);
    FOR_LEAVING (one, streams, BASE_STREAMS)
        put_bytes(file, one, sizeof *one, &count[STREAMS]);
    FOR_LEAVING (one, pages, BASE_PAGES)
        put_bytes(file, one, sizeof *one, &count[PAGES]);
    FOR_LEAVING (one, maps, BASE_MAPS)
        put_map(file, one, &count[MAPS]);
    FOR_LEAVING (one, pages, BASE_PAGES)
        put_bytes(file, one->data, one->bytes, &contents);
}

/* Header and content in one piece, to free(); NULL: out of memory. */
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
    put_all(file, instance, leaving, header.count);
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

/* The place of a worker's saved bytes, or an empty one; NULL when all are taken. */
static struct base_saved *place_of(struct facet_provider_instance *instance, const char *worker)
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

/* Takes over `bytes`, also when it fails. */
static enum facet_status keep_saved(struct facet_provider_instance *instance, const char *worker, int fd, char *bytes,
                                    size_t size, struct facet_error *error)
{
    struct base_saved *place = place_of(instance, worker);

    if (fd >= 0 || !place) {
        bool written = fd >= 0 && write_all(fd, bytes, size);
        free(bytes);
        return written ? FACET_OK : facet_kit_fail(error, FACET_IO, "descriptor %d cannot be written", fd);
    }
    free(place->bytes);
    *place = (struct base_saved){.bytes = bytes, .size = size};
    FACET_KIT_TEXT(place->worker, worker ? worker : "");
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
            base_empty_context(instance, instance->contexts[i].number);
            instance->contexts[i].away = true;
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

/* From where `fd` stands, or from the bytes saved here; `bytes` to free(), also on failure. */
static enum facet_status fetch_saved(struct facet_provider_instance *instance, const char *worker, int fd,
                                     struct content *content, struct facet_error *error)
{
    const struct base_saved *kept = place_of(instance, worker);
    struct header *header = &content->header;

    if (fd < 0 && (!kept || !kept->bytes))
        return facet_kit_fail(error, FACET_NOT_FOUND, "nothing is kept here of '%.63s'", worker ? worker : "");
    if (fd < 0)
        memcpy(header, kept->bytes, sizeof *header);
    else if (!read_all(fd, header, sizeof *header) || memcmp(header->magic, "base 2", 7) != 0 ||
             header->size > 2 * BASE_MEMORY)
        return facet_kit_fail(error, FACET_CORRUPT, "expected a snapshot of this provider");
    content->bytes = malloc(header->size + 1);
    if (!content->bytes)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a snapshot");
    if (fd < 0)
        memcpy(content->bytes, kept->bytes + sizeof *header, header->size);
    else if (!read_all(fd, content->bytes, header->size))
        return facet_kit_fail(error, FACET_CORRUPT, "expected %" PRIu64 " bytes more", header->size);
    if (strcmp(header->worker, worker ? worker : "") != 0)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "snapshot of '%.63s': expected another", header->worker);
    return FACET_OK;
}

/* Contexts whose number is free here, or that of one that is away. */
static enum facet_status check_contexts(struct facet_provider_instance *instance, const struct content *content,
                                        struct facet_error *error)
{
    for (uint32_t i = 0; i < content->header.count[CONTEXTS]; i++) {
        struct base_context saved;

        memcpy(&saved, content->bytes + i * sizeof saved, sizeof saved);
        const struct base_context *there = base_find_context(instance, saved.number);
        if (there && !there->away)
            return facet_kit_fail(error, FACET_BUSY, "context %" PRIu64 " is on the device", saved.number);
    }
    return FACET_OK;
}

/* How many entries of a table are free: those whose member `used` is 0. */
#define COUNT_FREE(table, most, used)                                                                                  \
    for (int i = 0; i < (most); i++)                                                                                   \
        left += !instance->table[i].used;

static bool has_room(const struct facet_provider_instance *instance, const uint32_t *count)
{
    uint32_t left = 0;

    COUNT_FREE(contexts, BASE_CONTEXTS, number)
    bool room = left >= count[CONTEXTS];
    left = 0;
    COUNT_FREE(reservations, BASE_RESERVATIONS, bytes)
    room = room && left >= count[RESERVATIONS];
    left = 0;
    COUNT_FREE(streams, BASE_STREAMS, number)
    room = room && left >= count[STREAMS];
    left = 0;
    COUNT_FREE(pages, BASE_PAGES, number)
    room = room && left >= count[PAGES];
    left = 0;
    COUNT_FREE(maps, BASE_MAPS, bytes)
    return room && left >= count[MAPS];
}

/* Copies saved structs into the free entries of a table, in their order. */
#define TAKE(kind, table, used)                                                                                        \
    for (uint32_t taken = 0, place = 0; taken < content->header.count[kind]; place++) {                                \
        if (instance->table[place].used)                                                                               \
            continue;                                                                                                  \
        memcpy(&instance->table[place], at, sizeof instance->table[0]);                                                \
        at += sizeof instance->table[0];                                                                               \
        taken++;                                                                                                       \
    }

/* Returns where the contents of the pages begin. */
static const char *take_structs(struct facet_provider_instance *instance, const struct content *content)
{
    const char *at = content->bytes;

    TAKE(CONTEXTS, contexts, number)
    TAKE(RESERVATIONS, reservations, bytes)
    TAKE(STREAMS, streams, number)
    TAKE(PAGES, pages, number)
    TAKE(MAPS, maps, bytes)
    return at;
}

/* Takes the contexts that come from the list of those that are away, or puts them there. */
static void set_away(struct facet_provider_instance *instance, const struct content *content, bool away)
{
    for (uint32_t i = 0; i < content->header.count[CONTEXTS]; i++) {
        struct base_context saved;

        memcpy(&saved, content->bytes + i * sizeof saved, sizeof saved);
        struct base_context *there = base_find_context(instance, saved.number);
        if (there && away)
            there->away = true;
        else if (there)
            *there = (struct base_context){0};
    }
}

/* Marks the contexts that came, once they are in their table. */
static void mark_arrived(struct facet_provider_instance *instance, const struct content *content, bool *ret_came)
{
    memset(ret_came, 0, BASE_CONTEXTS);
    for (uint32_t i = 0; i < content->header.count[CONTEXTS]; i++) {
        struct base_context saved;

        memcpy(&saved, content->bytes + i * sizeof saved, sizeof saved);
        ret_came[base_find_context(instance, saved.number) - instance->contexts] = true;
    }
}

static void raise_number(uint64_t *last, uint64_t taken)
{
    if (*last < taken)
        *last = taken;
}

/* Numbers that are given out from now on are beyond all restored ones. */
static void reserve_numbers(struct facet_provider_instance *instance, const bool *leaving)
{
    for (int i = 0; i < BASE_CONTEXTS; i++)
        raise_number(&instance->last_number, instance->contexts[i].number);
    FOR_LEAVING (one, streams, BASE_STREAMS)
        raise_number(&instance->last_number, one->number);
    FOR_LEAVING (one, pages, BASE_PAGES)
        raise_number(&instance->last_number, one->number);
    FOR_LEAVING (one, maps, BASE_MAPS)
        raise_number(&instance->last_address, (one->address + one->bytes) / BASE_PAGE * BASE_PAGE + 2 * BASE_PAGE);
    FOR_LEAVING (one, reservations, BASE_RESERVATIONS)
        raise_number(&instance->last_address, one->address + one->bytes + 2 * BASE_PAGE);
}

/* Gives pages their content, and maps their pages. False without memory, and then each has some or NULL. */
static bool fill_in(struct facet_provider_instance *instance, const bool *leaving, const char *at)
{
    bool filled = true;

    FOR_LEAVING (one, pages, BASE_PAGES) {
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

static enum facet_status bring_back(struct facet_provider_instance *instance, const struct content *content,
                                    struct facet_error *error)
{
    enum facet_status status = check_contexts(instance, content, error);
    bool came[BASE_CONTEXTS];

    if (status != FACET_OK)
        return status;
    if (!has_room(instance, content->header.count))
        return facet_kit_fail(error, FACET_NO_SPACE, "the device has no room for all of it");
    set_away(instance, content, false);
    const char *contents = take_structs(instance, content);
    mark_arrived(instance, content, came);
    reserve_numbers(instance, came);
    if (fill_in(instance, came, contents))
        return FACET_OK;
    for (int i = 0; i < BASE_CONTEXTS; i++)
        if (came[i])
            base_empty_context(instance, instance->contexts[i].number);
    set_away(instance, content, true);
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
    status = fetch_saved(instance, worker, fd, &content, error);
    if (status == FACET_OK)
        status = bring_back(instance, &content, error);
    free(content.bytes);
    if (status != FACET_OK || fd >= 0)
        return status;
    struct base_saved *kept = place_of(instance, worker);
    free(kept->bytes);
    *kept = (struct base_saved){0};
    return FACET_OK;
}

/* No process but those that ask has anything here, and nothing is kept for one. */
static enum facet_status base_processes(struct facet_provider_instance *instance, const int32_t *pids, uint32_t count,
                                        struct facet_error *error)
{
    if (!pids || count == 0)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "pids: expected some");
    return facet_kit_fail(error, FACET_NOT_FOUND, "process %" PRId32 " has nothing on a device", pids[0]);
}

const struct facet_snapshot_ops base_snapshot = {
    .size = sizeof base_snapshot,
    .snapshot = base_save,
    .resume = base_resume,
    .snapshot_processes = base_processes,
    .resume_processes = base_processes,
};
