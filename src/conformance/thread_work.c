/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the rounds of streams and of snapshots. Never: saves another thread's worker. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "conformance/thread.h"

enum { WORDS = 64, PIECE = 4096, UNUSED_PID = 0x3ffffff };

static bool load_module(struct facet_check_thread *thread, uint64_t context, uint64_t *ret_module)
{
    static const char garbage[] = "no image of any device";
    const char *image = thread->team->image ? thread->team->image : garbage;
    const enum facet_status expected = thread->team->image ? FACET_OK : FACET_CORRUPT;

    return FACET_THREAD_EXPECT(thread, expected, execution, load, context, image, strlen(image), ret_module) &&
           thread->team->image;
}

static void check_result(struct facet_check_thread *thread, uint64_t context, uint64_t stream, uint64_t address)
{
    const uint64_t own_value = UINT64_C(0x1122334455660000) + thread->number;
    struct facet_stream_state state = {.size = sizeof state};
    uint64_t words[WORDS] = {0};

    FACET_THREAD_EXPECT(thread, FACET_OK, memory, read, context, address, sizeof words, words);
    for (int i = 0; i < WORDS; i++)
        if (words[i] != own_value)
            facet_thread_complain(thread, "execution.launch: a word is not what this thread's kernel stored");
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, query, context, stream, &state);
    if (state.launched != 1 || state.completed != 1 || state.failed)
        facet_thread_complain(thread, "execution.query: %" PRIu64 " launched and %" PRIu64 " completed instead of 1",
                              state.launched, state.completed);
}

static void run_kernel(struct facet_check_thread *thread, uint64_t context, uint64_t stream, uint64_t module)
{
    uint64_t arguments[] = {0, WORDS, UINT64_C(0x1122334455660000) + thread->number};
    struct facet_launch launch = {.size = sizeof launch,
                                  .argument_bytes = sizeof arguments,
                                  .module = module,
                                  .grid = {1, 1, 1},
                                  .group = {1, 1, 1}};

    snprintf(launch.kernel, sizeof launch.kernel, "%s", thread->team->kernel);
    if (!FACET_THREAD_EXPECT(thread, FACET_OK, memory, alloc, context, WORDS * sizeof(uint64_t), &arguments[0]))
        return;
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, launch, context, stream, &launch, arguments);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, synchronize, context, stream, FACET_CHECK_KERNEL_NS);
    check_result(thread, context, stream, arguments[0]);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, unload, context, module);
}

/* Without a published kernel the calls of this round must be refused. */
static void run_nothing(struct facet_check_thread *thread, uint64_t context, uint64_t stream)
{
    const struct facet_launch launch = {
        .size = sizeof launch, .module = INT32_MAX, .grid = {1, 1, 1}, .group = {1, 1, 1}, .kernel = "none"};
    struct facet_stream_state state = {.size = sizeof state};

    FACET_THREAD_EXPECT(thread, FACET_NOT_FOUND, execution, launch, context, stream, &launch, NULL);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, synchronize, context, stream, 0);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, query, context, stream, &state);
    if (state.launched != 0 || state.completed != 0)
        facet_thread_complain(thread, "execution.query: launches on a stream that has none");
    FACET_THREAD_EXPECT(thread, FACET_NOT_FOUND, execution, unload, context, INT32_MAX);
}

void facet_thread_use_streams(struct facet_check_thread *thread)
{
    uint64_t context = 0, module = 0, stream = 0;

    if (!facet_thread_context(thread, &context))
        return;
    if (FACET_THREAD_EXPECT(thread, FACET_OK, execution, create_stream, context, &stream)) {
        if (load_module(thread, context, &module))
            run_kernel(thread, context, stream, module);
        else
            run_nothing(thread, context, stream);
        FACET_THREAD_EXPECT(thread, FACET_OK, execution, cancel, context, stream);
        FACET_THREAD_EXPECT(thread, FACET_OK, execution, destroy_stream, context, stream);
        FACET_THREAD_EXPECT(thread, FACET_NOT_FOUND, execution, cancel, context, stream);
    }
    facet_thread_drop_context(thread, context);
}

/* Takes the worker off the device to `fd` and resumes it; its bytes must be at the same address. */
static void snapshot_and_resume(struct facet_check_thread *thread, uint64_t context, uint64_t address, int fd)
{
    unsigned char expected[PIECE], got[PIECE] = {0};

    memset(expected, (int)(thread->number + 1), sizeof expected);
    if (!FACET_THREAD_EXPECT(thread, FACET_OK, snapshot, snapshot, thread->check.device, thread->worker, fd))
        return;
    FACET_THREAD_EXPECT(thread, FACET_BAD_STATE, memory, read, context, address, sizeof got, got);
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) < 0)
        facet_thread_complain(thread, "snapshot.snapshot: the file cannot be read from its start");
    FACET_THREAD_EXPECT(thread, FACET_OK, snapshot, resume, thread->check.device, thread->worker, fd);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, read, context, address, sizeof got, got);
    if (memcmp(expected, got, sizeof got) != 0)
        facet_thread_complain(thread, "snapshot.resume: not what this thread saved");
}

/* A snapshot of this process would stop the other threads' work, so the round names a process that does not exist. */
static void refuse_processes(struct facet_check_thread *thread)
{
    static const int32_t dead[] = {UNUSED_PID};

    FACET_THREAD_EXPECT(thread, FACET_NOT_FOUND, snapshot, snapshot_processes, dead, 1);
    FACET_THREAD_EXPECT(thread, FACET_NOT_FOUND, snapshot, resume_processes, dead, 1);
}

void facet_thread_use_snapshots(struct facet_check_thread *thread)
{
    FACET_CLEANUP_FD int fd = memfd_create("facet-conformance-thread", MFD_CLOEXEC);
    unsigned char bytes[PIECE];
    uint64_t context = 0, address = 0;

    refuse_processes(thread);
    if (!facet_thread_context(thread, &context))
        return;
    memset(bytes, (int)(thread->number + 1), sizeof bytes);
    if (FACET_THREAD_EXPECT(thread, FACET_OK, memory, alloc, context, sizeof bytes, &address) &&
        FACET_THREAD_EXPECT(thread, FACET_OK, memory, write, context, address, bytes, sizeof bytes)) {
        snapshot_and_resume(thread, context, address, fd);
        snapshot_and_resume(thread, context, address, -1);
    }
    facet_thread_drop_context(thread, context);
}
