/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the file of a snapshot, which appears complete or not at all: its header and its checksums.
 * Never: passes a byte to a provider before the whole file was checked, or loses a worker when a file fails.
 *
 * A file is the header below, then the provider's bytes. Numbers are in the machine's own order: a snapshot holds
 * device memory, and goes back to a device of the same make.
 */
#include <facet/snapshot.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/paths.h"
#include "base/quiet.h"
#include "session/structs.h"

#define MAGIC "FACETSNP"

enum { VERSION = 1, BLOCK = 1 << 16, LIST_ATTEMPTS = 4 };

struct header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    char provider[64];
    char device[128]; /* its name */
    uint64_t memory_bytes;
    uint32_t compute_units;
    uint32_t has_worker; /* 0: the snapshot is of every worker on the device */
    char worker[FACET_WORKER_SIZE];
    uint64_t payload_bytes;
    XXH128_canonical_t payload_hash;
    XXH128_canonical_t header_hash; /* of everything before */
};
FACET_STATIC_ASSERT(sizeof(struct header) == 328, "the header of a snapshot file");

static void hash_header(const struct header *header, XXH128_canonical_t *ret_hash)
{
    XXH128_canonicalFromHash(ret_hash, XXH3_128bits(header, offsetof(struct header, header_hash)));
}

static void free_state(XXH3_state_t **state)
{
    XXH3_freeState(*state);
}

/* Computes the length and the hash of all bytes behind the header. */
static enum facet_status hash_payload(int fd, const char *path, uint64_t *ret_bytes, XXH128_canonical_t *ret_hash,
                                      struct facet_error *error)
{
    __attribute__((cleanup(free_state))) XXH3_state_t *state = XXH3_createState();
    FACET_CLEANUP_FREE char *block = malloc(BLOCK);
    off_t at = sizeof(struct header);

    if (!state || !block)
        return facet_error_errno(error, ENOMEM, "no memory to check snapshot %s", path);
    XXH3_128bits_reset(state);
    for (;;) {
        ssize_t got = pread(fd, block, BLOCK, at);
        if (got < 0)
            return facet_error_errno(error, errno, "cannot read snapshot %s", path);
        if (got == 0)
            break;
        XXH3_128bits_update(state, block, (size_t)got);
        at += got;
    }
    *ret_bytes = (uint64_t)at - sizeof(struct header);
    XXH128_canonicalFromHash(ret_hash, XXH3_128bits_digest(state));
    return FACET_OK;
}

/* All devices of a session, to be freed. */
static enum facet_status list_devices(struct facet_session *session, struct facet_device_info **ret_infos,
                                      uint32_t *ret_count, struct facet_error *error)
{
    const struct facet_device_ops *ops = facet_session_provider(session)->device;
    uint32_t capacity = 0;
    FACET_CLEANUP_FREE struct facet_device_info *infos = NULL;
    enum facet_status status = FACET_TOO_SMALL;

    for (int attempt = 0; attempt < LIST_ATTEMPTS && status == FACET_TOO_SMALL; attempt++) {
        free(infos);
        infos = calloc(capacity + 1, sizeof *infos);
        if (!infos)
            return facet_error_errno(error, ENOMEM, "no memory for %" PRIu32 " devices", capacity);
        for (uint32_t i = 0; i < capacity; i++)
            infos[i].size = sizeof infos[i];
        status = ops->list(facet_session_instance(session), infos, sizeof infos[0], capacity, &capacity, error);
    }
    if (status != FACET_OK)
        return status;
    *ret_infos = FACET_TAKE_PTR(infos);
    *ret_count = capacity;
    return FACET_OK;
}

/* Fills in the header's members that identify the device and the worker. */
static enum facet_status identify_device(struct facet_session *session, uint32_t device, const char *worker,
                                         struct header *ret_header, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct facet_device_info *infos = NULL;
    struct header header = {.magic = MAGIC, .version = VERSION, .header_bytes = sizeof header};
    uint32_t count = 0;
    enum facet_status status = list_devices(session, &infos, &count, error);

    if (status != FACET_OK)
        return status;
    if (device >= count)
        return facet_error_argument(error, FACET_NOT_FOUND, "device", "device %" PRIu32 ": expected less than %" PRIu32,
                                    device, count);
    if (worker && strnlen(worker, sizeof header.worker) == sizeof header.worker)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "worker",
                                    "worker '%.64s...': expected at most %zu bytes", worker, sizeof header.worker - 1);
    snprintf(header.provider, sizeof header.provider, "%s", facet_session_provider(session)->name);
    facet_text_copy(header.device, sizeof header.device, infos[device].name, sizeof infos[device].name);
    header.memory_bytes = infos[device].memory_bytes;
    header.compute_units = infos[device].compute_units;
    header.has_worker = worker != NULL;
    snprintf(header.worker, sizeof header.worker, "%s", worker ? worker : "");
    *ret_header = header;
    return FACET_OK;
}

