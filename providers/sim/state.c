/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the record of an instance, transactions on it, and the folder that processes share.
 * Never: trusts its copy of a shared folder's record: every transaction reads the file.
 *
 * In the folder: NAME.state.lock, which a transaction holds with flock(); NAME.state, replaced by rename();
 * NAME.state.new, the replacement while it is written; NAME.state.use.N, one process's use (usage.c). A killed process
 * leaves the old file or the new one, and no lock.
 */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "provider_kit.h"
#include "usage.h"

#define LOCK_TRIES 5000 /* a millisecond apart */

struct sim_state {
    int folder_fd; /* -1: in memory */
    int lock_fd;
    char folder[512];
    char name[48];                    /* of the state file */
    struct sim_record current, draft; /* draft: the record that the transaction changes */
    struct sim_usages *usages;
};

void sim_record_clear(struct sim_record *record)
{
    free(record->partitions);
    free(record->workers);
    memset(record, 0, sizeof *record);
}

static enum facet_status record_copy(const struct sim_record *from, struct sim_record *ret_to,
                                     struct facet_error *error)
{
    struct sim_record to = *from;

    to.partitions = calloc(from->partition_count + 1, sizeof *to.partitions);
    to.workers = calloc(from->worker_count + 1, sizeof *to.workers);
    if (!to.partitions || !to.workers) {
        sim_record_clear(&to);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for partitions and limits");
    }
    if (from->partition_count > 0)
        memcpy(to.partitions, from->partitions, from->partition_count * sizeof *to.partitions);
    if (from->worker_count > 0)
        memcpy(to.workers, from->workers, from->worker_count * sizeof *to.workers);
    *ret_to = to;
    return FACET_OK;
}

enum facet_status sim_record_add_partition(struct sim_record *record, const struct sim_partition *partition,
                                           struct facet_error *error)
{
    struct sim_partition *partitions = realloc(record->partitions, (record->partition_count + 1) * sizeof *partitions);
    uint32_t at = 0;

    if (!partitions)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a partition");
    record->partitions = partitions;
    while (at < record->partition_count &&
           (partitions[at].device < partition->device ||
            (partitions[at].device == partition->device && partitions[at].start < partition->start)))
        at++;
    memmove(&partitions[at + 1], &partitions[at], (record->partition_count - at) * sizeof *partitions);
    partitions[at] = *partition;
    record->partition_count++;
    return FACET_OK;
}

void sim_record_remove_partition(struct sim_record *record, const struct sim_partition *partition)
{
    size_t at = (size_t)(partition - record->partitions);

    record->partition_count--;
    memmove(&record->partitions[at], &record->partitions[at + 1],
            (record->partition_count - at) * sizeof *record->partitions);
}

enum facet_status sim_record_add_worker(struct sim_record *record, const struct sim_worker *worker,
                                        struct facet_error *error)
{
    struct sim_worker *workers = realloc(record->workers, (record->worker_count + 1) * sizeof *workers);

    if (!workers)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a worker");
    record->workers = workers;
    workers[record->worker_count++] = *worker;
    return FACET_OK;
}

void sim_record_remove_worker(struct sim_record *record, const struct sim_worker *worker)
{
    size_t at = (size_t)(worker - record->workers);

    record->worker_count--;
    memmove(&record->workers[at], &record->workers[at + 1], (record->worker_count - at) * sizeof *record->workers);
}

struct sim_partition *sim_record_partition(const struct sim_record *record, uint32_t device, const char *uuid)
{
    for (uint32_t i = 0; i < record->partition_count; i++)
        if (record->partitions[i].device == device && strcmp(record->partitions[i].uuid, uuid) == 0)
            return &record->partitions[i];
    return NULL;
}

struct sim_worker *sim_record_worker(const struct sim_record *record, uint32_t device, const char *name)
{
    for (uint32_t i = 0; i < record->worker_count; i++)
        if (record->workers[i].device == device && strcmp(record->workers[i].name, name) == 0)
            return &record->workers[i];
    return NULL;
}

const struct sim_partition *sim_record_first_partition(const struct sim_record *record, uint32_t device)
{
    for (uint32_t i = 0; i < record->partition_count; i++)
        if (record->partitions[i].device == device)
            return &record->partitions[i];
    return NULL;
}

