/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs about the use of memory, which processes share through a folder like partitions and limits: the users
 * are listed, and memory is free once its process has ended, in whatever way.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "../../effort.h"
#include "sim_world.h"

#define MIB   (UINT64_C(1) << 20)
#define LIMIT (UINT64_C(8) << 20)

/* --- The Nth call into the system fails. --- */

static int countdown; /* the call that brings it to 0 fails */

static bool call_fails(int errnum)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    errno = errnum;
    return true;
}

int __real_openat64(int folder, const char *path, int flags, mode_t mode);
int __wrap_openat64(int folder, const char *path, int flags, mode_t mode);
int __wrap_openat64(int folder, const char *path, int flags, mode_t mode)
{
    return call_fails(EMFILE) ? -1 : __real_openat64(folder, path, flags, mode);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return call_fails(ENOMEM) ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return call_fails(ENOMEM) ? NULL : __real_realloc(old, size);
}

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    return operation != LOCK_UN && call_fails(EIO) ? -1 : __real_flock(fd, operation);
}

int __real_posix_fallocate64(int fd, off_t offset, off_t length);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t length);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t length)
{
    return call_fails(ENOSPC) ? ENOSPC : __real_posix_fallocate64(fd, offset, length);
}

void *__real_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    return call_fails(ENOMEM) ? MAP_FAILED : __real_mmap64(address, length, protection, flags, fd, offset);
}

/* --- A folder, and instances that share it as processes do. --- */

static char folder[64];

static int begin_folder(void **state)
{
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    const struct world_setup setup = {0};

    world_profile(&setup); /* written once: no process may find half of it */
    snprintf(folder, sizeof folder, "%s/facet-sim-shared-XXXXXX", where);
    return mkdtemp(folder) ? 0 : -1;
}

static int end_folder(void **state)
{
    DIR *listing = opendir(folder);

    for (struct dirent *entry; (entry = readdir(listing));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(listing), entry->d_name, 0);
    closedir(listing);
    return rmdir(folder);
}

static unsigned count_usage_files(void)
{
    DIR *listing = opendir(folder);
    unsigned count = 0;

    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        count += strstr(entry->d_name, ".use.") != NULL;
    closedir(listing);
    return count;
}

static enum facet_status try_join(struct world *world)
{
    *world = (struct world){.provider = world_provider()};
    setenv("FACET_SIM_CLOCK", "stepped", 1);
    setenv("FACET_SIM_STATE", folder, 1);
    unsetenv("FACET_SIM_FAULTS");
    return world->provider->device->open(&world->instance, &world->error);
}

static void join_folder(struct world *world)
{
    OK(world, try_join(world));
}

static enum facet_status try_alloc(struct world *world, uint64_t context, uint64_t bytes, uint64_t *ret_address)
{
    return world->provider->memory->alloc(world->instance, context, bytes, ret_address, &world->error);
}

static enum facet_status try_context(struct world *world, const char *partition, const char *worker,
                                     uint64_t *ret_context)
{
    return world->provider->memory->create_context(world->instance, 0, partition, worker, ret_context, &world->error);
}

static void limit_memory(struct world *world, const char *worker, uint64_t bytes)
{
    OK(world, world->provider->limit->set_memory(world->instance, 0, worker, bytes, &world->error));
}

/* --- Sums over all processes. --- */

static void a_worker_has_one_limit_over_all_processes(void **state)
{
    struct world one, other;
    uint64_t here, there, address = 0, last = 0;

    join_folder(&one);
    join_folder(&other);
    limit_memory(&one, "anna", LIMIT);
    here = world_context(&one, 0, NULL, "anna");
    there = world_context(&other, 0, NULL, "anna");
    OK(&one, try_alloc(&one, here, 5 * MIB, &address));
    assert_int_equal(try_alloc(&other, there, 3 * MIB + 1, &last), FACET_QUOTA);
    OK(&other, try_alloc(&other, there, 3 * MIB, &last));
    assert_int_equal(try_alloc(&one, here, 1, &last), FACET_QUOTA);
    assert_int_equal(world_used(&one, here), LIMIT);
    assert_int_equal(world_used(&other, there), LIMIT);
    OK(&one, one.provider->memory->free(one.instance, here, address, &one.error));
    assert_int_equal(world_used(&other, there), 3 * MIB);
    OK(&other, try_alloc(&other, there, 5 * MIB, &last));
    world_end(&other);
    assert_int_equal(world_used(&one, here), 0);
    world_end(&one);
    assert_int_equal(count_usage_files(), 0);
}

