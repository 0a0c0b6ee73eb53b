/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of the ways in which a program loads the twin, Facet's libnvidia-ml.so.1, and in which the twin finds the
 * vendor's library. Each of the machine's two devices has 8 GiB, and 4 MiB that the driver reserves. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"

static const char *const clients[] = {"nvml-client", "nvml-client-linked"};

static void assert_output(const char *wanted)
{
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++)
        assert_string_equal(fixture_run(clients[i], NULL, NULL), wanted);
}

static void test_a_program_finds_the_twin_in_the_search_path(void **state)
{
    assert_output("init 0, 2: 8196 MiB 8196 MiB");
    fixture_enter("1");
    assert_output("init 0, 1: 1024 MiB");
    fixture_enter("1,0");
    assert_output("init 0, 2: 1024 MiB 1024 MiB");
}

/* The search path leads to the vendor's library, but the loader takes the preloaded one. */
static void test_a_preloaded_twin_comes_before_the_search_path(void **state)
{
    char path[4096];

    fixture_library_path(FIXTURE_FAKE);
    fixture_enter("0");
    assert_output("init 0, 2: 8196 MiB 8196 MiB");
    snprintf(path, sizeof path, "%s/libnvidia-ml.so.1", getenv(FIXTURE_OURS));
    setenv("LD_PRELOAD", path, 1);
    assert_output("init 0, 1: 1024 MiB");
}

static void test_the_vendors_library_may_be_named_by_its_path(void **state)
{
    char path[4096];

    fixture_library_path(FIXTURE_OURS);
    fixture_enter("0");
    snprintf(path, sizeof path, "%s/libnvidia-ml.so.1", getenv(FIXTURE_OLD));
    setenv("FACET_REAL_NVML", path, 1);
    assert_output("init 0, 1: 1024 MiB");
    unsetenv("FACET_REAL_NVML");
}

/* 12: NVML_ERROR_LIBRARY_NOT_FOUND */
static void test_without_the_vendors_library_init_reports_it_missing(void **state)
{
    fixture_library_path(FIXTURE_OURS);
    setenv("FACET_REAL_NVML", "/nonexistent/libnvidia-ml.so.1", 1);
    assert_output("init 12");
    fixture_enter("0");
    assert_output("init 12");
    unsetenv("FACET_REAL_NVML");
}

static void test_init_fails_in_a_vgpu_that_cannot_be_used(void **state)
{
    setenv("FACET_VGPU_DIR", "/nonexistent", 1);
    assert_output("init 27"); /* NVML_ERROR_NOT_READY */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_program_finds_the_twin_in_the_search_path, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_preloaded_twin_comes_before_the_search_path, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_vendors_library_may_be_named_by_its_path, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_without_the_vendors_library_init_reports_it_missing, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_init_fails_in_a_vgpu_that_cannot_be_used, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
