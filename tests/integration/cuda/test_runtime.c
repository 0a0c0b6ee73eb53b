/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of programs with NVIDIA's runtime linked in. The runtime finds Facet's library by itself, and its calls
 * return the same results as on the bare driver. Never: expects success: the runtime checks when it starts whether the
 * driver is NVIDIA's, and reports that the fake driver is "not supported" (tests/fake/cuda/tables.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

/* Runs the program. `text` becomes its output up to "; "; the output behind that, the visible devices, is returned. */
static const char *run_runtime(char text[512])
{
    snprintf(text, 512, "%s", fixture_run("runtime", NULL, NULL));
    char *shown = strstr(text, "; ");
    assert_non_null(shown);
    *shown = 0;
    return shown + 2;
}

static void test_the_runtime_starts_as_on_the_bare_driver(void **state)
{
    char bare[512], ours[512], tenants[512], uuid[64];

    fixture_uuid(1, uuid);
    fixture_library_path(FIXTURE_FAKE);
    assert_string_equal(run_runtime(bare), "all");
    fixture_library_path(FIXTURE_OURS "," FIXTURE_FAKE);
    assert_string_equal(run_runtime(ours), "all");
    assert_string_equal(ours, bare);
    fixture_enter("1");
    assert_string_equal(run_runtime(tenants), uuid);
    assert_string_equal(tenants, bare);
}

/* The runtime makes no further calls after cuInit() has failed. */
static void test_the_runtime_fails_in_a_vgpu_that_cannot_be_used(void **state)
{
    char text[512];

    setenv("FACET_VGPU_DIR", "/nonexistent", 1);
    run_runtime(text);
    assert_non_null(strstr(text, "count cudaErrorSystemNotReady"));
    assert_non_null(strstr(text, "malloc cudaErrorSystemNotReady"));
}

static void test_the_runtime_fails_without_a_driver(void **state)
{
    char text[512];

    fixture_library_path(FIXTURE_OURS);
    run_runtime(text);
    assert_null(strstr(text, "count cudaSuccess"));
    assert_null(strstr(text, "malloc cudaSuccess"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_runtime_starts_as_on_the_bare_driver),
        TEST(test_the_runtime_fails_in_a_vgpu_that_cannot_be_used),
        TEST(test_the_runtime_fails_without_a_driver),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