static void the_device_is_full_for_all_processes(void **state)
{
    struct world one, other;
    uint64_t here, there, address;

    join_folder(&one);
    join_folder(&other);
    here = world_context(&one, 0, NULL, "anna");
    there = world_context(&other, 0, NULL, "bert");
    world_alloc(&one, here, WORLD_MEMORY - 10);
    assert_int_equal(try_alloc(&other, there, 11, &address), FACET_NO_SPACE);
    world_alloc(&other, there, 10);
    assert_int_equal(world_metrics(&one, 0).memory_used_bytes, WORLD_MEMORY);
    assert_int_equal(world_metrics(&other, 0).memory_used_bytes, WORLD_MEMORY);
    assert_int_equal(world_metrics(&other, 1).memory_used_bytes, 0);
    world_end(&one);
    assert_int_equal(world_metrics(&other, 0).memory_used_bytes, 10);
    world_end(&other);
}

/* A snapshot may fit into free memory, but not beside later allocations. */
static void a_snapshot_is_restored_only_where_memory_is_free(void **state)
{
    struct world one, other;
    uint64_t here, there, address;

    join_folder(&one);
    join_folder(&other);
    limit_memory(&one, "anna", LIMIT);
    here = world_context(&one, 0, NULL, "anna");
    world_alloc(&one, here, 6 * MIB);
    OK(&one, one.provider->snapshot->snapshot(one.instance, 0, "anna", -1, &one.error));
    there = world_context(&other, 0, NULL, "anna");
    OK(&other, try_alloc(&other, there, 2 * MIB + 1, &address));
    assert_int_equal(one.provider->snapshot->resume(one.instance, 0, "anna", -1, &one.error), FACET_NO_SPACE);
    assert_int_equal(world_used(&other, there), 2 * MIB + 1);
    OK(&other, other.provider->memory->free(other.instance, there, address, &other.error));
    OK(&one, one.provider->snapshot->resume(one.instance, 0, "anna", -1, &one.error));
    assert_int_equal(world_used(&other, there), 6 * MIB);
    world_end(&other);
    world_end(&one);
}

/* --- What another process uses. --- */

static uint32_t find_partition(struct world *world, struct facet_partition_info *ret_info)
{
    uint32_t count = 0;

    OK(world,
       world->provider->partition->list(world->instance, 0, ret_info, sizeof *ret_info, 1, &count, &world->error));
    return count;
}

static void a_partition_is_in_use_for_all(void **state)
{
    struct facet_partition_info info = {.size = sizeof info};
    struct world one, other;
    uint64_t context, address;

    join_folder(&one);
    join_folder(&other);
    OK(&one, one.provider->partition->create(one.instance, 0, "3s", 0, &info, &one.error));
    context = world_context(&other, 0, info.uuid, "anna");
    assert_int_equal(find_partition(&one, &info), 1);
    assert_int_equal(info.in_use, 1);
    assert_int_equal(one.provider->partition->destroy(one.instance, 0, info.uuid, &one.error), FACET_BUSY);
    world_alloc(&other, context, info.memory_bytes);
    uint64_t partition_context = world_context(&one, 0, info.uuid, "bert");
    assert_int_equal(try_alloc(&one, partition_context, 1, &address), FACET_NO_SPACE);
    OK(&one, one.provider->memory->destroy_context(one.instance, partition_context, &one.error));
    world_end(&other);
    assert_int_equal(find_partition(&one, &info), 1);
    assert_int_equal(info.in_use, 0);
    OK(&one, one.provider->partition->destroy(one.instance, 0, info.uuid, &one.error));
    world_end(&one);
}

static void what_another_process_uses_is_not_changed(void **state)
{
    struct facet_partition_info info = {.size = sizeof info};
    struct world one, other;
    uint64_t context;

    join_folder(&one);
    join_folder(&other);
    context = world_context(&other, 0, NULL, "anna");
    assert_int_equal(one.provider->partition->create(one.instance, 0, "3s", 0, &info, &one.error), FACET_BUSY);
    assert_int_equal(one.provider->limit->set_memory(one.instance, 0, "bert", MIB, &one.error), FACET_BUSY);
    OK(&other, other.provider->memory->destroy_context(other.instance, context, &other.error));
    limit_memory(&one, "anna", LIMIT);
    context = world_context(&other, 0, NULL, "anna");
    assert_int_equal(one.provider->limit->clear(one.instance, 0, "anna", &one.error), FACET_BUSY);
    assert_int_equal(one.provider->limit->set_compute(one.instance, 0, "anna", 100, &one.error), FACET_BUSY);
    OK(&other, other.provider->memory->destroy_context(other.instance, context, &other.error));
    OK(&one, one.provider->limit->clear(one.instance, 0, "anna", &one.error));
    world_end(&other);
    world_end(&one);
}

