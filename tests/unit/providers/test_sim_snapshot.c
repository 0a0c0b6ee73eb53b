/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of snapshots of the simulated devices: memory, numbers and progress are the same afterwards, also in
 * another process; a failure, at whichever allocation or byte, changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "sim_world.h"

static struct world world;

#define SNAPSHOT  (world.provider->snapshot)
#define EXECUTION (world.provider->execution)
#define MEMORY    (world.provider->memory)
#define INSTANCE  world.instance
#define WORDS     1000u

/* --- failing allocations: linked with --wrap --- */

static long allocations_left = -1; /* -1: all succeed */

static bool may_allocate(void)
{
    return allocations_left < 0 || allocations_left-- > 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return may_allocate() ? __real_calloc(count, size) : NULL;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return may_allocate() ? __real_malloc(size) : NULL;
}

void *__real_reallocarray(void *pointer, size_t count, size_t size);
void *__wrap_reallocarray(void *pointer, size_t count, size_t size);
void *__wrap_reallocarray(void *pointer, size_t count, size_t size)
{
    return may_allocate() ? __real_reallocarray(pointer, count, size) : NULL;
}

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (may_allocate())
        return __real_memfd_create(name, flags);
    errno = ENOMEM;
    return -1;
}

/* --- a worker with every kind of object --- */

struct work {
    uint64_t plain, base, pages, second;
};

/* The work has plain memory, two mappings of one destroyed page object, and two streams with queued launches. */
static struct work begin_work(void)
{
    struct work work;

    world_begin(&world);
    work.plain = world_alloc(&world, world.context, WORDS * 8);
    OK(&world, MEMORY->reserve(INSTANCE, world.context, 4 * WORLD_PAGE, 0, &work.base, &world.error));
    OK(&world, MEMORY->create_pages(INSTANCE, world.context, WORLD_PAGE, &work.pages, &world.error));
    for (uint64_t i = 0; i < 3; i += 2)
        OK(&world,
           MEMORY->map(INSTANCE, world.context, work.base + i * WORLD_PAGE, work.pages, 0, WORLD_PAGE, &world.error));
    OK(&world, MEMORY->destroy_pages(INSTANCE, world.context, work.pages, &world.error));
    OK(&world, MEMORY->fill(INSTANCE, world.context, work.base + 5, 0x77, 5000, &world.error));
    work.second = world_stream(&world, world.context);
    world_effect(&world, "fill", work.plain, WORDS, 5);
    for (uint64_t i = 1; i <= 20; i++)
        world_effect(&world, "add", work.plain, WORDS / i, i);
    world_launch(&world, world.context, world.module, work.second, "recorded", 1);
    return work;
}

static void finish_work(const struct work *work, uint64_t *ret_words)
{
    world_synchronize(&world, world.context, world.stream);
    world_synchronize(&world, world.context, work->second);
    OK(&world, MEMORY->read(INSTANCE, world.context, work->plain, WORDS * 8, ret_words, &world.error));
}

static void check_finished(const struct work *work)
{
    static uint64_t words[WORDS];
    struct facet_stream_state state;

    finish_work(work, words);
    for (uint64_t i = 0; i < WORDS; i++) {
        uint64_t expected = 5;

        for (uint64_t j = 1; j <= 20; j++)
            expected += i < WORDS / j ? j : 0;
        assert_int_equal(words[i], expected);
    }
    state = world_state(&world, world.context, world.stream);
    assert_int_equal(state.completed, 21);
    assert_int_equal(state.busy_ns, 21000);
    state = world_state(&world, world.context, work->second);
    assert_int_equal(state.busy_ns, 12345);
    assert_int_equal(world_word(&world, world.context, work->base + 2 * WORLD_PAGE), 0x7777770000000000);
    assert_int_equal(world_word(&world, world.context, work->base + 5000), 0x7777777777);
    assert_int_equal(MEMORY->destroy_pages(INSTANCE, world.context, work->pages, NULL), FACET_NOT_FOUND);
    assert_int_equal(world_used(&world, world.context), WORDS * 8 + WORLD_PAGE);
    for (uint64_t i = 0; i < 3; i += 2)
        OK(&world, MEMORY->unmap(INSTANCE, world.context, work->base + i * WORLD_PAGE, WORLD_PAGE, &world.error));
    assert_int_equal(world_used(&world, world.context), WORDS * 8);
    OK(&world, MEMORY->free(INSTANCE, world.context, work->plain, &world.error));
    OK(&world, MEMORY->release(INSTANCE, world.context, work->base, &world.error));
    assert_int_equal(world_used(&world, world.context), 0);
}

