/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs about the form of Prometheus text, byte for byte.
 * Never: runs promtool; tests/integration/daemon does, where it is installed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "monitor/prometheus.h"

static void assert_text(struct facet_prometheus *prometheus, const char *expected)
{
    char *text = facet_prometheus_take(prometheus);

    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void without_families_the_text_is_empty(void **state)
{
    struct facet_prometheus prometheus;

    facet_prometheus_init(&prometheus);
    assert_text(&prometheus, "");
}

static void a_family_is_announced_once(void **state)
{
    const struct facet_label one = {"vgpu", "a"}, two = {"vgpu", "b"};
    struct facet_prometheus prometheus;

    facet_prometheus_init(&prometheus);
    facet_prometheus_family(&prometheus, "facet_vgpu_launches_total", FACET_METRIC_COUNTER, "Kernels launched.");
    facet_prometheus_count(&prometheus, &one, 1, 0);
    facet_prometheus_count(&prometheus, &two, 1, UINT64_MAX);
    assert_text(&prometheus, "# HELP facet_vgpu_launches_total Kernels launched.\n"
                             "# TYPE facet_vgpu_launches_total counter\n"
                             "facet_vgpu_launches_total{vgpu=\"a\"} 0\n"
                             "facet_vgpu_launches_total{vgpu=\"b\"} 18446744073709551615\n");
}

static void numbers_are_exact(void **state)
{
    struct facet_prometheus prometheus;

    facet_prometheus_init(&prometheus);
    facet_prometheus_family(&prometheus, "x", FACET_METRIC_GAUGE, "X.");
    facet_prometheus_seconds(&prometheus, NULL, 0, 1);
    facet_prometheus_seconds(&prometheus, NULL, 0, UINT64_MAX);
    facet_prometheus_ratio(&prometheus, NULL, 0, 305);
    facet_prometheus_ratio(&prometheus, NULL, 0, 1000);
    assert_text(&prometheus, "# HELP x X.\n# TYPE x gauge\n"
                             "x 0.000000001\n"
                             "x 18446744073.709551615\n"
                             "x 0.305\n"
                             "x 1.000\n");
}

static void labels_and_help_are_escaped(void **state)
{
    const struct facet_label labels[] = {{"name", "a\"b\\c\nd"}, {"device", "caf\xc3\xa9"}};
    struct facet_prometheus prometheus;

    facet_prometheus_init(&prometheus);
    facet_prometheus_family(&prometheus, "x", FACET_METRIC_GAUGE, "A \\ and a\nnew line and \"quotes\".");
    facet_prometheus_count(&prometheus, labels, 2, 7);
    assert_text(&prometheus, "# HELP x A \\\\ and a\\nnew line and \"quotes\".\n# TYPE x gauge\n"
                             "x{name=\"a\\\"b\\\\c\\nd\",device=\"caf\xc3\xa9\"} 7\n");
}

static void a_text_grows_and_starts_over(void **state)
{
    const size_t samples = 10000;
    struct facet_prometheus prometheus;
    size_t lines = 0;

    facet_prometheus_init(&prometheus);
    facet_prometheus_family(&prometheus, "x", FACET_METRIC_GAUGE, "X.");
    for (size_t i = 0; i < samples; i++)
        facet_prometheus_count(&prometheus, NULL, 0, i);
    char *text = facet_prometheus_take(&prometheus);
    assert_non_null(text);
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, samples + 2);
    assert_string_equal(strrchr(text, 'x'), "x 9999\n");
    free(text);
    assert_text(&prometheus, "");
}

static void without_memory_there_is_no_text(void **state)
{
    struct facet_prometheus prometheus;

    facet_prometheus_init(&prometheus);
    facet_prometheus_family(&prometheus, "x", FACET_METRIC_GAUGE, "X.");
    prometheus.failed = true; /* as after an allocation that failed */
    facet_prometheus_count(&prometheus, NULL, 0, 1);
    assert_null(facet_prometheus_take(&prometheus));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_families_the_text_is_empty),
        cmocka_unit_test(a_family_is_announced_once),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(labels_and_help_are_escaped),
        cmocka_unit_test(a_text_grows_and_starts_over),
        cmocka_unit_test(without_memory_there_is_no_text),
    };

    return cmocka_run_group_tests_name("prometheus", tests, NULL, NULL);
}