/* Units 0 to 19 and 40 to 59 are taken. 60 units in a row are free once the second worker is moved down. */
static void units_of_another_process_are_not_moved(void **state)
{
    struct world one, other;
    uint64_t context;

    join_folder(&one);
    join_folder(&other);
    OK(&one, one.provider->limit->set_compute(one.instance, 0, "anna", 200, &one.error));
    OK(&one, one.provider->limit->set_compute(one.instance, 0, "bert", 200, &one.error));
    OK(&one, one.provider->limit->set_compute(one.instance, 0, "carl", 200, &one.error));
    OK(&one, one.provider->limit->clear(one.instance, 0, "bert", &one.error));
    context = world_context(&other, 0, NULL, "carl");
    assert_int_equal(one.provider->limit->set_compute(one.instance, 0, "dora", 600, &one.error), FACET_NO_SPACE);
    OK(&other, other.provider->memory->destroy_context(other.instance, context, &other.error));
    OK(&one, one.provider->limit->set_compute(one.instance, 0, "dora", 600, &one.error));
    world_end(&other);
    world_end(&one);
}

/* --- Other processes. --- */

/* Runs in a child, which must not go on with the parent's tests. The parent sees that the child ended. */
static void must_succeed(const struct world *world, enum facet_status status)
{
    if (status == FACET_OK)
        return;
    fprintf(stderr, "child: %s\n", world->error.message);
    _exit(2);
}

struct child {
    pid_t pid;
    int pipe; /* a byte in it tells that the child is ready */
};

/* Starts a process of worker "anna" that allocates `bytes`, and then does nothing until it is killed. */
static struct child start_holder(uint64_t bytes)
{
    int ends[2];
    struct child child;
    char ready = 0;

    assert_int_equal(pipe(ends), 0);
    child.pid = fork();
    if (child.pid == 0) {
        struct world world;
        uint64_t context = 0, address;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        must_succeed(&world, try_join(&world));
        must_succeed(&world, try_context(&world, NULL, "anna", &context));
        must_succeed(&world, try_alloc(&world, context, bytes, &address));
        if (write(ends[1], "r", 1) == 1)
            pause();
        _exit(1);
    }
    assert_true(child.pid > 0);
    close(ends[1]);
    child.pipe = ends[0];
    assert_int_equal(read(child.pipe, &ready, 1), 1);
    return child;
}

static void end_holder(const struct child *child)
{
    int status;

    assert_int_equal(kill(child->pid, SIGKILL), 0);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(child->pipe);
}

static void every_living_process_is_listed(void **state)
{
    struct child child = start_holder(3 * MIB);
    struct facet_process_metrics processes[4];
    struct facet_device_metrics device = {.size = sizeof device};
    struct world world;
    uint32_t count = 0;

    join_folder(&world);
    world_alloc(&world, world_context(&world, 0, NULL, "bert"), MIB);
    OK(&world, world.provider->metrics->device(world.instance, 0, &device, &world.error));
    assert_int_equal(device.memory_used_bytes, 4 * MIB);
    assert_false(device.valid & (FACET_METRIC_BUSY | FACET_METRIC_POWER)); /* the other process's load is unknown */
    OK(&world,
       world.provider->metrics->processes(world.instance, 0, processes, sizeof *processes, 4, &count, &world.error));
    assert_int_equal(count, 2);
    assert_int_equal(processes[0].pid, getpid());
    assert_int_equal(processes[0].memory_used_bytes, MIB);
    assert_int_equal(processes[1].pid, child.pid);
    assert_string_equal(processes[1].worker, "anna");
    assert_int_equal(processes[1].memory_used_bytes, 3 * MIB);
    assert_int_equal(processes[1].memory_reserved_bytes, 3 * MIB);
    assert_int_equal(processes[1].valid, FACET_PROCESS_HAS_MEMORY | FACET_PROCESS_HAS_RESERVED);
    end_holder(&child);
    OK(&world,
       world.provider->metrics->processes(world.instance, 0, processes, sizeof *processes, 4, &count, &world.error));
    assert_int_equal(count, 1);
    world_end(&world);
}

