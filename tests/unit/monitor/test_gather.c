/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about the values gathered from control groups, /proc and providers, and about the reasons for missing
 * ones. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include <facet/measurement.h>
#include <facet/provider/metrics.h>

#include "tree.h"

static struct tree tree;
static struct facet_measurement found[FACET_GATHER_MOST];
static uint32_t count;
static struct facet_error error;

static int set_up(void **state)
{
    tree_make(&tree);
    count = FACET_GATHER_MOST;
    return 0;
}

static int tear_down(void **state)
{
    tree_remove(&tree);
    return 0;
}

static void expect_measured(const char *key, int64_t expected)
{
    tree_expect_value(found, count, key, expected);
}

static void expect_reason(const char *key, enum facet_unmeasured expected)
{
    tree_expect_reason(found, count, key, expected);
}

/* ---- containers ---- */

static void make_group(void)
{
    tree_file(&tree, "cgroup.controllers", "cpu io memory pids\n");
    tree_file(&tree, "cpu.stat", "usage_usec 1500000\nuser_usec 1\nthrottled_usec 7\n");
    tree_file(&tree, "cpu.max", "150000 100000\n");
    tree_file(&tree, "memory.current", "4096\n");
    tree_file(&tree, "memory.max", "8192\n");
    tree_file(&tree, "memory.stat", "anon 1024\nfile 2048\ninactive_file 3\n");
    tree_file(&tree, "memory.swap.current", "0\n");
    tree_file(&tree, "memory.swap.max", "max\n");
    tree_file(&tree, "io.stat", "8:0 rbytes=10 wbytes=20 rios=1\n259:1 rbytes=5 wbytes=6\n8:16 cost.usage=9\n");
    tree_file(&tree, "pids.current", "3\n");
    tree_file(&tree, "pids.max", "100\n");
}

static void gather_group(void)
{
    count = FACET_GATHER_MOST;
    assert_int_equal(facet_gather_container(tree.fd, 77, found, &count, &error), FACET_OK);
    assert_int_equal(count, 11);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(found[i].time_ns, 77);
        assert_true(found[i].meter->subjects >> FACET_SUBJECT_CONTAINER & 1);
        assert_true(found[i].identity != 0);
    }
}

static void a_container_is_measured_by_its_group(void **state)
{
    make_group();
    tree_file(&tree, "dmem.current", "drm/0000:03:00.0/vram0 1000\ndrm/0000:04:00.0/vram0 24\n");
    tree_file(&tree, "dmem.max", "drm/0000:03:00.0/vram0 2000\ndrm/0000:04:00.0/vram0 48\n");
    gather_group();
    expect_measured("cpu_time", 1500000000);
    expect_measured("cpu_limit", 150000);
    expect_measured("cpu_throttled", 7000);
    expect_measured("memory_used", 4096);
    assert_int_equal(tree_find_measurement(found, count, "memory_used")->capacity, 8192);
    expect_measured("memory_anonymous", 1024);
    expect_measured("memory_file", 2048);
    expect_measured("swap_used", 0);
    assert_false(tree_find_measurement(found, count, "swap_used")->has_capacity);
    expect_measured("io_read", 15);
    expect_measured("io_write", 26);
    expect_measured("tasks", 3);
    expect_measured("device_memory_used", 1024);
    assert_int_equal(tree_find_measurement(found, count, "device_memory_used")->capacity, 2048);
}

static void values_of_missing_files_are_absent_and_not_zero(void **state)
{
    tree_file(&tree, "cgroup.controllers", "");
    gather_group();
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(found[i].reason, FACET_UNMEASURED_ABSENT);
}

static void an_empty_io_stat_is_zero(void **state)
{
    make_group();
    tree_file(&tree, "io.stat", "");
    tree_file(&tree, "dmem.current", "");
    gather_group();
    expect_measured("io_read", 0);
    expect_measured("io_write", 0);
    expect_reason("device_memory_used", FACET_UNMEASURED_ABSENT);
}

