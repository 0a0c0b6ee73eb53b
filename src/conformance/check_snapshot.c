/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table `snapshot`. Never: looks into a snapshot's bytes. */
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "conformance/check.h"

enum { PIECE = 16 << 10, FREE_PID = 0x3ffffff };

static void unknown_device(struct facet_check *check)
{
    const struct facet_snapshot_ops *ops = &check->snapshot_ops;

    if (ops->snapshot)
        EXPECT_ABSENT(check, "snapshot.snapshot", FACET_CAN_SNAPSHOT, NULL, 0,
                      ops->snapshot(check->instance, check->device_count, FACET_CHECK_WORKER, -1, NULL));
    if (ops->resume)
        EXPECT_ABSENT(check, "snapshot.resume", FACET_CAN_SNAPSHOT, NULL, 0,
                      ops->resume(check->instance, UINT32_MAX, FACET_CHECK_WORKER, -1, &check->error));
}

static enum facet_status save(struct facet_check *check, const char *worker, int fd)
{
    return check->snapshot_ops.snapshot(check->instance, check->device, worker, fd, &check->error);
}

static enum facet_status bring_back(struct facet_check *check, int fd)
{
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) < 0)
        return FACET_IO;
    return check->snapshot_ops.resume(check->instance, check->device, FACET_CHECK_WORKER, fd, &check->error);
}

static void refusals(struct facet_check *check)
{
    static const int32_t dead[] = {FREE_PID};
    static const char garbage[] =
        "this is not a snapshot; it is a line of text that goes on for a while, and ends here";
    FACET_CLEANUP_FD int fd = memfd_create("facet-conformance-garbage", MFD_CLOEXEC);

    EXPECT_STATUS(check, "snapshot.snapshot: a worker with nothing on the device is not found", FACET_NOT_FOUND,
                  save(check, "conformance-unknown", fd));
    EXPECT_TRUE(check, "snapshot.resume: garbage to resume from",
                write(fd, garbage, sizeof garbage) == (ssize_t)sizeof garbage, "expected: a file\ngot: none");
    EXPECT_STATUS(check, "snapshot.resume: garbage is corrupt", FACET_CORRUPT, bring_back(check, fd));
    EXPECT_TRUE(check, "snapshot.resume: an empty file to resume from", ftruncate(fd, 0) == 0,
                "expected: a file\ngot: none");
    EXPECT_STATUS(check, "snapshot.resume: an empty file is corrupt", FACET_CORRUPT, bring_back(check, fd));
    EXPECT_STATUS(check, "snapshot.snapshot_processes: a dead process is not found", FACET_NOT_FOUND,
                  check->snapshot_ops.snapshot_processes(check->instance, dead, 1, &check->error));
    EXPECT_STATUS(check, "snapshot.resume_processes: a dead process is not found", FACET_NOT_FOUND,
                  check->snapshot_ops.resume_processes(check->instance, dead, 1, NULL));
}

/* A worker with a piece of memory whose content is known. */
struct worker {
    struct facet_check *check;
    uint64_t context, watcher, address, used;
    unsigned char expected[PIECE], got[PIECE];
};

static bool settle(struct worker *worker)
{
    struct facet_check *check = worker->check;
    const struct facet_memory_ops *ops = &check->memory_ops;

    for (size_t i = 0; i < PIECE; i++)
        worker->expected[i] = (unsigned char)(i * 13 + i / 256);
    if (!facet_check_context(check, FACET_CHECK_OTHER, &worker->watcher) ||
        !facet_check_context(check, FACET_CHECK_WORKER, &worker->context) ||
        !EXPECT_OK(check, "memory.alloc: something to save",
                   ops->alloc(check->instance, worker->context, PIECE, &worker->address, &check->error)) ||
        !EXPECT_OK(
            check, "memory.write: something to save",
            ops->write(check->instance, worker->context, worker->address, worker->expected, PIECE, &check->error)))
        return false;
    worker->used = facet_check_used(check, worker->watcher);
    return true;
}