static void memory_of_a_killed_process_is_free_at_once(void **state)
{
    struct child child;
    struct world world;
    uint64_t context, address;

    join_folder(&world);
    limit_memory(&world, "anna", LIMIT);
    child = start_holder(LIMIT - 1);
    context = world_context(&world, 0, NULL, "anna");
    assert_int_equal(try_alloc(&world, context, 2, &address), FACET_QUOTA);
    end_holder(&child);
    assert_int_equal(count_usage_files(), 2);
    OK(&world, try_alloc(&world, context, LIMIT, &address));
    assert_int_equal(count_usage_files(), 1); /* the next process removed the file of the dead one */
    world_end(&world);
}

/* --- The property: the limit is never exceeded, whenever a process dies. --- */

#define CHILDREN 4
#define ROUNDS   effort(80, 20)
/* The most rounds in which the limit must be reached; about ten minutes of pauses. */
#define ROUNDS_MOST 40000
#define HELD_MAX    64

/* The bytes that each child holds, noted after an allocation and cleared before a free: never more than it holds. */
struct claims {
    _Atomic uint64_t held[CHILDREN];
    _Atomic uint64_t refused;
};

static uint64_t random_size(unsigned short random_state[3])
{
    return 1 + (uint64_t)nrand48(random_state) % (nrand48(random_state) % 3 ? 600 * 1000 : 1000);
}

static void alloc_and_free_forever(struct claims *claims, unsigned index, unsigned short seed)
{
    struct {
        uint64_t address, bytes;
    } held[HELD_MAX];
    unsigned short random_state[3] = {seed, (unsigned short)index, 7};
    unsigned count = 0;
    struct world world;
    uint64_t context = 0;

    must_succeed(&world, try_join(&world));
    must_succeed(&world, try_context(&world, NULL, "anna", &context));
    for (;;) {
        uint64_t bytes = random_size(random_state), address;
        bool frees = count == HELD_MAX || (count > 0 && nrand48(random_state) % 3 == 0);
        enum facet_status status;

        if (frees) {
            unsigned at = (unsigned)nrand48(random_state) % count;

            claims->held[index] -= held[at].bytes;
            must_succeed(&world, world.provider->memory->free(world.instance, context, held[at].address, &world.error));
            held[at] = held[--count];
            continue;
        }
        status = try_alloc(&world, context, bytes, &address);
        if (status == FACET_QUOTA) {
            claims->refused++;
            continue;
        }
        must_succeed(&world, status);
        held[count].address = address;
        held[count++].bytes = bytes;
        claims->held[index] += bytes;
    }
}

static pid_t start_child(struct claims *claims, unsigned index, unsigned short seed)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alloc_and_free_forever(claims, index, seed);
        _exit(0);
    }
    assert_true(pid > 0);
    return pid;
}

static void stop_child(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status)); /* no failed check has ended it */
}

static void replace_child(struct claims *claims, pid_t *pid, unsigned index, unsigned short seed)
{
    int status;

    assert_int_equal(kill(*pid, SIGKILL), 0);
    assert_int_equal(waitpid(*pid, &status, 0), *pid);
    claims->held[index] = 0;
    *pid = start_child(claims, index, seed);
}

static bool limit_was_met(const struct claims *claims, uint64_t most)
{
    return most > LIMIT / 2 && claims->refused > 0;
}

