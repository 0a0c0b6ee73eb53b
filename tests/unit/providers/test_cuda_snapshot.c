/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the built cuda provider takes processes off the device and brings them back, over the fake driver.
 * Never: opens a real driver.
 */
#include "cuda_world.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct facet_provider_instance *instance;
static uint64_t watcher;

/* A process with 64 MiB of the device. For each byte that it receives it allocates and frees more, and answers. */
struct tenant {
    pid_t pid;
    int to, from; /* ends of the pipes to it and from it */
};

static int serve_allocations(int from, int to)
{
    struct facet_provider_instance *own = open_fake();
    uint64_t context = context_of(own, 0, "tenant"), address;
    char byte = 0;

    if (provider->memory->alloc(own, context, 64 * MIB, &address, NULL) != FACET_OK || write(to, &byte, 1) != 1)
        return 1;
    while (read(from, &byte, 1) == 1) {
        if (provider->memory->alloc(own, context, MIB, &address, NULL) != FACET_OK ||
            provider->memory->free(own, context, address, NULL) != FACET_OK || write(to, &byte, 1) != 1)
            return 1;
    }
    provider->device->close(own);
    return 0;
}

static struct tenant start_tenant(void)
{
    struct tenant tenant = {0};
    int in[2], out[2];
    char byte;

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    tenant.pid = fork();
    if (tenant.pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl("/proc/self/exe", "tenant", "tenant", NULL);
        _exit(1);
    }
    close(in[0]);
    close(out[1]);
    tenant.to = in[1];
    tenant.from = out[0];
    assert_int_equal(read(tenant.from, &byte, 1), 1);
    return tenant;
}

static void stop_tenant(struct tenant *tenant)
{
    int status;

    close(tenant->to);
    assert_int_equal(waitpid(tenant->pid, &status, 0), tenant->pid);
    close(tenant->from);
    assert_int_equal(status, 0);
}

static void expect_allocation(const struct tenant *tenant)
{
    char byte = 'x';

    assert_int_equal(write(tenant->to, &byte, 1), 1);
    assert_int_equal(read(tenant->from, &byte, 1), 1);
}

static enum facet_status snapshot_pids(const int32_t *pids, uint32_t count)
{
    return provider->snapshot->snapshot_processes(instance, pids, count, NULL);
}

static enum facet_status resume_pids(const int32_t *pids, uint32_t count)
{
    return provider->snapshot->resume_processes(instance, pids, count, NULL);
}

static void a_process_leaves_the_device_and_returns(void **state)
{
    struct tenant tenant = start_tenant();
    int32_t pid = tenant.pid;
    uint64_t before = used(instance, watcher);

    assert_int_equal(resume_pids(&pid, 1), FACET_BAD_STATE);
    assert_int_equal(snapshot_pids(&pid, 1), FACET_OK);
    assert_true(used(instance, watcher) + 64 * MIB <= before);
    assert_int_equal(snapshot_pids(&pid, 1), FACET_BAD_STATE);
    assert_int_equal(resume_pids(&pid, 1), FACET_OK);
    assert_int_equal(used(instance, watcher), before);
    expect_allocation(&tenant);
    stop_tenant(&tenant);
}

static void calls_of_a_process_off_the_device_wait(void **state)
{
    struct tenant tenant = start_tenant();
    int32_t pid = tenant.pid;
    char byte = 'x';

    assert_int_equal(snapshot_pids(&pid, 1), FACET_OK);
    assert_int_equal(write(tenant.to, &byte, 1), 1);
    assert_int_equal(resume_pids(&pid, 1), FACET_OK);
    assert_int_equal(read(tenant.from, &byte, 1), 1);
    stop_tenant(&tenant);
}

static void several_processes_leave_together_or_not_at_all(void **state)
{
    struct tenant one = start_tenant(), two = start_tenant();
    int32_t both[] = {one.pid, two.pid}, with_none[] = {one.pid, 0x3ffffff}, with_own[] = {one.pid, getpid()};
    struct facet_error error = {0};
    uint64_t address, before = used(instance, watcher);
    struct facet_memory_info info = {.size = sizeof info};

    assert_int_equal(provider->snapshot->snapshot_processes(instance, with_none, 2, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "67108863"));
    assert_int_equal(snapshot_pids(with_own, 2), FACET_INVALID_ARGUMENT);
    assert_int_equal(snapshot_pids(NULL, 1), FACET_INVALID_ARGUMENT);
    assert_int_equal(used(instance, watcher), before);
    assert_int_equal(snapshot_pids(both, 2), FACET_OK);

    /* There is memory for the first process only. It leaves the device again when the second cannot return. */
    uint64_t freed_bytes = before - used(instance, watcher);
    assert_int_equal(provider->memory->info(instance, watcher, &info, NULL), FACET_OK);
    assert_int_equal(provider->memory->alloc(instance, watcher,
                                             info.total_bytes - info.used_bytes - freed_bytes * 3 / 4, &address, NULL),
                     FACET_OK);
    assert_int_equal(resume_pids(both, 2), FACET_NO_SPACE);
    assert_int_equal(snapshot_pids(&both[0], 1), FACET_BAD_STATE);
    assert_int_equal(provider->memory->free(instance, watcher, address, NULL), FACET_OK);
    assert_int_equal(resume_pids(both, 2), FACET_OK);
    expect_allocation(&one);
    expect_allocation(&two);
    stop_tenant(&one);
    stop_tenant(&two);
}

/* Driver 570 is the first that can take processes off the device. */
static void an_old_driver_is_refused_with_the_needed_version(void **state)
{
    struct facet_provider_instance *old = NULL;
    struct facet_error error = {0};
    int32_t pid = getppid();

    set_fake_driver("FACET_TEST_CUDA_OLD");
    assert_int_equal(provider->device->open(&old, NULL), FACET_OK);
    assert_int_equal(provider->snapshot->snapshot_processes(old, &pid, 1, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "570"));
    provider->device->close(old);
}

/* The tenants share a fake machine. Each is a program: a child of fork() alone could not use its parent's driver. */
int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_leaves_the_device_and_returns),
        cmocka_unit_test(calls_of_a_process_off_the_device_wait),
        cmocka_unit_test(several_processes_leave_together_or_not_at_all),
        cmocka_unit_test(an_old_driver_is_refused_with_the_needed_version),
    };
    char path[] = "/tmp/facet-cuda-state-XXXXXX";

    load_provider("cuda");
    if (count > 1)
        return serve_allocations(STDIN_FILENO, STDOUT_FILENO);
    int file = mkstemp(path);
    if (file < 0)
        return 1;
    close(file);
    unlink(path);
    setenv("FAKE_CUDA_STATE", path, 1);
    instance = open_fake();
    watcher = context_of(instance, 0, "watcher");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    provider->device->close(instance);
    unlink(path);
    return failed;
}