static enum facet_status refuse_null(const char *name, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: expected a value, not NULL", name);
}

/* A file under a temporary name, until it is complete and gets its final name. */
struct draft {
    const char *path;
    char temporary[FACET_PATH_SIZE];
    int fd;
    struct header header;
};

static enum facet_status make_draft(const char *path, struct draft *draft, struct facet_error *error)
{
    struct stat info;
    int length = snprintf(draft->temporary, sizeof draft->temporary, "%s.XXXXXX", path);

    draft->path = path;
    if (length < 0 || (size_t)length >= sizeof draft->temporary)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "path", "path '%.200s...' is too long", path);
    /* publish_draft() checks this again; a refusal here comes while the worker is still on the device. */
    if (lstat(path, &info) == 0)
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "path", "%s exists already", path);
    draft->fd = mkostemp(draft->temporary, O_CLOEXEC);
    if (draft->fd < 0)
        return facet_error_errno(error, errno, "cannot make snapshot %s", path);
    if (lseek(draft->fd, sizeof(struct header), SEEK_SET) >= 0)
        return FACET_OK;
    facet_error_errno(error, errno, "cannot make snapshot %s", path);
    unlink(draft->temporary);
    close(draft->fd);
    return FACET_IO;
}

static enum facet_status sync_folder(const char *path, struct facet_error *error)
{
    char folder[FACET_PATH_SIZE];

    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[1] = '\0';
    FACET_CLEANUP_FD int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return facet_error_errno(error, errno, "cannot keep snapshot %s", path);
    return FACET_OK;
}

/*
 * Gives the draft its final name, unless there is a file of that name. Some file systems lack RENAME_NOREPLACE, but
 * have hard links.
 */