static int memory_file(void)
{
    int fd = __real_memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void rewind_file(int fd)
{
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
}

/* --- tests --- */

static void an_uninterrupted_run_has_the_expected_result(void **state)
{
    (void)state;
    struct work work = begin_work();

    check_finished(&work);
    world_end(&world);
}

static void restored_work_continues_where_it_was(void **state)
{
    (void)state;
    struct work work = begin_work();

    OK(&world, SNAPSHOT->snapshot(INSTANCE, 0, "a", -1, &world.error));
    assert_int_equal(SNAPSHOT->snapshot(INSTANCE, 0, "a", -1, NULL), FACET_BAD_STATE);
    assert_int_equal(SNAPSHOT->snapshot(INSTANCE, 0, "b", -1, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->free(INSTANCE, world.context, work.plain, NULL), FACET_BAD_STATE);
    assert_int_equal(world_metrics(&world, 0).memory_used_bytes, 0);
    assert_int_equal(SNAPSHOT->resume(INSTANCE, 0, "b", -1, NULL), FACET_NOT_FOUND);
    OK(&world, SNAPSHOT->resume(INSTANCE, 0, "a", -1, &world.error));
    assert_int_equal(SNAPSHOT->resume(INSTANCE, 0, "a", -1, NULL), FACET_NOT_FOUND);
    check_finished(&work);
    world_end(&world);
}

/* A kernel that is half done at the snapshot runs only its other half afterwards. Stepped time passes in `pace`. */
static void progress_of_a_kernel_is_kept(void **state)
{
    (void)state;
    struct work work = begin_work();
    uint64_t pace_context = world_context(&world, 1, NULL, "pace");
    uint64_t pace_module = world_module(&world, pace_context), pace = world_stream(&world, pace_context);

    world_launch(&world, pace_context, pace_module, pace, "compute", 350); /* 4 waves: 4000 ns */
    world_synchronize(&world, pace_context, pace);
    assert_int_equal(world_state(&world, world.context, world.stream).completed, 4);
    OK(&world, SNAPSHOT->snapshot(INSTANCE, 0, NULL, -1, &world.error));
    world_launch(&world, pace_context, pace_module, pace, "compute", 5000);
    world_synchronize(&world, pace_context, pace);
    OK(&world, SNAPSHOT->resume(INSTANCE, 0, NULL, -1, &world.error));
    assert_int_equal(world_state(&world, world.context, world.stream).completed, 4);
    check_finished(&work);
    world_end(&world);
}

static void another_process_continues_the_work(void **state)
{
    int fd = memory_file(), status;
    (void)state;
    struct work work = begin_work();

    OK(&world, SNAPSHOT->snapshot(INSTANCE, 0, "a", fd, &world.error));
    assert_int_equal(SNAPSHOT->snapshot(INSTANCE, 0, "a", fd, NULL), FACET_BAD_STATE);
    rewind_file(fd);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* the child has an instance of its own; a failure aborts it */
        const struct world before = world;

        setenv("CMOCKA_TEST_ABORT", "1", 1);
        world_start(&world, (struct world_setup){0});
        OK(&world, SNAPSHOT->resume(INSTANCE, 0, "a", fd, &world.error));
        world.context = before.context;
        world.module = before.module;
        world.stream = before.stream;
        check_finished(&work);
        world_end(&world);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    world_end(&world);
    close(fd);
}

static void zero_pages_are_not_written(void **state)
{
    int fd = memory_file();
    struct stat file;
    (void)state;

    world_begin(&world);
    uint64_t address = world_alloc(&world, world.context, UINT64_C(60) << 20);
    OK(&world, MEMORY->fill(INSTANCE, world.context, address, 0, UINT64_C(8) << 20, &world.error));
    OK(&world, MEMORY->fill(INSTANCE, world.context, address + (UINT64_C(32) << 20), 1, 4096, &world.error));
    OK(&world, SNAPSHOT->snapshot(INSTANCE, 0, "a", fd, &world.error));
    assert_int_equal(fstat(fd, &file), 0);
    assert_true(file.st_size < 20000);
    rewind_file(fd);
    OK(&world, SNAPSHOT->resume(INSTANCE, 0, "a", fd, &world.error));
    assert_int_equal(world_word(&world, world.context, address + (UINT64_C(32) << 20)), 0x0101010101010101);
    assert_int_equal(world_word(&world, world.context, address + (UINT64_C(32) << 20) - 8), 0);
    close(fd);
    world_end(&world);
}

static void mismatches_are_refused(void **state)
{
    int fd = memory_file();
    uint64_t address;
    (void)state;
    struct work work = begin_work();

    OK(&world, SNAPSHOT->snapshot(INSTANCE, 0, "a", fd, &world.error));
    rewind_file(fd);
    assert_int_equal(SNAPSHOT->resume(INSTANCE, 0, "other", fd, NULL), FACET_UNSUPPORTED);
    rewind_file(fd);
    assert_int_equal(SNAPSHOT->resume(INSTANCE, 0, NULL, fd, NULL), FACET_UNSUPPORTED);
    uint64_t other = world_context(&world, 0, NULL, "b");
    address = world_alloc(&world, other, WORLD_MEMORY - WORLD_PAGE);
    rewind_file(fd);
    assert_int_equal(SNAPSHOT->resume(INSTANCE, 0, "a", fd, NULL), FACET_NO_SPACE);
    OK(&world, MEMORY->free(INSTANCE, other, address, &world.error));
    rewind_file(fd);
    OK(&world, SNAPSHOT->resume(INSTANCE, 0, "a", fd, &world.error));
    rewind_file(fd);
    assert_int_equal(SNAPSHOT->resume(INSTANCE, 0, "a", fd, NULL), FACET_BUSY);
    check_finished(&work);
    world_end(&world);

    /* A device of another model. */
    setenv("FACET_SIM_PROFILE", "h100", 1);
    OK(&world, world.provider->device->open(&world.instance, &world.error));
    rewind_file(fd);
    assert_int_equal(SNAPSHOT->resume(INSTANCE, 0, "a", fd, &world.error), FACET_UNSUPPORTED);
    assert_non_null(strstr(world.error.message, "H100"));
    assert_int_equal(SNAPSHOT->resume(INSTANCE, 0, "a", -2, NULL), FACET_INVALID_ARGUMENT);
    world_end(&world);
    close(fd);
}

/* A snapshot is cut short, or has one byte changed. It is refused, or gives a worker that can be removed again. */
static void damaged_snapshots_are_refused_or_harmless(void **state)
{
    static unsigned char bytes[1 << 20];
    int fd = memory_file(), sink = memory_file();
    (void)state;

    world_begin(&world);
    uint64_t address = world_alloc(&world, world.context, 100);
    world_effect(&world, "fill", address, 3, 5);
    OK(&world, SNAPSHOT->snapshot(INSTANCE, 0, "a", fd, &world.error));
    ssize_t length = pread(fd, bytes, sizeof bytes, 0);
    assert_true(length > 300 && length < 5000);
    for (ssize_t cut = 0; cut < length; cut += 7) {
        assert_int_equal(ftruncate(fd, cut), 0);
        rewind_file(fd);
        assert_int_equal(SNAPSHOT->resume(INSTANCE, 0, "a", fd, NULL), FACET_CORRUPT);
        assert_int_equal(pwrite(fd, bytes, (size_t)length, 0), length);
    }
    unsigned accepted = 0, refused = 0;
    for (ssize_t at = 0; at < length; at++) {
        unsigned char damaged = bytes[at] ^ 0x81;

        assert_int_equal(pwrite(fd, &damaged, 1, at), 1);
        rewind_file(fd);
        if (SNAPSHOT->resume(INSTANCE, 0, "a", fd, &world.error) == FACET_OK) {
            accepted++;
            OK(&world, SNAPSHOT->snapshot(INSTANCE, 0, NULL, sink, &world.error));
        } else {
            refused++;
            assert_true(world.error.message[0]);
        }
        assert_int_equal(pwrite(fd, &bytes[at], 1, at), 1);
    }
    assert_true(accepted > 0 && refused > 200);
    close(fd);
    close(sink);
    world_end(&world);
}

static void any_allocation_may_fail_while_saving(void **state)
{
    (void)state;
    struct work work = begin_work();
    enum facet_status status = FACET_NO_MEMORY;
    long failing = 0;

    for (; status != FACET_OK; failing++) {
        assert_true(failing < 100);
        allocations_left = failing;
        status = SNAPSHOT->snapshot(INSTANCE, 0, "a", -1, &world.error);
        allocations_left = -1;
        assert_true(status == FACET_OK || status == FACET_NO_MEMORY);
        if (status != FACET_OK)
            assert_int_equal(world_used(&world, world.context), WORDS * 8 + WORLD_PAGE);
    }
    assert_true(failing > 3);
    OK(&world, SNAPSHOT->resume(INSTANCE, 0, "a", -1, &world.error));
    check_finished(&work);
    world_end(&world);
}

static void any_allocation_may_fail_while_restoring(void **state)
{
    (void)state;
    struct work work = begin_work();
    enum facet_status status = FACET_NO_MEMORY;
    long failing = 0;

    OK(&world, SNAPSHOT->snapshot(INSTANCE, 0, "a", -1, &world.error));
    for (; status != FACET_OK; failing++) {
        assert_true(failing < 1000);
        allocations_left = failing;
        status = SNAPSHOT->resume(INSTANCE, 0, "a", -1, &world.error);
        allocations_left = -1;
        assert_true(status == FACET_OK || status == FACET_NO_MEMORY);
        if (status != FACET_OK) {
            assert_int_equal(world_metrics(&world, 0).memory_used_bytes, 0);
            assert_int_equal(SNAPSHOT->snapshot(INSTANCE, 0, "a", -1, NULL), FACET_BAD_STATE);
        }
    }
    assert_true(failing > 30);
    check_finished(&work);
    world_end(&world);
}

static void a_file_that_cannot_be_written_keeps_the_worker(void **state)
{
    (void)state;
    struct work work = begin_work();
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    assert_true(full >= 0);
    assert_int_equal(SNAPSHOT->snapshot(INSTANCE, 0, "a", full, NULL), FACET_NO_SPACE);
    close(full);
    assert_int_equal(SNAPSHOT->snapshot(INSTANCE, 0, "a", full, NULL), FACET_IO);
    check_finished(&work);
    world_end(&world);
}

static void processes_leave_and_return_by_pid(void **state)
{
    const int32_t own = (int32_t)getpid(), pids[2] = {own, 1};
    (void)state;

    world_start(&world, (struct world_setup){0});
    assert_int_equal(SNAPSHOT->snapshot_processes(INSTANCE, &own, 1, NULL), FACET_NOT_FOUND);
    world_end(&world);
    struct work work = begin_work();
    uint64_t other = world_context(&world, 1, NULL, "b"), address = world_alloc(&world, other, 8);
    OK(&world, MEMORY->fill(INSTANCE, other, address, 9, 8, &world.error));
    assert_int_equal(SNAPSHOT->snapshot_processes(INSTANCE, pids, 2, &world.error), FACET_NOT_FOUND);
    assert_non_null(strstr(world.error.message, "pid 1:"));
    assert_int_equal(SNAPSHOT->snapshot_processes(INSTANCE, NULL, 1, NULL), FACET_INVALID_ARGUMENT);
    OK(&world, SNAPSHOT->snapshot_processes(INSTANCE, &own, 1, &world.error));
    assert_int_equal(world_metrics(&world, 1).memory_used_bytes, 0);
    assert_int_equal(SNAPSHOT->snapshot_processes(INSTANCE, &own, 1, NULL), FACET_BAD_STATE);
    OK(&world, SNAPSHOT->resume_processes(INSTANCE, &own, 1, &world.error));
    assert_int_equal(SNAPSHOT->resume_processes(INSTANCE, &own, 1, NULL), FACET_NOT_FOUND);
    assert_int_equal(world_word(&world, other, address), 0x0909090909090909);
    check_finished(&work);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_uninterrupted_run_has_the_expected_result),
        cmocka_unit_test(restored_work_continues_where_it_was),
        cmocka_unit_test(progress_of_a_kernel_is_kept),
        cmocka_unit_test(another_process_continues_the_work),
        cmocka_unit_test(zero_pages_are_not_written),
        cmocka_unit_test(mismatches_are_refused),
        cmocka_unit_test(damaged_snapshots_are_refused_or_harmless),
        cmocka_unit_test(any_allocation_may_fail_while_saving),
        cmocka_unit_test(any_allocation_may_fail_while_restoring),
        cmocka_unit_test(a_file_that_cannot_be_written_keeps_the_worker),
        cmocka_unit_test(processes_leave_and_return_by_pid),
    };

    return cmocka_run_group_tests_name("sim snapshot", tests, NULL, NULL);
}