static void look_back(struct worker *worker, const char *text)
{
    struct facet_check *check = worker->check;

    facet_check_begin(check, "%s", text);
    memset(worker->got, 0, PIECE);
    enum facet_status status =
        check->memory_ops.read(check->instance, worker->context, worker->address, PIECE, worker->got, &check->error);
    if (status != FACET_OK) {
        facet_check_status(check, FACET_OK, status);
        return;
    }
    facet_check_judge(check, memcmp(worker->got, worker->expected, PIECE) == 0,
                      "expected: the bytes that were saved\ngot: others");
}

/* While it is off the device, its memory is the neighbours'. */
static void look_away(struct worker *worker)
{
    struct facet_check *check = worker->check;

    facet_check_begin(check, "snapshot.snapshot: its memory cannot be read while it is off the device");
    enum facet_status status =
        check->memory_ops.read(check->instance, worker->context, worker->address, 16, worker->got, &check->error);
    facet_check_judge(check, status != FACET_OK, "expected: a refusal\ngot: ok");
    EXPECT_TRUE(check, "snapshot.snapshot: takes its memory off the device",
                facet_check_used(check, worker->watcher) + PIECE <= worker->used,
                "expected: %d bytes less in use than %" PRIu64 "\ngot: %" PRIu64, PIECE, worker->used,
                facet_check_used(check, worker->watcher));
    EXPECT_STATUS(check, "snapshot.snapshot: of one that is off the device is a bad state", FACET_BAD_STATE,
                  save(check, FACET_CHECK_WORKER, -1));
}

static void truncated(struct worker *worker, int fd)
{
    struct facet_check *check = worker->check;
    FACET_CLEANUP_FD int half = memfd_create("facet-conformance-half", MFD_CLOEXEC);
    static unsigned char bytes[PIECE];
    struct stat status = {0};

    facet_check_begin(check, "snapshot.resume: half of a snapshot is corrupt");
    fstat(fd, &status);
    for (off_t at = 0; at < status.st_size / 2;) {
        off_t left = status.st_size / 2 - at;
        ssize_t count = pread(fd, bytes, left < PIECE ? (size_t)left : PIECE, at);

        if (count <= 0 || write(half, bytes, (size_t)count) != count)
            break;
        at += count;
    }
    facet_check_status(check, FACET_CORRUPT, bring_back(check, half));
}

static void to_file(struct worker *worker)
{
    struct facet_check *check = worker->check;
    FACET_CLEANUP_FD int fd = memfd_create("facet-conformance-snapshot", MFD_CLOEXEC);

    if (!EXPECT_OK(check, "snapshot.snapshot: to a file", save(check, FACET_CHECK_WORKER, fd)))
        return;
    look_away(worker);
    truncated(worker, fd);
    if (EXPECT_OK(check, "snapshot.resume: from the file", bring_back(check, fd)))
        look_back(worker, "snapshot.resume: the same bytes at the same address");
    EXPECT_STATUS(check, "snapshot.resume: of one that is on the device is busy", FACET_BUSY, bring_back(check, fd));
    look_back(worker, "snapshot.resume: what was refused changed nothing");
}

static void to_memory(struct worker *worker)
{
    struct facet_check *check = worker->check;

    if (!EXPECT_OK(check, "snapshot.snapshot: to host memory", save(check, FACET_CHECK_WORKER, -1)))
        return;
    if (EXPECT_OK(check, "snapshot.resume: from host memory", bring_back(check, -1)))
        look_back(worker, "snapshot.resume: from host memory, the same bytes");
}

static void rounds(struct facet_check *check)
{
    static struct worker worker;

    worker.check = check;
    if (!settle(&worker))
        return;
    to_file(&worker);
    to_memory(&worker);
    EXPECT_NUMBER(check, "snapshot.resume: as much memory in use as before", worker.used,
                  facet_check_used(check, worker.watcher));
    facet_check_drop_context(check, worker.context);
    facet_check_drop_context(check, worker.watcher);
}

static const struct facet_check_case cases[] = {
    {unknown_device, 0},
    {refusals, FACET_CAN_SNAPSHOT},
    {rounds, FACET_CAN_SNAPSHOT | FACET_CAN_MEMORY},
    {NULL, 0},
};

const struct facet_check_group facet_check_snapshot = {
    .name = "snapshot", .about = "saving workers and bringing them back", .cases = cases};
