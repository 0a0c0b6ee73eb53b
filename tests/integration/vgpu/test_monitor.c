/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof of facet/monitor.h and of scaling on the device `cpu`. Never: asserts how long anything takes. */
#include "world.h"

#include <signal.h>

#include <facet/monitor.h>

/* ---- history ---- */

/* Polls until there are `wanted` samples, and stores them in `samples`. */
static uint32_t wait_for_samples(uint32_t id, uint64_t after_ns, struct facet_sample *samples, uint32_t wanted)
{
    for (uint64_t waited = 0; waited < WAIT_NS; waited += MS) {
        uint32_t count = wanted;

        OK(facet_vgpu_get_history(world.driver, id, after_ns, samples, &count, ERROR));
        if (count == wanted)
            return count;
        nap(MS);
    }
    fail_msg("vGPU %u has fewer than %u samples after 30 s", id, wanted);
    return 0;
}

static void samples_count_the_launches_that_ran(void **state)
{
    struct facet_sample samples[4];
    struct facet_vgpu_info info;
    uint32_t count = 4;

    vgpu_make(1);
    vgpu_make(2);
    struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, MIB), 2000);
    for (int i = 0; i < 10; i++)
        vgpu_launch(1, (uint32_t)i % 2, burn, 100);
    vgpu_finish(1);
    info = vgpu_info(1);
    wait_for_samples(1, 0, samples, 1);
    wait_for_samples(1, samples[0].time_ns + 200 * MS, samples, 4);
    const struct facet_sample *last = &samples[3];
    assert_int_equal(last->valid, (1u << FACET_SAMPLE_FIELDS) - 1);
    assert_int_equal(last->values[FACET_SAMPLE_LAUNCHES], 10);
    assert_int_equal(last->values[FACET_SAMPLE_COMPLETED], 10);
    assert_int_equal(last->values[FACET_SAMPLE_QUEUED], 0);
    assert_int_equal(last->values[FACET_SAMPLE_RUNNING], 0);
    assert_int_equal(last->values[FACET_SAMPLE_MEMORY_BYTES], MIB);
    assert_int_equal(last->values[FACET_SAMPLE_QUEUE_NS], info.delay_ns);
    assert_true(last->values[FACET_SAMPLE_BUSY_NS] >= info.busy_ns);
    for (int i = 1; i < 4; i++)
        assert_true(samples[i].time_ns > samples[i - 1].time_ns);
    OK(facet_vgpu_get_history(world.driver, 2, 0, samples, &count, ERROR)); /* vGPU 2 was never used */
    assert_int_equal(count, 0);
    REFUSED(FACET_NOT_FOUND, facet_vgpu_get_history(world.driver, 3, 0, samples, &count, ERROR));
    facet_kernel_destroy(burn);
}

/* Waits until vGPU 1 has `wanted` samples, in order; false after WAIT_NS. */
static bool history_fills(uint32_t wanted, struct facet_sample samples[8])
{
    uint32_t count = 0;

    for (uint64_t waited = 0; waited < WAIT_NS && count != wanted; waited += MS) {
        count = 8;
        OK(facet_vgpu_get_history(world.driver, 1, 0, samples, &count, ERROR));
        assert_true(count <= wanted);
        nap(MS);
    }
    for (uint32_t i = 1; i < count; i++)
        assert_true(samples[i].time_ns > samples[i - 1].time_ns);
    return count == wanted;
}

static void history_is_a_ring(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_sample samples[8], first;
    uint32_t count = 8;

    config.history = 5;
    config.monitor_ns = MS;
    world_open(&config);
    vgpu_make(1);
    vgpu_memory(1, 100);
    assert_true(history_fills(5, samples));
    first = samples[0];
    for (uint64_t waited = 0; waited < WAIT_NS && samples[0].time_ns <= first.time_ns; waited += MS) {
        nap(MS);
        assert_true(history_fills(5, samples));
    }
    assert_true(samples[0].time_ns > first.time_ns); /* the oldest has made room */
    count = 8;
    OK(facet_driver_get_history(world.driver, 0, 0, samples, &count, ERROR));
    assert_in_range(count, 1, 5);
    assert_true(samples[0].valid & 1u << FACET_SAMPLE_BUSY_NS);
    assert_false(samples[0].valid & 1u << FACET_SAMPLE_LAUNCHES); /* launches of a device are not counted */
    REFUSED(FACET_NOT_FOUND, facet_driver_get_history(world.driver, 1, 0, samples, &count, ERROR));
    world_close();
}

