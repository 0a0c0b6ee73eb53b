/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of the table `snapshot`. Never: interprets a snapshot's bytes. */
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "conformance/kernel.h"

/* A snapshot is written and read at the file's offset, which here is not 0. */
enum { WORKER_BYTES = 16 << 10, UNUSED_PID = 0x3ffffff, SNAPSHOT_OFFSET = 100, QUEUED_LAUNCHES = 48 };

static void refuse_absent_device(struct facet_check *check)
{
    facet_check_absent_device(check, "snapshot");
}

static enum facet_status save_worker(struct facet_check *check, const char *worker, int fd)
{
    return check->snapshot_ops.snapshot(check->instance, check->device, worker, fd, &check->error);
}

static enum facet_status resume_at(struct facet_check *check, const char *worker, int fd, off_t at)
{
    if (fd >= 0 && lseek(fd, at, SEEK_SET) < 0)
        return FACET_IO;
    return check->snapshot_ops.resume(check->instance, check->device, worker, fd, &check->error);
}

static enum facet_status resume_worker(struct facet_check *check, int fd)
{
    return resume_at(check, FACET_CHECK_WORKER, fd, SNAPSHOT_OFFSET);
}

/* An empty file whose offset is where a snapshot is to begin; -1 after a failed assertion. */
static int create_file(struct facet_check *check)
{
    FACET_CLEANUP_FD int fd = memfd_create("facet-conformance-snapshot", MFD_CLOEXEC);

    if (fd < 0 || lseek(fd, SNAPSHOT_OFFSET, SEEK_SET) != SNAPSHOT_OFFSET) {
        EXPECT_TRUE(check, "snapshot.snapshot: a file to save to", false,
                    "expected: a memory file of this process\ngot: none");
        return -1;
    }
    return FACET_TAKE_FD(fd);
}

static void check_refusals(struct facet_check *check)
{
    static const int32_t dead[] = {UNUSED_PID};
    static const char garbage[] =
        "this is not a snapshot; it is a line of text that goes on for a while, and ends here";
    FACET_CLEANUP_FD int fd = create_file(check);

    if (fd < 0)
        return;

    EXPECT_STATUS(check, "snapshot.snapshot: a worker with nothing on the device is not found", FACET_NOT_FOUND,
                  save_worker(check, "conformance-unknown", fd));
    EXPECT_TRUE(check, "snapshot.resume: garbage to resume from",
                write(fd, garbage, sizeof garbage) == (ssize_t)sizeof garbage,
                "expected: a write to the file of this process\ngot: an error");
    EXPECT_STATUS(check, "snapshot.resume: garbage is corrupt", FACET_CORRUPT, resume_worker(check, fd));
    EXPECT_TRUE(check, "snapshot.resume: an empty file to resume from", ftruncate(fd, 0) == 0,
                "expected: the file of this process is emptied\ngot: an error");
    EXPECT_STATUS(check, "snapshot.resume: an empty file is corrupt", FACET_CORRUPT, resume_worker(check, fd));
    EXPECT_STATUS(check, "snapshot.resume: from host memory without a snapshot is not found", FACET_NOT_FOUND,
                  resume_worker(check, -1));
    EXPECT_STATUS(check, "snapshot.snapshot_processes: a dead process is not found", FACET_NOT_FOUND,
                  check->snapshot_ops.snapshot_processes(check->instance, dead, 1, &check->error));
    EXPECT_STATUS(check, "snapshot.resume_processes: a dead process is not found", FACET_NOT_FOUND,
                  check->snapshot_ops.resume_processes(check->instance, dead, 1, NULL));
}

/* A worker with memory whose content is known, and a second worker's context, which watches the memory in use. */
struct worker {
    struct facet_check *check;
    uint64_t context, watcher, address, used;
    unsigned char expected[WORKER_BYTES], got[WORKER_BYTES];
};

static bool prepare_worker(struct worker *worker)
{
    struct facet_check *check = worker->check;
    const struct facet_memory_ops *ops = &check->memory_ops;

    for (size_t i = 0; i < WORKER_BYTES; i++)
        worker->expected[i] = (unsigned char)(i * 13 + i / 256);
    if (!facet_check_context(check, FACET_CHECK_OTHER, &worker->watcher) ||
        !facet_check_context(check, FACET_CHECK_WORKER, &worker->context) ||
        !EXPECT_OK(check, "memory.alloc: something to save",
                   ops->alloc(check->instance, worker->context, WORKER_BYTES, &worker->address, &check->error)) ||
        !EXPECT_OK(check, "memory.write: something to save",
                   ops->write(check->instance, worker->context, worker->address, worker->expected, WORKER_BYTES,
                              &check->error)))
        return false;
    worker->used = facet_check_used(check, worker->watcher);
    return true;
}