static void a_group_without_a_limit_has_no_capacity(void **state)
{
    make_group();
    tree_file(&tree, "cpu.max", "max 100000\n");
    tree_file(&tree, "memory.max", "max\n");
    tree_file(&tree, "dmem.current", "a 1\nb 2\n");
    tree_file(&tree, "dmem.max", "a 5\nb max\n");
    gather_group();
    expect_reason("cpu_limit", FACET_UNMEASURED_UNLIMITED);
    expect_measured("memory_used", 4096);
    assert_false(tree_find_measurement(found, count, "memory_used")->has_capacity);
    expect_measured("device_memory_used", 3);
    assert_false(tree_find_measurement(found, count, "device_memory_used")->has_capacity);
}

static void a_removed_group_is_gone(void **state)
{
    gather_group();
    expect_reason("memory_used", FACET_UNMEASURED_GONE);
    expect_reason("io_read", FACET_UNMEASURED_GONE);
}

static void a_broken_file_loses_only_its_own_values(void **state)
{
    static const struct {
        const char *file, *text, *key;
        enum facet_unmeasured reason;
    } cases[] = {
        {"memory.current", "", "memory_used", FACET_UNMEASURED_MALFORMED},
        {"memory.current", "12x\n", "memory_used", FACET_UNMEASURED_MALFORMED},
        {"memory.current", "-1\n", "memory_used", FACET_UNMEASURED_MALFORMED},
        {"memory.current", "1\n2\n", "memory_used", FACET_UNMEASURED_MALFORMED},
        {"memory.current", "18446744073709551615\n", "memory_used", FACET_UNMEASURED_OUT_OF_RANGE},
        {"memory.current", "9223372036854775808\n", "memory_used", FACET_UNMEASURED_OUT_OF_RANGE},
        {"cpu.stat", "usage_usec\nthrottled_usec 7\n", "cpu_time", FACET_UNMEASURED_MALFORMED},
        {"cpu.stat", "usage_usec 1 2\nthrottled_usec 7\n", "cpu_time", FACET_UNMEASURED_MALFORMED},
        {"cpu.stat", "usage_usec 1\nusage_usec 2\nthrottled_usec 7\n", "cpu_time", FACET_UNMEASURED_MALFORMED},
        {"cpu.stat", "usage_usec 9223372036854775807\nthrottled_usec 7\n", "cpu_time", FACET_UNMEASURED_OUT_OF_RANGE},
        {"cpu.stat", "throttled_usec 7\n", "cpu_time", FACET_UNMEASURED_ABSENT},
        {"cpu.max", "1 0\n", "cpu_limit", FACET_UNMEASURED_MALFORMED},
        {"cpu.max", "", "cpu_limit", FACET_UNMEASURED_MALFORMED},
        {"cpu.max", "1\n", "cpu_limit", FACET_UNMEASURED_MALFORMED},
        {"pids.current", "many\n", "tasks", FACET_UNMEASURED_MALFORMED},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_group();
        tree_file(&tree, cases[i].file, cases[i].text);
        gather_group();
        expect_reason(cases[i].key, cases[i].reason);
        for (uint32_t k = 0; k < count; k++)
            if (strcmp(found[k].meter->key, cases[i].key) != 0 &&
                strcmp(found[k].meter->key, "device_memory_used") != 0)
                assert_int_equal(found[k].reason, FACET_MEASURED);
        make_group(); /* repairs the file */
        gather_group();
        expect_reason(cases[i].key, FACET_MEASURED);
    }
}

static void a_sum_with_a_malformed_part_is_not_measured(void **state)
{
    make_group();
    tree_file(&tree, "io.stat", "8:0 rbytes=10 wbytes=20\n8:1 rbytes=x wbytes=1\n");
    gather_group();
    expect_reason("io_read", FACET_UNMEASURED_MALFORMED);
    expect_measured("io_write", 21);
    tree_file(&tree, "io.stat", "8:0 rbytes=9223372036854775807 wbytes=20\n8:1 rbytes=1 wbytes=1\n");
    gather_group();
    expect_reason("io_read", FACET_UNMEASURED_OUT_OF_RANGE);
    expect_measured("io_write", 21);
    tree_file(&tree, "io.stat", "rbytes=10\n");
    gather_group();
    expect_reason("io_read", FACET_UNMEASURED_MALFORMED);
    expect_reason("io_write", FACET_UNMEASURED_MALFORMED);
}

