/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the machine, the vGPUs and the programs of the tests of launches. Never: leaves a folder or a process behind.
 */
#include "world.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../scratch.h"
#include "base/clock.h"
#include "limiter/tenant.h"

/* Processes that were started and not waited for yet; 0: a free place. Only one thread uses the table. */
static pid_t running[64];

static bool print_failure(const char *what, const char *why)
{
    fprintf(stderr, "world: %s: %s\n", what, why);
    return false;
}

bool world_open(struct world *world)
{
    struct facet_error error = {0};
    char state[96];

    *world = (struct world){0};
    world->folder = scratch_folder("world", world->root, sizeof world->root);
    if (world->folder < 0)
        return print_failure(world->root, strerror(errno));
    snprintf(state, sizeof state, "%s/state", world->root);
    setenv(world_vendor.state_variable, state, 1);
    if (scheduler_start(world->root, &world->scheduler, &error) != FACET_OK)
        return print_failure("scheduler", error.message);
    return true;
}

/* Kills the programs that a failed test did not wait for. Otherwise a reader of their output would wait for them. */
static void end_programs(void)
{
    for (size_t i = 0; i < sizeof running / sizeof running[0]; i++) {
        if (running[i] == 0)
            continue;
        kill(running[i], SIGKILL);
        world_wait(running[i]);
    }
}

void world_close(struct world *world)
{
    end_programs();
    scheduler_stop(world->scheduler);
    if (!scratch_remove(world->root))
        print_failure(world->root, "is left behind");
    close(world->folder);
}

static int add_vgpu(struct world *world, struct facet_owner_spec spec)
{
    uint32_t index = world->count;
    struct facet_owner *owner;
    struct facet_error error = {0};
    char lock[128], root[sizeof world->root];

    spec.vgpu_id = world->ids[index];
    spec.vgpu_name = "t";

    if (index == WORLD_VGPUS)
        return -1;
    snprintf(world->ids[index], sizeof world->ids[index], "v%u", index % WORLD_VGPUS);
    memcpy(root, world->root, sizeof root);
    snprintf(world->dirs[index], sizeof world->dirs[index], "%s/v%u", root, index);
    spec.device.memory_bytes = UINT64_C(8) << 30;
    snprintf(spec.device.id, sizeof spec.device.id, "%s", WORLD_DEVICE);
    snprintf(spec.device.address, sizeof spec.device.address, "%s", world_vendor.address);
    if (scheduler_device_lock(world->scheduler, WORLD_DEVICE, lock, sizeof lock, &error) != FACET_OK ||
        facet_owner_create(world->dirs[index], &spec, lock, &owner, &error) != FACET_OK ||
        scheduler_add(world->scheduler, WORLD_DEVICE, spec.vgpu_id, owner, &spec.limits, false, &error) != FACET_OK) {
        print_failure("vGPU", error.message);
        return -1;
    }
    world->count++;
    return (int)index;
}

int world_add(struct world *world, uint32_t request_milli, uint32_t limit_milli)
{
    struct facet_owner_spec spec = {0};

    facet_limits_init(&spec.limits);
    spec.limits.memory_bytes = UINT64_C(1) << 30;
    spec.limits.compute_request_milli = request_milli;
    spec.limits.compute_limit_milli = limit_milli;
    return add_vgpu(world, spec);
}

int world_add_oversubscribed(struct world *world, uint64_t memory_bytes, uint32_t request_milli)
{
    struct facet_owner_spec spec = {.oversubscribed = true};

    facet_limits_init(&spec.limits);
    spec.limits.memory_bytes = memory_bytes;
    spec.limits.compute_request_milli = request_milli;
    return add_vgpu(world, spec);
}

void world_clear(struct world *world)
{
    struct facet_error error = {0};

    end_programs();
    for (; world->count; world->count--)
        if (scheduler_remove(world->scheduler, world->ids[world->count - 1], &error) != FACET_OK ||
            facet_owner_remove(world->dirs[world->count - 1], &error) != FACET_OK)
            print_failure("removing a vGPU", error.message);
}

static void enter_vgpu(struct world *world, int vgpu)
{
    const char *fake = getenv(world_vendor.fake_variable), *own = getenv(world_vendor.own_variable);
    char real[1024];

    if (world->quiet)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    if (vgpu < 0) {
        setenv("LD_LIBRARY_PATH", fake, 1);
        return;
    }
    snprintf(real, sizeof real, "%s/%s", fake, world_vendor.library);
    setenv(world_vendor.real_variable, real, 1);
    setenv("LD_LIBRARY_PATH", own, 1);
    setenv(FACET_ENV_VGPU_DIR, world->dirs[vgpu], 1);
}

/* Replaces the process `old` in the table by `new`; 0 stands for a free place. */
static void replace_running(pid_t old, pid_t new)
{
    for (size_t i = 0; i < sizeof running / sizeof running[0]; i++)
        if (running[i] == old) {
            running[i] = new;
            return;
        }
}

pid_t world_start(struct world *world, int vgpu, char *const command[])
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no program outlives the test */
        enter_vgpu(world, vgpu);
        execv(command[0], command);
        print_failure(command[0], strerror(errno));
        _exit(127);
    }
    if (pid > 0)
        replace_running(0, pid);
    return pid;
}

int world_wait(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    replace_running(pid, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

struct facet_usage_totals world_totals(struct world *world, int vgpu)
{
    struct scheduler_view view = {0};
    struct facet_error error = {0};

    if (scheduler_view(world->scheduler, world->ids[vgpu], &view, &error) != FACET_OK)
        print_failure("totals", error.message);
    return view.totals;
}

static const struct fake_process_device *device_of(pid_t pid)
{
    struct fake_state *state = fake_state();

    for (uint32_t i = 0; i < FAKE_PROCESSES; i++)
        if (atomic_load(&state->processes[i].pid) == (uint32_t)pid)
            return &state->processes[i].devices[0];
    return NULL;
}

uint64_t driver_busy_ns(pid_t pid)
{
    const struct fake_process_device *device = device_of(pid);

    return device ? fake_consumed_ns(device, facet_clock_now_ns()) : 0;
}

uint64_t driver_launches(pid_t pid)
{
    const struct fake_process_device *device = device_of(pid);

    return device ? fake_launches(device) : 0;
}