static void four_processes_never_exceed_the_limit(void **state)
{
    struct claims *claims = mmap(NULL, sizeof *claims, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned short random_state[3] = {8, 9, 10};
    pid_t children[CHILDREN];
    uint64_t most = 0;
    struct world world;

    assert_true(claims != MAP_FAILED);
    join_folder(&world);
    limit_memory(&world, "anna", LIMIT);
    for (unsigned i = 0; i < CHILDREN; i++)
        children[i] = start_child(claims, i, (unsigned short)i);
    /* Rounds follow until the limit has refused an allocation, which takes longer on a busy machine. */
    for (unsigned short round = 0; round < ROUNDS || (!limit_was_met(claims, most) && round < ROUNDS_MOST); round++) {
        const struct timespec pause = {.tv_nsec = 5000000 + nrand48(random_state) % 20000000};
        uint64_t sum = 0;

        nanosleep(&pause, NULL);
        for (unsigned i = 0; i < CHILDREN; i++)
            stop_child(children[i]);
        for (unsigned i = 0; i < CHILDREN; i++)
            sum += claims->held[i];
        assert_true(sum <= LIMIT);
        most = sum > most ? sum : most;
        for (unsigned i = 0; i < CHILDREN; i++)
            if (nrand48(random_state) % 3 == 0)
                replace_child(claims, &children[i], i, (unsigned short)(round * CHILDREN + i + 100));
        for (unsigned i = 0; i < CHILDREN; i++)
            assert_int_equal(kill(children[i], SIGCONT), 0);
    }
    for (unsigned i = 0; i < CHILDREN; i++) {
        assert_int_equal(kill(children[i], SIGKILL), 0);
        assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
    }
    assert_true(limit_was_met(claims, most));
    uint64_t context = world_context(&world, 0, NULL, "anna"), address;
    OK(&world, try_alloc(&world, context, LIMIT, &address)); /* all memory of the children is free */
    assert_int_equal(try_alloc(&world, context, 1, &address), FACET_QUOTA);
    world_end(&world);
    munmap(claims, sizeof *claims);
}

/* --- Failures. --- */

/* Each call into the system fails once. Until the operation succeeds, no process may see a change. */
static void a_failing_call_changes_nothing(void **state)
{
    struct world one, other;
    uint64_t there, context = 0, address = 0;
    int failed = 0;

    join_folder(&one);
    join_folder(&other);
    limit_memory(&one, "anna", LIMIT);
    there = world_context(&other, 0, NULL, "anna");
    world_alloc(&other, there, MIB);
    for (enum facet_status status = FACET_INTERNAL; status != FACET_OK; failed++) {
        assert_true(failed < 60);
        countdown = failed + 1;
        status = try_context(&one, NULL, "anna", &context);
        assert_int_equal(countdown > 0, status == FACET_OK);
        countdown = 0;
        assert_int_equal(world_used(&other, there), MIB);
        if (status != FACET_OK)
            assert_int_equal(count_usage_files(), 1);
    }
    assert_true(failed > 8);
    failed = 0;
    for (enum facet_status status = FACET_INTERNAL; status != FACET_OK; failed++) {
        assert_true(failed < 60);
        countdown = failed + 1;
        status = try_alloc(&one, context, 7 * MIB, &address);
        assert_int_equal(countdown > 0, status == FACET_OK);
        countdown = 0;
        assert_int_equal(world_used(&other, there), status == FACET_OK ? LIMIT : MIB);
    }
    assert_true(failed > 8);
    world_end(&one);
    world_end(&other);
}

/* A live process whose file cannot be read may hold all memory, so that no other process is admitted. */
static void an_unreadable_file_of_a_live_process_is_refused(void **state)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct world world;
    uint64_t context;
    char path[96];
    int fd;

    join_folder(&world);
    snprintf(path, sizeof path, "%s/tiny.state.use.9", folder);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &whole), 0);
    assert_int_equal(try_context(&world, NULL, "anna", &context), FACET_CORRUPT);
    assert_non_null(strstr(world.error.message, "tiny.state.use.9"));
    close(fd);
    context = world_context(&world, 0, NULL, "anna"); /* the process is dead, and its file is removed */
    assert_int_equal(access(path, F_OK), -1);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_worker_has_one_limit_over_all_processes, begin_folder, end_folder),
        cmocka_unit_test_setup_teardown(the_device_is_full_for_all_processes, begin_folder, end_folder),
        cmocka_unit_test_setup_teardown(a_snapshot_is_restored_only_where_memory_is_free, begin_folder, end_folder),
        cmocka_unit_test_setup_teardown(a_partition_is_in_use_for_all, begin_folder, end_folder),
        cmocka_unit_test_setup_teardown(what_another_process_uses_is_not_changed, begin_folder, end_folder),
        cmocka_unit_test_setup_teardown(units_of_another_process_are_not_moved, begin_folder, end_folder),
        cmocka_unit_test_setup_teardown(every_living_process_is_listed, begin_folder, end_folder),
        cmocka_unit_test_setup_teardown(memory_of_a_killed_process_is_free_at_once, begin_folder, end_folder),
        cmocka_unit_test_setup_teardown(four_processes_never_exceed_the_limit, begin_folder, end_folder),
        cmocka_unit_test_setup_teardown(a_failing_call_changes_nothing, begin_folder, end_folder),
        cmocka_unit_test_setup_teardown(an_unreadable_file_of_a_live_process_is_refused, begin_folder, end_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