static int publish_draft(const struct draft *draft)
{
    if (renameat2(AT_FDCWD, draft->temporary, AT_FDCWD, draft->path, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL || link(draft->temporary, draft->path) < 0)
        return -1;
    return unlink(draft->temporary);
}

static enum facet_status write_header(struct draft *draft, struct facet_error *error)
{
    struct header *header = &draft->header;
    enum facet_status status =
        hash_payload(draft->fd, draft->path, &header->payload_bytes, &header->payload_hash, error);

    if (status != FACET_OK)
        return status;
    hash_header(header, &header->header_hash);
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();
    ssize_t written = pwrite(draft->fd, header, sizeof *header, 0);
    if (written != sizeof *header)
        return facet_error_errno(error, written < 0 ? errno : ENOSPC, "cannot write snapshot %s", draft->path);
    return FACET_OK;
}

/* Completes the draft, which holds the provider's bytes, and gives it its name. */
static enum facet_status keep_draft(struct draft *draft, struct facet_error *error)
{
    enum facet_status status = write_header(draft, error);

    if (status != FACET_OK)
        return status;
    if (fsync(draft->fd) < 0)
        return facet_error_errno(error, errno, "cannot write snapshot %s", draft->path);
    if (publish_draft(draft) < 0)
        return facet_error_errno(error, errno, "cannot name snapshot %s", draft->path);
    status = sync_folder(draft->path, error);
    if (status != FACET_OK)
        unlink(draft->path);
    return status;
}

static enum facet_status resume_worker(struct facet_session *session, uint32_t device, const char *worker, int fd,
                                       struct facet_error *error)
{
    if (lseek(fd, sizeof(struct header), SEEK_SET) < 0)
        return facet_error_errno(error, errno, "cannot read the snapshot");
    return facet_session_provider(session)->snapshot->resume(facet_session_instance(session), device, worker, fd,
                                                             error);
}

/* Resumes the worker from the draft: the provider took the worker off the device, and the file cannot be kept. */
static enum facet_status bring_back(struct facet_session *session, uint32_t device, const char *worker, int fd,
                                    enum facet_status status, struct facet_error *error)
{
    struct facet_error reason;

    if (resume_worker(session, device, worker, fd, &reason) == FACET_OK)
        return status;
    return facet_error_set(error, status, "%s; and the worker cannot be brought back: %s", error ? error->message : "",
                           reason.message);
}

enum facet_status facet_snapshot_save(struct facet_session *session, uint32_t device, const char *worker,
                                      const char *path, struct facet_error *error)
{
    struct draft draft = {.fd = -1};

    if (!session || !path)
        return refuse_null(session ? "path" : "session", error);
    enum facet_status status = identify_device(session, device, worker, &draft.header, error);
    if (status == FACET_OK)
        status = make_draft(path, &draft, error);
    if (status != FACET_OK)
        return status;
    status = facet_session_provider(session)->snapshot->snapshot(facet_session_instance(session), device, worker,
                                                                 draft.fd, error);
    if (status == FACET_OK) {
        status = keep_draft(&draft, error);
        if (status != FACET_OK)
            status = bring_back(session, device, worker, draft.fd, status, error);
    }
    if (status != FACET_OK)
        unlink(draft.temporary);
    close(draft.fd);
    return status;
}

static enum facet_status refuse_corrupt(const char *path, const char *what, struct facet_error *error)
{
    return facet_error_argument(error, FACET_CORRUPT, "path", "%s %s", path, what);
}

/* Returns the header after every byte of the file was checked. */
static enum facet_status read_file(int fd, const char *path, struct header *ret_header, struct facet_error *error)
{
    XXH128_canonical_t hash;
    struct header header;
    uint64_t bytes;
    ssize_t got = pread(fd, &header, sizeof header, 0);

    if (got < 0)
        return facet_error_errno(error, errno, "cannot read snapshot %s", path);
    if (got < (ssize_t)sizeof header.magic || memcmp(header.magic, MAGIC, sizeof header.magic) != 0)
        return refuse_corrupt(path, "is not a snapshot", error);
    if (got < (ssize_t)sizeof header)
        return refuse_corrupt(path, "is cut short", error);
    hash_header(&header, &hash);
    if (memcmp(&hash, &header.header_hash, sizeof hash) != 0)
        return refuse_corrupt(path, "has a damaged header", error);
    if (header.version != VERSION || header.header_bytes != sizeof header)
        return facet_error_argument(error, FACET_UNSUPPORTED, "path",
                                    "%s is a snapshot of version %" PRIu32 ", expected %d", path, header.version,
                                    VERSION);
    enum facet_status status = hash_payload(fd, path, &bytes, &hash, error);
    if (status != FACET_OK)
        return status;
    if (bytes != header.payload_bytes)
        return refuse_corrupt(path, bytes < header.payload_bytes ? "is cut short" : "has bytes behind its end", error);
    if (memcmp(&hash, &header.payload_hash, sizeof hash) != 0)
        return refuse_corrupt(path, "is damaged", error);
    /* A checksum detects damage, but a forged file may hold texts without an end. */
    header.provider[sizeof header.provider - 1] = '\0';
    header.device[sizeof header.device - 1] = '\0';
    header.worker[sizeof header.worker - 1] = '\0';
    *ret_header = header;
    return FACET_OK;
}

static const char *worker_of(const struct header *header)
{
    return header->has_worker ? header->worker : "every worker";
}

/* A snapshot is restored only to a device of the same make, under the same worker's name. */
static enum facet_status check_identity(const struct header *file, const struct header *present,
                                        struct facet_error *error)
{
    if (strcmp(file->provider, present->provider) != 0)
        return facet_error_argument(error, FACET_UNSUPPORTED, "provider", "a snapshot of provider %s, expected %s",
                                    file->provider, present->provider);
    if (strcmp(file->device, present->device) != 0)
        return facet_error_argument(error, FACET_UNSUPPORTED, "device", "a snapshot of device %s, expected %s",
                                    file->device, present->device);
    if (file->memory_bytes != present->memory_bytes || file->compute_units != present->compute_units)
        return facet_error_argument(error, FACET_UNSUPPORTED, "device",
                                    "a snapshot of a device of %" PRIu64 " bytes and %" PRIu32
                                    " units, expected %" PRIu64 " bytes and %" PRIu32 " units",
                                    file->memory_bytes, file->compute_units, present->memory_bytes,
                                    present->compute_units);
    if (file->has_worker != present->has_worker || strcmp(file->worker, present->worker) != 0)
        return facet_error_argument(error, FACET_UNSUPPORTED, "worker", "a snapshot of %s, expected %s",
                                    worker_of(file), worker_of(present));
    return FACET_OK;
}

enum facet_status facet_snapshot_restore(struct facet_session *session, uint32_t device, const char *worker,
                                         const char *path, struct facet_error *error)
{
    struct header present, file;

    if (!session || !path)
        return refuse_null(session ? "path" : "session", error);
    FACET_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return facet_error_errno(error, errno, "cannot open snapshot %s", path);
    enum facet_status status = identify_device(session, device, worker, &present, error);
    if (status == FACET_OK)
        status = read_file(fd, path, &file, error);
    if (status == FACET_OK)
        status = check_identity(&file, &present, error);
    return status == FACET_OK ? resume_worker(session, device, worker, fd, error) : status;
}
