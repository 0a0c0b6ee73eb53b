/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that each fault of a script acts as described and at its time, and that bad scripts are refused. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core.h"
#include "sim_core_fixture.h"

#define FAULTS(list) "{\"faults\": [" list "]}"

static const char *script;

static struct facet_provider_instance *open_with(const char *profile, const char *text)
{
    script = make_file(text);
    return open_machine(profile, NULL, script);
}

static void close_instance(struct facet_provider_instance *instance)
{
    sim_device_ops.close(instance);
    remove_file(script);
}

static void advance_to(struct facet_provider_instance *instance, uint64_t now_ns)
{
    SIM_LOCK(instance);
    for (unsigned i = 0; sim_clock_now(instance) < now_ns && i < 1000; i++)
        assert_true(sim_clock_wait(instance, now_ns, UINT64_C(1000000000)));
    assert_int_equal(sim_clock_now(instance), now_ns);
}

static uint32_t health_of(struct facet_provider_instance *instance, uint32_t device)
{
    uint32_t health = 4711;

    assert_int_equal(sim_device_ops.health(instance, device, &health, NULL), FACET_OK);
    return health;
}

static void a_lost_device_is_lost_everywhere(void **state)
{
    struct facet_provider_instance *instance =
        open_with("h200x8", FAULTS("{\"at_ns\": 1000, \"device\": 2, \"kind\": \"lost\"},"
                                   "{\"at_ns\": 2000, \"device\": 2, \"kind\": \"recover\"}"));
    struct facet_partition_info info = {.size = sizeof info}, infos[64];
    struct facet_worker_limit limit = {.size = sizeof limit};
    struct facet_topology_link links[256];
    struct facet_event events[256];
    struct facet_container_item items[8];
    struct sim_share share;
    char text[1024];
    uint32_t count;

    assert_int_equal(create_partition(instance, 2, "2g.35gb", 0, &info, NULL), FACET_OK);
    assert_int_equal(health_of(instance, 2), FACET_HEALTH_OK);
    advance_to(instance, 1000);
    assert_int_equal(engine_double.lost, 1);
    assert_int_equal(health_of(instance, 2), FACET_HEALTH_FAILED);
    assert_int_equal(health_of(instance, 3), FACET_HEALTH_OK);
    assert_refused(sim_device_ops.properties(instance, 2, text, sizeof text, &count, &error), FACET_DEVICE_LOST,
                   "device 2");
    assert_int_equal(
        sim_partition_ops.templates(instance, 2, NULL, sizeof(struct facet_partition_template), 0, &count, NULL),
        FACET_DEVICE_LOST);
    assert_int_equal(sim_partition_ops.placements(instance, 2, "2g.35gb", NULL,
                                                  sizeof(struct facet_partition_placement), 0, &count, NULL),
                     FACET_DEVICE_LOST);
    assert_int_equal(create_partition(instance, 2, "2g.35gb", 2, &info, NULL), FACET_DEVICE_LOST);
    assert_int_equal(sim_partition_ops.list(instance, 2, infos, sizeof *infos, 64, &count, NULL), FACET_DEVICE_LOST);
    assert_int_equal(sim_partition_ops.destroy(instance, 2, info.uuid, NULL), FACET_DEVICE_LOST);
    assert_int_equal(sim_limit_ops.set_memory(instance, 2, "anna", 1, NULL), FACET_DEVICE_LOST);
    assert_int_equal(sim_limit_ops.set_compute(instance, 2, "anna", 1, NULL), FACET_DEVICE_LOST);
    assert_int_equal(sim_limit_ops.get(instance, 2, "anna", &limit, NULL), FACET_DEVICE_LOST);
    assert_int_equal(sim_limit_ops.list(instance, 2, NULL, sizeof limit, 0, &count, NULL), FACET_DEVICE_LOST);
    assert_int_equal(sim_limit_ops.clear(instance, 2, "anna", NULL), FACET_DEVICE_LOST);
    assert_int_equal(sim_container_ops.items(instance, 2, NULL, items, sizeof *items, 8, &count, NULL),
                     FACET_DEVICE_LOST);
    {
        SIM_LOCK(instance);
        assert_int_equal(sim_share_of(instance, 2, NULL, NULL, &share, NULL), FACET_DEVICE_LOST);
    }
    assert_int_equal(sim_device_ops.links(instance, links, sizeof *links, 256, &count, NULL), FACET_OK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(links[i].up, links[i].a != 2 && links[i].b != 2);
    assert_int_equal(list_events(instance, 1, events), 1);
    assert_int_equal(events[0].kind, FACET_EVENT_HEALTH);
    assert_int_equal(events[0].value, FACET_HEALTH_FAILED);
    assert_int_equal(events[0].device, 2);
    assert_string_equal(events[0].uuid, sim_device_info(instance, 2)->uuid);
    advance_to(instance, 2000);
    assert_int_equal(health_of(instance, 2), FACET_HEALTH_OK);
    assert_int_equal(list_partitions(instance, 2, infos), 1); /* the partition stays, like with a real driver */
    close_instance(instance);
}

static void memory_errors_are_counted(void **state)
{
    struct facet_provider_instance *instance =
        open_with("h100", FAULTS("{\"at_ns\": 10, \"device\": 0, \"kind\": \"ecc_corrected\", \"count\": 7},"
                                 "{\"at_ns\": 20, \"device\": 0, \"kind\": \"ecc\"},"
                                 "{\"at_ns\": 30, \"device\": 0, \"kind\": \"ecc\", \"count\": 4},"
                                 "{\"at_ns\": 40, \"device\": 0, \"kind\": \"recover\"}"));
    struct facet_event events[256];
    uint64_t corrected, uncorrected;

    advance_to(instance, 10);
    assert_int_equal(health_of(instance, 0), FACET_HEALTH_OK); /* corrected errors change no health */
    advance_to(instance, 30);
    assert_int_equal(health_of(instance, 0), FACET_HEALTH_DEGRADED);
    assert_int_equal(list_events(instance, 0, events), 3);
    assert_int_equal(events[0].kind, FACET_EVENT_ECC);
    assert_int_equal(events[0].value, 1);
    assert_int_equal(events[1].kind, FACET_EVENT_HEALTH);
    assert_int_equal(events[2].value, 5);
    advance_to(instance, 40);
    assert_int_equal(health_of(instance, 0), FACET_HEALTH_OK);
    sim_fault_ecc(instance, 0, &corrected, &uncorrected);
    assert_int_equal(corrected, 7);
    assert_int_equal(uncorrected, 5); /* counters do not fall */
    close_instance(instance);
}

static void links_go_down_and_up(void **state)
{
    struct facet_provider_instance *instance =
        open_with("h200x8", FAULTS("{\"at_ns\": 9, \"device\": 1, \"kind\": \"link_up\", \"link\": 0},"
                                   "{\"at_ns\": 5, \"device\": 0, \"kind\": \"link_down\", \"link\": 0}"));
    struct facet_topology_link links[256];
    struct facet_event events[256];
    uint32_t count;

    advance_to(instance, 5);
    assert_int_equal(sim_device_ops.links(instance, links, sizeof *links, 256, &count, NULL), FACET_OK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(links[i].up, i > 0);
    assert_int_equal(health_of(instance, 0), FACET_HEALTH_DEGRADED);
    assert_int_equal(health_of(instance, 1), FACET_HEALTH_DEGRADED); /* both ends of the link are degraded */
    assert_int_equal(health_of(instance, 2), FACET_HEALTH_OK);
    assert_true(list_events(instance, 0, events) >= 2);
    assert_int_equal(events[0].kind, FACET_EVENT_LINK);
    assert_int_equal(events[0].value, 0);
    assert_int_equal(events[0].link, 0);
    advance_to(instance, 9);
    assert_int_equal(health_of(instance, 0), FACET_HEALTH_OK);
    assert_int_equal(health_of(instance, 1), FACET_HEALTH_OK);
    close_instance(instance);
}

static void devices_can_be_slow_or_hang(void **state)
{
    struct facet_provider_instance *instance =
        open_with("h100", FAULTS("{\"at_ns\": 100, \"device\": 0, \"kind\": \"slow\", \"factor_milli\": 2500},"
                                 "{\"at_ns\": 200, \"device\": 0, \"kind\": \"hang\"},"
                                 "{\"at_ns\": 300, \"device\": 0, \"kind\": \"recover\"}"));

    assert_int_equal(sim_fault_slowdown_milli(instance, 0), 1000);
    advance_to(instance, 100);
    assert_int_equal(sim_fault_slowdown_milli(instance, 0), 2500);
    assert_int_equal(health_of(instance, 0), FACET_HEALTH_DEGRADED);
    advance_to(instance, 200);
    assert_true(sim_fault_slowdown_milli(instance, 0) == UINT32_MAX);
    assert_int_equal(health_of(instance, 0), FACET_HEALTH_FAILED);
    assert_int_equal(engine_double.lost, 0);
    advance_to(instance, 300);
    assert_int_equal(sim_fault_slowdown_milli(instance, 0), 1000);
    close_instance(instance);
}

static void step_to(struct facet_provider_instance *instance, uint64_t until_ns, uint64_t expected_ns)
{
    SIM_LOCK(instance);
    assert_true(sim_clock_wait(instance, until_ns, 1000000000));
    assert_int_equal(sim_clock_now(instance), expected_ns);
}

/* Stepped time stops at each fault and at each completion. */
static void stepped_time_skips_no_fault_or_completion(void **state)
{
    struct facet_provider_instance *instance =
        open_with("h100", FAULTS("{\"at_ns\": 100, \"device\": 0, \"kind\": \"ecc\"}"));

    engine_double.next_ns = 60;
    step_to(instance, 5000, 60);
    assert_int_equal(engine_double.advanced_ns, 60);
    step_to(instance, 5000, 100);
    assert_int_equal(sim_fault_health(instance, 0), FACET_HEALTH_DEGRADED);
    step_to(instance, 5000, 5000);
    {
        SIM_LOCK(instance);
        assert_false(sim_clock_wait(instance, UINT64_MAX, 1000000)); /* no event is left to wait for */
        assert_int_equal(sim_clock_now(instance), 5000);
    }
    close_instance(instance);
}

/* --- Faults that end the process or block an operation, in a child. Its exit status is 2 if no fault acts. --- */

static pid_t child_that_creates(const char *text)
{
    script = make_file(text);
    pid_t child = fork();

    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        struct facet_partition_info info, infos[64];
        uint32_t count;

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test must leave no child behind */
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL); /* instead of cmocka's handler */
        struct facet_provider_instance *instance = open_machine("h100", NULL, script);
        if (sim_partition_ops.list(instance, 0, infos, sizeof *infos, 64, &count, NULL) != FACET_OK)
            _exit(3);
        create_partition(instance, 0, "1g.10gb", 0, &info, NULL);
        _exit(2);
    }
    assert_true(child > 0);
    return child;
}