const struct sim_worker *sim_record_first_worker(const struct sim_record *record, uint32_t device)
{
    for (uint32_t i = 0; i < record->worker_count; i++)
        if (record->workers[i].device == device)
            return &record->workers[i];
    return NULL;
}

static enum facet_status open_folder(struct sim_state *state, const char *folder, struct facet_error *error)
{
    char lock[64];

    snprintf(lock, sizeof lock, "%.40s.lock", state->name);
    if (snprintf(state->folder, sizeof state->folder, "%s", folder) >= (int)sizeof state->folder)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "FACET_SIM_STATE: expected a path of less than %zu bytes",
                              sizeof state->folder);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return facet_kit_fail(error, FACET_IO, "cannot make the folder %s (FACET_SIM_STATE): %s", folder,
                              strerror(errno));
    state->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state->folder_fd >= 0)
        state->lock_fd = openat(state->folder_fd, lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (state->lock_fd < 0)
        return facet_kit_fail(error, FACET_IO, "cannot open %s in the folder %s (FACET_SIM_STATE): %s", lock, folder,
                              strerror(errno));
    return FACET_OK;
}

enum facet_status sim_state_open(const char *folder, const struct sim_machine *machine, struct sim_state **ret_state,
                                 struct facet_error *error)
{
    struct sim_state *state = calloc(1, sizeof *state);
    enum facet_status status = FACET_OK;

    if (!state)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for partitions and limits");
    state->folder_fd = state->lock_fd = -1;
    snprintf(state->name, sizeof state->name, "%s.state", machine->name);
    if (folder && *folder)
        status = open_folder(state, folder, error);
    if (status == FACET_OK)
        status = sim_usages_open(state->folder_fd, state->name, &state->usages, error);
    if (status == FACET_OK)
        *ret_state = state;
    else
        sim_state_close(state);
    return status;
}

void sim_state_close(struct sim_state *state)
{
    if (!state)
        return;
    sim_usages_close(state->usages);
    sim_record_clear(&state->current);
    sim_record_clear(&state->draft);
    if (state->lock_fd >= 0)
        close(state->lock_fd);
    if (state->folder_fd >= 0)
        close(state->folder_fd);
    free(state);
}

const char *sim_state_folder(const struct sim_state *state)
{
    return state->folder;
}

struct sim_usages *sim_state_usages(const struct sim_state *state)
{
    return state->usages;
}

static void send_partition_event(struct facet_provider_instance *instance, const struct sim_partition *partition,
                                 bool created)
{
    if (partition->device < instance->machine->device_count)
        sim_event(instance, FACET_EVENT_PARTITION, partition->device, created, 0, partition->uuid,
                  created ? "partition created (simulated)" : "partition destroyed (simulated)");
}

/* Makes `next` the current record, and sends events for the changes. */
static void publish_record(struct facet_provider_instance *instance, struct sim_record *next)
{
    struct sim_record *now = &instance->state->current;

    for (uint32_t i = 0; i < now->partition_count; i++)
        if (!sim_record_partition(next, now->partitions[i].device, now->partitions[i].uuid))
            send_partition_event(instance, &now->partitions[i], false);
    for (uint32_t i = 0; i < next->partition_count; i++)
        if (!sim_record_partition(now, next->partitions[i].device, next->partitions[i].uuid))
            send_partition_event(instance, &next->partitions[i], true);
    sim_record_clear(now);
    *now = *next;
    memset(next, 0, sizeof *next);
}

/* A stopped process may hold the lock forever, so the wait is bounded. */
static enum facet_status take_lock(const struct sim_state *state, struct facet_error *error)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(state->lock_fd, LOCK_EX | LOCK_NB) == 0)
            return FACET_OK;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return facet_kit_fail(error, FACET_IO, "cannot lock the folder %s: %s", state->folder, strerror(errno));
        nanosleep(&pause, NULL);
    }
    return facet_kit_fail(error, FACET_BUSY, "another process holds the folder %s", state->folder);
}

/* Reads the folder's record; empty when there is no file yet. */
static enum facet_status load_record(const struct sim_state *state, const struct sim_machine *machine,
                                     struct sim_record *ret_record, struct facet_error *error)
{
    char file[600], *text;
    size_t length;
    enum facet_status status;