static void files_that_are_no_text_are_refused(void **state)
{
    char *line = malloc(10000);

    assert_non_null(line);
    memset(line, '1', 10000);
    make_group();
    tree_bytes(&tree, "memory.current", line, 10000);
    tree_bytes(&tree, "pids.current", "3\0\n", 3);
    assert_int_equal(unlinkat(tree.fd, "memory.swap.current", 0), 0);
    tree_folder(&tree, "memory.swap.current");
    assert_int_equal(unlinkat(tree.fd, "cpu.max", 0), 0);
    assert_int_equal(symlinkat("/proc/self/stat", tree.fd, "cpu.max"), 0);
    assert_int_equal(unlinkat(tree.fd, "io.stat", 0), 0);
    assert_int_equal(mkfifoat(tree.fd, "io.stat", 0600), 0);
    gather_group();
    expect_reason("memory_used", FACET_UNMEASURED_MALFORMED);
    expect_reason("tasks", FACET_UNMEASURED_MALFORMED);
    expect_reason("swap_used", FACET_UNMEASURED_MALFORMED);
    expect_reason("cpu_limit", FACET_UNMEASURED_IO); /* links are not followed */
    expect_reason("io_read", FACET_UNMEASURED_MALFORMED);
    expect_measured("cpu_time", 1500000000);
    free(line);
}

