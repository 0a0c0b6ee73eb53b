/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of readings of the simulated load: exact in stepped time, with a bit for each field that is modelled. */
#include "sim_world.h"

static struct world world;

#define METRICS  (world.provider->metrics)
#define MEMORY   (world.provider->memory)
#define INSTANCE world.instance

static void run_kernel(const char *kernel, uint32_t groups)
{
    world_launch(&world, world.context, world.module, world.stream, kernel, groups);
    world_synchronize(&world, world.context, world.stream);
}

static void readings_of_a_device_are_exact(void **state)
{
    const uint64_t never = FACET_METRIC_ENCODER_ACTIVE | FACET_METRIC_DECODER_ACTIVE;
    const uint64_t shares = FACET_METRIC_COMPUTE_ACTIVE | FACET_METRIC_TENSOR_ACTIVE | FACET_METRIC_MEMORY_ACTIVE;
    (void)state;

    world_begin(&world);
    struct facet_device_metrics idle = world_metrics(&world, 0);
    assert_int_equal(idle.valid & (never | shares), 0); /* no time has passed */
    assert_int_equal(idle.power_mw, 10000);
    assert_int_equal(idle.temperature_mc, 30000);
    assert_int_equal(idle.clock_mhz, 1000);
    assert_int_equal(idle.busy_ns, 0);

    uint64_t address = world_alloc(&world, world.context, 1000);
    run_kernel("compute", 5000000); /* 50,000 waves of 1000 ns on all units: 50 ms at 110 W */
    struct facet_device_metrics busy = world_metrics(&world, 0);
    assert_int_equal(busy.valid & never, 0);
    assert_int_equal(busy.valid & shares, shares);
    assert_int_equal(busy.busy_ns, 50000000);
    assert_int_equal(busy.energy_mj - idle.energy_mj, 5500);
    assert_int_equal(busy.compute_active_milli, 1000);
    assert_int_equal(busy.tensor_active_milli, 500);
    assert_int_equal(busy.memory_active_milli, 0);
    assert_int_equal(busy.memory_used_bytes, 1000);
    assert_in_range(busy.temperature_mc, 32430, 32445); /* 50 C x (1 - e^-0.05) above ambient */
    assert_int_equal(busy.power_mw, 10000);

    run_kernel("stream", 25);
    struct facet_device_metrics streamed = world_metrics(&world, 0);
    assert_int_equal(streamed.compute_active_milli, 250);
    assert_int_equal(streamed.memory_active_milli, 1000);
    assert_int_equal(world_metrics(&world, 0).memory_active_milli, 1000); /* the same moment gives the same value */
    assert_int_equal(streamed.pcie_rx_bytes, 0);
    OK(&world, MEMORY->fill(INSTANCE, world.context, address, 1, 1000, &world.error));
    assert_int_equal(world_metrics(&world, 0).pcie_rx_bytes, 0); /* no bytes passed the link */
    world_end(&world);
}

static void host_copies_show_on_the_link_to_the_host(void **state)
{
    struct facet_link_metrics links[4] = {{0}};
    unsigned char bytes[300] = {0};
    uint32_t count = 0;
    (void)state;

    world_begin(&world);
    uint64_t address = world_alloc(&world, world.context, sizeof bytes);
    OK(&world, MEMORY->write(INSTANCE, world.context, address, bytes, 300, &world.error));
    OK(&world, MEMORY->read(INSTANCE, world.context, address, 100, bytes, &world.error));
    assert_int_equal(world_metrics(&world, 0).pcie_rx_bytes, 300);
    assert_int_equal(world_metrics(&world, 0).pcie_tx_bytes, 100);
    assert_int_equal(METRICS->links(INSTANCE, 0, NULL, sizeof *links, 0, &count, NULL), FACET_TOO_SMALL);
    assert_int_equal(count, 2);
    OK(&world, METRICS->links(INSTANCE, 0, links, sizeof *links, 4, &count, &world.error));
    for (uint32_t i = 0; i < count; i++) {
        bool host = links[i].type == FACET_LINK_PCIE;

        assert_int_equal(links[i].valid, FACET_LINK_METRIC_RX | FACET_LINK_METRIC_TX);
        assert_int_equal(links[i].rx_bytes, host ? 300 : 0);
        assert_int_equal(links[i].tx_bytes, host ? 100 : 0);
    }
    OK(&world, METRICS->links(INSTANCE, 1, links, sizeof *links, 4, &count, &world.error));
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(links[i].rx_bytes, 0);
    assert_int_equal(METRICS->links(INSTANCE, 9, links, sizeof *links, 4, &count, NULL), FACET_NOT_FOUND);
    world_end(&world);
}