    snprintf(file, sizeof file, "%s/%s", state->folder, state->name);
    status = sim_read_file(file, &text, &length, error);
    if (status == FACET_NOT_FOUND)
        return FACET_OK;
    if (status != FACET_OK)
        return status;
    status = sim_record_read(file, text, length, machine, ret_record, error);
    free(text);
    return status;
}

enum facet_status sim_state_peek(const struct sim_state *state, const struct sim_machine *machine,
                                 struct sim_record *ret_record, struct facet_error *error)
{
    enum facet_status status;

    if (state->folder_fd < 0)
        return record_copy(&state->current, ret_record, error);
    status = take_lock(state, error);
    if (status != FACET_OK)
        return status;
    status = load_record(state, machine, ret_record, error);
    flock(state->lock_fd, LOCK_UN);
    return status;
}

enum facet_status sim_state_begin(struct facet_provider_instance *instance, struct sim_record **ret_record,
                                  struct facet_error *error)
{
    struct sim_state *state = instance->state;
    enum facet_status status = FACET_OK;

    if (state->folder_fd >= 0) {
        struct sim_record shared = {0};

        status = take_lock(state, error);
        if (status != FACET_OK)
            return status;
        status = load_record(state, instance->machine, &shared, error);
        if (status == FACET_OK)
            publish_record(instance, &shared);
        if (status == FACET_OK)
            status = sim_usages_read(state->usages, instance->machine, error);
    }
    if (status == FACET_OK)
        status = record_copy(&state->current, &state->draft, error);
    if (status == FACET_OK)
        *ret_record = &state->draft;
    else if (state->lock_fd >= 0)
        flock(state->lock_fd, LOCK_UN);
    return status;
}

static bool write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t wrote = write(fd, text, length);

        if (wrote < 0)
            return false;
        text += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

/*
 * The data is synced before the rename, so that the name never leads to half a file. The rename is the commit, and the
 * last step that can fail. It is not synced: if that failed, all processes would see a change that was reported as
 * failed. So a power cut may undo the last change.
 */
static enum facet_status replace_file(const struct sim_state *state, const char *text, size_t length,
                                      struct facet_error *error)
{
    char new_name[64];
    int fd;
    bool done;

    snprintf(new_name, sizeof new_name, "%s.new", state->name);
    unlinkat(state->folder_fd, new_name, 0); /* left by a killed process, or a link that must not be followed */
    fd = openat(state->folder_fd, new_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    done = fd >= 0 && write_all(fd, text, length) && fsync(fd) == 0;
    if (fd >= 0 && close(fd) != 0)
        done = false;
    if (done && renameat(state->folder_fd, new_name, state->folder_fd, state->name) == 0)
        return FACET_OK;
    return facet_kit_fail(error, FACET_IO, "cannot write %s in %s: %s", state->name, state->folder, strerror(errno));
}

static enum facet_status save_record(const struct sim_state *state, const struct sim_machine *machine,
                                     struct facet_error *error)
{
    char *text;
    size_t length;
    enum facet_status status = sim_record_write(&state->draft, machine, &text, &length, error);

    if (status != FACET_OK)
        return status;
    status = replace_file(state, text, length, error);
    free(text);
    return status;
}

static bool is_same_record(const struct sim_record *a, const struct sim_record *b)
{
    return a->serial == b->serial && a->partition_count == b->partition_count && a->worker_count == b->worker_count &&
           (a->partition_count == 0 ||
            memcmp(a->partitions, b->partitions, a->partition_count * sizeof *a->partitions) == 0) &&
           (a->worker_count == 0 || memcmp(a->workers, b->workers, a->worker_count * sizeof *a->workers) == 0);
}

enum facet_status sim_state_end(struct facet_provider_instance *instance, enum facet_status status,
                                struct facet_error *error)
{
    struct sim_state *state = instance->state;
    bool changed = status == FACET_OK && !is_same_record(&state->current, &state->draft);

    if (changed && state->folder_fd >= 0)
        status = save_record(state, instance->machine, error);
    if (changed && status == FACET_OK)
        publish_record(instance, &state->draft);
    sim_record_clear(&state->draft);
    if (state->lock_fd >= 0)
        flock(state->lock_fd, LOCK_UN);
    return status;
}