static void arguments_are_checked(void **state)
{
    make_group();
    count = 10;
    assert_int_equal(facet_gather_container(tree.fd, 1, found, &count, &error), FACET_TOO_SMALL);
    assert_int_equal(count, 10);
    count = FACET_GATHER_MOST;
    assert_int_equal(facet_gather_container(-1, 1, found, &count, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "cgroup");
    assert_int_equal(facet_gather_container(tree.fd, 1, NULL, &count, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_gather_node(-1, 1, found, &count, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_gather_process(tree.fd, 0, 1, found, &count, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "pid");
    assert_int_equal(facet_gather_process(tree.fd, -4, 1, found, &count, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_gather_process(-1, 4, 1, found, &count, &error), FACET_INVALID_ARGUMENT);
}

/* ---- processes ---- */

#define STAT_REST "R 1 1 1 0 -1 4194304 0 0 0 0 30 20 0 0 20 0 4 0 555 3133440 412 1 2 3\n"

static void make_process(void)
{
    (void)mkdirat(tree.fd, "42", 0700);
    tree_file(&tree, "42/stat", "42 (a) b (c) " STAT_REST);
    tree_file(&tree, "42/status", "Name:\tx\nVmRSS:\t    1764 kB\nVmSwap:\t       0 kB\nThreads:\t4\n");
    tree_file(&tree, "42/io", "rchar: 1\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 0\n");
}

static void gather_process(void)
{
    count = FACET_GATHER_MOST;
    assert_int_equal(facet_gather_process(tree.fd, 42, 77, found, &count, &error), FACET_OK);
    assert_int_equal(count, 6);
}

static void a_process_is_measured_by_proc(void **state)
{
    make_process();
    gather_process();
    expect_measured("cpu_time", INT64_C(50) * (1000000000 / sysconf(_SC_CLK_TCK)));
    expect_measured("memory_used", 1764 * 1024);
    expect_measured("swap_used", 0);
    expect_measured("io_read", 4096);
    expect_measured("io_write", 0);
    expect_measured("threads", 4);
    assert_int_equal(found[0].identity, 555);
}

/* Some kernels write a process's name unescaped. A user who chooses the name must not choose the measurements. */
static void a_name_of_several_lines_hides_nothing(void **state)
{
    static const char *const stats[] = {"42 (a\nb) " STAT_REST, "42 (\n\n\n) " STAT_REST, "42 () R 1 1\n) " STAT_REST};

    for (size_t i = 0; i < sizeof stats / sizeof stats[0]; i++) {
        make_process();
        tree_file(&tree, "42/stat", stats[i]);
        gather_process();
        expect_measured("cpu_time", INT64_C(50) * (1000000000 / sysconf(_SC_CLK_TCK)));
        expect_measured("threads", 4);
        assert_int_equal(found[0].identity, 555);
    }
}

static void memory_of_a_process_without_any_is_absent_and_not_zero(void **state)
{
    make_process();
    tree_file(&tree, "42/status", "Name:\tkthread\nThreads:\t1\n");
    assert_int_equal(unlinkat(tree.fd, "42/io", 0), 0);
    gather_process();
    expect_reason("memory_used", FACET_UNMEASURED_ABSENT);
    expect_reason("io_read", FACET_UNMEASURED_ABSENT);
    expect_measured("threads", 4);
}

static void broken_texts_of_a_process_are_malformed(void **state)
{
    static const char *const stats[] = {"", "42 comm R 1 2\n", "42 (comm) R 1 1 1 0 -1 4194304 0 0 0 0 30 20\n",
                                        "42 (comm)\n"};

    for (size_t i = 0; i < sizeof stats / sizeof stats[0]; i++) {
        make_process();
        tree_file(&tree, "42/stat", stats[i]);
        gather_process();
        assert_int_not_equal(tree_find_measurement(found, count, "cpu_time")->reason, FACET_MEASURED);
        assert_int_not_equal(tree_find_measurement(found, count, "threads")->reason, FACET_MEASURED);
        expect_measured("memory_used", 1764 * 1024);
    }
    tree_file(&tree, "42/status", "VmRSS:\t 12 MB\nVmSwap:\t-1 kB\n");
    gather_process();
    expect_reason("memory_used", FACET_UNMEASURED_MALFORMED);
    expect_reason("swap_used", FACET_UNMEASURED_MALFORMED);
    tree_file(&tree, "42/status", "VmRSS:\t 9223372036854775807 kB\n");
    gather_process();
    expect_reason("memory_used", FACET_UNMEASURED_OUT_OF_RANGE);
}

static void a_process_that_is_not_there_is_gone(void **state)
{
    gather_process();
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(found[i].reason, FACET_UNMEASURED_GONE);
}

static void this_process_can_be_measured(void **state)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(proc >= 0);
    assert_int_equal(facet_gather_process(proc, getpid(), 1, found, &count, &error), FACET_OK);
    assert_int_equal(tree_find_measurement(found, count, "cpu_time")->reason, FACET_MEASURED);
    assert_int_equal(tree_find_measurement(found, count, "memory_used")->reason, FACET_MEASURED);
    assert_true(tree_find_measurement(found, count, "memory_used")->value > 0);
    assert_true(tree_find_measurement(found, count, "threads")->value >= 1);
    assert_true(found[0].identity > 0);
    count = FACET_GATHER_MOST;
    assert_int_equal(facet_gather_node(proc, 1, found, &count, &error), FACET_OK);
    assert_int_equal(tree_find_measurement(found, count, "cpu_time")->reason, FACET_MEASURED);
    assert_true(tree_find_measurement(found, count, "cpu_limit")->value >= 100000);
    assert_true(tree_find_measurement(found, count, "memory_used")->value > 0);
    close(proc);
}

static void a_child_that_ended_is_gone(void **state)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(facet_gather_process(proc, child, 1, found, &count, &error), FACET_OK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(found[i].reason, FACET_UNMEASURED_GONE);
    close(proc);
}

/* ---- nodes ---- */

#define NET_HEAD "Inter-|   Receive\n face |bytes\n"

static void make_node(void)
{
    (void)mkdirat(tree.fd, "net", 0700);
    tree_file(&tree, "stat", "cpu  100 20 30 999 5 6 7 8 50 0\ncpu0 1 1 1 1 1\ncpu1 1 1 1 1 1\nintr 5 6\nctxt 7\n");
    tree_file(&tree, "meminfo",
              "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\nSwapTotal: 0 kB\n"
              "SwapFree: 0 kB\n");
    tree_file(&tree, "net/dev",
              NET_HEAD "    lo: 7 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n  eth0:100 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n"
                       "eth0:1: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n");
}

static void gather_node(void)
{
    count = FACET_GATHER_MOST;
    assert_int_equal(facet_gather_node(tree.fd, 77, found, &count, &error), FACET_OK);
    assert_int_equal(count, 6);
}

static void a_node_is_measured_by_proc(void **state)
{
    make_node();
    gather_node();
    expect_measured("cpu_time", INT64_C(171) * (1000000000 / sysconf(_SC_CLK_TCK)));
    expect_measured("cpu_limit", 200000);
    expect_measured("memory_used", 600 * 1024);
    assert_int_equal(tree_find_measurement(found, count, "memory_used")->capacity, 1000 * 1024);
    expect_measured("swap_used", 0);
    expect_measured("net_rx", 105);
    expect_measured("net_tx", 206);
}

static struct facet_measurement rate_after(struct facet_subject *subject, uint64_t now_ns, const char *interfaces)
{
    struct facet_measurement rate;

    make_node();
    tree_file(&tree, "net/dev", interfaces);
    count = FACET_GATHER_MOST;
    assert_int_equal(facet_gather_node(tree.fd, now_ns, found, &count, &error), FACET_OK);
    assert_int_equal(facet_subject_add(subject, found, count, &error), FACET_OK);
    assert_int_equal(facet_subject_find(subject, "net_rx_rate", &rate, NULL, &error), FACET_OK);
    return rate;
}

#define INTERFACE(name, bytes) "  " name ": " bytes " 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0\n"

/* From the second to the third sample, eth0 received 6 bytes, and veth1 (which had a count of 6) was removed. The sum
 * stays the same, and a rate of 0 would be wrong. */
static void a_removed_interface_leaves_no_wrong_rate(void **state)
{
    const struct facet_subject_config config = {
        .size = sizeof config, .kind = FACET_SUBJECT_NODE, .points = 4, .id = "node"};
    static const char both[] = NET_HEAD INTERFACE("eth0", "100") INTERFACE("veth1", "5"),
                      swapped[] = NET_HEAD INTERFACE("veth1", "6") INTERFACE("eth0", "101"),
                      one[] = NET_HEAD INTERFACE("eth0", "107"), other[] = NET_HEAD INTERFACE("eth1", "900");
    const uint64_t second = 1000000000;
    struct facet_subject *subject = NULL;

    assert_int_equal(facet_subject_create(&config, &subject, &error), FACET_OK);
    assert_int_equal(rate_after(subject, second, both).reason, FACET_UNMEASURED_FIRST);
    assert_int_equal(rate_after(subject, 2 * second, swapped).value, 2 * 8 * 1000); /* two bytes, in millibits */
    assert_int_equal(rate_after(subject, 3 * second, one).reason, FACET_UNMEASURED_FIRST);
    assert_int_equal(rate_after(subject, 4 * second, one).value, 0);
    assert_int_equal(rate_after(subject, 5 * second, other).reason, FACET_UNMEASURED_FIRST);
    facet_subject_destroy(subject);
}

static void values_that_a_node_does_not_report_are_unknown(void **state)
{
    int64_t ignored = 0;

    make_node();
    tree_file(&tree, "stat", "cpu  100 20 30\ncpu0 1\n");
    tree_file(&tree, "meminfo", "MemTotal: 1000 kB\nSwapTotal: 5 kB\nSwapFree: 6 kB\n");
    tree_file(&tree, "net/dev", NET_HEAD "eth0: 1 2\n");
    gather_node();
    expect_reason("cpu_time", FACET_UNMEASURED_MALFORMED);
    expect_measured("cpu_limit", 100000);
    expect_reason("memory_used", FACET_UNMEASURED_ABSENT);
    expect_reason("swap_used", FACET_UNMEASURED_OUT_OF_RANGE);
    expect_measured("net_rx", 1);
    expect_reason("net_tx", FACET_UNMEASURED_MALFORMED);
    tree_file(&tree, "net/dev", NET_HEAD "no colon\n");
    gather_node();
    expect_reason("net_rx", FACET_UNMEASURED_MALFORMED);
    tree_file(&tree, "net/dev", "");
    gather_node();
    expect_reason("net_rx", FACET_UNMEASURED_MALFORMED);
    assert_int_equal(unlinkat(tree.fd, "stat", 0), 0);
    gather_node();
    expect_reason("cpu_time", FACET_UNMEASURED_ABSENT);
    assert_false(facet_measurement_percent(tree_find_measurement(found, count, "cpu_time"), &ignored));
}

/* Lines that no measurement needs (a large machine's interrupts, a process's groups) may have any length. */
static void long_lines_of_other_values_are_skipped(void **state)
{
    static char text[40000];
    int head = snprintf(text, sizeof text, "cpu 1 2 3 4\ncpu0 1\nintr");

    make_node();
    memset(text + head, '1', sizeof text - (size_t)head - 1);
    tree_file(&tree, "stat", text);
    gather_node();
    expect_measured("cpu_limit", 100000);
    assert_int_equal(tree_find_measurement(found, count, "cpu_time")->reason, FACET_MEASURED);
    make_process();
    head = snprintf(text, sizeof text, "VmSwap:\t 1 kB");
    memset(text + head, ' ', sizeof text - (size_t)head - 1);
    snprintf(text + sizeof text - 20, 20, "\nVmRSS:\t 12 kB\n");
    tree_file(&tree, "42/status", text);
    gather_process();
    expect_measured("memory_used", 12 * 1024);
    expect_reason("swap_used", FACET_UNMEASURED_MALFORMED); /* the end of its line was cut off */
}

/* ---- devices ---- */

static void a_device_is_measured_by_its_provider(void **state)
{
    struct facet_device_metrics metrics = {.size = sizeof metrics,
                                           .valid = FACET_METRIC_POWER | FACET_METRIC_TEMPERATURE | FACET_METRIC_CLOCK |
                                                    FACET_METRIC_COMPUTE_ACTIVE | FACET_METRIC_MEMORY_USED |
                                                    FACET_METRIC_ENERGY,
                                           .power_mw = 250125,
                                           .energy_mj = UINT64_MAX,
                                           .temperature_mc = -5500,
                                           .clock_mhz = UINT32_MAX,
                                           .compute_active_milli = 455,
                                           .memory_used_bytes = 50,
                                           .ecc_corrected = 9};
    int64_t percent = 0;

    assert_int_equal(facet_gather_device(&metrics, 200, 77, found, &count, &error), FACET_OK);
    assert_int_equal(count, 15);
    expect_measured("power", 250125);
    expect_measured("temperature", -5500);
    expect_measured("clock", INT64_C(4294967295000000));
    expect_measured("compute_active", 45500);
    expect_measured("memory_used", 50);
    assert_true(facet_measurement_percent(tree_find_measurement(found, count, "memory_used"), &percent));
    assert_int_equal(percent, 25000);
    assert_true(facet_measurement_percent(tree_find_measurement(found, count, "compute_active"), &percent));
    assert_int_equal(percent, 45500);
    expect_reason("energy", FACET_UNMEASURED_OUT_OF_RANGE);
    expect_reason("ecc_corrected", FACET_UNMEASURED_ABSENT);
    expect_reason("busy_time", FACET_UNMEASURED_ABSENT);
    assert_int_equal(facet_gather_device(NULL, 200, 78, found, &count, &error), FACET_OK);
    expect_reason("power", FACET_UNMEASURED_GONE);
    metrics.size = 8;
    assert_int_equal(facet_gather_device(&metrics, 0, 79, found, &count, &error), FACET_INVALID_ARGUMENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_container_is_measured_by_its_group),
        TEST(values_of_missing_files_are_absent_and_not_zero),
        TEST(an_empty_io_stat_is_zero),
        TEST(a_group_without_a_limit_has_no_capacity),
        TEST(a_removed_group_is_gone),
        TEST(a_broken_file_loses_only_its_own_values),
        TEST(a_sum_with_a_malformed_part_is_not_measured),
        TEST(files_that_are_no_text_are_refused),
        TEST(arguments_are_checked),
        TEST(a_process_is_measured_by_proc),
        TEST(a_name_of_several_lines_hides_nothing),
        TEST(memory_of_a_process_without_any_is_absent_and_not_zero),
        TEST(broken_texts_of_a_process_are_malformed),
        TEST(a_process_that_is_not_there_is_gone),
        TEST(this_process_can_be_measured),
        TEST(a_child_that_ended_is_gone),
        TEST(a_node_is_measured_by_proc),
        TEST(a_removed_interface_leaves_no_wrong_rate),
        TEST(values_that_a_node_does_not_report_are_unknown),
        TEST(long_lines_of_other_values_are_skipped),
        TEST(a_device_is_measured_by_its_provider),
    };

    return cmocka_run_group_tests_name("gather", tests, NULL, NULL);
}