static void a_crash_fault_ends_the_process_by_a_signal(void **state)
{
    pid_t child = child_that_creates(
        FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"crash\", \"operation\": \"partition.create\"}"));
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    remove_file(script);
}

static void a_block_fault_blocks_forever(void **state)
{
    pid_t child = child_that_creates(
        FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"block\", \"operation\": \"partition.create\"}"));
    const struct timespec pause = {.tv_nsec = 100000000};
    int status;

    nanosleep(&pause, NULL);
    assert_int_equal(waitpid(child, &status, WNOHANG), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    remove_file(script);
}

static void a_fault_of_one_operation_does_not_affect_others(void **state)
{
    pid_t child =
        child_that_creates(FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"crash\", \"operation\": \"limit.clear\"},"
                                  "{\"at_ns\": 1, \"device\": 0, \"kind\": \"block\"}"));
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    remove_file(script);
}

/* --- Scripts that are wrong. --- */

static void bad_scripts_are_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "expected a JSON document"},
        {"[]", "expected an object"},
        {"{}", "faults is missing"},
        {"{\"faults\": {}}", "expected an array"},
        {"{\"faults\": [], \"more\": 1}", "more is 1; expected no such member"},
        {FAULTS("1"), "faults[0]"},
        {FAULTS("{\"device\": 0, \"kind\": \"lost\"}"), "at_ns is missing"},
        {FAULTS("{\"at_ns\": -1, \"device\": 0, \"kind\": \"lost\"}"), "at_ns is -1"},
        {FAULTS("{\"at_ns\": 1.5, \"device\": 0, \"kind\": \"lost\"}"), "at_ns is 1.5"},
        {FAULTS("{\"at_ns\": 0, \"device\": 1, \"kind\": \"lost\"}"), "device is 1; expected a whole number of 0 to 0"},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"melt\"}"), "one of \"lost\""},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"lost\", \"count\": 1}"), "count is 1; expected no such"},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"hang\", \"operation\": \"memory.alloc\"}"), "operation"},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"slow\"}"), "factor_milli is missing"},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"slow\", \"factor_milli\": 1000}"), "factor_milli is 1000"},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"ecc\", \"count\": 0}"), "count is 0"},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"link_down\"}"), "link is missing"},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"link_up\", \"link\": 1}"), "link is 1"},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"crash\", \"operation\": \"Create\"}"), "operation"},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"crash\", \"operation\": \"partition.craete\"}"),
         "operation"},
        {FAULTS("{\"at_ns\": 0, \"device\": 0, \"kind\": \"lost\"}, {\"at_ns\": 0}"), "faults[1].device is missing"},
    };

    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct facet_provider_instance *instance = NULL;

        script = make_file(bad[i].text);
        assert_refused(try_open("h100", NULL, script, &instance, &error), FACET_INVALID_ARGUMENT, bad[i].words);
        assert_null(instance);
        remove_file(script);
    }
    struct facet_provider_instance *instance = NULL;
    assert_refused(try_open("h100", NULL, "/no/such/script", &instance, &error), FACET_NOT_FOUND, "/no/such/script");
    script = make_file(FAULTS("{\"at_ns\": 0, \"device\": 4, \"kind\": \"link_down\", \"link\": 0}"));
    assert_refused(try_open("h200x8", NULL, script, &instance, &error), FACET_INVALID_ARGUMENT, "ends at device 4");
    assert_refused(try_open(NULL, NULL, script, &instance, &error), FACET_INVALID_ARGUMENT, "no devices");
    remove_file(script);
}