/* Long intervals make few measurements, short ones many. */
static void the_interval_decides_the_number_of_samples(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_sample samples[8];
    uint32_t count = 8;

    config.monitor_ns = 60 * 1000 * MS;
    world_open(&config);
    vgpu_make(1);
    vgpu_memory(1, 100);
    nap(400 * MS);
    OK(facet_vgpu_get_history(world.driver, 1, 0, samples, &count, ERROR));
    assert_true(count <= 1);
    world_close();
    config.monitor_ns = MS;
    world_open(&config);
    vgpu_make(1);
    vgpu_memory(1, 100);
    wait_for_samples(1, 0, samples, 8);
    world_close();
}

static struct facet_driver_device device_now(void)
{
    struct facet_driver_device device = {.size = sizeof device};

    assert_true(facet_driver_get_device(world.driver, 0, &device));
    return device;
}

/* Waits until the utilization of the device and of vGPU 1 is above 0 (`some`), or is 0; false after WAIT_NS. */
static bool utilization_becomes(bool some)
{
    for (uint64_t waited = 0; waited < WAIT_NS; waited += MS) {
        struct facet_driver_device device = device_now();
        struct facet_vgpu_info info = vgpu_info(1);

        if (device.valid & FACET_DRIVER_HAS_UTILIZATION && info.valid & FACET_VGPU_HAS_COMPUTE &&
            (device.utilization_milli > 0) == some && (info.compute_milli > 0) == some)
            return true;
        nap(MS);
    }
    return false;
}

static void utilization_is_measured(void **state)
{
    vgpu_make(1);
    vgpu_make(2);
    struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 2000);
    assert_true(utilization_becomes(false));
    uint64_t before_ns = device_now().busy_ns, endless = vgpu_launch(1, 0, burn, 1u << 30);
    assert_true(utilization_becomes(true));
    assert_true(device_now().valid & FACET_DRIVER_HAS_BUSY);
    assert_true(device_now().busy_ns > before_ns);
    assert_int_equal(vgpu_info(2).compute_milli, 0);
    OK(facet_vgpu_cancel(world.driver, 1, endless, ERROR));
    vgpu_finish(1);
    assert_true(utilization_becomes(false));
    facet_kernel_destroy(burn);
}

/*
 * Waits until the device's utilization is within 100 of `milli`, and vGPU 1's is from a tenth of `milli` to 100 above
 * it; false after WAIT_NS. The device counts a unit as long as work has it; the vGPU counts only the time in which the
 * unit ran on a processor, which is less on a loaded machine.
 */
static bool utilization_comes_near(uint32_t milli)
{
    for (uint64_t waited = 0; waited < WAIT_NS; waited += MS) {
        uint32_t device = device_now().utilization_milli, vgpu = vgpu_info(1).compute_milli;

        if (device >= milli - 100 && device <= milli + 100 && vgpu >= milli / 10 && vgpu <= milli + 100)
            return true;
        nap(MS);
    }
    return false;
}

static void utilization_follows_the_number_of_working_units(void **state)
{
    struct facet_driver_config config = world_config();

    setenv("FACET_CPU_UNITS", "2", 1);
    world_open(&config);
    unsetenv("FACET_CPU_UNITS");
    vgpu_make(1);
    struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 2000);
    vgpu_launch(1, 0, burn, 1u << 30);
    assert_true(utilization_comes_near(1000));
    OK(facet_vgpu_set_bounds(world.driver, 1, 1, 0, ERROR));
    assert_true(utilization_comes_near(500));
    OK(facet_vgpu_set_bounds(world.driver, 1, 2, 0, ERROR));
    assert_true(utilization_comes_near(1000));
    facet_kernel_destroy(burn);
    world_close();
}

