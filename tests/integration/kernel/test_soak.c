/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thousand random launches on `cpu`, some of them cancelled, with destroyed contexts and killed providers, leave
 * nothing behind.
 *
 * Owns: a sequence of steps that a seed fixes. FACET_TEST_SEED is added to the usual seed.
 * Never: waits without a bound, or kills a process other than its own session's provider.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <facet/session.h>

#include "../../effort.h"
#include "../../provider_process.h"

#define LAUNCHES  effort(1000, 250)
#define WORDS     4096u
#define CONTEXTS  3u
#define STREAMS   2u
#define KILL_EACH 125u
#define WAIT_NS   UINT64_C(20000000000)

static const char image_text[] = "facet-cpu:store_words";

/* A worker's context, streams and memory on the device. `live` is 0 if the worker has none of these. */
struct presence {
    int live;
    uint64_t context, module, memory, streams[STREAMS];
};

struct world {
    struct facet_session *session;
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    struct presence presences[CONTEXTS];
    struct facet_error error;
    unsigned seed;
    uint32_t launched, cancelled, killed, destroyed;
};

static uint32_t random_below(struct world *world, uint32_t below)
{
    return (uint32_t)rand_r(&world->seed) % below;
}

/* Returns whether a call succeeded. Any status but success and "device lost" fails the test. */
static int is_ok(struct world *world, enum facet_status status)
{
    if (status != FACET_OK && status != FACET_DEVICE_LOST)
        fail_msg("%s: %s", facet_status_name(status), world->error.message);
    return status == FACET_OK;
}

static void presence_open(struct world *world, struct presence *presence)
{
    const struct facet_memory_ops *memory = world->provider->memory;
    const struct facet_execution_ops *execution = world->provider->execution;
    struct facet_error *error = &world->error;
    char worker[32];

    snprintf(worker, sizeof worker, "worker-%d", (int)(presence - world->presences));
    memset(presence, 0, sizeof *presence);
    if (!is_ok(world, memory->create_context(world->instance, 0, NULL, worker, &presence->context, error)) ||
        !is_ok(world, memory->alloc(world->instance, presence->context, WORDS * 8, &presence->memory, error)) ||
        !is_ok(world, execution->load(world->instance, presence->context, image_text, strlen(image_text),
                                      &presence->module, error)))
        return;
    for (uint32_t i = 0; i < STREAMS; i++)
        if (!is_ok(world, execution->create_stream(world->instance, presence->context, &presence->streams[i], error)))
            return;
    presence->live = 1;
}

static void presence_close(struct world *world, struct presence *presence)
{
    if (presence->live)
        is_ok(world, world->provider->memory->destroy_context(world->instance, presence->context, &world->error));
    presence->live = 0;
}

/* Launches from one to 4096 groups, which take from microseconds to tenths of a second. */
static void launch_kernel(struct world *world, struct presence *presence)
{
    const uint64_t arguments[] = {presence->memory, 1 + random_below(world, WORDS), random_below(world, 1000)};
    struct facet_launch launch = {.size = sizeof launch,
                                  .argument_bytes = sizeof arguments,
                                  .module = presence->module,
                                  .grid = {1u << random_below(world, 13), 1, 1},
                                  .group = {1, 1, 1},
                                  .kernel = "store_words"};

    is_ok(world, world->provider->execution->launch(world->instance, presence->context,
                                                    presence->streams[random_below(world, STREAMS)], &launch, arguments,
                                                    &world->error));
    world->launched++;
}

static void replace_stream(struct world *world, struct presence *presence)
{
    const struct facet_execution_ops *ops = world->provider->execution;
    uint64_t *stream = &presence->streams[random_below(world, STREAMS)];

    if (is_ok(world, ops->destroy_stream(world->instance, presence->context, *stream, &world->error)))
        is_ok(world, ops->create_stream(world->instance, presence->context, stream, &world->error));
}

static void kill_and_restart(struct world *world)
{
    int fd = (int)syscall(SYS_pidfd_open, provider_process(getpid()), 0);

    assert_true(fd >= 0);
    assert_int_equal(syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0), 0);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 10000), 1);
    close(fd);
    for (uint32_t i = 0; i < CONTEXTS; i++)
        presence_close(world, &world->presences[i]);
    assert_int_equal(facet_session_restart(world->session, &world->error), FACET_OK);
    world->provider = facet_session_provider(world->session);
    world->instance = facet_session_instance(world->session);
    world->killed++;
}