static void expect_same_bytes(struct worker *worker, const char *text)
{
    struct facet_check *check = worker->check;

    facet_check_begin(check, "%s", text);
    memset(worker->got, 0, WORKER_BYTES);
    enum facet_status status = check->memory_ops.read(check->instance, worker->context, worker->address, WORKER_BYTES,
                                                      worker->got, &check->error);
    if (status != FACET_OK) {
        facet_check_status(check, FACET_OK, status);
        return;
    }
    facet_check_judge(check, memcmp(worker->got, worker->expected, WORKER_BYTES) == 0,
                      "expected: the bytes that were saved\ngot: other bytes");
}

static void expect_bad_state(struct facet_check_tally *tally, const char *operation, enum facet_status got)
{
    if (got != FACET_BAD_STATE)
        facet_check_tally_miss(tally, "expected: bad_state from %s\ngot: %s", operation, facet_status_name(got));
}

#define EXPECT_BAD_STATE(table, op, ...)                                                                               \
    expect_bad_state(&tally, #table "." #op,                                                                           \
                     check->table##_ops.op(check->instance, worker->context, __VA_ARGS__, &check->error))

static void refuse_calls_off_device(struct worker *worker)
{
    struct facet_check_tally tally = {.text =
                                          "snapshot.snapshot: every call with a context off the device is a bad state"};
    struct facet_memory_info info = {.size = sizeof info};
    struct facet_stream_state state = {.size = sizeof state};
    struct facet_check *check = worker->check;
    uint64_t none;

    facet_check_begin(check, "%s", tally.text);
    EXPECT_BAD_STATE(memory, info, &info);
    EXPECT_BAD_STATE(memory, alloc, WORKER_BYTES, &none);
    EXPECT_BAD_STATE(memory, free, worker->address);
    EXPECT_BAD_STATE(memory, write, worker->address, worker->expected, 16);
    EXPECT_BAD_STATE(memory, read, worker->address, 16, worker->got);
    EXPECT_BAD_STATE(memory, copy, worker->address, worker->address + 64, 16);
    EXPECT_BAD_STATE(memory, fill, worker->address, 0, 16);
    expect_bad_state(&tally, "memory.destroy_context",
                     check->memory_ops.destroy_context(check->instance, worker->context, &check->error));
    if (facet_check_claims(check, FACET_CAN_EXECUTE)) {
        EXPECT_BAD_STATE(execution, create_stream, &none);
        EXPECT_BAD_STATE(execution, synchronize, 1, 0);
        EXPECT_BAD_STATE(execution, query, 1, &state);
        EXPECT_BAD_STATE(execution, cancel, 1);
    }
    if (facet_check_claims(check, FACET_CAN_EXECUTE | FACET_CAN_ENQUEUE))
        EXPECT_BAD_STATE(execution, fill, 1, worker->address, 0, 16);
    facet_check_report_tallies(check, &tally, 1);
}

/* While the worker is off the device, other workers can use its memory. */
static void check_off_device(struct worker *worker)
{
    struct facet_check *check = worker->check;

    refuse_calls_off_device(worker);
    EXPECT_TRUE(check, "snapshot.snapshot: takes its memory off the device",
                facet_check_used(check, worker->watcher) + WORKER_BYTES <= worker->used,
                "expected: at least %d bytes less in use than %" PRIu64 "\ngot: %" PRIu64 " bytes in use", WORKER_BYTES,
                worker->used, facet_check_used(check, worker->watcher));
    EXPECT_STATUS(check, "snapshot.snapshot: a worker that is off the device is a bad state", FACET_BAD_STATE,
                  save_worker(check, FACET_CHECK_WORKER, -1));
}

static void refuse_truncated(struct worker *worker, int fd)
{
    struct facet_check *check = worker->check;
    FACET_CLEANUP_FD int half = create_file(check);
    static unsigned char bytes[WORKER_BYTES];
    struct stat status = {0};

    facet_check_begin(check, "snapshot.resume: half of a snapshot is corrupt");
    fstat(fd, &status);
    for (off_t at = SNAPSHOT_OFFSET; at < status.st_size / 2;) {
        off_t left = status.st_size / 2 - at;
        ssize_t count = pread(fd, bytes, left < WORKER_BYTES ? (size_t)left : WORKER_BYTES, at);

        if (count <= 0 || write(half, bytes, (size_t)count) != count)
            break;
        at += count;
    }
    facet_check_status(check, FACET_CORRUPT, resume_worker(check, half));
}

static void check_save_to_file(struct worker *worker)
{
    struct facet_check *check = worker->check;
    FACET_CLEANUP_FD int fd = create_file(check);

    if (fd < 0 || !EXPECT_OK(check, "snapshot.snapshot: to a file", save_worker(check, FACET_CHECK_WORKER, fd)))
        return;
    check_off_device(worker);
    refuse_truncated(worker, fd);
    if (EXPECT_OK(check, "snapshot.resume: from the file", resume_worker(check, fd)))
        expect_same_bytes(worker, "snapshot.resume: the same bytes at the same address");
    EXPECT_STATUS(check, "snapshot.resume: a worker that is on the device is busy", FACET_BUSY,
                  resume_worker(check, fd));
    expect_same_bytes(worker, "snapshot.resume: what was refused changed nothing");
}

static void check_save_to_memory(struct worker *worker)
{
    struct facet_check *check = worker->check;

    if (!EXPECT_OK(check, "snapshot.snapshot: to host memory", save_worker(check, FACET_CHECK_WORKER, -1)))
        return;
    if (EXPECT_OK(check, "snapshot.resume: from host memory", resume_worker(check, -1)))
        expect_same_bytes(worker, "snapshot.resume: from host memory, the same bytes");
}

static void check_save_and_resume(struct facet_check *check)
{
    static struct worker worker;

    worker.check = check;
    if (!prepare_worker(&worker))
        return;
    check_save_to_file(&worker);
    check_save_to_memory(&worker);
    EXPECT_NUMBER(check, "snapshot.resume: as much memory in use as before", worker.used,
                  facet_check_used(check, worker.watcher));
    facet_check_drop_context(check, worker.context);
    facet_check_drop_context(check, worker.watcher);
}

/* Resumes a snapshot from a file in another instance, and then the same file in the first instance. */
static void resume_in_other_instance(struct facet_check *check)
{
    FACET_CLEANUP_FD int fd = create_file(check);
    static struct worker worker;
    struct facet_check other;

    worker.check = check;
    if (fd < 0 || !prepare_worker(&worker))
        return;
    if (EXPECT_OK(check, "snapshot.snapshot: for another instance", save_worker(check, FACET_CHECK_WORKER, fd)) &&
        facet_check_open_second(check, &other)) {
        worker.check = &other;
        if (EXPECT_OK(&other, "snapshot.resume: in another instance", resume_worker(&other, fd))) {
            expect_same_bytes(&worker, "snapshot.resume: in another instance, the same bytes by the same numbers");
            facet_check_drop_context(&other, worker.context);
        }
        facet_check_close_second(&other);
        worker.check = check;
    }
    if (EXPECT_OK(check, "snapshot.resume: where it came from", resume_worker(check, fd)))
        facet_check_drop_context(check, worker.context);
    facet_check_drop_context(check, worker.watcher);
}

/* A snapshot of NULL takes both of two workers off the device. */
static void save_all_workers(struct facet_check *check)
{
    FACET_CLEANUP_FD int fd = create_file(check);
    struct facet_memory_info info = {.size = sizeof info};
    static struct worker worker;

    worker.check = check;
    if (fd < 0 || !prepare_worker(&worker))
        return;
    if (EXPECT_OK(check, "snapshot.snapshot: every worker, by NULL", save_worker(check, NULL, fd))) {
        EXPECT_STATUS(check, "snapshot.snapshot: by NULL, the first worker is off the device", FACET_BAD_STATE,
                      check->memory_ops.info(check->instance, worker.context, &info, &check->error));
        EXPECT_STATUS(check, "snapshot.snapshot: by NULL, the second worker is off the device", FACET_BAD_STATE,
                      check->memory_ops.info(check->instance, worker.watcher, &info, &check->error));
        if (EXPECT_OK(check, "snapshot.resume: every worker, by NULL", resume_at(check, NULL, fd, SNAPSHOT_OFFSET)))
            expect_same_bytes(&worker, "snapshot.resume: by NULL, the same bytes");
    }
    facet_check_drop_context(check, worker.context);
    facet_check_drop_context(check, worker.watcher);
}

static void check_words(struct facet_check *check, uint64_t context, uint64_t address)
{
    struct facet_check_tally tally = {.text = "snapshot.resume: queued work is done afterwards, all of it"};
    uint64_t words[QUEUED_LAUNCHES] = {0};

    facet_check_begin(check, "%s", tally.text);
    enum facet_status status =
        check->memory_ops.read(check->instance, context, address, sizeof words, words, &check->error);
    if (status != FACET_OK)
        facet_check_tally_miss(&tally, "expected: ok for the read of the words\ngot: %s", facet_status_name(status));
    for (uint64_t i = 0; i < QUEUED_LAUNCHES; i++)
        if (words[i] != i + 1)
            facet_check_tally_miss(&tally, "expected: 0x%" PRIx64 " in word %" PRIu64 "\ngot: 0x%" PRIx64, i + 1, i,
                                   words[i]);
    facet_check_report_tallies(check, &tally, 1);
}

/* Each launch stores one word. Any number of them may complete before the snapshot. */
static void save_with_queue(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    struct facet_stream_state state = {.size = sizeof state};
    enum facet_status status = FACET_OK;

    facet_check_begin(check, "execution.launch: many in a row");
    for (uint64_t i = 0; i < QUEUED_LAUNCHES && status == FACET_OK; i++)
        status = facet_check_kernel_launch(check, kernel, address + i * sizeof(uint64_t), 1, i + 1);
    facet_check_status(check, FACET_OK, status);
    if (!EXPECT_OK(check, "snapshot.snapshot: with work queued", save_worker(check, FACET_CHECK_WORKER, -1)) ||
        !EXPECT_OK(check, "snapshot.resume: with work queued", resume_worker(check, -1)))
        return;
    EXPECT_OK(check, "execution.synchronize: work that was queued before a snapshot",
              check->execution_ops.synchronize(check->instance, kernel->context, kernel->stream, FACET_CHECK_KERNEL_NS,
                                               &check->error));
    check_words(check, kernel->context, address);
    EXPECT_OK(check, "execution.query: a stream that was saved",
              check->execution_ops.query(check->instance, kernel->context, kernel->stream, &state, &check->error));
    EXPECT_TRUE(check, "snapshot.resume: a stream's counters go on",
                state.launched == QUEUED_LAUNCHES && state.completed == QUEUED_LAUNCHES,
                "expected: %d launched and completed\ngot: %" PRIu64 " launched, %" PRIu64 " completed",
                QUEUED_LAUNCHES, state.launched, state.completed);
}

static void check_queued_work(struct facet_check *check)
{
    struct facet_check_kernel kernel = {0};
    uint64_t context = 0, address = 0;

    if (!facet_check_kernel_published(check)) {
        facet_check_skip(check, "snapshot.snapshot: with work queued", "no property conformance_kernel is published");
        return;
    }
    if (!facet_check_context(check, FACET_CHECK_WORKER, &context))
        return;
    if (facet_check_kernel_open(check, context, &kernel) &&
        EXPECT_OK(check, "memory.alloc: for queued work to write to",
                  check->memory_ops.alloc(check->instance, context, QUEUED_LAUNCHES * sizeof(uint64_t), &address,
                                          &check->error)))
        save_with_queue(check, &kernel, address);
    facet_check_drop_context(check, context);
}

static const struct facet_check_case cases[] = {
    {refuse_absent_device, 0},
    {check_refusals, FACET_CAN_SNAPSHOT},
    {check_save_and_resume, FACET_CAN_SNAPSHOT | FACET_CAN_MEMORY},
    {resume_in_other_instance, FACET_CAN_SNAPSHOT | FACET_CAN_MEMORY},
    {save_all_workers, FACET_CAN_SNAPSHOT | FACET_CAN_MEMORY},
    {check_queued_work, FACET_CAN_SNAPSHOT | FACET_CAN_MEMORY | FACET_CAN_EXECUTE},
    {NULL, 0},
};

const struct facet_check_group facet_check_snapshot = {
    .name = "snapshot", .about = "saving workers and bringing them back", .cases = cases};