/* A kernel that does not end counts as busy while it runs. */
static void a_running_kernel_counts_as_busy(void **state)
{
    struct facet_vgpu_info info;
    uint64_t execution;

    vgpu_make(1);
    struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 2000);
    execution = vgpu_launch(1, 0, burn, 1u << 30);
    for (uint64_t waited = 0; waited < WAIT_NS; waited += 5 * MS) {
        info = vgpu_info(1);
        if (info.valid & FACET_VGPU_HAS_COMPUTE && info.compute_milli > 50)
            break;
        nap(5 * MS);
    }
    assert_true(info.compute_milli > 50);
    assert_int_equal(info.completed_total, 0);
    OK(facet_vgpu_cancel(world.driver, 1, execution, ERROR));
    vgpu_finish(1);
    facet_kernel_destroy(burn);
}

/* ---- thresholds ---- */

struct event_log {
    atomic_uint raised, cleared;
    atomic_uint_least64_t value, watch;
};

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

/* The device's process is stopped during a launch. Neither the stop, nor other programs on its processors meanwhile,
 * count as the launch's time. All counters agree on this for a vGPU that has the device to itself. */
static void processor_time_of_others_is_not_busy_time(void **state)
{
    struct facet_sample sample;
    uint64_t gate, stopped_ns;

    (void)state;
    if (world_child() == 0)
        return; /* the provider is in this process, which cannot stop itself */
    vgpu_make(1);
    gate = vgpu_memory(1, MIB);
    struct facet_kernel *kernel = vgpu_kernel(1, "gate", gate, 0);
    uint64_t execution = vgpu_launch(1, 0, kernel, 1);
    assert_true(wait_for_status(1, execution, FACET_EXECUTION_RUNNING));
    pid_t child = world_child();
    kill(child, SIGSTOP);
    stopped_ns = clock_ns();
    nap(400 * MS);
    stopped_ns = clock_ns() - stopped_ns;
    kill(child, SIGCONT);
    wait_for_samples(1, clock_ns(), &sample, 1);
    /* Opens the gate, so that the kernel ends. */
    OK(facet_vgpu_enqueue_copy(world.driver, 1, 1, gate + 8, (uintptr_t) & (uint64_t){1}, 8, FACET_COPY_TO_DEVICE, NULL,
                               ERROR));
    vgpu_finish(1);
    struct facet_execution record = vgpu_execution(1, execution);
    uint64_t most_busy_ns =
        record.end_ns - record.start_ns - stopped_ns / 2; /* half, because the stop takes effect late */
    assert_true(record.end_ns - record.start_ns > stopped_ns);
    assert_true(record.busy_ns > 0 && record.busy_ns < most_busy_ns);
    assert_true(vgpu_info(1).busy_ns >= record.busy_ns && vgpu_info(1).busy_ns < most_busy_ns);
    assert_true(sample.values[FACET_SAMPLE_BUSY_NS] < most_busy_ns);
    wait_for_samples(1, clock_ns(), &sample, 1);
    assert_true(sample.values[FACET_SAMPLE_BUSY_NS] >= vgpu_info(1).busy_ns);
    assert_true(sample.values[FACET_SAMPLE_BUSY_NS] < most_busy_ns);
    facet_kernel_destroy(kernel);
}

static void note_event(void *owner, const struct facet_watch_event *event)
{
    struct event_log *event_log = owner;

    atomic_store(&event_log->value, event->value);
    atomic_store(&event_log->watch, event->watch);
    atomic_fetch_add(event->raised ? &event_log->raised : &event_log->cleared, 1);
}

static bool wait_for_count(const atomic_uint *counter, unsigned wanted)
{
    for (uint64_t waited = 0; waited < WAIT_NS && atomic_load(counter) < wanted; waited += MS)
        nap(MS);
    return atomic_load(counter) >= wanted;
}