static void the_clock_can_be_chosen(void **state)
{
    static const char *const wrong[] = {"fast", "0", "-1", "1.5", "1000001", " 1000", "+5", "5x"};
    struct sim_clock clock = {0};

    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_refused(sim_clock_open(&clock, wrong[i], &error), FACET_INVALID_ARGUMENT, "FACET_SIM_CLOCK");
    assert_int_equal(sim_clock_open(&clock, "250", NULL), FACET_OK);
    assert_int_equal(clock.speed_milli, 250);
    sim_clock_close(&clock);
}

static void real_time_passes_without_calls(void **state)
{
    struct facet_provider_instance *instance = NULL;

    setenv("FACET_SIM_PROFILE", "h100", 1);
    setenv("FACET_SIM_CLOCK", "100000", 1); /* a hundred times as fast */
    unsetenv("FACET_SIM_STATE");
    unsetenv("FACET_SIM_FAULTS");
    engine_double = (struct engine_double){.next_ns = UINT64_MAX};
    assert_int_equal(sim_device_ops.open(&instance, NULL), FACET_OK);
    {
        SIM_LOCK(instance);
        uint64_t until_ns = sim_clock_now(instance) + 200000000; /* 2 ms of real time */

        for (unsigned i = 0; sim_clock_now(instance) < until_ns; i++)
            assert_true(i < 100000 && sim_clock_wait(instance, until_ns, UINT64_C(20000000000)));
        assert_true(engine_double.advanced_ns >= until_ns);
        assert_false(sim_clock_wait(instance, UINT64_MAX, 1000000));
    }
    sim_device_ops.close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_device_is_lost_everywhere),
        cmocka_unit_test(memory_errors_are_counted),
        cmocka_unit_test(links_go_down_and_up),
        cmocka_unit_test(devices_can_be_slow_or_hang),
        cmocka_unit_test(stepped_time_skips_no_fault_or_completion),
        cmocka_unit_test(a_crash_fault_ends_the_process_by_a_signal),
        cmocka_unit_test(a_block_fault_blocks_forever),
        cmocka_unit_test(a_fault_of_one_operation_does_not_affect_others),
        cmocka_unit_test(bad_scripts_are_refused),
        cmocka_unit_test(the_clock_can_be_chosen),
        cmocka_unit_test(real_time_passes_without_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