static void step_world(struct world *world)
{
    const struct facet_execution_ops *ops = world->provider->execution;
    struct presence *presence = &world->presences[random_below(world, CONTEXTS)];

    if (!presence->live)
        presence_open(world, presence);
    launch_kernel(world, presence);
    switch (random_below(world, 8)) {
    case 0:
        is_ok(world, ops->cancel(world->instance, presence->context, presence->streams[random_below(world, STREAMS)],
                                 &world->error));
        world->cancelled++;
        break;
    case 1:
        replace_stream(world, presence);
        break;
    case 2:
        is_ok(world, ops->set_share(world->instance, presence->context, random_below(world, 1001),
                                    500 + random_below(world, 501), random_below(world, 3), &world->error));
        break;
    case 3:
        if (random_below(world, 4) == 0) {
            presence_close(world, presence);
            world->destroyed++;
        }
        break;
    case 4:
        is_ok(world, ops->synchronize(world->instance, presence->context,
                                      presence->streams[random_below(world, STREAMS)], WAIT_NS, &world->error));
        break;
    default:
        break;
    }
}

static uint64_t memory_used(struct world *world)
{
    struct facet_device_metrics metrics = {.size = sizeof metrics};

    assert_int_equal(world->provider->metrics->device(world->instance, 0, &metrics, &world->error), FACET_OK);
    assert_true(metrics.valid & FACET_METRIC_MEMORY_USED);
    return metrics.memory_used_bytes;
}

/* Polls for up to 5 s, since a destroyed context keeps its memory until its running work-groups have ended. */
static void assert_no_memory_is_held(struct world *world)
{
    for (int i = 0; i < 500 && memory_used(world) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    assert_int_equal(memory_used(world), 0);
}

/* Runs long launches alone on the device, until both units take part in one, which shows that no unit is lost. */
static void assert_all_units_work(struct world *world)
{
    const struct facet_execution_ops *ops = world->provider->execution;
    struct facet_launch_record record;
    struct presence *presence = &world->presences[0];
    uint32_t count = 0, units = 0;

    presence_open(world, presence);
    for (uint32_t tries = 0; tries < 50 && units < 2; tries++) {
        const uint64_t arguments[] = {presence->memory, WORDS, 7};
        struct facet_launch launch = {.size = sizeof launch,
                                      .argument_bytes = sizeof arguments,
                                      .module = presence->module,
                                      .grid = {1u << 15, 1, 1},
                                      .group = {1, 1, 1},
                                      .kernel = "store_words"};

        assert_int_equal(
            ops->launch(world->instance, presence->context, presence->streams[0], &launch, arguments, &world->error),
            FACET_OK);
        assert_int_equal(
            ops->synchronize(world->instance, presence->context, presence->streams[0], WAIT_NS, &world->error),
            FACET_OK);
        assert_int_equal(ops->records(world->instance, presence->context, presence->streams[0], tries, &record,
                                      sizeof record, 1, &count, &world->error),
                         FACET_OK);
        assert_int_equal(count, 1);
        assert_int_equal(record.groups, 1u << 15);
        units = record.units;
    }
    assert_int_equal(units, 2);
    presence_close(world, presence);
}

static uint32_t open_files(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void test_a_thousand_launches_leave_nothing(void **state)
{
    struct world world = {.seed = effort_seed(20261121)};
    char path[1024];

    (void)state;
    print_message("# seed %u\n", world.seed);
    snprintf(path, sizeof path, "%s/facet-provider-cpu.so", getenv("FACET_BUILD_DIR"));
    const uint32_t files = open_files();
    assert_int_equal(facet_session_open(path, NULL, &world.session, &world.error), FACET_OK);
    world.provider = facet_session_provider(world.session);
    world.instance = facet_session_instance(world.session);
    for (uint32_t i = 1; i <= LAUNCHES; i++) {
        step_world(&world);
        if (i % KILL_EACH == 0 && i < LAUNCHES)
            kill_and_restart(&world);
    }
    for (uint32_t i = 0; i < CONTEXTS; i++)
        presence_close(&world, &world.presences[i]);
    print_message("# %" PRIu32 " launches, %" PRIu32 " cancelled, %" PRIu32 " contexts destroyed, %" PRIu32 " kills\n",
                  world.launched, world.cancelled, world.destroyed, world.killed);
    assert_no_memory_is_held(&world);
    assert_all_units_work(&world);
    assert_no_memory_is_held(&world);
    facet_session_close(world.session);
    assert_int_equal(open_files(), files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_thousand_launches_leave_nothing)};

    setenv("FACET_CPU_UNITS", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