static void a_watch_reports_each_change_once(void **state)
{
    struct event_log event_log = {0};
    struct facet_watch watch = {.size = sizeof watch,
                                .vgpu = 1,
                                .measure = FACET_MEASURE_MEMORY_MILLI,
                                .level = 800,
                                .clear_level = 400,
                                .told = note_event,
                                .owner = &event_log};
    uint64_t number = 0, address;

    vgpu_make(1);
    OK(facet_driver_watch(world.driver, &watch, &number, ERROR));
    address = vgpu_memory(1, 8 * MIB);
    nap(50 * MS);
    assert_int_equal(event_log.raised, 0);
    uint64_t more = vgpu_memory(1, 8 * MIB);
    assert_true(wait_for_count(&event_log.raised, 1));
    assert_int_equal(event_log.value, 1000);
    assert_int_equal(event_log.watch, number);
    OK(facet_vgpu_free(world.driver, 1, more, ERROR)); /* half of the memory: between both thresholds */
    nap(50 * MS);
    assert_int_equal(event_log.cleared, 0);
    OK(facet_vgpu_free(world.driver, 1, address, ERROR));
    OK(facet_vgpu_compact(world.driver, 1, NULL, NULL, ERROR));
    assert_true(wait_for_count(&event_log.cleared, 1));
    assert_int_equal(event_log.raised, 1);
    OK(facet_driver_unwatch(world.driver, number, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_driver_unwatch(world.driver, number, ERROR));
    vgpu_memory(1, 16 * MIB);
    nap(50 * MS);
    assert_int_equal(event_log.raised, 1);
}

static void devices_are_watched_too_and_invalid_watches_refused(void **state)
{
    struct event_log event_log = {0};
    struct facet_watch watch = {.size = sizeof watch,
                                .measure = FACET_MEASURE_UTILIZATION_MILLI,
                                .level = 100,
                                .clear_level = 50,
                                .told = note_event,
                                .owner = &event_log},
                       bad = watch;
    uint64_t number = 0;

    vgpu_make(1);
    OK(facet_driver_watch(world.driver, &watch, &number, ERROR));
    struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 2000);
    uint64_t execution = vgpu_launch(1, 0, burn, 1u << 30);
    assert_true(wait_for_count(&event_log.raised, 1));
    OK(facet_vgpu_cancel(world.driver, 1, execution, ERROR));
    assert_true(wait_for_count(&event_log.cleared, 1));
    facet_kernel_destroy(burn);

    bad.device = 1;
    REFUSED(FACET_NOT_FOUND, facet_driver_watch(world.driver, &bad, &number, ERROR));
    bad = watch;
    bad.vgpu = 9;
    REFUSED(FACET_NOT_FOUND, facet_driver_watch(world.driver, &bad, &number, ERROR));
    bad = watch;
    bad.measure = 99;
    REFUSED(FACET_INVALID_ARGUMENT, facet_driver_watch(world.driver, &bad, &number, ERROR));
    bad = watch;
    bad.clear_level = 101;
    REFUSED(FACET_INVALID_ARGUMENT, facet_driver_watch(world.driver, &bad, &number, ERROR));
    bad = watch;
    bad.told = NULL;
    REFUSED(FACET_INVALID_ARGUMENT, facet_driver_watch(world.driver, &bad, &number, ERROR));
    bad = watch;
    bad.size = 8;
    REFUSED(FACET_INVALID_ARGUMENT, facet_driver_watch(world.driver, &bad, &number, ERROR));
}

/* What a watch's callback gets when it makes calls that would wait for that callback. */
struct refused_calls {
    atomic_uint calls;
    enum facet_status destroy, watch, unwatch, info;
};

static void call_from_callback(void *owner, const struct facet_watch_event *event)
{
    const struct facet_watch again = {
        .size = sizeof again, .vgpu = 1, .measure = FACET_MEASURE_QUEUED, .told = call_from_callback, .owner = owner};
    struct facet_vgpu_info info = {.size = sizeof info};
    struct refused_calls *refused_calls = owner;

    if (!event->raised)
        return;
    refused_calls->destroy = facet_vgpu_destroy(world.driver, 1, NULL);
    refused_calls->watch = facet_driver_watch(world.driver, &again, NULL, NULL);
    refused_calls->unwatch = facet_driver_unwatch(world.driver, event->watch, NULL);
    facet_driver_close(world.driver); /* does nothing */
    refused_calls->info = facet_vgpu_get_info(world.driver, 1, &info, NULL);
    atomic_fetch_add(&refused_calls->calls, 1);
}