static void processes_are_distinguished_by_worker(void **state)
{
    struct facet_process_metrics processes[4] = {{0}};
    uint32_t count = 9;
    (void)state;

    world_begin(&world);
    uint64_t other = world_context(&world, 0, NULL, "b"), reserved;
    OK(&world, METRICS->processes(INSTANCE, 1, NULL, sizeof *processes, 0, &count, &world.error));
    assert_int_equal(count, 0);
    assert_int_equal(METRICS->processes(INSTANCE, 0, NULL, sizeof *processes, 0, &count, NULL), FACET_TOO_SMALL);
    assert_int_equal(count, 2);
    world_alloc(&world, other, 4096);
    OK(&world, MEMORY->reserve(INSTANCE, other, WORLD_PAGE, 0, &reserved, &world.error));
    run_kernel("compute", 50);
    OK(&world, METRICS->processes(INSTANCE, 0, processes, sizeof *processes, 4, &count, &world.error));
    for (uint32_t i = 0; i < 2; i++) {
        bool first = processes[i].worker[0] == 'a';

        assert_int_equal(processes[i].pid, getpid());
        assert_int_equal(processes[i].busy_ns, first ? 1000 : 0);
        assert_int_equal(processes[i].compute_milli, first ? 500 : 0);
        assert_int_equal(processes[i].memory_used_bytes, first ? 0 : 4096);
        assert_int_equal(processes[i].memory_reserved_bytes, first ? 0 : 4096 + WORLD_PAGE);
        assert_int_equal(processes[i].units_active, 0);
        assert_true(processes[i].valid & FACET_PROCESS_HAS_COMPUTE);
    }
    assert_true(processes[0].worker[0] != processes[1].worker[0]);
    world_launch(&world, world.context, world.module, world.stream, "compute", 30);
    OK(&world, METRICS->processes(INSTANCE, 0, processes, sizeof *processes, 4, &count, &world.error));
    assert_int_equal(processes[0].units_active + processes[1].units_active, 30);
    world_end(&world);
}

static unsigned throttle_events(uint32_t bits)
{
    static struct facet_event events[256];
    uint32_t count = 0;
    unsigned found = 0;

    OK(&world, world.provider->device->events(INSTANCE, 0, events, sizeof *events, 256, &count, &world.error));
    for (uint32_t i = 0; i < count; i++)
        found += events[i].kind == FACET_EVENT_THROTTLE && events[i].value == bits;
    return found;
}

static void power_above_the_limit_throttles(void **state)
{
    (void)state;
    world_start(&world, (struct world_setup){.limit_mw = 90000});
    world.context = world_context(&world, 0, NULL, "a");
    world.module = world_module(&world, world.context);
    world.stream = world_stream(&world, world.context);
    run_kernel("compute", 100); /* 110 W at full speed: the clock falls to 800 MHz */
    assert_int_equal(world_state(&world, world.context, world.stream).busy_ns, 1250);
    world_launch(&world, world.context, world.module, world.stream, "compute", 100);
    struct facet_device_metrics metrics = world_metrics(&world, 0);
    assert_int_equal(metrics.clock_mhz, 800);
    assert_int_equal(metrics.power_mw, 90000);
    assert_int_equal(metrics.throttle, FACET_THROTTLE_POWER);
    assert_int_equal(throttle_events(FACET_THROTTLE_POWER), 2);
    assert_int_equal(throttle_events(0), 1);
    world_end(&world);
}

/* Full load would reach 80 C, and is throttled at 60 C after about 0.92 s. Half the clock leads to 55 C, so that
 * throttling goes on and off from then on. */
static void heat_above_the_limit_throttles(void **state)
{
    (void)state;
    world_start(&world, (struct world_setup){.limit_mc = 60000});
    world.context = world_context(&world, 0, NULL, "a");
    world.module = world_module(&world, world.context);
    world.stream = world_stream(&world, world.context);
    run_kernel("compute", 80000000); /* 0.8 s */
    assert_int_equal(world_state(&world, world.context, world.stream).busy_ns, 800000000);
    assert_int_equal(throttle_events(FACET_THROTTLE_THERMAL), 0);
    run_kernel("compute", 80000000);
    assert_true(world_state(&world, world.context, world.stream).busy_ns > 1700000000);
    assert_int_equal(throttle_events(FACET_THROTTLE_THERMAL), 1);
    assert_in_range(world_metrics(&world, 0).temperature_mc, 55000, 61000);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readings_of_a_device_are_exact),
        cmocka_unit_test(host_copies_show_on_the_link_to_the_host),
        cmocka_unit_test(processes_are_distinguished_by_worker),
        cmocka_unit_test(power_above_the_limit_throttles),
        cmocka_unit_test(heat_above_the_limit_throttles),
    };

    return cmocka_run_group_tests_name("sim metrics", tests, NULL, NULL);
}