static void a_callback_is_refused_calls_that_would_wait_for_it(void **state)
{
    struct refused_calls refused_calls = {0};
    const struct facet_watch watch = {.size = sizeof watch,
                                      .vgpu = 1,
                                      .measure = FACET_MEASURE_MEMORY_MILLI,
                                      .level = 500,
                                      .clear_level = 400,
                                      .told = call_from_callback,
                                      .owner = &refused_calls};
    uint64_t number = 0;

    vgpu_make(1);
    OK(facet_driver_watch(world.driver, &watch, &number, ERROR));
    vgpu_memory(1, 16 * MIB);
    assert_true(wait_for_count(&refused_calls.calls, 1));
    assert_int_equal(refused_calls.destroy, FACET_BAD_STATE);
    assert_int_equal(refused_calls.watch, FACET_BAD_STATE);
    assert_int_equal(refused_calls.unwatch, FACET_BAD_STATE);
    assert_int_equal(refused_calls.info, FACET_OK);
    OK(facet_driver_unwatch(world.driver, number, ERROR)); /* outside of the callback the calls succeed */
    OK(facet_vgpu_destroy(world.driver, 1, ERROR));
}

/* ---- scaling ---- */

/*
 * A vGPU that wants more than its request gets more, up to its limit, while the other vGPU is idle. The request that is
 * shown does not change. The other vGPU gets its own request back when it has work.
 */
static void shares_follow_demand(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_vgpu_config one = vgpu_config(1), other = vgpu_config(2);
    uint64_t executions[2];

    config.scaling = 1;
    one.request_milli = 200;
    one.units_least = 1;
    other.request_milli = 500;
    world_open(&config);
    OK(facet_vgpu_create(world.driver, &one, NULL, ERROR));
    OK(facet_vgpu_create(world.driver, &other, NULL, ERROR));
    struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 2000),
                        *other_burn = vgpu_kernel(2, "burn", vgpu_memory(2, 8), 2000);
    executions[0] = vgpu_launch(1, 0, burn, 1u << 30);
    vgpu_launch(1, 0, burn, 1); /* waits, which counts as demand */
    for (uint64_t waited = 0; waited < WAIT_NS && vgpu_info(1).given_milli <= 200; waited += 5 * MS)
        nap(5 * MS);
    assert_true(vgpu_info(1).given_milli > 200);
    assert_int_equal(vgpu_info(1).request_milli, 200);
    executions[1] = vgpu_launch(2, 0, other_burn, 1u << 30);
    vgpu_launch(2, 0, other_burn, 1);
    for (uint64_t waited = 0; waited < WAIT_NS && vgpu_info(2).given_milli < 500; waited += 5 * MS)
        nap(5 * MS);
    struct facet_vgpu_info a = vgpu_info(1), b = vgpu_info(2);
    assert_true(b.given_milli >= 500);
    assert_true(a.given_milli + b.given_milli <= 1000);
    OK(facet_vgpu_cancel(world.driver, 1, executions[0], ERROR));
    OK(facet_vgpu_cancel(world.driver, 2, executions[1], ERROR));
    facet_kernel_destroy(burn);
    facet_kernel_destroy(other_burn);
    world_close();
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(samples_count_the_launches_that_ran),
        cmocka_unit_test(the_interval_decides_the_number_of_samples),
        cmocka_unit_test(history_is_a_ring),
        WITH_WORLD(utilization_is_measured),
        cmocka_unit_test(utilization_follows_the_number_of_working_units),
        WITH_WORLD(a_running_kernel_counts_as_busy),
        WITH_WORLD(processor_time_of_others_is_not_busy_time),
        WITH_WORLD(a_watch_reports_each_change_once),
        WITH_WORLD(devices_are_watched_too_and_invalid_watches_refused),
        WITH_WORLD(a_callback_is_refused_calls_that_would_wait_for_it),
        cmocka_unit_test(shares_follow_demand),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
